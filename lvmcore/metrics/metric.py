"""A metric: its value and its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["RETAINED_NEIGHBOURS", "Metric", "name_dimensions", "shown_key"]

#: Neighbours of a row in all dimensions whose retention in a picture is measured, at most.
RETAINED_NEIGHBOURS = 10
_SHOWN = "shown_"
#: Metrics of positions on the map, by their keys without the label column.
_OF_POSITIONS = (
    "trustworthiness",
    "continuity",
    "knn_accuracy",
    "silhouette",
    "disagreement",
    "neighbours",
)


@dataclass(frozen=True)
class Metric:
    """A metric of a fit and its protocol.

    Attributes:
        label: its name on the pages, without the dimensions.
        value: its value; None if it could not be computed (``protocol`` then says why).
        protocol: how it was computed, in a sentence.
        dimensions: the latent dimensions of the positions that it compares, such as "dimensions 1
            and 3" or "all 10 dimensions"; "" for a metric of something else.
    """

    label: str
    value: float | None
    protocol: str
    dimensions: str = ""

    @property
    def name(self) -> str:
        """Its name with its dimensions."""
        return f"{self.label}, {self.dimensions}" if self.dimensions else self.label


def shown_key(key: str) -> str:
    """Key of a metric in the two dimensions of the picture, for a map of more than two."""
    return f"{_SHOWN}{key}"


def name_dimensions(stored: Mapping[str, Metric]) -> dict[str, Metric]:
    """Stored metrics, those of positions with their dimensions.

    Runs of earlier versions have no metrics of the two shown dimensions, and do not name them:
    their metrics of positions are for all dimensions.
    """
    return {
        key: replace(metric, dimensions="all dimensions")
        if not metric.dimensions and key.partition(": ")[0] in _OF_POSITIONS
        else metric
        for key, metric in stored.items()
    }
