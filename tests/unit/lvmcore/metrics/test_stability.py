"""How far maps agree: limit cases, a known scatter, and what must not matter."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from lvmcore import DataError, stability
from lvmcore.metrics import stability as metrics_stability


def moved(X: np.ndarray, seed: int) -> np.ndarray:
    """A map rotated or mirrored, scaled and shifted."""
    rng = np.random.default_rng(seed)
    turn = ortho_group.rvs(X.shape[1], random_state=rng)
    return rng.uniform(0.2, 5.0) * X @ turn + rng.normal(size=X.shape[1])


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(120, 3)) * [1.0, 0.7, 0.4]


def test_copies_that_were_moved_agree(X: np.ndarray) -> None:
    found = stability([X, moved(X, 1), moved(X, 2)])
    np.testing.assert_allclose(found.disagreement, 0.0, atol=1e-7)
    assert found.overall == pytest.approx(0.0, abs=1e-7)
    np.testing.assert_array_equal(found.neighbour_agreement, 1.0)
    assert found.overall_agreement == 1.0
    assert (found.neighbours, found.chance) == (15, pytest.approx(15 / 119))


def test_a_known_scatter_is_found(rng: np.random.Generator) -> None:
    N, Q, s = 4000, 3, 0.2
    X = rng.normal(size=(N, Q))
    maps = [moved(X + s * rng.normal(size=(N, Q)), seed) for seed in range(4)]
    radius = np.sqrt(Q * (1 + s**2))
    expected = np.sqrt(2 * Q) * s / radius
    found = stability(maps)
    assert found.overall == pytest.approx(expected, rel=0.03)
    assert found.overall == pytest.approx(np.sqrt(np.mean(found.disagreement**2)))
    assert found.disagreement.std() < 0.5 * expected


def test_a_row_that_moves_is_the_one_that_disagrees(X: np.ndarray) -> None:
    other = X.copy()
    other[7] += 1.5
    found = stability([X, moved(other, 3)])
    assert found.disagreement.argmax() == 7
    assert np.delete(found.disagreement, 7).max() < 0.2 * found.disagreement[7]
    assert found.neighbour_agreement.argmin() == 7


def test_maps_with_nothing_in_common_agree_by_chance(rng: np.random.Generator) -> None:
    found = stability([rng.normal(size=(2000, 2)) for _ in range(3)])
    assert found.overall == pytest.approx(np.sqrt(2), abs=0.05)
    assert found.overall_agreement == pytest.approx(found.chance, rel=0.2)


def test_order_of_maps_and_rows_does_not_matter(X: np.ndarray, rng: np.random.Generator) -> None:
    maps = [X, moved(X + 0.1 * rng.normal(size=X.shape), 1), X + 0.3 * rng.normal(size=X.shape)]
    found, turned = stability(maps), stability([maps[2], maps[0], maps[1]])
    np.testing.assert_allclose(turned.disagreement, found.disagreement, rtol=1e-10)
    np.testing.assert_allclose(turned.neighbour_agreement, found.neighbour_agreement)
    order = rng.permutation(len(X))
    mixed = stability([points[order] for points in maps])
    np.testing.assert_allclose(mixed.disagreement, found.disagreement[order], rtol=1e-10)
    np.testing.assert_allclose(mixed.neighbour_agreement, found.neighbour_agreement[order])


def test_neighbours_are_those_counted_one_by_one(X: np.ndarray, rng: np.random.Generator) -> None:
    maps = [X, X + 0.2 * rng.normal(size=X.shape)]
    near = []
    for points in maps:
        distance = cdist(points, points)
        np.fill_diagonal(distance, np.inf)
        near.append(np.argsort(distance, axis=1)[:, :15])
    expected = [len(set(a) & set(b)) / 15 for a, b in zip(*near, strict=True)]
    np.testing.assert_allclose(stability(maps).neighbour_agreement, expected)


def test_of_many_rows_some_can_be_neighbours(
    X: np.ndarray, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = [X, X + 0.2 * rng.normal(size=X.shape)]
    monkeypatch.setattr(metrics_stability, "CHUNK_CELLS", 1)
    monkeypatch.setattr(metrics_stability, "MAX_CANDIDATES", 40)
    found = stability(maps)
    picked = np.arange(0, 120, 3)
    near = []
    for points in maps:
        distance = cdist(points, points[picked])
        distance[picked, np.arange(40)] = np.inf
        near.append(picked[np.argsort(distance, axis=1)[:, :15]])
    expected = [len(set(a) & set(b)) / 15 for a, b in zip(*near, strict=True)]
    np.testing.assert_allclose(found.neighbour_agreement, expected)
    assert found.chance == pytest.approx(15 / 39)


def test_of_many_rows_the_neighbours_of_some_are_compared(
    X: np.ndarray, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = [X, X + 0.2 * rng.normal(size=X.shape)]
    whole = stability(maps)
    monkeypatch.setattr(metrics_stability, "MAX_COMPARED", 50)
    found = stability(maps)
    picked = np.arange(0, 120, 3)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(found.neighbour_agreement)), picked)
    np.testing.assert_array_equal(
        found.neighbour_agreement[picked], whole.neighbour_agreement[picked]
    )
    assert found.overall_agreement == pytest.approx(whole.neighbour_agreement[picked].mean())
    assert (found.compared, whole.compared) == (40, 120)
    np.testing.assert_array_equal(found.disagreement, whole.disagreement)


def test_a_dimension_without_relevance_does_not_count(
    X: np.ndarray, rng: np.random.Generator
) -> None:
    maps = [np.column_stack([X, rng.normal(size=len(X))]) for _ in range(2)]
    assert stability(maps).overall > 0.5
    alpha = [1.0, 1.0, 1.0, 0.0]
    assert stability(maps, [alpha, alpha]).overall == pytest.approx(0.0, abs=1e-7)


def test_few_rows_have_few_neighbours() -> None:
    X = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 3.0]])
    found = stability([X, X])
    assert (found.neighbours, found.overall_agreement) == (2, 1.0)


def test_what_cannot_be_compared_is_said(X: np.ndarray) -> None:
    with pytest.raises(DataError, match="expected two at least, got 1"):
        stability([X])
    with pytest.raises(DataError, match="cannot be aligned: expected the same rows"):
        stability([X, X[:50]])
    with pytest.raises(DataError, match="all lie in one place"):
        stability([X, np.zeros_like(X)])


# ---- neighbours in common --------------------------------------------------------------------


def test_shared_neighbours_are_those_counted_one_by_one(rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(90, 2)), rng.normal(size=(90, 3))
    B[:, :2] += 2 * A
    near = []
    for points in (A, B):
        distance = cdist(points, points)
        np.fill_diagonal(distance, np.inf)
        near.append(np.argsort(distance, axis=1)[:, :10])
    expected = np.array([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])
    found, chance = metrics_stability.shared_neighbours(A, B)
    np.testing.assert_allclose(found, expected)
    assert chance == pytest.approx(10 / 89)
    some = np.array([5, 88, 2])
    np.testing.assert_allclose(
        metrics_stability.shared_neighbours(A, B, rows=some)[0], expected[some]
    )


def test_shared_neighbours_by_chance_and_of_the_same_map(rng: np.random.Generator) -> None:
    A = rng.normal(size=(6000, 2))
    found, chance = metrics_stability.shared_neighbours(A, rng.normal(size=(6000, 2)))
    assert found.mean() == pytest.approx(chance, rel=0.3)
    np.testing.assert_array_equal(metrics_stability.shared_neighbours(A, moved(A, 4))[0], 1.0)


def test_shared_neighbours_of_few_rows_or_none(rng: np.random.Generator) -> None:
    A = rng.normal(size=(4, 2))
    found, chance = metrics_stability.shared_neighbours(A, A[::-1])
    np.testing.assert_array_equal(found, 1.0)  # all others are neighbours on both
    assert chance == 1.0
    none = np.empty(0, dtype=np.intp)
    assert metrics_stability.shared_neighbours(A, A, rows=none)[0].shape == (0,)
    with pytest.raises(DataError, match="got 4 and 3"):
        metrics_stability.shared_neighbours(A, A[:3])
    with pytest.raises(DataError, match="two rows at least"):
        metrics_stability.shared_neighbours(A[:1], A[:1])
