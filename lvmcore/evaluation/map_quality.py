"""Metrics of a fitted map, each with its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.devices import computed_on
from lvmcore.evaluation.class_separation import separation_of_fitted_rows
from lvmcore.evaluation.held_out_rows import held_out_metrics
from lvmcore.evaluation.map_dimensions import (
    MapDimensions,
    all_dimensions,
    mean_metric,
    scored_dimensions,
)
from lvmcore.evaluation.row_sample import sample_rows
from lvmcore.metrics.metric import RETAINED_NEIGHBOURS, Metric
from lvmcore.metrics.scores import continuity, trustworthiness
from lvmcore.metrics.stability import shared_neighbours
from lvmcore.prediction.label_columns import named_figures
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.projection import metric_root

__all__ = ["map_metrics", "position_metrics", "retained_neighbours"]

#: Most rows in the neighbourhood metrics, whose time and memory grow with their square.
MOST_ROWS = 2000
NEIGHBOURS = 5


@runtime_checkable
class _Codebook(Protocol):
    """What a model with a codebook has; it is not imported where another one is scored."""

    @property
    def codes_(self) -> NDArray[np.float64]: ...

    @property
    def perplexity_(self) -> float: ...


def map_metrics(
    model: LatentVariableModel, dataset: Dataset, held_out: Dataset | None = None
) -> dict[str, Metric]:
    """Score a fitted map.

    Metrics of positions are computed in the two dimensions that the map shows first and in all
    dimensions, if there are more than two. Time and memory are bounded: each metric uses a sample
    of the rows, which its protocol states.

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
            "Total nats, of standardised numbers or of counts." + computed_on(model.computation_),
        )
    if isinstance(model, _Codebook):
        found["perplexity"] = Metric(
            "perplexity of the codes",
            model.perplexity_,
            f"exp(−Σ p log p) of the shares p of {len(model.codes_):,} codes among the rows of the "
            "fit: as many equally used codes.",
        )
    scored = scored_dimensions(model)
    if len(scored) > 1:
        found["retained_neighbours"] = retained_neighbours(model, scored[0])
    found |= position_metrics(model, dataset, scored)
    if held_out is not None:
        found |= held_out_metrics(model, dataset, held_out)
    return found


def position_metrics(
    model: LatentVariableModel, dataset: Dataset, scored: Sequence[MapDimensions]
) -> dict[str, Metric]:
    """The metrics that compare positions on the map with the columns and with the labels.

    The separation of the classes is measured only for models without labels: a map fitted with
    labels separates the classes even if they are unrelated to the columns.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
        scored: the dimensions in which they are measured.
    """
    found = _neighbourhoods(model, dataset, scored)
    if model.capabilities.labels == "none" and dataset.labels is not None:
        for place, (name, labels) in enumerate(dataset.label_columns.items()):
            figures = separation_of_fitted_rows(model.embedding_.mean, labels, scored)
            found |= named_figures(figures, name, place) if dataset.more_labels else figures
    return found


def retained_neighbours(model: LatentVariableModel, shown: MapDimensions) -> Metric:
    """Share of the nearest rows in all dimensions that are also nearest rows in the picture.

    In all dimensions a distance is the change of the columns under the mean expected metric: the
    means have about the same spread in every dimension in use, so that without it a dimension that
    carries hardly anything would count as much as the others. A model that cannot decode has its
    own distances.

    Args:
        model: a fitted model.
        shown: the dimensions of the picture.
    """
    every, latent = all_dimensions(shown.total), model.embedding_.mean
    rows = sample_rows(np.arange(len(latent)), MOST_ROWS)
    count = min(RETAINED_NEIGHBOURS, len(latent) - 1)
    some = latent[rows.rows]
    shares, chance = shared_neighbours(
        some @ metric_root(mean_metric(model)), shown.points(some), n_neighbors=count
    )
    unit = ", in units of the change of the columns," if model.capabilities.decoding else ""
    return Metric(
        f"neighbours in {every.name} that the picture retains",
        float(shares.mean()),
        f"Share of a row's {count} nearest rows in {every.name}{unit} that are also among its "
        f"{count} nearest in {shown.name}; by chance {chance:.2g}. Neighbours among "
        f"{rows.words()}.",
        shown.name,
    )


def _neighbourhoods(
    model: LatentVariableModel, dataset: Dataset, scored: Sequence[MapDimensions]
) -> dict[str, Metric]:
    """Trustworthiness and continuity of the latent means against the standardised columns."""
    usable = sample_rows(np.flatnonzero(~np.isnan(dataset.X).any(axis=1)), MOST_ROWS)
    figures = {"trustworthiness": trustworthiness, "continuity": continuity}
    if len(usable.rows) <= 2 * NEIGHBOURS:
        why = (
            f"Needs more than {2 * NEIGHBOURS} rows without missing cells; there are "
            f"{len(usable.rows)}."
        )
        return {
            dimensions.key(key): Metric(key, None, why, dimensions.name)
            for key in figures
            for dimensions in scored
        }
    words = usable.words(after=" without missing cells" if usable.total < len(dataset) else "")
    names = list(dataset.feature_names)
    data = Standardiser.fit(dataset.X, names).transform(dataset.X[usable.rows])
    return {
        dimensions.key(key): Metric(
            key,
            figure(
                data,
                dimensions.points(model.embedding_.mean)[usable.rows],
                n_neighbors=NEIGHBOURS,
            ),
            f"{NEIGHBOURS} neighbours, standardised columns against latent means in "
            f"{dimensions.name}; {words}.",
            dimensions.name,
        )
        for key, figure in figures.items()
        for dimensions in scored
    }
