"""The order of the levels of a category."""

import pandas as pd
import pytest

from lvmcore.data import Table
from lvmcore.data.transforms import levels
from lvmcore.likelihoods.level_order import by_known_scale, ordered_levels
from lvmcore.likelihoods.proposals import propose_category


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["high", "low", "medium"], ["low", "medium", "high"]),
        (["Very_Good", "poor", "fair"], ["poor", "fair", "Very_Good"]),
        (["100+", "20-29", "<5", "5-19"], ["<5", "5-19", "20-29", "100+"]),
        (["b", "low", "a"], ["a", "b", "low"]),
        (["yes", "no"], ["no", "yes"]),
        (["tue", "mon", "sun"], ["mon", "tue", "sun"]),
        ([], []),
    ],
)
def test_levels_are_ordered_by_number_scale_or_name(given: list[str], expected: list[str]) -> None:
    assert ordered_levels(given) == expected


def test_a_scale_is_ordinal_and_a_cycle_or_a_pair_is_not() -> None:
    assert by_known_scale(["low", "medium", "high"])
    assert not by_known_scale(["mon", "tue", "wed"])
    assert not by_known_scale(["low", "high"])
    assert not by_known_scale(["low", "medium", "red"])
    kind, reason = propose_category(["low", "medium", "high"])
    assert kind == "ordinal"
    assert reason == "its levels have an order, from low to high"
    assert propose_category(["mon", "tue", "wed"])[0] == "categorical"


def test_the_features_of_a_category_are_in_the_order_of_its_levels() -> None:
    grade = ["high", "low", "medium", "low"] * 5
    assert levels(pd.Series(grade)) == ["low", "medium", "high"]
    table = Table.from_frame(pd.DataFrame({"grade": grade, "x": range(20)}), name="grades")
    dataset = table.dataset(one_hot=["grade"], label=None)
    assert dataset.feature_names[:3] == ("grade = low", "grade = medium", "grade = high")
