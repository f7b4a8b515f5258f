"""The Runs page: empty, with runs to compare, rename and delete, and what it says of them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.services import progress, run_exports, server
from app.services import runs as runs_service
from app.state.session import session
from app.views.runs import page as view
from lvmcore.data import Dataset
from lvmcore.runs import JobSpec, Store
from tests.app.conftest import OpenPage, follow, ways
from tests.app.shell.test_shell import texts
from tests.unit.lvmcore.runs.fitting import ran
from tests.unit.lvmcore.runs.test_store import mark_running

TRAP = "![i](http://example.org/x) <b>bold</b>"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Store]:
    """The store of a home of the test's own, in place of the pages' common one."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "own"))
    yield server.store()
    server.launcher().close()


@pytest.fixture
def toy(rng: np.random.Generator) -> Dataset:
    X = rng.standard_normal((40, 4)) + np.repeat([[0.0], [4.0]], 20, axis=0)
    return Dataset.from_arrays(X, np.repeat(["a", "b"], 20), name="toy")


@pytest.fixture
def three(store: Store, toy: Dataset) -> list[str]:
    """Runs of two models and one name, the last one first in the table."""
    small = {"n_components": 2, "n_inducing": 5}
    return [
        ran(store, toy, "ldgd", "twin", **small, max_iter=4),
        ran(store, toy, "ldgd", "twin", **small, max_iter=6),
        ran(store, toy, "ppca", "linear", n_components=2),
    ]


def tick(page: AppTest, *runs: str) -> AppTest:
    page.session_state["runs.chosen"] = runs
    return page.run()


def button(page: AppTest, label: str) -> object:
    (found,) = [one for one in page.main.button if one.label == label]
    return found


def said(page: AppTest) -> str:
    return texts((*page.main.markdown, *page.main.caption)).replace("\\", "")


def test_without_runs_it_says_what_will_be_here_and_offers_one_step(
    store: Store, open_page: OpenPage
) -> None:
    page = open_page("runs")
    assert not page.exception
    assert [one.label for one in page.main.button] == ["Fit the sample", "Open the run"]
    assert "This page lists all runs" in said(page)
    page.main.button[0].click().run()
    assert not page.exception
    assert page.title[0].value == "Fit"
    (job,) = store.list()
    assert page.query_params["run"] == job.id
    store.cancel(job.id)


def test_the_table_has_a_row_for_each_run_newest_first(
    store: Store, three: list[str], open_page: OpenPage
) -> None:
    page = open_page("runs")
    assert not page.exception
    (table,) = [element.value for element in page.main.dataframe]
    assert table["Name"].tolist() == ["linear", "twin", "twin"]
    assert table["Model"].tolist() == ["Probabilistic PCA", "LDGD", "LDGD"]
    assert table["Settings"].tolist() == [
        "dimensions 2",
        "dimensions 2, inducing inputs 5, steps at most 6",
        "dimensions 2, inducing inputs 5, steps at most 4",
    ]
    jobs = store.list()
    assert table["Bound"].tolist() == [job.elbo for job in jobs]
    assert table["1-NN"].tolist()[0] == jobs[0].metrics["knn_accuracy"].value
    assert table["1-NN"].isna().tolist() == [False, True, True]
    assert table["Trustworthiness"].notna().all()
    assert "Progress" not in table
    assert "Note" not in table
    assert "Select a run" in said(page)
    size = store.size().total
    assert f"{size / 1000:.0f} kB in 1 dataset and 3 runs" in said(page)
    assert str(store.home) in texts(page.code)


@pytest.mark.slow
def test_accuracy_on_rows_held_out_has_a_column_once_there_is_some(
    store: Store, toy: Dataset, three: list[str], open_page: OpenPage
) -> None:
    assert "Held-out accuracy" not in open_page("runs").main.dataframe[0].value
    held_out = replace(toy, held_out=np.arange(len(toy)) % 4 == 0)
    run = ran(store, held_out, "ldgd", n_components=2, n_inducing=5, max_iter=4)
    table = open_page("runs").main.dataframe[0].value
    figure = store.get(run).metrics["held_out_accuracy"].value
    assert figure is not None
    assert table["Held-out accuracy"].tolist()[0] == figure
    assert table["Held-out accuracy"].isna().tolist() == [False, True, True, True]


def test_several_runs_are_told_apart_and_drawn_in_one_chart(
    three: list[str], open_page: OpenPage
) -> None:
    page = tick(open_page("runs"), *three)
    assert not page.exception
    apart = page.main.dataframe[1].value
    assert apart.to_dict("list") == {
        "Run": ["linear", "twin, steps at most 6", "twin, steps at most 4"],
        "Model": ["Probabilistic PCA", "LDGD", "LDGD"],
        "Steps at most": ["–", "6", "4"],
    }
    assert len(page.get("echarts_chart")) == 1
    assert "Bounds of different models are comparable only" in said(page)
    tick(page, three[2])
    assert not page.get("echarts_chart")
    assert "Solved in closed form" in said(page)


def test_ticks_stay_with_their_runs_when_the_list_grows(
    store: Store, toy: Dataset, three: list[str], open_page: OpenPage
) -> None:
    page = tick(open_page("runs"), three[0])
    assert "steps at most 4" in said(page)
    ran(store, toy, "pca", "newer", n_components=2)
    page.run()
    assert page.main.dataframe[0].value["Name"].tolist()[0] == "newer"
    assert "steps at most 4" in said(page)
    assert page.session_state["runs.chosen"] == (three[0],)


def test_a_tick_takes_the_run_of_that_row(session_state: dict[str, object]) -> None:
    session_state["key"] = SimpleNamespace(selection=SimpleNamespace(rows=[2, 0]))
    view._select("key", ("a", "b", "c"))
    assert session.selected_runs == ("a", "c")


def test_a_run_opens_on_its_map(three: list[str], open_page: OpenPage) -> None:
    page = tick(open_page("runs"), three[1])
    follow(page, "Open the map")
    assert not page.exception
    assert page.title[0].value == "Latent"
    assert page.query_params["run"] == three[1]


def test_a_name_and_a_note_are_kept_and_shown_as_they_are(
    store: Store, three: list[str], open_page: OpenPage
) -> None:
    page = tick(open_page("runs"), three[0])
    page.main.text_input[0].set_value(TRAP)
    page.main.text_area[0].set_value(f"first\n{TRAP}")
    button(page, "Save").click().run()  # type: ignore[attr-defined]
    assert not page.exception
    job = store.get(three[0])
    assert (job.name, job.note) == (TRAP, f"first\n{TRAP}")
    shown = page.main.header[0].value.replace("\u2060", "")  # which takes addresses apart
    assert shown == r"\!\[i\]\(http\:\/\/example\.org\/x\) " + r"\<b\>bold\<\/b\>"
    drawn = texts((*page.main.markdown, *page.main.caption, *page.main.header))
    assert "![" not in drawn
    assert "<b>" not in drawn
    assert page.main.dataframe[0].value["Note"].tolist()[2].startswith("first ![i]")
    page.main.text_input[0].set_value("")
    button(page, "Save").click().run()  # type: ignore[attr-defined]
    assert store.get(three[0]).name == "twin"


def test_a_run_is_deleted_on_the_second_click(
    store: Store, three: list[str], open_page: OpenPage
) -> None:
    page = tick(open_page("runs", run=three[2]), three[2])
    assert "linear: model, map, curves and scores will be deleted" in said(page)
    assert len(store.list()) == 3
    button(page, "Delete this run").click().run()  # type: ignore[attr-defined]
    assert not page.exception
    assert {job.id for job in store.list()} == set(three[:2])
    assert "run" not in page.query_params
    assert page.main.dataframe[0].value["Name"].tolist() == ["twin", "twin"]
    tick(page, *three[:2])
    button(page, "Delete these 2 runs").click().run()  # type: ignore[attr-defined]
    assert store.list() == []
    assert list(store.size().runs) == []
    assert "This page lists all runs" in said(page)
    assert "1 dataset and 0 runs" in said(page)
    assert "Deleted: twin, twin." in texts(page.main.info)
    button(page, "Undo").click().run()  # type: ignore[attr-defined]
    assert {job.id for job in store.list()} == set(three[:2])
    assert page.main.dataframe[0].value["Name"].tolist() == ["twin", "twin"]
    assert "Deleted" not in texts(page.main.info)


def test_the_bin_restores_and_is_emptied(
    store: Store, toy: Dataset, three: list[str], open_page: OpenPage
) -> None:
    store.delete(three[0])
    store.datasets.delete(toy.digest)
    page = open_page("runs")
    (choice,) = [box for box in page.main.selectbox if box.label == "Deleted"]
    assert [title.split(" · ")[0] for title in choice.options] == [
        "Dataset toy with 2 runs",
        "Run linear" if store.bin.deletions()[1].name == "linear" else "Run twin",
    ]
    choice.set_value(store.bin.deletions()[1].id).run()
    button(page, "Restore").click().run()  # type: ignore[attr-defined]
    assert "The dataset of this run was deleted too" in texts(page.main.error)
    (choice,) = [box for box in page.main.selectbox if box.label == "Deleted"]
    choice.set_value(store.bin.deletions()[0].id).run()
    button(page, "Restore").click().run()  # type: ignore[attr-defined]
    assert {job.id for job in store.list()} == set(three[1:])
    button(page, "Empty the bin").click().run()  # type: ignore[attr-defined]
    assert store.bin.deletions() == []
    assert not page.exception
    assert "Restore" not in [one.label for one in page.main.button]


def test_a_dataset_goes_with_its_runs_once_confirmed(
    store: Store, toy: Dataset, three: list[str], open_page: OpenPage
) -> None:
    other = Dataset.from_arrays(toy.X[:, :2], name="another")
    kept = ran(store, other, "pca", n_components=1)
    page = tick(open_page("runs", run=three[0]), three[0])
    (choice,) = [box for box in page.main.selectbox if box.label == "Dataset"]
    choice.set_value(toy.digest).run()
    assert "The dataset toy and its 3 runs (linear, twin, twin) will be deleted" in said(page)
    button(page, "Delete dataset and runs").click().run()  # type: ignore[attr-defined]
    assert not page.exception
    assert [job.id for job in store.list()] == [kept]
    assert list(store.size().datasets) == [other.digest]
    assert "run" not in page.query_params
    assert page.session_state["runs.chosen"] == ()


def test_a_run_under_way_shows_how_far_it_is_and_is_not_deleted(
    store: Store, three: list[str], open_page: OpenPage, toy: Dataset
) -> None:
    slow = store.submit(JobSpec(toy.digest, "toy", "ldgd", name="slow"))
    folder = store.job_folder(slow)
    with folder.lock():
        mark_running(folder)
        (folder.path / "events.jsonl").write_text(
            '{"iteration":3,"total":12,"seconds":0.1,"objective":-9.0,"terms":{}}\n'
        )
        page = tick(open_page("runs"), slow)
        assert not page.exception
        table = page.main.dataframe[0].value
        assert table["Status"].tolist()[0] == "running"
        assert table["Progress"].tolist()[0] == 0.25
        assert "A running fit cannot be deleted" in said(page)
        assert ways(page) == ["Open the fit", "Export"]
        delete = [one for one in page.main.button if one.label == "Delete dataset and runs"]
        delete[0].click().run()
        assert "while a run of it is under way: slow" in page.main.error[0].value.replace("\\", "")
    assert len(store.list()) == 4


def test_a_run_that_was_interrupted_can_be_resumed(
    store: Store, open_page: OpenPage, toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(runs_service, "resume", asked.append)
    done = ran(store, toy, "ppca", n_components=2)
    dead = store.submit(JobSpec(toy.digest, "toy", "ldgd"))
    with store.job_folder(dead).lock():
        mark_running(store.job_folder(dead))
    page = tick(open_page("runs"), dead)
    assert page.main.dataframe[0].value["Status"].tolist()[0] == "interrupted"
    button(page, "Resume").click().run()  # type: ignore[attr-defined]
    assert not page.exception
    assert asked == [dead]
    tick(page, done)
    assert "Resume" not in [one.label for one in page.main.button]


def test_a_run_of_an_unknown_model_is_listed(
    store: Store, open_page: OpenPage, toy: Dataset
) -> None:
    with store.own(JobSpec(store.datasets.put(toy), "toy", "tarot", {"cards": 22})) as folder:
        odd = folder.path.name
    page = tick(open_page("runs"), odd)
    assert not page.exception
    assert page.main.dataframe[0].value["Settings"].tolist() == ["cards 22"]
    page = open_page("export", run=odd)
    assert not page.exception
    assert "There is no model 'tarot'" in said(page)


def test_the_files_are_what_they_say(store: Store, three: list[str]) -> None:
    curves = pd.read_csv(io.BytesIO(progress.curves_csv(three[:2])))
    assert curves["run_id"].unique().tolist() == three[:2]
    for form, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        content = run_exports.map_file(three[0], (1, 0), form, sd_behind=True)  # type: ignore[arg-type]
        assert content.startswith(start)


def test_the_table_is_filtered_by_words_and_tags(
    store: Store, toy: Dataset, three: list[str], open_page: OpenPage
) -> None:
    assert not [one for one in open_page("runs").text_input if one.label == "Filter"]
    run = ran(store, toy, "pca", "fourth", n_components=2)
    store.tag(three[0], ["first look"])
    page = tick(open_page("runs"), three[0], run)
    shown = [list(tags) for tags in page.main.dataframe[0].value["Tags"]]
    assert shown == [[], [], [], ["first look"]]
    (words,) = [one for one in page.text_input if one.label == "Filter"]
    words.set_value("twin").run()
    assert page.main.dataframe[0].value["Name"].tolist() == ["twin", "twin"]
    assert page.header[0].value == "twin"  # the other selected run is not shown
    (tags,) = [one for one in page.button_group if one.label == "Tags"]
    tags.set_value(["first look"]).run()
    assert page.main.dataframe[0].value["Name"].tolist() == ["twin"]
    words.set_value("fourth").run()
    assert not page.exception
    assert "None of the 4 runs matches the filter." in said(page)
