"""Metrics of a map in the dimensions of the picture and in all, against scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.metrics import silhouette_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestNeighbors

from lvmcore import BayesianGPLVM, LinearDiscriminantAnalysis, ProbabilisticPCA
from lvmcore.data import Dataset
from lvmcore.evaluation import class_separation, map_quality
from lvmcore.evaluation.held_out_rows import held_out_metrics
from lvmcore.evaluation.map_dimensions import (
    MapDimensions,
    best_view,
    mean_metric,
    scored_dimensions,
)
from lvmcore.evaluation.map_quality import map_metrics, position_metrics, retained_neighbours
from lvmcore.relevance import leading_dimensions, live_dimensions

SHOWN, ALL = "dimensions 1 and 2", "all 4 dimensions"


@pytest.fixture
def rows() -> Dataset:
    """Four classes that only the third and the fourth dimension of their variance separate."""
    rng = np.random.default_rng(4)
    classes = np.repeat(np.arange(4), 30)
    sources = rng.normal(size=(120, 4)) * [6.0, 5.0, 0.4, 0.3]
    sources[:, 2:] += np.array([[-3, -2], [-3, 2], [3, -2], [3, 2]])[classes]
    mixing = np.linalg.qr(rng.normal(size=(6, 6)))[0][:4]
    X = sources @ mixing + 0.05 * rng.normal(size=(120, 6))
    return Dataset.from_arrays(X, np.array(list("abcd"))[classes], name="sources")


@pytest.fixture
def model(rows: Dataset) -> ProbabilisticPCA:
    return ProbabilisticPCA(n_components=4).fit(rows.X)


def standardised(X: np.ndarray) -> np.ndarray:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def cross_validated(points: np.ndarray, labels: np.ndarray) -> float:
    """1-NN accuracy by brute force, with the folds of scikit-learn."""
    found = []
    for fit, test in StratifiedKFold(5, shuffle=True, random_state=0).split(points, labels):
        away = np.linalg.norm(points[test][:, None] - points[fit][None], axis=2)
        found.append(np.mean(labels[fit][away.argmin(axis=1)] == labels[test]))
    return float(np.mean(found))


def test_each_metric_is_that_of_the_picture_and_that_of_all_dimensions(
    rows: Dataset, model: ProbabilisticPCA
) -> None:
    found = map_metrics(model, rows)
    assert leading_dimensions(model.variance_shares()) == (0, 1)
    whole, picture = model.embedding_.mean, model.embedding_.mean[:, :2]
    data, labels = standardised(rows.X), rows.labels.astype(str)
    for prefix, points, name in (("shown_", picture, SHOWN), ("", whole, ALL)):
        expected = {
            "trustworthiness": trustworthiness(data, points, n_neighbors=5),
            "continuity": trustworthiness(points, data, n_neighbors=5),
            "knn_accuracy": cross_validated(points, labels),
            "silhouette": silhouette_score(points, labels),
        }
        for key, value in expected.items():
            metric = found[f"{prefix}{key}"]
            assert metric.value == pytest.approx(value, abs=1e-12)
            assert metric.name == f"{metric.label}, {name}"
            assert name in metric.protocol
            assert "120 " in metric.protocol
    # The picture lacks the dimensions that separate the classes, and its figures say so.
    assert found["shown_knn_accuracy"].value < 0.5
    assert found["knn_accuracy"].value > 0.9


def test_a_map_of_two_dimensions_has_each_metric_once(rows: Dataset) -> None:
    found = map_metrics(ProbabilisticPCA(n_components=2).fit(rows.X), rows)
    assert not [key for key in found if key.startswith("shown_") or key == "retained_neighbours"]
    assert found["trustworthiness"].name == f"trustworthiness, {SHOWN}"
    one = map_metrics(ProbabilisticPCA(n_components=1).fit(rows.X), rows)
    assert one["continuity"].name == "continuity, dimension 1"


def test_the_retained_neighbours_are_counted(rows: Dataset, model: ProbabilisticPCA) -> None:
    picture, whole = scored_dimensions(model, (2, 0))
    assert (picture.name, whole.name) == ("dimensions 3 and 1", ALL)
    found = retained_neighbours(model, picture)
    shares = []
    # In all dimensions the distances are those of the decoded rows, in sd of the columns.
    decoded = model.decode(model.embedding_.mean).mean / model.standardiser_.scale
    near = [
        NearestNeighbors(n_neighbors=10).fit(points).kneighbors(return_distance=False)
        for points in (decoded, model.embedding_.mean[:, [2, 0]])
    ]
    for one, two in zip(*near, strict=True):
        shares.append(len(set(one) & set(two)) / 10)
    assert found.value == pytest.approx(np.mean(shares))
    assert f"10 nearest rows in {ALL}, in units of the change of" in found.protocol
    assert found.name == f"neighbours in {ALL} that the picture retains, dimensions 3 and 1"


def test_the_best_view_is_measured_like_the_axes(rows: Dataset, model: ProbabilisticPCA) -> None:
    view = best_view(model)
    assert view is not None
    shown, whole = scored_dimensions(model, view)
    assert (shown.name, whole.name) == ("the best 2-D view", ALL)
    points = view.points(model.embedding_.mean)
    found = position_metrics(model, rows, [shown])
    expected = cross_validated(points, rows.labels.astype(str))
    assert found["shown_knn_accuracy"].value == expected
    assert found["shown_continuity"].name == "continuity, the best 2-D view"
    kept = retained_neighbours(model, shown)
    assert "10 nearest in the best 2-D view" in kept.protocol
    # The view of a linear model is that of the decoded rows, so its neighbours are known.
    decoded = model.decode(model.embedding_.mean).mean / model.standardiser_.scale
    two = PCA(2).fit_transform(decoded)
    near = [
        NearestNeighbors(n_neighbors=10).fit(one).kneighbors(return_distance=False)
        for one in (decoded, two)
    ]
    expected = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)])
    assert kept.value == pytest.approx(expected)


def test_a_map_of_two_live_dimensions_has_no_best_view(rows: Dataset) -> None:
    assert best_view(ProbabilisticPCA(n_components=2).fit(rows.X)) is None
    flat = np.random.default_rng(0).standard_normal((80, 2)) @ np.ones((2, 5)).cumsum(axis=1) ** 2
    flat += 0.01 * np.random.default_rng(1).standard_normal((80, 5))
    model = BayesianGPLVM(n_components=4, n_inducing=15, max_iter=300).fit(flat)
    assert live_dimensions(model.variance_shares()) < 3
    assert best_view(model) is None


def test_a_model_that_cannot_decode_has_its_own_distances() -> None:
    corners = np.random.default_rng(6).standard_normal((120, 6))
    corners[:, :3] += 3 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).repeat(30, 0)
    model = LinearDiscriminantAnalysis(n_components=3).fit(corners, np.arange(4).repeat(30))
    np.testing.assert_array_equal(mean_metric(model), np.eye(3))
    view = best_view(model)
    assert view is not None
    centred = model.embedding_.mean - model.embedding_.mean.mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.abs(view.points(model.embedding_.mean))
    np.testing.assert_allclose(points, np.abs(U[:, :2] * s[:2]), atol=1e-8)
    assert "in units" not in retained_neighbours(model, scored_dimensions(model, view)[0]).protocol


def test_the_metrics_follow_the_chosen_axes(rows: Dataset, model: ProbabilisticPCA) -> None:
    picture = scored_dimensions(model, (3, 2))[:1]
    found = position_metrics(model, rows, picture)
    points = model.embedding_.mean[:, [3, 2]]
    assert set(found) == {
        *("shown_trustworthiness", "shown_continuity"),
        *("shown_knn_accuracy", "shown_silhouette"),
    }
    assert found["shown_knn_accuracy"].value == cross_validated(points, rows.labels.astype(str))
    assert found["shown_continuity"].name == "continuity, dimensions 4 and 3"


def test_a_long_table_is_sampled_and_says_so(
    rows: Dataset, model: ProbabilisticPCA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_separation, "MOST_LABELLED", 60)
    monkeypatch.setattr(class_separation, "MOST_ROWS", 40)
    monkeypatch.setattr(map_quality, "MOST_ROWS", 50)
    found = map_metrics(model, rows)
    for key, n in (
        ("knn_accuracy", "60 of 120 labelled"),
        ("silhouette", "40 of 120 labelled"),
        ("trustworthiness", "50 of 120"),
        ("retained_neighbours", "50 of 120"),
    ):
        assert f"{n} rows, drawn with seed 0" in found[key].protocol
    drawn = np.sort(np.random.default_rng(0).choice(np.arange(120), 60, replace=False))
    expected = cross_validated(model.embedding_.mean[drawn], rows.labels[drawn].astype(str))
    assert found["knn_accuracy"].value == pytest.approx(expected)


def test_a_class_of_few_rows_is_left_out_and_named(rows: Dataset, model: ProbabilisticPCA) -> None:
    labels = rows.labels.copy()
    labels[:3] = "rare"
    found = map_metrics(model, Dataset.from_arrays(rows.X, labels))["knn_accuracy"]
    keep = np.arange(120) >= 3
    expected = cross_validated(model.embedding_.mean[keep], labels[keep].astype(str))
    assert found.value == pytest.approx(expected)
    assert "1 of the 5 classes, with fewer than 5 of these rows, is left out." in found.protocol


def test_rows_that_a_labelled_fit_has_not_seen_are_scored_at_once(rows: Dataset) -> None:
    """The dataset's own held-out rows need no second fit."""
    held = np.zeros(120, dtype=bool)
    held[::4] = True
    kept, others = rows.subset(~held), rows.subset(held)
    frame = pd.DataFrame(kept.X, columns=list(kept.transformed_names))
    model = LinearDiscriminantAnalysis(n_components=3).fit(frame, kept.labels)
    assert model.embedding_.mean.shape[1] == 3
    found = map_metrics(model, kept, others)
    assert "knn_accuracy" not in found
    placed = model.transform(pd.DataFrame(others.X, columns=list(kept.transformed_names)))
    axes = list(leading_dimensions(model.variance_shares()))
    for key, dimensions in (("shown_held_out_", axes), ("held_out_", [0, 1, 2])):
        away = np.linalg.norm(
            placed[:, None, dimensions] - model.embedding_.mean[None][:, :, dimensions], axis=2
        )
        right = kept.labels[away.argmin(axis=1)] == others.labels
        assert found[f"{key}knn_accuracy"].value == pytest.approx(right.mean())
        assert "30 of the 30 rows held out of the fit" in found[f"{key}knn_accuracy"].protocol
        expected = silhouette_score(placed[:, dimensions], others.labels.astype(str))
        assert found[f"{key}silhouette"].value == pytest.approx(expected)


def test_rows_without_labels_have_no_separation(rows: Dataset) -> None:
    held = np.zeros(120, dtype=bool)
    held[::4] = True
    kept, others = rows.subset(~held), rows.subset(held)
    frame = pd.DataFrame(kept.X, columns=list(kept.transformed_names))
    model = LinearDiscriminantAnalysis().fit(frame, kept.labels)
    bare = Dataset.from_arrays(others.X, [None] * 29 + ["a"])
    bare.labels[-1] = None  # type: ignore[index]
    found = held_out_metrics(model, kept, bare)["held_out_knn_accuracy"]
    assert found.value is None
    assert found.protocol == "No row held out has a label."


def test_dimensions_are_named() -> None:
    assert MapDimensions((4, 0), 10).name == "dimensions 5 and 1"
    assert MapDimensions((0, 1), 2).name == "dimensions 1 and 2"
    assert MapDimensions(tuple(range(10)), 10).name == "all 10 dimensions"
    assert MapDimensions((0,), 1).name == "dimension 1"
