"""Which rows a box or lasso holds, against independent ways to decide it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.map.regions import Region, rows_inside

SQUARE = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0))


def turns(x: float, y: float, polygon: list[tuple[int, int]]) -> int:
    """How often a polygon winds about a point off its boundary: the sum of the angles it spans."""
    corners = np.array(polygon, dtype=float) - (x, y)
    following = np.roll(corners, -1, axis=0)
    cross = corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0]
    dot = (corners * following).sum(axis=1)
    return round(float(np.arctan2(cross, dot).sum() / (2 * np.pi)))


def on_boundary(x: int, y: int, polygon: list[tuple[int, int]]) -> bool:
    """Whether a point is on an edge, in exact arithmetic: it divides the edge in some ratio."""
    for (x0, y0), (x1, y1) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if (x0, y0) == (x1, y1):
            if (x, y) == (x0, y0):
                return True
            continue
        along = Fraction(x - x0, x1 - x0) if x1 != x0 else Fraction(y - y0, y1 - y0)
        there = (x0 + along * (x1 - x0), y0 + along * (y1 - y0))
        if 0 <= along <= 1 and there == (x, y):
            return True
    return False


corner = st.tuples(st.integers(-6, 6), st.integers(-6, 6))


@pytest.mark.slow
@given(st.lists(corner, min_size=3, max_size=9))
def test_membership_is_that_of_the_angle_sum_with_the_boundary_inside(
    polygon: list[tuple[int, int]],
) -> None:
    """Whole numbers, so that corners, edges and crossings are hit exactly and often."""
    grid = [(x, y) for x in range(-7, 8) for y in range(-7, 8)]
    found = rows_inside(np.array(grid, dtype=float), polygon)
    expected = [
        on_boundary(x, y, polygon) or turns(float(x), float(y), polygon) != 0 for x, y in grid
    ]
    assert found.tolist() == expected


@given(st.lists(corner, min_size=3, max_size=9))
def test_the_direction_and_the_first_corner_do_not_matter(polygon: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(0)
    points = np.vstack([rng.uniform(-7, 7, (200, 2)), np.array(polygon, dtype=float)])
    expected = rows_inside(points, polygon)
    np.testing.assert_array_equal(rows_inside(points, polygon[::-1]), expected)
    np.testing.assert_array_equal(rows_inside(points, polygon[2:] + polygon[:2]), expected)


@pytest.mark.slow(quick=["1000", "100000"])
@pytest.mark.parametrize("rows", [1_000, 100_000, 1_000_000])
def test_a_lasso_over_many_rows_holds_those_that_the_angle_sum_says(rows: int) -> None:
    """A line drawn by hand, crossing itself, over a cloud of rows."""
    rng = np.random.default_rng(rows)
    points = rng.standard_normal((rows, 2))
    angle = np.linspace(0.0, 4 * np.pi, 40, endpoint=False)
    radius = 1.0 + 0.5 * rng.uniform(-1, 1, len(angle)) + 0.3 * np.sin(3 * angle)
    polygon = np.column_stack([radius * np.cos(angle), 0.7 * radius * np.sin(angle)])
    turned = np.zeros(rows)
    for start, end in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        to_start, to_end = start - points, end - points
        cross = to_start[:, 0] * to_end[:, 1] - to_start[:, 1] * to_end[:, 0]
        turned += np.arctan2(cross, (to_start * to_end).sum(axis=1))
    expected = np.rint(turned / (2 * np.pi)) != 0
    assert 0 < expected.sum() < rows
    np.testing.assert_array_equal(rows_inside(points, polygon), expected)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((2.0, 2.0), True),
        ((0.0, 0.0), True),
        ((4.0, 4.0), True),
        ((4.0, 1.0), True),
        ((1.0, 4.0), True),
        ((np.nextafter(4.0, 5.0), 1.0), False),
        ((1.0, np.nextafter(0.0, -1.0)), False),
        ((-1.0, 0.0), False),
        ((5.0, 4.0), False),
    ],
)
def test_the_boundary_of_a_box_is_inside(point: tuple[float, float], expected: bool) -> None:
    assert rows_inside(np.array([point]), SQUARE).tolist() == [expected]


def test_what_a_line_goes_round_twice_is_inside() -> None:
    twice = [*SQUARE, *SQUARE]
    assert rows_inside(np.array([[1.0, 1.0], [5.0, 1.0]]), twice).tolist() == [True, False]


def test_no_points_are_no_members() -> None:
    assert rows_inside(np.empty((0, 2)), SQUARE).shape == (0,)


def test_a_region_is_the_union_of_its_polygons() -> None:
    far = tuple((x + 10.0, y) for x, y in SQUARE)
    region = Region((0, 1), (SQUARE, far))
    points = np.array([[1.0, 1.0], [7.0, 1.0], [11.0, 1.0]])
    assert region.members(points).tolist() == [True, False, True]
