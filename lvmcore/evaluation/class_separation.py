"""Separation of the classes on a map: 1-nearest-neighbour accuracy and silhouette."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from lvmcore.errors import DataError
from lvmcore.evaluation.map_dimensions import MapDimensions
from lvmcore.evaluation.row_sample import RowSample, sample_rows
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import knn_accuracy, silhouette
from lvmcore.numerics.array_types import FloatArray

__all__ = ["separation_of_fitted_rows", "separation_of_placed_rows"]

#: Most rows in the nearest-neighbour accuracy, and in the silhouette, which uses all distances.
MOST_LABELLED = 10_000
MOST_ROWS = 2000
FOLDS = 5
SEED = 0

_KNN, _SILHOUETTE = "1-NN accuracy", "silhouette"
_UNSEEN = "the fit did not see the labels"


def separation_of_fitted_rows(
    latent: FloatArray, labels: NDArray[np.object_], scored: Sequence[MapDimensions]
) -> dict[str, Metric]:
    """Separation of the classes on a map that was fitted without the labels.

    Args:
        latent: latent means of the rows of the fit, [N, Q].
        labels: classes, None where missing, [N].
        scored: the dimensions in which it is measured.
    """
    known = _labelled(labels)
    accuracy, separation = sample_rows(known, MOST_LABELLED), sample_rows(known, MOST_ROWS)
    return {
        dimensions.key(key): metric
        for key, measure, rows in (
            ("knn_accuracy", _accuracy, accuracy),
            ("silhouette", _silhouette_of_fitted_rows, separation),
        )
        for dimensions in scored
        for metric in [measure(latent, labels, rows, dimensions)]
    }


def separation_of_placed_rows(
    fitted: tuple[FloatArray, NDArray[np.object_]],
    placed: tuple[FloatArray, NDArray[np.object_]],
    scored: Sequence[MapDimensions],
    how: str,
) -> dict[str, Metric]:
    """Separation of the classes of rows that a fit has not seen, by their places on its map.

    Args:
        fitted: latent means of the rows of the fit, [N, Q], and their classes, [N].
        placed: latent positions of the other rows, from their columns alone, [n, Q], and their
            classes, [n].
        scored: the dimensions in which it is measured.
        how: which rows were placed, without a full stop.
    """
    latent, labels = fitted
    positions, truth = placed
    known = _labelled(truth)
    if not len(known):
        why = "No row held out has a label."
        return {
            dimensions.key(key): Metric(f"held-out {name}", None, why, dimensions.name)
            for key, name in (("held_out_knn_accuracy", _KNN), ("held_out_silhouette", _SILHOUETTE))
            for dimensions in scored
        }
    references = sample_rows(_labelled(labels), MOST_LABELLED)
    found: dict[str, Metric] = {}
    for dimensions in scored:
        nearest = KNeighborsClassifier(1).fit(
            dimensions.points(latent)[references.rows], labels[references.rows].astype(str)
        )
        predicted = nearest.predict(dimensions.points(positions)[known])
        found[dimensions.key("held_out_knn_accuracy")] = Metric(
            f"held-out {_KNN}",
            float(np.mean(predicted == truth[known].astype(str))),
            f"Share of rows that have the class of the nearest row of the fit in "
            f"{dimensions.name}, among {references.words('labelled ')}. {len(known):,} labelled "
            f"rows, placed by their columns alone: {how}.",
            dimensions.name,
        )
    for dimensions in scored:
        found[dimensions.key("held_out_silhouette")] = _silhouette(
            positions,
            truth,
            sample_rows(known, MOST_ROWS),
            dimensions,
            f"held-out {_SILHOUETTE}",
            f"placed by their columns alone: {how}",
        )
    return found


def _labelled(labels: NDArray[np.object_]) -> NDArray[np.intp]:
    """Positions of the rows that have a label."""
    return np.flatnonzero(~np.asarray(pd.isna(labels)))


def _accuracy(
    latent: FloatArray, labels: NDArray[np.object_], rows: RowSample, dimensions: MapDimensions
) -> Metric:
    """1-nearest-neighbour accuracy of some rows among one another."""
    classes, codes, counts = np.unique(
        labels[rows.rows].astype(str), return_inverse=True, return_counts=True
    )
    small = int((counts < FOLDS).sum())
    if len(classes) - small < 2:
        why = f"Needs at least two classes with at least {FOLDS} labelled rows each."
        return Metric(_KNN, None, why, dimensions.name)
    value = knn_accuracy(
        dimensions.points(latent)[rows.rows], codes, k=1, folds=FOLDS, random_state=SEED
    )
    left_out = f" {small} of the {len(classes)} classes, with fewer than {FOLDS} of these rows, "
    left_out += "are left out." if small > 1 else "is left out."
    return Metric(
        _KNN,
        value,
        f"Share of rows that have the class of the nearest row in {dimensions.name}, {FOLDS}-fold "
        f"stratified, seed {SEED}; {rows.words('labelled ')}; {_UNSEEN}."
        f"{left_out if small else ''}",
        dimensions.name,
    )


def _silhouette_of_fitted_rows(
    latent: FloatArray, labels: NDArray[np.object_], rows: RowSample, dimensions: MapDimensions
) -> Metric:
    return _silhouette(latent, labels, rows, dimensions, _SILHOUETTE, _UNSEEN)


def _silhouette(
    latent: FloatArray,
    labels: NDArray[np.object_],
    rows: RowSample,
    dimensions: MapDimensions,
    name: str,
    which: str,
) -> Metric:
    """Silhouette of the classes of some rows.

    Args:
        latent: positions, [n, Q].
        labels: classes, [n].
        rows: the rows that are used.
        dimensions: the dimensions of the distances.
        name: name of the metric.
        which: what the fit knew of these rows, for the protocol.
    """
    try:
        value = silhouette(dimensions.points(latent)[rows.rows], labels[rows.rows].astype(str))
    except DataError as error:
        return Metric(name, None, str(error), dimensions.name)
    protocol = f"Euclidean distances in {dimensions.name}; {rows.words('labelled ')}; {which}."
    return Metric(name, value, protocol, dimensions.name)
