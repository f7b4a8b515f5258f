"""R² of columns given the nearest rows of a map, against a loop over the rows."""

import numpy as np
import pytest

from app.analysis.map.column_smoothness import NEIGHBOURS, column_smoothness


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((120, 2))


def test_it_is_what_a_loop_over_the_rows_gives(points: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([points[:, 0] ** 2, rng.standard_normal(120), points @ (1.0, 2.0)])
    X[rng.random(X.shape) < 0.2] = np.nan
    found = column_smoothness(points, X)
    for d in range(3):
        cells, guesses = [], []
        for i in range(len(points)):
            distance = ((points - points[i]) ** 2).sum(axis=1)
            distance[i] = np.inf
            nearest = X[np.argsort(distance)[:NEIGHBOURS], d]
            if np.isfinite(X[i, d]) and np.isfinite(nearest).any():
                cells.append(X[i, d])
                guesses.append(np.nanmean(nearest))
        error = np.square(np.subtract(cells, guesses)).sum()
        total = np.square(np.array(cells) - np.mean(cells)).sum()
        assert found[d] == pytest.approx(1 - error / total)
    assert found[0] > 0.5 > found[1]


def test_columns_without_variance_or_cells_have_none(points: np.ndarray) -> None:
    X = np.column_stack([np.full(120, 7.0), np.full(120, np.nan), points[:, 0]])
    found = column_smoothness(points, X)
    assert np.isnan(found[:2]).all()
    assert found[2] > 0.5


def test_two_rows_are_too_few() -> None:
    assert np.isnan(column_smoothness(np.zeros((2, 2)), np.ones((2, 3)))).all()
