"""Trails from one map to another: where rows go and what they keep, and the part of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.comparison.trajectories import (
    MOST,
    UNSELECTED,
    Trajectories,
    largest_moves,
    trajectories,
)
from app.analysis.map.regions import Region
from app.analysis.map.row_colours import CategoryStyle, Colouring, NumericColours
from app.services import fitted_maps, server
from app.views.compare.figures import trajectory_figure
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec
from tests.app.conftest import MAIN, PATIENCE_SECONDS
from tests.app.controls import unexplained

NASTY = "![x](http://example.org/a.png) <b>bold</b>"
LONG = "x" * 10_000


def side(points: np.ndarray, place: list[int] | None = None) -> AlignedMap:
    rows = np.arange(len(points)) if place is None else np.array(place)
    return AlignedMap(None, (0, 1), rows, points, None, "")  # type: ignore[arg-type]


def nearest(points: np.ndarray, row: int, most: int) -> set[int]:
    distance = [float(np.hypot(*(point - points[row]))) for point in points]
    others = sorted((d, i) for i, d in enumerate(distance) if i != row)
    return {i for _, i in others[:most]}


# ---- the arithmetic --------------------------------------------------------------------------


def test_ways_and_neighbours_are_those_worked_out_row_by_row() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 2))
    B = A + 0.4 * rng.normal(size=(40, 2))
    first, second = list(range(2, 42)), [41, *range(2, 40)]  # the second map lacks row 40
    found = trajectories(side(A, first), side(np.vstack([B[39], B[:38]]), second), None)
    assert found is not None
    both = [*range(38), 39]
    assert found.row_positions.tolist() == [2 + i for i in both]
    radius = np.sqrt(np.mean([np.sum((A[i] - A[both].mean(axis=0)) ** 2) for i in both]))
    expected = [float(np.hypot(*(B[i] - A[i]))) / radius for i in both]
    np.testing.assert_allclose(found.moved, expected)
    kept = [len(nearest(A[both], i, 10) & nearest(B[both], i, 10)) / 10 for i in range(len(both))]
    np.testing.assert_allclose(found.kept, kept)
    assert found.chance == pytest.approx(10 / 38)


def test_without_a_selection_the_rows_that_lose_most_neighbours_are_drawn() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(200, 2))
    B = A.copy()
    B[[7, 50]] = B[[50, 7]] + 5.0
    found = trajectories(side(A), side(B), None)
    assert found is not None
    assert found.without_selection
    assert len(found.drawn) == UNSELECTED
    assert {7, 50} <= set(found.rows[found.drawn].tolist())
    worst = np.sort(found.kept)[:UNSELECTED]
    np.testing.assert_array_equal(np.sort(found.kept[found.drawn]), worst)
    assert set(found.rows[largest_moves(found, 2)].tolist()) == {7, 50}


def test_a_selection_is_followed_and_what_is_not_on_both_maps_counted() -> None:
    rng = np.random.default_rng(3)
    A = rng.normal(size=(30, 2))
    chosen = np.zeros(35, dtype=bool)
    chosen[[3, 4, 33]] = True
    found = trajectories(side(A), side(A), chosen)
    assert found is not None
    assert found.rows.tolist() == [3, 4]
    assert found.absent == 1
    np.testing.assert_array_equal(found.kept, 1.0)
    np.testing.assert_array_equal(found.moved, 0.0)
    nothing = trajectories(side(A), side(A), np.zeros(30, dtype=bool))
    assert nothing is not None
    assert len(nothing.rows) == 0


def test_long_selections_are_thinned_evenly() -> None:
    rng = np.random.default_rng(4)
    A = rng.normal(size=(12_000, 2))
    found = trajectories(side(A), side(A + 0.1), np.ones(12_000, dtype=bool))
    assert found is not None
    assert found.subsampled
    assert len(found.rows) == 4000
    assert 0 < len(found.drawn) <= MOST
    assert len(set(np.diff(found.drawn).tolist())) == 1


def test_maps_that_have_no_way_between_them() -> None:
    A = np.random.default_rng(5).normal(size=(4, 2))
    assert trajectories(side(A, [0, 1, 2, 3]), side(A, [3, 4, 5, 6]), None) is None
    assert trajectories(side(np.zeros((4, 2))), side(A), None) is None


# ---- the figure ------------------------------------------------------------------------------


def drawn(names: list[str]) -> tuple[Trajectories, dict[str, Any]]:
    rng = np.random.default_rng(6)
    A, B = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    chosen = np.arange(20) < 5
    found = trajectories(side(A), side(B), chosen)
    assert found is not None
    look = CategoryStyle("kind", ("a", "b"), np.arange(20) % 2)
    hover = [[name] for name in names]
    return found, trajectory_figure(found, look, hover, (NASTY, LONG), id="t", dark=True)


def test_the_figure_holds_the_trails_and_the_other_rows_behind() -> None:
    found, data = drawn([f"row {i}" for i in range(5)])
    np.testing.assert_allclose(data["trails"]["x0"], found.start[:5, 0], atol=1e-4)
    np.testing.assert_allclose(data["trails"]["y1"], found.end[:5, 1], atol=1e-4)
    np.testing.assert_allclose(data["others"]["x"], found.end[5:, 0], atol=1e-4)
    assert data["trails"]["c"] == [0, 1, 0, 1, 0]
    for axis, values in (("x", found.end[:, 0]), ("y", found.end[:, 1])):
        assert data[axis][0] < values.min()
        assert data[axis][1] > values.max()
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize("look", [None, NumericColours("height", np.arange(20.0))])
def test_colours_are_those_of_all_rows(look: Colouring) -> None:
    A = np.random.default_rng(8).normal(size=(12, 2))
    chosen = np.arange(20) >= 18
    found = trajectories(side(A, list(range(8, 20))), side(A, list(range(8, 20))), chosen)
    assert found is not None
    data = trajectory_figure(found, look, [["a"], ["b"]], ("A", "B"), id="t", dark=False)
    if look is None:
        assert set(data["trails"]["c"] + data["others"]["c"]) == {0}
    else:
        assert data["trails"]["c"] == [60, 63]  # of 64 steps from 0 to 19
        assert min(data["others"]["c"]) == 27  # the row 8


def test_names_in_the_figure_are_cut_short() -> None:
    _, data = drawn([LONG] * 5)
    assert all(len(line) <= 60 for lines in data["trails"]["name"] for line in lines)
    assert all(len(end) <= 40 for end in data["ends"])
    assert len(data["alt"]) < 120


# ---- on the page -----------------------------------------------------------------------------


def ran(dataset: Dataset, key: str, **settings: object) -> str:
    store = server.store()
    store.datasets.put(dataset)
    spec = JobSpec(dataset.digest, dataset.name, key, settings, name=f"{key} on {dataset.name}")
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.fixture(scope="module")
def three(shared_home: Path) -> tuple[str, str, str]:
    """Two maps of the same rows, and one of a single dimension."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 5)) + 3 * np.repeat(rng.normal(size=(2, 5)), 25, axis=0)
    ids = [NASTY, *(f"r{i}" for i in range(1, 50))]
    dataset = Dataset.from_arrays(X, ["a", NASTY] * 25, row_ids=ids, name="moving")
    return (
        ran(dataset, "pca", n_components=2),
        ran(dataset, "isomap"),
        ran(dataset, "pca", n_components=1),
    )


def compare(*runs: str) -> AppTest:
    page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
    page.run()
    page.query_params["runs"] = ",".join(runs)
    return page.switch_page(navigation.PAGES["compare"]).run()


def texts(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.main.markdown, *page.main.caption))


def ways(page: AppTest) -> list[dict[str, Any]]:
    return [
        json.loads(element.proto.json)
        for element in page.get("bidi_component")
        if element.proto.component_name == "latentboard.trails"
    ]


def scene(page: AppTest) -> dict[str, Any]:
    (found,) = ways(page)
    return found


def test_two_maps_have_trails_and_one_has_none(three: tuple[str, str, str]) -> None:
    page = compare(*three)
    assert not page.exception
    assert "No selection: the 30 rows" in texts(page)
    assert len(scene(page)["trails"]["x0"]) == 30
    (start,) = [box for box in page.selectbox if box.label == "From"]
    assert len(start.options) == 2  # the map of one dimension has no trails
    assert not unexplained(page)
    alone = compare(three[0], three[2])
    assert not alone.exception
    assert not ways(alone)


def test_maps_that_do_not_lie_over_one_another_have_no_trails(three: tuple[str, str, str]) -> None:
    """Beside a first map of one dimension every map is in units of its own."""
    page = compare(three[2], *three[:2])
    assert not page.exception
    assert not ways(page)


def test_a_selection_is_followed_the_other_way_round(three: tuple[str, str, str]) -> None:
    page = compare(*three[:2])
    corners = ((-99.0, -99.0), (0.0, -99.0), (0.0, 99.0), (-99.0, 99.0))
    page.session_state["compare.region"] = (three[0], Region((0, 1), (corners,)))
    page.run()
    assert not page.exception
    left = fitted_maps.model(three[0]).embedding_.mean[:, 0] <= 0
    forth = scene(page)["trails"]
    assert len(forth["x0"]) == left.sum()
    assert max(forth["x0"]) <= 0
    assert f"on average over {int(left.sum())} selected rows" in texts(page)
    (start,) = [box for box in page.selectbox if box.label == "From"]
    start.set_value(three[1]).run()
    assert not page.exception
    back = scene(page)["trails"]
    assert (back["x0"], back["x1"]) == (forth["x1"], forth["x0"])
    moved = [one.value for one in page.main.dataframe if "moved, radii" in one.value]
    assert moved[0]["moved, radii"].is_monotonic_decreasing
    assert len(moved[0]) == 5


def test_a_selection_of_no_row_says_what_to_do(three: tuple[str, str, str]) -> None:
    page = compare(*three[:2])
    corners = ((98.0, 98.0), (99.0, 98.0), (99.0, 99.0))
    page.session_state["compare.region"] = (three[0], Region((0, 1), (corners,)))
    page.run()
    assert not page.exception
    assert any("No selected row is on both maps" in str(one.value) for one in page.info)
