"""Contour lines of a heatmap, against functions whose lines are known."""

import numpy as np
import pytest

from app.analysis.map.contour_lines import contour_lines
from app.analysis.map.heatmaps import Heatmap
from app.figures.canvas_scene import Scene, scene_data
from app.figures.row_traces import MapRows


def grid(value: np.ndarray) -> Heatmap:
    axis = np.linspace(-2, 2, len(value))
    return Heatmap(axis, axis, value, "decoded v", "unit", None, low_is_certain=False)


AXIS = np.linspace(-2, 2, 81)


def test_lines_of_a_plane_are_straight_and_at_round_values() -> None:
    lines = contour_lines(grid(AXIS[None, :] + 3 * AXIS[:, None]))
    assert [line.level for line in lines] == [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]
    for line in lines:
        np.testing.assert_allclose(line.points @ (1.0, 3.0), line.level, atol=1e-12)


def test_lines_of_a_cone_are_circles() -> None:
    lines = contour_lines(grid(np.hypot(AXIS[None, :], AXIS[:, None])))
    circles = [line for line in lines if line.level < 2]
    assert [line.level for line in circles] == [0.5, 1.0, 1.5]
    for circle in circles:
        np.testing.assert_allclose(np.hypot(*circle.points.T), circle.level, atol=0.005)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_levels_do_not_depend_on_the_unit(scale: float) -> None:
    lines = contour_lines(grid(scale * (AXIS[None, :] + 0 * AXIS[:, None])))
    np.testing.assert_allclose(
        [line.level / scale for line in lines], np.arange(-3, 4) / 2, atol=1e-12
    )


def test_a_constant_has_no_lines() -> None:
    assert contour_lines(grid(np.full((5, 5), 3.0))) == []


@pytest.mark.parametrize("contours", [True, False])
def test_the_browser_gets_the_lines_that_are_asked_for(contours: bool) -> None:
    rows = MapRows(np.zeros((1, 2)), np.arange(1), [["row"]])
    shown = grid(AXIS[None, :] + 0 * AXIS[:, None])
    scene = Scene(rows, ((-2, 2), (-2, 2)), None, "map", grid=shown, contours=contours)
    sent = scene_data(scene, dark=False)["heat"]["contours"]
    assert [line["text"] for line in sent] == (
        ["−1.5", "−1", "−0.5", "0", "0.5", "1", "1.5"] if contours else []
    )
