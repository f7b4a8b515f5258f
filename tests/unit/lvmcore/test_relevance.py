"""Which latent dimensions matter."""

import numpy as np
import pytest

from lvmcore.relevance import (
    dimensions_by_share,
    leading_dimensions,
    live_dimensions,
    relevance_shares,
)


def test_shares_add_up_to_one_and_even_out_where_nothing_is_relevant() -> None:
    found = relevance_shares({"data": np.array([3.0, 1.0]), "labels": np.zeros(2)})
    np.testing.assert_allclose(found["data"], [0.75, 0.25])
    np.testing.assert_allclose(found["labels"], [0.5, 0.5])


@pytest.mark.parametrize(
    ("relevance", "expected"),
    [
        ({"data": [1, 5, 2]}, (1, 2)),
        ({"data": [1, 5, 2], "labels": [9, 0.1, 6]}, (0, 2)),
        # A dimension with most of the data is not hidden behind a slight one of the labels.
        ({"data": [1, 5, 2], "labels": [9, 0.1, 3]}, (0, 1)),
        # The labels need one dimension only: the data choose the other.
        ({"data": [1, 5, 2], "labels": [9, 1e-6, 1e-5]}, (0, 1)),
        ({"data": [5, 1, 2], "labels": [9, 1e-6, 1e-5]}, (0, 2)),
        ({"data": [2, 2, 2]}, (0, 1)),
        ({"data": [4]}, (0, None)),
    ],
)
def test_dimensions_shown_first(
    relevance: dict[str, list[float]], expected: tuple[int, int | None]
) -> None:
    assert leading_dimensions({path: np.array(a) for path, a in relevance.items()}) == expected


def test_a_live_dimension_has_a_share_of_some_path() -> None:
    data, labels = np.array([90.0, 9.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0, 0.5])
    assert live_dimensions({"data": data}) == 2
    assert live_dimensions({"data": data, "labels": labels}) == 3
    assert live_dimensions({"data": np.ones(1)}) == 1


def test_dimensions_are_ordered_by_their_largest_share_and_negligible_ones_left_out() -> None:
    data, labels = np.array([0.6, 0.003, 0.3, 0.097]), np.array([0.0, 0.001, 0.1, 0.899])
    assert dimensions_by_share({"data": data}) == (0, 2, 3)
    assert dimensions_by_share({"data": data, "labels": labels}) == (3, 0, 2)
    assert dimensions_by_share({"data": np.ones(3)}) == (0, 1, 2)
