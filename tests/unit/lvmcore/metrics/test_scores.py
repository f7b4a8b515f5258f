"""Metrics against small cases worked by hand and against the definitions written out."""

import numpy as np
import pytest
from scipy import optimize
from scipy.spatial import procrustes as scipy_procrustes
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from lvmcore.errors import DataError
from lvmcore.metrics.scores import (
    classification_scores,
    continuity,
    coverage,
    expected_calibration_error,
    kernel_error,
    knn_accuracy,
    nlpd,
    procrustes,
    silhouette,
    trustworthiness,
)


def ranks(X: np.ndarray) -> np.ndarray:
    """Rank of m among the neighbours of n (1 is the nearest), [N, N]."""
    distances = np.linalg.norm(X[:, None] - X, axis=-1)
    np.fill_diagonal(distances, -1)
    return distances.argsort(axis=1).argsort(axis=1)


def trust_by_definition(data: np.ndarray, embedding: np.ndarray, k: int) -> float:
    N = len(data)
    in_data, on_map = ranks(data), ranks(embedding)
    penalty = 0
    for n in range(N):
        for m in range(N):
            if 1 <= on_map[n, m] <= k < in_data[n, m]:
                penalty += in_data[n, m] - k
    return 1 - 2 / (N * k * (2 * N - 3 * k - 1)) * penalty


@pytest.mark.parametrize("k", [1, 5, 9])
def test_trustworthiness_and_continuity_by_their_definition(
    k: int, rng: np.random.Generator
) -> None:
    data = rng.normal(size=(30, 4))
    embedding = data[:, :2] + 0.3 * rng.normal(size=(30, 2))
    trust = trustworthiness(data, embedding, n_neighbors=k)
    assert trust == pytest.approx(trust_by_definition(data, embedding, k))
    kept = continuity(data, embedding, n_neighbors=k)
    assert kept == pytest.approx(trust_by_definition(embedding, data, k))
    assert trust != kept
    assert 0.5 < trust < 1


def test_folding_costs_trust_and_tearing_costs_continuity(rng: np.random.Generator) -> None:
    circle = np.sort(rng.uniform(0, 2 * np.pi, size=60))
    data = np.column_stack([np.cos(circle), np.sin(circle)])
    assert trustworthiness(data, data) == continuity(data, data) == 1
    torn = circle[:, None]  # cut open at angle 0: neighbours part, strangers do not meet
    assert continuity(data, torn) < trustworthiness(data, torn) - 0.01
    folded = data[:, :1]  # the upper half lands on the lower: strangers meet
    assert trustworthiness(data, folded) < continuity(data, folded) - 0.05


def test_trust_needs_enough_rows() -> None:
    with pytest.raises(DataError, match="n_neighbors=5 needs more than 10 rows; there are 10"):
        trustworthiness(np.eye(10), np.eye(10))


def test_knn_accuracy_follows_the_papers_protocol() -> None:
    """1-NN in five stratified folds, written out."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:, :2]
    hits = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(X, y):
        nearest = np.linalg.norm(X[test][:, None] - X[train], axis=-1).argmin(axis=1)
        hits.append(np.mean(y[train][nearest] == y[test]))
    got = knn_accuracy(X, y, random_state=3)
    assert got == pytest.approx(np.mean(hits), abs=0.02)  # ties in distance
    assert 0.6 < got < 0.9


def test_knn_accuracy_leaves_out_classes_that_are_too_small() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)), 50 + rng.normal(size=(20, 2)), [[25, 25]] * 3])
    y = np.array(["a"] * 20 + ["b"] * 20 + ["c"] * 3)
    assert knn_accuracy(X, y) == 1.0
    with pytest.raises(DataError, match="at least 5 rows each; the labels have 1"):
        knn_accuracy(X[18:24], y[18:24][[0, 2, 3, 4, 5, 5]])


def test_classification_scores_by_hand() -> None:
    """a: 2 of 3 found, 2 of 2 right; b: 1 of 1 found, 1 of 2 right; c: 0 of 1, never predicted."""
    truth = ["a", "a", "a", "b", "c"]
    guess = ["a", "a", "b", "b", "a"]
    scores = classification_scores(truth, guess)
    assert scores.accuracy == pytest.approx(3 / 5)
    precision, recall = (2 / 3, 1 / 2, 0.0), (2 / 3, 1.0, 0.0)
    assert scores.precision == pytest.approx(sum(precision) / 3)
    assert scores.recall == pytest.approx(sum(recall) / 3)
    assert scores.f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_nlpd_is_the_mean_negative_log_density(rng: np.random.Generator) -> None:
    y, m = rng.normal(size=(2, 6, 3))
    v = rng.uniform(0.1, 2, size=(6, 3))
    expected = -norm.logpdf(y, m, np.sqrt(v)).mean()
    assert nlpd(y, m, v) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(DataError, match="not positive"):
        nlpd(y, m, np.where(v > 1, 0.0, v))


def test_silhouette_by_its_definition(rng: np.random.Generator) -> None:
    Z = rng.normal(size=(12, 2))
    y = np.array(["a"] * 4 + ["b"] * 5 + ["c"] * 3)
    distance = np.linalg.norm(Z[:, None] - Z, axis=-1)
    values = []
    for n in range(12):
        own = (y == y[n]) & (np.arange(12) != n)
        a = distance[n, own].mean()
        b = min(distance[n, y == other].mean() for other in set(y) - {y[n]})
        values.append((b - a) / max(a, b))
    assert silhouette(Z, y) == pytest.approx(np.mean(values))


@pytest.mark.parametrize("labels", [["a"] * 4, ["a", "b", "c", "d"]])
def test_silhouette_needs_classes_of_several_rows(labels: list[str]) -> None:
    with pytest.raises(DataError, match="The silhouette needs"):
        silhouette(np.eye(4), labels)


@pytest.mark.parametrize("mirrored", [False, True])
def test_procrustes_finds_how_a_map_was_moved(mirrored: bool, rng: np.random.Generator) -> None:
    A = rng.normal(size=(20, 2))
    turn = np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]])
    if mirrored:
        turn = turn @ np.diag([1.0, -1.0])
    B = 3.0 * A @ turn + np.array([5.0, -7.0])
    found = procrustes(A, B)
    np.testing.assert_allclose(found.apply(B), A, atol=1e-12)
    np.testing.assert_allclose(found.inverse(A), B, atol=1e-11)
    assert found.disparity == pytest.approx(0, abs=1e-12)


def test_procrustes_is_the_best_of_all_moves(rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(2, 30, 2))
    found = procrustes(A, B)
    best = np.square(A - found.apply(B)).sum()
    assert found.disparity == pytest.approx(best / np.square(A - A.mean(axis=0)).sum())
    assert found.disparity == pytest.approx(scipy_procrustes(A, B)[2])
    for _ in range(50):
        angle, scale, mirror = rng.normal(size=3)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turn = turn @ np.diag([1.0, np.sign(mirror)])
        moved = (found.scale + 0.1 * scale) * (B - B.mean(axis=0)) @ turn + A.mean(axis=0)
        assert np.square(A - moved).sum() >= best


@pytest.mark.parametrize(
    ("A", "B"),
    [(np.eye(3), np.eye(2)), (np.ones((1, 2)), np.ones((1, 2))), (np.eye(2), np.ones((2, 2)))],
)
def test_maps_that_cannot_be_aligned_are_refused(A: np.ndarray, B: np.ndarray) -> None:
    with pytest.raises(DataError, match="cannot be aligned"):
        procrustes(A, B)


def test_intervals_of_a_true_prediction_cover_what_they_say(rng: np.random.Generator) -> None:
    mean, variance = rng.normal(size=20_000), rng.uniform(0.1, 4.0, 20_000)
    truth = mean + np.sqrt(variance) * rng.normal(size=20_000)
    for level in (0.5, 0.9, 0.95):
        assert coverage(truth, mean, variance, level) == pytest.approx(level, abs=0.015)
        assert coverage(truth, mean, 0.5 * variance, level) < level - 0.05


def test_coverage_at_the_edges_of_the_interval() -> None:
    inside = [0.0, 1.6448, -1.6448]
    assert coverage(inside, np.zeros(3), np.ones(3), 0.9) == 1.0
    assert coverage([1.645, -1.645, 0.0], np.zeros(3), np.ones(3), 0.9) == pytest.approx(1 / 3)
    for level in (0.0, 1.0, 90):
        with pytest.raises(DataError, match="level between 0 and 1"):
            coverage(inside, np.zeros(3), np.ones(3), level)
    with pytest.raises(DataError, match="at least one value"):
        coverage([], [], [], 0.9)


def test_calibration_error_bin_by_bin(rng: np.random.Generator) -> None:
    p = rng.dirichlet([1.0, 1.0, 2.0], 300)
    y = rng.integers(0, 3, 300)
    total = 0.0
    for b in range(15):
        low, high = b / 15, (b + 1) / 15
        rows = [n for n in range(300) if low < p[n].max() <= high]
        if rows:
            right = np.mean([p[n].argmax() == y[n] for n in rows])
            total += len(rows) / 300 * abs(right - np.mean([p[n].max() for n in rows]))
    assert expected_calibration_error(p, y) == pytest.approx(total, rel=1e-12)


def test_calibration_error_of_honest_and_of_boastful_probabilities(
    rng: np.random.Generator,
) -> None:
    p = rng.dirichlet([1.0, 1.0, 1.0], 20_000)
    y = np.array([rng.choice(3, p=row) for row in p])
    assert expected_calibration_error(p, y) < 0.02
    boast = p**4 / (p**4).sum(axis=1, keepdims=True)
    assert expected_calibration_error(boast, y) > 0.1
    assert expected_calibration_error(np.eye(3)[y], y) == 0.0
    with pytest.raises(DataError, match="cannot be compared"):
        expected_calibration_error(p, y[:-1])


def test_the_error_of_a_kernel_is_the_least_over_scales_of_centred_matrices(
    rng: np.random.Generator,
) -> None:
    true, found = (A @ A.T for A in rng.normal(size=(2, 12, 5)))
    H = np.eye(12) - 1 / 12
    one, other = H @ found @ H, H @ true @ H
    least = optimize.minimize_scalar(lambda a: float(np.linalg.norm(a * one - other))).fun
    assert kernel_error(found, true) == pytest.approx(least / np.linalg.norm(other), rel=1e-6)
    assert kernel_error(3 * true + 2, true) == pytest.approx(0, abs=1e-6)
    assert kernel_error(-true, true) == 1.0
    assert kernel_error(np.ones((12, 12)), true) == 1.0
