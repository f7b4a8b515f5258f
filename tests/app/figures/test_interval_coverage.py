"""The figure of the cells that a check hid."""

from __future__ import annotations

import numpy as np
import pytest

from app.figures import interval_coverage

NASTY = "<a href='http://x'>b & c</a>"
ESCAPED = "&lt;a href='http://x'&gt;b &amp; c&lt;/a&gt;"
CELLS = interval_coverage.HiddenCellPredictions(
    row=["1", NASTY, "3"],
    truth=np.array([1.0, 2.0, 3.0]),
    mean=np.array([1.2, 4.0, 2.9]),
    lower=np.array([0.2, 3.5, 2.0]),
    upper=np.array([1.6, 4.5, 5.0]),
)


@pytest.mark.parametrize("dark", [False, True])
def test_cells_lie_over_their_truth_with_their_intervals(dark: bool) -> None:
    exact, inside, outside = interval_coverage.coverage_figure(CELLS, NASTY, 0.9, dark=dark).data
    assert list(exact.x) == list(exact.y)
    assert exact.x[0] < min(CELLS.truth)
    assert exact.x[1] > max(CELLS.mean)
    assert (list(inside.x), list(inside.y)) == ([1.0, 3.0], [1.2, 2.9])
    np.testing.assert_allclose(inside.error_y.array, [0.4, 2.1])
    np.testing.assert_allclose(inside.error_y.arrayminus, [1.0, 0.9])
    assert (list(outside.x), list(outside.y)) == ([2.0], [4.0])
    looks = [(trace.marker.color, trace.marker.symbol) for trace in (inside, outside)]
    assert looks[0][0] != looks[1][0]
    assert looks[0][1] != looks[1][1]


def test_names_of_rows_and_columns_stay_text() -> None:
    figure = interval_coverage.coverage_figure(CELLS, NASTY, 0.9, dark=False)
    assert figure.layout.xaxis.title.text == f"{ESCAPED}, true value"
    (label,) = figure.data[2].hovertext
    assert "<a" not in label
    assert ESCAPED in label
    assert "90 % interval: 3.500 to 4.500" in label


def test_cells_of_one_value_are_drawn_too() -> None:
    one = interval_coverage.HiddenCellPredictions(["1"], *(np.array([2.0]) for _ in range(4)))
    figure = interval_coverage.coverage_figure(one, "x", 0.9, dark=False)
    low, high = figure.layout.xaxis.range
    assert low < 2.0 < high
    assert [trace.name for trace in figure.data] == ["exact", "true value inside the interval"]
