"""Places of numbers on a colour scale, against their definitions row by row."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.map.row_colours import (
    NumericColours,
    category_style,
    coloured,
    group_labels,
    group_of_rows,
)
from lvmcore.export.column_colours import CategoryColours, NumberColours, Transform

VALUES = st.lists(
    st.one_of(st.just(np.nan), st.floats(-1e6, 1e6, width=32)), min_size=1, max_size=30
)


def shares(values: list[float], colours: NumberColours) -> np.ndarray:
    return NumericColours("mass", np.array(values, dtype=float), colours=colours).shares()


@given(VALUES)
def test_linear_shares_go_from_the_smallest_to_the_largest(values: list[float]) -> None:
    found = shares(values, NumberColours())
    known = [one for one in values if np.isfinite(one)]
    for one, share in zip(values, found, strict=True):
        if not np.isfinite(one):
            assert np.isnan(share)
        elif max(known) > min(known):
            assert share == pytest.approx((one - min(known)) / (max(known) - min(known)))


@given(VALUES)
def test_a_quantile_is_the_share_of_smaller_numbers(values: list[float]) -> None:
    found = shares(values, NumberColours(transform="quantile"))
    known = [one for one in values if np.isfinite(one)]
    for one, share in zip(values, found, strict=True):
        if np.isfinite(one):
            smaller = sum(other < one for other in known)
            equal = sum(other == one for other in known)
            assert share == pytest.approx((smaller + equal / 2) / len(known))


def test_a_log_scale_has_equal_steps_for_equal_ratios_and_its_low_end_for_the_others() -> None:
    found = shares([1.0, 10.0, 100.0, 0.0, -5.0], NumberColours(transform="log"))
    np.testing.assert_allclose(found, [0.0, 0.5, 1.0, 0.0, 0.0])
    # without a positive number it is linear
    np.testing.assert_allclose(shares([-1.0, -3.0], NumberColours(transform="log")), [1.0, 0.0])
    # as it is with an end that is not positive
    below = NumberColours(transform="log", low=-100.0, high=100.0)
    np.testing.assert_allclose(shares([0.0, 100.0], below), [0.5, 1.0])


def test_a_diverging_scale_has_its_number_in_the_middle_and_equal_reach() -> None:
    colours = NumberColours(transform="diverging", centre=1.0)
    numbers = NumericColours("mass", np.array([1.0, 5.0, -1.0]), colours=colours)
    np.testing.assert_allclose(numbers.shares(), [0.5, 1.0, 0.25])
    assert numbers.ends == (-3.0, 5.0)
    assert numbers.full_title == "mass, middle 1"


def test_chosen_ends_hold_the_numbers_beyond_them() -> None:
    found = shares([0.0, 1.0, 2.0, 9.0], NumberColours(low=1.0, high=3.0))
    np.testing.assert_allclose(found, [0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize("transform", ["linear", "log", "quantile", "diverging"])
def test_some_of_the_rows_keep_their_places(transform: Transform) -> None:
    values = np.exp(np.random.default_rng(1).standard_normal(50))
    numbers = NumericColours("mass", values, colours=NumberColours(transform=transform))
    chosen = np.array([3, 7, 40])
    some = group_of_rows(numbers, chosen)
    assert isinstance(some, NumericColours)
    np.testing.assert_allclose(some.shares(), numbers.shares()[chosen])
    assert some.value_at(0.5) == pytest.approx(numbers.value_at(0.5))


@pytest.mark.parametrize("transform", ["linear", "log", "quantile", "diverging"])
def test_the_number_at_the_place_of_a_row_is_its_number(transform: Transform) -> None:
    values = np.exp(np.random.default_rng(2).standard_normal(2001))
    numbers = NumericColours("mass", values, colours=NumberColours(transform=transform))
    found = [numbers.value_at(share) for share in numbers.shares()[:20]]
    np.testing.assert_allclose(found, values[:20], rtol=0.01)


def test_no_number_has_no_place() -> None:
    numbers = NumericColours("mass", np.full(3, np.nan), colours=NumberColours(transform="log"))
    assert numbers.ends is None
    assert np.isnan(numbers.shares()).all()


def test_colours_of_the_other_type_change_nothing() -> None:
    numbers = NumericColours("mass", np.arange(3.0))
    assert coloured(numbers, CategoryColours("Paired")) is numbers
    assert coloured(numbers, None) is numbers
    chosen = coloured(numbers, NumberColours("Magma"))
    assert isinstance(chosen, NumericColours)
    assert chosen.colours.scale == "Magma"


def test_labels_of_groups_are_at_a_row_of_theirs_the_largest_first() -> None:
    rng = np.random.default_rng(0)
    names = ["few"] * 3 + ["many"] * 20 + [None] * 2
    points = rng.standard_normal((25, 2)) + np.where(np.arange(25)[:, None] < 3, 9.0, 0.0)
    labels = group_labels(category_style(pd.Series(names), "kind"), points)
    assert [one.name for one in labels] == ["many", "few"]
    for one, rows in zip(labels, (points[3:23], points[:3]), strict=True):
        distance = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
        np.testing.assert_array_equal(one.place, rows[distance.argmin()])
    assert group_labels(NumericColours("mass", np.zeros(25)), points) == ()
    assert group_labels(None, points) == ()
