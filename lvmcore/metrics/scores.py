"""Scores of maps and of predictions; each function names its protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.stats import norm
from sklearn.manifold import trustworthiness as sklearn_trustworthiness
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, silhouette_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from lvmcore.errors import DataError

__all__ = [
    "Alignment",
    "ClassificationScores",
    "classification_scores",
    "continuity",
    "coverage",
    "expected_calibration_error",
    "kernel_error",
    "knn_accuracy",
    "nlpd",
    "procrustes",
    "silhouette",
    "trustworthiness",
]


def knn_accuracy(
    embedding: ArrayLike,
    labels: ArrayLike,
    *,
    k: int = 1,
    folds: int = 5,
    random_state: int | None = 0,
) -> float:
    """Accuracy of a k-nearest-neighbour classifier on the embedding, stratified cross-validation.

    The papers' protocol is k = 1 and 5 folds. Classes with fewer rows than folds are left out, as
    they cannot be in every fold.

    Args:
        embedding: positions, [N, Q].
        labels: classes, [N]; none missing.
        k: neighbours.
        folds: parts of the cross-validation.
        random_state: seed of the shuffle.

    Raises:
        DataError: fewer than two classes have enough rows.
    """
    X, y = np.asarray(embedding, dtype=np.float64), np.asarray(labels)
    classes, counts = np.unique(y, return_counts=True)
    large = classes[counts >= folds]
    if len(large) < 2:
        raise DataError(
            f"1-NN accuracy needs two classes with at least {folds} rows each; the labels have "
            f"{len(large)}."
        )
    keep = np.isin(y, large)
    splits = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    scores = cross_val_score(KNeighborsClassifier(k), X[keep], y[keep], cv=splits)
    return float(np.mean(scores))


def trustworthiness(data: ArrayLike, embedding: ArrayLike, *, n_neighbors: int = 5) -> float:
    """Share of map neighbours that are also neighbours in the data, by rank, 0 to 1.

    T(k) = 1 − 2/(N k (2N − 3k − 1)) Σ_n Σ_{m ∈ U_k(n)} (r(n, m) − k), U_k the k nearest on the
    map that are not among the k nearest in the data (Venna and Kaski 2001).

    Args:
        data: [N, D], on scales that may be compared (standardised).
        embedding: [N, Q].
        n_neighbors: k, less than N/2.

    Raises:
        DataError: too few rows for k.
    """
    X, Z = np.asarray(data, dtype=np.float64), np.asarray(embedding, dtype=np.float64)
    if n_neighbors >= len(X) / 2:
        raise DataError(
            f"n_neighbors={n_neighbors} needs more than {2 * n_neighbors} rows; there are {len(X)}."
        )
    return float(sklearn_trustworthiness(X, Z, n_neighbors=n_neighbors))


def continuity(data: ArrayLike, embedding: ArrayLike, *, n_neighbors: int = 5) -> float:
    """Share of data neighbours that are also neighbours on the map, by rank, 0 to 1.

    The trustworthiness with data and map exchanged; arguments and errors as there.
    """
    return trustworthiness(embedding, data, n_neighbors=n_neighbors)


def silhouette(embedding: ArrayLike, labels: ArrayLike) -> float:
    """Separation of classes on the map: mean over rows of (b − a)/max(a, b), −1 to 1.

    a is a row's mean distance to its own class, b to the nearest other class (Rousseeuw 1987);
    a row that is alone in its class counts 0.

    Args:
        embedding: positions, [N, Q].
        labels: classes, [N]; none missing.

    Raises:
        DataError: there is one class only, or each row has a class of its own.
    """
    Z, y = np.asarray(embedding, dtype=np.float64), np.asarray(labels)
    classes = len(np.unique(y))
    if not 2 <= classes < len(y):
        raise DataError(
            f"The silhouette needs at least two classes, and fewer classes than rows; there are "
            f"{classes} classes and {len(y)} rows."
        )
    return float(silhouette_score(Z, y))


@dataclass(frozen=True)
class Alignment:
    """A rotation (or reflection), scale and shift: x ↦ scale · x R + shift.

    Attributes:
        rotation: R, orthogonal, [Q, Q].
        scale: a factor.
        shift: [Q].
        disparity: Σ‖a − aligned b‖² / Σ‖a − mean a‖² over the rows that it was fitted to: 0 for
            maps of the same shape, 1 for unrelated maps.
    """

    rotation: NDArray[np.float64]
    scale: float
    shift: NDArray[np.float64]
    disparity: float

    def apply(self, points: ArrayLike) -> NDArray[np.float64]:
        """Transform points [n, Q]."""
        moved = self.scale * np.asarray(points, dtype=np.float64) @ self.rotation
        return np.asarray(moved + self.shift)

    def inverse(self, points: ArrayLike) -> NDArray[np.float64]:
        """Inverse transform of points [n, Q]."""
        back = (np.asarray(points, dtype=np.float64) - self.shift) / self.scale
        return np.asarray(back @ self.rotation.T)


def procrustes(reference: ArrayLike, points: ArrayLike) -> Alignment:
    """The alignment of ``points`` with ``reference`` with the least squared distance.

    Args:
        reference: positions of some rows on one map, [n, Q].
        points: positions of the same rows on another, [n, Q].

    Returns:
        The transform of the second map to the first (Schönemann 1966; Gower 1975).

    Raises:
        DataError: the shapes differ, or fewer than two rows are not all in one place.
    """
    A, B = np.asarray(reference, dtype=np.float64), np.asarray(points, dtype=np.float64)
    if A.shape != B.shape or A.ndim != 2 or len(A) < 2:
        raise DataError(
            f"Maps of shapes {A.shape} and {B.shape} cannot be aligned: expected the same rows, "
            "two at least, in the same number of dimensions."
        )
    centre_a, centre_b = A.mean(axis=0), B.mean(axis=0)
    A0, B0 = A - centre_a, B - centre_b
    size_a, size_b = float(np.square(A0).sum()), float(np.square(B0).sum())
    rotation, overlap = orthogonal_procrustes(B0, A0)
    if size_a <= 0 or size_b <= 0 or overlap <= 0:
        raise DataError(
            "A map whose rows all lie in one place, or have nothing in common with the other's, "
            "cannot be aligned."
        )
    scale = float(overlap) / size_b
    shift = centre_a - scale * centre_b @ rotation
    return Alignment(rotation, scale, shift, max(0.0, 1 - float(overlap) ** 2 / (size_a * size_b)))


@dataclass(frozen=True)
class ClassificationScores:
    """Accuracy, and precision, recall and F1 averaged over classes with equal weight."""

    accuracy: float
    precision: float
    recall: float
    f1: float


def classification_scores(truth: ArrayLike, predicted: ArrayLike) -> ClassificationScores:
    """Scores of predicted classes, [N] each; a class never predicted has precision 0."""
    y, p = np.asarray(truth), np.asarray(predicted)
    precision, recall, f1, _ = precision_recall_fscore_support(
        y, p, average="macro", zero_division=0
    )
    return ClassificationScores(
        float(accuracy_score(y, p)), float(precision), float(recall), float(f1)
    )


def coverage(truth: ArrayLike, mean: ArrayLike, variance: ArrayLike, level: float) -> float:
    """Share of values inside the central interval of a Gaussian prediction.

    The interval of level p is m ± z√v with Φ(z) = (1 + p)/2; it contains a share p of the values if
    the predictions are calibrated.

    Args:
        truth: y, any shape.
        mean: m, same shape.
        variance: v, noise included, same shape.
        level: p, between 0 and 1.

    Raises:
        DataError: there is no value, or the level is not between 0 and 1.
    """
    y, m = np.asarray(truth, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    if not 0 < level < 1 or not y.size:
        raise DataError(
            f"The coverage of {y.size} values at level {level!r} cannot be measured: expected at "
            "least one value and a level between 0 and 1, such as 0.9."
        )
    reach = norm.ppf(0.5 * (1 + level)) * np.sqrt(np.asarray(variance, dtype=np.float64))
    return float(np.mean(np.abs(y - m) <= reach))


def nlpd(truth: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Negative log predictive density of a Gaussian prediction, mean over cells, nats.

    NLPD = mean ½ [log 2π v + (y − m)²/v]; lower is better.

    Args:
        truth: y, any shape.
        mean: m, same shape.
        variance: v, noise included, same shape.

    Raises:
        DataError: a variance is not positive.
    """
    y, m = np.asarray(truth, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    v: NDArray[np.float64] = np.asarray(variance, dtype=np.float64)
    if not (v > 0).all():
        raise DataError("A predictive variance is not positive, so it has no density.")
    return float(np.mean(0.5 * (math.log(2 * math.pi) + np.log(v) + (y - m) ** 2 / v)))


def expected_calibration_error(
    probability: ArrayLike, truth: ArrayLike, *, bins: int = 15
) -> float:
    """Mean absolute difference of predicted-class probability and accuracy over bins, 0 to 1.

    ECE = Σ_b n_b/N |mean confidence in bin b − share right in bin b|, the confidence being the
    largest probability of a row and the bins of equal width over 0 to 1 (Guo et al. 2017).

    Args:
        probability: of each class; rows sum to 1, [N, C].
        truth: position of each row's class; −1 for an unknown class counts as wrong, [N].
        bins: number of bins.

    Raises:
        DataError: the shapes do not fit, or there is no row.
    """
    P, y = np.asarray(probability, dtype=np.float64), np.asarray(truth)
    if P.ndim != 2 or y.shape != (len(P),) or not len(P):
        raise DataError(
            f"Probabilities of shape {P.shape} and {y.shape} classes cannot be compared: expected "
            "a row of probabilities for each class that is known, and at least one."
        )
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    place = np.clip(np.ceil(confidence * bins).astype(np.intp) - 1, 0, bins - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(P))


def kernel_error(found: ArrayLike, true: ArrayLike) -> float:
    """Relative error of a kernel matrix, ‖a HK̂H − HKH‖/‖HKH‖ with the best scale a, 0 to 1.

    H = I − 11ᵀ/N centres: columns that are standardised, or have a level of their own, tell neither
    a constant of the kernel nor its scale. It is √(1 − A²) of the centred alignment A (Cortes,
    Mohri and Rostamizadeh 2012), and 1 where the alignment is not positive.

    Args:
        found: K̂, [N, N].
        true: K, [N, N].
    """
    one, other = (_centred(np.asarray(part, dtype=float)) for part in (found, true))
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    alignment = float((one * other).sum()) / norms if norms > 0 else 0.0
    return float(np.sqrt(max(0.0, 1 - max(0.0, alignment) ** 2)))


def _centred(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """A symmetric matrix without its means over rows and columns."""
    return np.asarray(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())
