"""The design of learning curves: sizes, nested random samples, and their storage."""

import numpy as np
import pytest

from lvmcore.errors import ConfigError, DataError
from lvmcore.evaluation.learning_curves import (
    CurvePoint,
    LearningCurve,
    check_design,
    nested_order,
    proposed_sizes,
)


def test_proposed_sizes_grow_in_even_ratios_up_to_all_rows() -> None:
    assert proposed_sizes(320) == (20, 40, 80, 160, 320)
    assert proposed_sizes(12)[-1] == 12
    check_design(proposed_sizes(12), 2)
    with pytest.raises(DataError, match="9 rows are too few"):
        proposed_sizes(9)


@pytest.mark.parametrize(
    ("sizes", "repeats", "message"),
    [
        ((20,), 2, "at least two increasing"),
        ((40, 20), 2, "at least two increasing"),
        ((20, 20), 2, "at least two increasing"),
        ((2, 20), 2, "at least 5 rows"),
        ((20, 40), 101, "are 202 fits"),
        ((20, 40), 0, "are 0 fits"),
    ],
)
def test_a_design_that_cannot_be_run_says_why(
    sizes: tuple[int, ...], repeats: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_design(sizes, repeats)


def test_beginnings_have_the_shares_of_the_classes_and_are_random() -> None:
    labels = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 9 + ["d"], dtype=object)
    orders = [nested_order(labels, 100, seed) for seed in range(40)]
    for order in orders:
        assert sorted(order) == list(range(100))
        for m in range(1, 101):
            counts = {name: int((labels[order[:m]] == name).sum()) for name in "abc"}
            for name, total in (("a", 60), ("b", 30), ("c", 9)):
                assert abs(counts[name] - m * total / 100) < 2.2
    # Each row of a class is as often among the first ones as the others of its class.
    first = np.bincount(np.concatenate([order[:50] for order in orders]), minlength=100) / 40
    assert first[:60].min() > 0.15
    assert first[:60].max() < 0.85
    assert first.mean() == pytest.approx(0.5)


def test_without_classes_the_order_is_a_permutation_by_the_seed() -> None:
    first, again, other = (nested_order(None, 30, seed) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert sorted(first) == list(range(30))


def test_a_curve_is_stored_and_has_the_values_of_each_size() -> None:
    points = (
        CurvePoint(40, 0, {"accuracy": 0.9}, 1.0),
        CurvePoint(20, 0, {"accuracy": 0.7}, 1.0),
        CurvePoint(40, 1, {"accuracy": 0.8}, 1.0),
        CurvePoint(20, 1, {"accuracy": None}, 1.0),
    )
    curve = LearningCurve(points, {"accuracy": "accuracy"}, "On some rows.")
    assert LearningCurve.from_json(curve.to_json()) == curve
    assert curve.sizes() == (20, 40)
    assert [values.tolist() for values in curve.values("accuracy")] == [[0.7], [0.9, 0.8]]
    with pytest.raises(DataError, match=r"learning_curve\.json is damaged"):
        LearningCurve.from_json({"points": [{"size": "many"}]})
