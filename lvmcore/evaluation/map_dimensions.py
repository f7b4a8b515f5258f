"""The latent dimensions in which a map is scored: those of the picture, and all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.evaluation.row_sample import sample_rows
from lvmcore.metrics.metric import shown_key
from lvmcore.numerics.array_types import FloatArray
from lvmcore.projection import BEST_VIEW, LatentProjection, principal_projection
from lvmcore.relevance import leading_dimensions, live_dimensions

__all__ = [
    "MapDimensions",
    "all_dimensions",
    "best_view",
    "mean_metric",
    "scored_dimensions",
]

#: Rows at which the expected metric is averaged, and rows of which principal components are found.
METRIC_ROWS, COMPONENT_ROWS = 400, 2000


@dataclass(frozen=True)
class MapDimensions:
    """Some latent dimensions of a map, or a projection of all of them.

    Attributes:
        selected: the dimensions, from 0, in the order of the axes; none for a projection.
        total: Q, the number of all dimensions.
        projection: the projection; None for dimensions.
    """

    selected: tuple[int, ...]
    total: int
    projection: LatentProjection | None = None

    @property
    def complete(self) -> bool:
        """Whether these are all dimensions."""
        return len(self.selected) == self.total

    @property
    def name(self) -> str:
        """In words: "dimensions 1 and 3", "all 10 dimensions" or "the best 2-D view"."""
        if self.projection is not None:
            return BEST_VIEW
        if self.complete and self.total > 2:
            return f"all {self.total} dimensions"
        numbers = [str(q + 1) for q in self.selected]
        return (
            f"dimension {numbers[0]}"
            if len(numbers) == 1
            else f"dimensions {' and '.join(numbers)}"
        )

    def points(self, latent: FloatArray) -> FloatArray:
        """Positions in these dimensions, [n, q], from those in all of them, [n, Q]."""
        if self.projection is not None:
            return self.projection.points(latent)
        return latent if self.complete else latent[:, list(self.selected)]

    def key(self, key: str) -> str:
        """The key of a metric in these dimensions; that of all dimensions is unchanged."""
        return key if self.complete else shown_key(key)


def all_dimensions(total: int) -> MapDimensions:
    """All Q dimensions of a map."""
    return MapDimensions(tuple(range(total)), total)


def scored_dimensions(
    model: LatentVariableModel, shown: tuple[int, int | None] | LatentProjection | None = None
) -> tuple[MapDimensions, ...]:
    """The dimensions in which a map is scored: those of the picture first, then all of them.

    Args:
        model: a fitted model.
        shown: horizontal and vertical dimension of the picture, or its projection; None for the
            dimensions that it opens with.

    Returns:
        One for a map of at most two dimensions, as the picture has all of them.
    """
    total = model.embedding_.mean.shape[1]
    every = all_dimensions(total)
    if isinstance(shown, LatentProjection):
        return MapDimensions((), total, shown), every
    first, second = leading_dimensions(model.variance_shares()) if shown is None else shown
    if total < 3 or second is None:
        return (every,)
    return MapDimensions((first, second), total), every


def mean_metric(model: LatentVariableModel) -> FloatArray:
    """The expected metric of a map, averaged over at most 400 of its rows, [Q, Q].

    A latent distance under it is about the change of the columns, in their sd. The identity for a
    model that cannot decode latent points.
    """
    mean = model.embedding_.mean
    if not model.capabilities.decoding:
        return np.eye(mean.shape[1])
    rows = sample_rows(np.arange(len(mean)), METRIC_ROWS).rows
    return np.asarray(model.latent_metric(mean[rows]).mean(axis=0))


def best_view(model: LatentVariableModel) -> LatentProjection | None:
    """The 2-D view of a map of more than two live dimensions; None for other maps.

    The principal components of the latent means in units of the change of the columns
    (``lvmcore.projection.principal_projection``), of at most 2000 rows.
    """
    if live_dimensions(model.variance_shares()) < 3:
        return None
    mean = model.embedding_.mean
    rows = sample_rows(np.arange(len(mean)), COMPONENT_ROWS).rows
    return principal_projection(mean[rows], mean_metric(model))
