"""The latent dimensions in which a map is scored: those of the picture, and all of them."""

from __future__ import annotations

from dataclasses import dataclass

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.metrics.metric import shown_key
from lvmcore.numerics.array_types import FloatArray
from lvmcore.relevance import leading_dimensions

__all__ = ["MapDimensions", "all_dimensions", "scored_dimensions"]


@dataclass(frozen=True)
class MapDimensions:
    """Some latent dimensions of a map.

    Attributes:
        selected: the dimensions, from 0, in the order of the axes.
        total: Q, the number of all dimensions.
    """

    selected: tuple[int, ...]
    total: int

    @property
    def complete(self) -> bool:
        """Whether these are all dimensions."""
        return len(self.selected) == self.total

    @property
    def name(self) -> str:
        """In words: "dimensions 1 and 3", or "all 10 dimensions"."""
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
        return latent if self.complete else latent[:, list(self.selected)]

    def key(self, key: str) -> str:
        """The key of a metric in these dimensions; that of all dimensions is unchanged."""
        return key if self.complete else shown_key(key)


def all_dimensions(total: int) -> MapDimensions:
    """All Q dimensions of a map."""
    return MapDimensions(tuple(range(total)), total)


def scored_dimensions(
    model: LatentVariableModel, shown: tuple[int, int | None] | None = None
) -> tuple[MapDimensions, ...]:
    """The dimensions in which a map is scored: those of the picture first, then all of them.

    Args:
        model: a fitted model.
        shown: horizontal and vertical dimension of the picture; None for those that it opens with.

    Returns:
        One for a map of at most two dimensions, as the picture has all of them.
    """
    total = model.embedding_.mean.shape[1]
    every = all_dimensions(total)
    first, second = leading_dimensions(model.variance_shares()) if shown is None else shown
    if total < 3 or second is None:
        return (every,)
    return MapDimensions((first, second), total), every
