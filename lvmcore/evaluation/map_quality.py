"""Metrics of a fitted map, each with its protocol."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.errors import DataError
from lvmcore.evaluation.held_out_rows import held_out_metrics
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import continuity, knn_accuracy, silhouette, trustworthiness
from lvmcore.prediction.label_columns import named_figures
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["map_metrics", "silhouette_metric"]

#: Most rows in the neighbourhood metrics, whose time and memory grow with their square.
MOST_ROWS = 2000
NEIGHBOURS = 5
FOLDS = 5
SEED = 0


def map_metrics(
    model: LatentVariableModel, dataset: Dataset, held_out: Dataset | None = None
) -> dict[str, Metric]:
    """Score a fitted map.

    The nearest-neighbour accuracy is computed only for models without labels: a map fitted with
    labels separates the classes even if they are unrelated to the columns.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
        held_out: held-out rows of the same table; None if there are none.

    Returns:
        The metrics that are defined for this model and dataset.
    """
    found: dict[str, Metric] = {}
    if model.capabilities.bound and np.isfinite(model.elbo_):
        found["elbo"] = Metric(
            "bound (ELBO)",
            float(model.elbo_),
            "Total nats, of standardised numbers or of counts.",
        )
    found |= _neighbourhoods(model, dataset)
    if model.capabilities.labels == "none" and dataset.labels is not None:
        for place, (name, labels) in enumerate(dataset.label_columns.items()):
            figures = {
                "knn_accuracy": _accuracy(model, labels),
                "silhouette": silhouette_metric(
                    model.embedding_.mean, labels, "the fit did not see the labels"
                ),
            }
            found |= named_figures(figures, name, place) if dataset.more_labels else figures
    if held_out is not None:
        found |= held_out_metrics(model, dataset, held_out)
    return found


def silhouette_metric(
    points: NDArray[np.float64], labels: NDArray[np.object_], which: str
) -> Metric:
    """Silhouette of the labelled rows' classes on a map.

    Args:
        points: positions, [N, Q].
        labels: classes, None where missing, [N].
        which: whether the fit used these labels, for the protocol.
    """
    known = np.flatnonzero(~np.asarray(pd.isna(labels)))
    rows = known
    if len(known) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(known, MOST_ROWS, replace=False))
    protocol = f"Euclidean distances on the map, in all its dimensions; {len(rows)} labelled rows"
    protocol += f" of {len(known)}, drawn with seed {SEED}" if len(rows) < len(known) else ""
    try:
        value = silhouette(points[rows], labels[rows].astype(str))
    except DataError as error:
        return Metric("silhouette", None, str(error))
    return Metric("silhouette", value, f"{protocol}; {which}.")


def _neighbourhoods(model: LatentVariableModel, dataset: Dataset) -> dict[str, Metric]:
    """Trustworthiness and continuity of the latent means against the standardised columns."""
    usable = np.flatnonzero(~np.isnan(dataset.X).any(axis=1))
    rows = usable
    if len(usable) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(usable, MOST_ROWS, replace=False))
    protocol = f"{NEIGHBOURS} neighbours, standardised columns against latent means; "
    protocol += f"{len(rows)} of {len(dataset.X)} rows"
    protocol += f", drawn with seed {SEED}." if len(rows) < len(usable) else "."
    labels = {"trustworthiness": "trustworthiness", "continuity": "continuity"}
    if len(rows) <= 2 * NEIGHBOURS:
        why = f"Needs more than {2 * NEIGHBOURS} rows without missing cells; there are {len(rows)}."
        return {key: Metric(label, None, why) for key, label in labels.items()}
    names = list(dataset.feature_names)
    data = Standardiser.fit(dataset.X, names).transform(dataset.X)[rows]
    points = model.embedding_.mean[rows]
    return {
        key: Metric(labels[key], figure(data, points, n_neighbors=NEIGHBOURS), protocol)
        for key, figure in (("trustworthiness", trustworthiness), ("continuity", continuity))
    }


def _accuracy(model: LatentVariableModel, labels: NDArray[np.object_]) -> Metric:
    """1-nearest-neighbour accuracy of the labelled rows on the map."""
    label = "1-NN accuracy"
    known = ~np.asarray(pd.isna(labels))
    codes = np.unique(labels[known].astype(str), return_inverse=True)[1]
    protocol = (
        f"1 nearest neighbour on the latent means, {FOLDS}-fold stratified, seed {SEED}, "
        f"{int(known.sum())} labelled rows; the fit did not see the labels."
    )
    counts = np.bincount(codes)
    if len(counts) < 2 or counts.min() < FOLDS:
        return Metric(
            label, None, f"Needs at least two classes with at least {FOLDS} labelled rows each."
        )
    try:
        embedding = model.embedding_.mean[known]
        value = knn_accuracy(embedding, codes, k=1, folds=FOLDS, random_state=SEED)
    except DataError as error:
        return Metric(label, None, str(error))
    return Metric(label, float(value), protocol)
