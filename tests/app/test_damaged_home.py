"""A home with damaged runs: the other runs keep their pages, and each says what it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.services import server
from lvmcore.cli import main
from lvmcore.data import Dataset, Table
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from tests.app.conftest import OpenPage
from tests.damaged_runs import DAMAGES, TARGET_DAMAGES, damage_copies
from tests.unit.lvmcore.runs.fitting import ran

PAGES: tuple[navigation.PageName, ...] = ("latent", "fit", "compare", "generate", "new_rows")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Store:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(server, "launcher", lambda: None)
    monkeypatch.setattr(server, "warm_up", lambda: None)  # no spare worker for this home
    return server.store()


@pytest.fixture
def run(store: Store, rng: np.random.Generator) -> str:
    X = rng.standard_normal((40, 4)) + np.repeat([[0.0], [4.0]], 20, axis=0)
    dataset = Dataset.from_arrays(X, np.repeat(["a", "b"], 20), name="toy")
    return ran(store, dataset, "ppca", "linear", n_components=2)


def shown(page: AppTest, name: str) -> str:
    """What a page says, which is without an exception."""
    assert not page.exception, (name, page.exception[0].message, page.exception[0].stack_trace)
    kinds = ("header", "markdown", "caption", "info", "error", "warning")
    return " ".join(str(one.value) for kind in kinds for one in getattr(page, kind))


def visit(store: Store, run: str, open_page: OpenPage, names: list[str]) -> None:
    copies = damage_copies(store.home / "jobs", run, names)
    damaged = {one.id: one.reason for one in store.damaged()}
    assert all(damaged.values())
    assert run not in damaged
    pages = [open_page(name, run=run) for name in PAGES]
    for name, page in zip(PAGES, pages, strict=True):
        assert "damaged" not in shown(page, name)
    wrong = []
    for place, (id, name) in enumerate(copies.items()):
        page = pages[place % len(pages)]
        page.query_params["run"] = id
        page.run()
        if page.exception:
            wrong.append((name, PAGES[place % len(pages)], page.exception[0].stack_trace))
        elif id in damaged:
            assert "damaged and cannot be opened" in shown(page, name), name
    assert not wrong
    listed = shown(open_page("runs"), "runs")
    assert ("Damaged runs" in listed) == bool(damaged)
    for id in damaged:
        store.delete(id)
    assert store.damaged() == []
    assert not list(store.home.glob(".deleted-*"))
    assert store.get(run).has_model


@pytest.mark.timeout(600)
@pytest.mark.slow(quick=["0"])
@pytest.mark.parametrize("part", range(8))
def test_damaged_runs_leave_the_others_alone(
    store: Store, run: str, open_page: OpenPage, part: int
) -> None:
    names = list(DAMAGES)
    assert len(names) > 100
    visit(store, run, open_page, names[part::8])


@pytest.mark.slow
def test_a_damaged_run_of_a_target_says_so(
    store: Store, open_page: OpenPage, rng: np.random.Generator
) -> None:
    X = rng.standard_normal((40, 3))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X.sum(1)})
    dataset = Table.from_frame(frame, name="toy").dataset()
    settings = {"max_iter": 3, "n_inducing": 5}
    spec = JobSpec(store.datasets.put(dataset), "toy", "svgp_regressor", settings, target="y")
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        run = folder.path.name
    job = store.get(run)
    assert job.has_model, f"{job.status}: {job.message} {job.error}"
    copies = damage_copies(store.home / "jobs", run, list(TARGET_DAMAGES))
    page = open_page("predict", run=run)
    assert "damaged" not in shown(page, "predict")
    for id, name in copies.items():
        page.query_params["run"] = id
        page.run()
        assert shown(page, name), name


def test_the_command_line_names_damaged_runs_and_deletes_them(
    store: Store, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = damage_copies(
        store.home / "jobs", run, ["status.json elbo=inf", "spec.json half", "metrics.json half"]
    )
    first, second, third = copies
    assert main(["runs"]) == 0
    output = capsys.readouterr()
    assert run[:8] in output.out
    assert f"The run {first} is damaged." in output.err
    assert f"The run {second} is damaged." in output.err
    assert third[:8] in output.out  # its model is there
    assert main(["runs", "delete", first]) == 0
    assert [one.id for one in store.damaged()] == [second]


def test_a_folder_of_the_user_is_no_remnant(store: Store, run: str) -> None:
    foreign = store.home / "jobs" / "thesis"
    foreign.mkdir()
    (foreign / "chapter.txt").write_text("not of the store")
    (copied,) = damage_copies(store.home / "jobs", run, ["status.json deleted"])
    started = store.home / "jobs" / ("e" * 32)
    started.mkdir()
    (started / "spec.json").write_text("{}")
    for path in (foreign, store.home / "jobs" / copied, started):
        os.utime(path, (0, 0))
    store.reconcile()
    assert (foreign / "chapter.txt").is_file()
    assert (store.home / "jobs" / copied / "model.safetensors").is_file()
    assert not started.exists()
