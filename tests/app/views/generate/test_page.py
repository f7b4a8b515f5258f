"""The Generate page, opened by AppTest; its cursor is the browser's test."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.generation import GeneratedRows
from app.analysis.map.regions import Region
from app.services import fitted_maps, generation, server
from app.views.generate import paths_and_sweeps, samples
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from tests.app.conftest import OpenPage, ways
from tests.app.views.latent.test_page import box, charts, texts
from tests.app.views.new_rows.test_page import numbers
from tests.scenes import scenes
from tests.unit.lvmcore.runs.fitting import ran

GONE = "d" * 32
NASTY = "![x](http://example.org/a.png) <b>bold</b>"


@pytest.fixture(scope="module")
def run(shared_home: Any) -> str:
    """LDGD on three groups in four columns, one of them of a hostile name."""
    rng = np.random.default_rng(12)
    codes = np.arange(60) % 3
    X = np.eye(3)[codes] @ rng.normal(size=(3, 4)) * 3 + rng.normal(size=(60, 4))
    labels = [("one", "two", NASTY)[code] for code in codes]
    dataset = Dataset.from_arrays(X, labels, ["a", "b", NASTY, "d"], name="groups")
    return ran(server.store(), dataset, "ldgd", n_components=3, n_inducing=8, max_iter=30)


@pytest.fixture(scope="module")
def pca(shared_home: Any) -> str:
    """PCA on a few rows: no density to draw from."""
    X = np.random.default_rng(13).normal(size=(40, 3))
    dataset = Dataset.from_arrays(X, None, ["a", "b", "c"], name="plain")
    return ran(server.store(), dataset, "pca", n_components=2)


def choice(page: AppTest, label: str) -> Any:
    (found,) = [group for group in page.get("button_group") if group.label == label]
    return found


def opened(run: str) -> FittedMap:
    return FittedMap(run, fitted_maps.model(run), fitted_maps.fitted_dataset(run), page="generate")


def _options(run: str, letter: str) -> Any:
    page = opened(run)
    return paths_and_sweeps._options(page, letter, paths_and_sweeps._classes(page))


# ---- nothing to do ---------------------------------------------------------------------------


def test_without_a_run_it_says_what_it_is_for(open_page: OpenPage) -> None:
    page = open_page("generate")
    assert not page.exception
    assert "decodes latent points into rows" in texts(page)
    assert [button.label for button in page.main.button] == ["Fit the sample"]
    assert "not computed from any data" in texts(page)


def test_a_run_that_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = open_page("generate", run=GONE)
    assert not page.exception
    assert "does not exist" in page.warning[0].value


def test_a_model_that_does_not_decode_is_refused_with_a_way_on(open_page: OpenPage) -> None:
    X = np.random.default_rng(14).normal(size=(40, 3))
    dataset = Dataset.from_arrays(X, ["a", "b"] * 20, ["a", "b", "c"], name="plain")
    page = open_page("generate", run=ran(server.store(), dataset, "lda"))
    assert not page.exception
    assert "cannot decode latent points" in page.info[0].value
    assert ways(page) == ["Fit another model"]


# ---- a path ----------------------------------------------------------------------------------


def test_a_path_leads_from_one_class_to_the_next(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    assert not page.exception
    said = texts(page)
    assert "From A to B the columns change by" in said
    model = fitted_maps.model(run)
    mean, labels = model.embedding_.mean, fitted_maps.fitted_dataset(run).labels
    assert labels is not None
    ends = []
    for name in sorted(set(labels))[:2]:
        rows = np.flatnonzero(labels == name)
        nearest = ((mean[rows] - mean[rows].mean(axis=0)) ** 2).sum(axis=1).argmin()
        ends.append(mean[rows[nearest]])
    path = model.latent_path(*ends)
    (figure,) = charts(page)
    moved = np.ptp(model.decode(path.points).mean / model.standardiser_.scale, axis=0)
    name = fitted_maps.fitted_dataset(run).feature_names[int(moved.argmax())]
    first = figure["data"][1]
    column = model.decode(path.points).mean[:, int(moved.argmax())]
    np.testing.assert_allclose(numbers(first["y"]), column)
    np.testing.assert_allclose(numbers(first["x"]), path.distance)
    assert name[:3] in figure["layout"]["annotations"][0]["text"]


def test_the_way_can_be_straight(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    choice(page, "Kind of path").set_value("straight").run()
    assert not page.exception
    x = numbers(charts(page)[0]["data"][1]["x"])
    start, end = (_options(run, t)[box(page, f"{w} ({t})").value][1]
                  for t, w in (("A", "Start"), ("B", "End")))  # fmt: skip
    line = fitted_maps.model(run).latent_path(start, end, along="line")
    np.testing.assert_allclose(x, line.distance)


def test_a_path_from_a_place_to_itself_is_said_to_be_none(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    box(page, "End (B)").set_value(box(page, "Start (A)").value).run()
    assert not page.exception
    assert "the same point" in page.info[0].value
    assert not charts(page)


@pytest.mark.slow
def test_an_end_can_be_a_row_by_its_name(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    box(page, "End (B)").set_value("row").run()
    assert not page.exception
    assert not charts(page)
    box(page, "Row at B").set_value(17).run()
    assert not page.exception
    end = fitted_maps.model(run).embedding_.mean[17]
    assert len(charts(page)) == 1
    drawn = scenes(page)[0].data["path"]
    x, y = (int(box(page, name).value) for name in ("Horizontal", "Vertical"))
    assert (drawn["x"][-1], drawn["y"][-1]) == pytest.approx((end[x], end[y]), abs=1e-3)


def test_an_end_can_be_the_middle_of_the_selection(open_page: OpenPage, run: str) -> None:
    mean = fitted_maps.model(run).embedding_.mean
    low, high = mean[:, :2].min(axis=0), mean[:, :2].max(axis=0)
    everywhere = ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))
    page = open_page("generate", run=run)
    page.session_state["latent.selection"] = {run: Region((0, 1), (everywhere,))}
    page.run()
    assert not page.exception
    assert "centre of the selection, 60 rows" in box(page, "Start (A)").options
    box(page, "Start (A)").set_value("selection").run()
    assert not page.exception
    assert len(charts(page)) == 1


def test_chosen_columns_are_drawn_and_no_others(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    page.multiselect[0].set_value([3, 0]).run()
    assert not page.exception
    titles = [note["text"] for note in charts(page)[0]["layout"]["annotations"]]
    assert titles[:2] == ["d", "a"]


def downloads(page: AppTest) -> list[str]:
    return [one.proto.label for one in page.main.get("download_button")]


@pytest.mark.parametrize("kind", ["Path", "Sweep"])
def test_a_curve_is_offered_as_gif_and_mp4(open_page: OpenPage, run: str, kind: str) -> None:
    page = open_page("generate", run=run)
    choice(page, "Kind of rows").set_value(kind).run()
    assert not page.exception
    assert {f"{kind} as GIF", f"{kind} as MP4"} <= set(downloads(page))


def test_the_animation_of_a_path_has_a_frame_for_each_point(run: str) -> None:
    fitted_map = opened(run)
    start, end = (tuple(place) for place in fitted_map.model.embedding_.mean[[0, 1]].tolist())
    _, found = generation.decoded_path(run, start, end, straight=True)
    content = generation.path_animation(
        run, found, "gif", title="distance", columns=[0, 2], axes=(0, 1)
    )
    with Image.open(io.BytesIO(content)) as gif:
        assert gif.n_frames == len(found.at)  # type: ignore[attr-defined]


# ---- a sweep, and drawn rows -----------------------------------------------------------------


def test_a_dimension_is_swept(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    choice(page, "Kind of rows").set_value("Sweep").run()
    box(page, "Dimension").set_value(2).run()
    assert not page.exception
    x = numbers(charts(page)[0]["data"][1]["x"])
    mean = fitted_maps.model(run).embedding_.mean[:, 2]
    assert (x[0], x[-1]) == pytest.approx((mean.min(), mean.max()))


def test_rows_are_drawn_from_a_class_with_their_seed(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    choice(page, "Kind of rows").set_value("Sample rows").run()
    assert not page.exception
    source = box(page, "Sample from")
    assert source.options[0] == "the prior"
    named = next(option for option in source.options if option.endswith(": two"))
    source.set_value(f"class {named}")
    page.number_input[0].set_value(120)
    page.number_input[1].set_value(3).run()
    assert not page.exception
    assert "The first 100 of 120 sampled rows; the file holds all." in texts(page)
    digest = generation.model_digest(run)
    assert f"seed 3, model {digest}" in texts(page)
    frame = page.dataframe[-1].value
    expected = fitted_maps.model(run).sample(120, label="two", random_state=3)[:100]
    np.testing.assert_allclose(frame["a"], expected[:, 0])
    assert set(frame["model"]) == {digest}


def test_a_model_without_a_density_draws_from_a_selection_alone(
    open_page: OpenPage, pca: str
) -> None:
    page = open_page("generate", run=pca)
    choice(page, "Kind of rows").set_value("Sample rows").run()
    assert not page.exception
    assert "no density to sample rows from" in page.info[0].value
    everywhere = ((-99.0, -99.0), (99.0, -99.0), (99.0, 99.0), (-99.0, 99.0))
    page.session_state["latent.selection"] = {pca: Region((0, 1), (everywhere,))}
    page.run()
    assert not page.exception
    assert box(page, "Sample from").options == ["the selection, 40 rows"]
    assert len(page.dataframe[-1].value) == samples.SHOWN


# ---- the map ---------------------------------------------------------------------------------


def test_the_map_shows_the_rows_the_path_and_its_ends(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    (shown,) = scenes(page)
    scene = shown.data
    axes = tuple(int(box(page, name).value) for name in ("Horizontal", "Vertical"))
    mean = fitted_maps.model(run).embedding_.mean[:, axes]
    np.testing.assert_allclose(shown.points, mean, rtol=1e-6)
    assert [mark["text"] for mark in scene["marks"]] == ["A", "B"]
    assert len(scene["path"]["x"]) == 33
    assert (scene["path"]["x"][0], scene["path"]["y"][0]) == pytest.approx(
        (scene["marks"][0]["x"], scene["marks"][0]["y"]), abs=1e-3
    )
    assert (shown.heat > 0).all()
    box(page, "Background").set_value("nothing").run()
    assert scenes(page)[0].data["heat"] is None
    assert NASTY not in str(scene)


def test_the_row_at_the_middle_is_decoded_before_the_cursor_has_moved(
    open_page: OpenPage, run: str
) -> None:
    page = open_page("generate", run=run)
    assert "The row at the centre of the map" in [title.value for title in page.header]
    axes = [int(box(page, name).value) for name in ("Horizontal", "Vertical")]
    model = fitted_maps.model(run)
    latent = np.zeros(3)
    latent[axes] = np.median(model.embedding_.mean[:, axes], axis=0)
    values = page.dataframe[0].value
    np.testing.assert_allclose(values["reconstruction"], model.decode([latent]).mean[0])


def test_a_run_that_goes_while_the_cursor_moves_is_said_in_a_sentence(
    open_page: OpenPage, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the cursor is drawn by itself, and what goes wrong there is heard there."""

    def gone(*_: object) -> None:
        raise DataError("There is no such run.")

    monkeypatch.setattr(fitted_maps, "reconstruction", gone)
    page = open_page("generate", run=run)
    assert not page.exception
    assert [one.value for one in page.error] == [r"There is no such run\."]


def test_a_kept_place_is_an_end(open_page: OpenPage, run: str) -> None:
    page = open_page("generate", run=run)
    page.session_state["generate.spots"] = {run: {"A": (0.1, 0.2, 0.0)}}
    page.run()
    assert not page.exception
    box(page, "Start (A)").set_value(paths_and_sweeps.NAMED_POINT).run()
    assert not page.exception
    axes = [int(box(page, name).value) for name in ("Horizontal", "Vertical")]
    place = np.array([0.1, 0.2, 0.0])[axes]
    mark = scenes(page)[0].data["marks"][0]
    assert (mark["x"], mark["y"]) == pytest.approx(tuple(place))


def test_classes_of_several_labels_are_places_of_their_own() -> None:
    """Where the words of a label and of a class run into one another, none is lost."""
    first = np.array(["c", "d", None, "c"], dtype=object)
    second = np.array(["b c", None, "e", "e"], dtype=object)
    mean = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.5, 0.0]])
    named: Any = SimpleNamespace(
        mean=mean, dataset=SimpleNamespace(label_columns={"a b": first, "a": second})
    )
    found = paths_and_sweeps._classes(named)
    assert [title for title, _ in found.values()] == [
        "centre of a b c", "centre of a b d", "centre of a b c (2)", "centre of a e",
    ]  # fmt: skip
    assert [place for _, place in found.values()] == [
        (0.0, 0.0), (1.0, 1.0), (0.0, 0.0), (2.0, 2.0),
    ]  # fmt: skip


def test_draws_are_told_apart_by_all_that_they_are() -> None:
    one = GeneratedRows(5, 0, None, (1, 2), "the selection")
    others = [
        GeneratedRows(6, 0, None, (1, 2), "the selection"),
        GeneratedRows(5, 1, None, (1, 2), "the selection"),
        GeneratedRows(5, 0, ("kind", "high"), None, "the selection"),
        GeneratedRows(5, 0, None, (1, 3), "the selection"),
    ]
    assert generation._rows_key(one) == generation._rows_key(
        GeneratedRows(5, 0, None, (1, 2), "the selection")
    )
    assert len({generation._rows_key(draw) for draw in [one, *others]}) == 5
