"""Label columns of a fitted model, and the names of their results and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.metrics.metric import Metric

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset

__all__ = [
    "LabelColumn",
    "figure_key",
    "label_cells",
    "label_columns",
    "named_figures",
]


@dataclass(frozen=True)
class LabelColumn:
    """One label column of a fitted model.

    Attributes:
        name: of the column.
        place: its position among the label columns, from 0.
        classes: its classes as text, in the model's order.
        several: whether the model has further label columns.
    """

    name: str
    place: int
    classes: tuple[str, ...]
    several: bool

    def named(self, word: str) -> str:
        """The name of a result for this column: ``word`` itself if it is the only one."""
        return f"{self.name}: {word}" if self.several else word

    def part(self, found: Any) -> Any:
        """This column's part of a result per label column, such as that of ``predict_proba``."""
        return found[self.place] if self.several else found

    def labels(self, dataset: Dataset) -> NDArray[np.object_] | None:
        """The labels of a dataset in this column; None if it has none.

        If the model has one label column, the dataset's is used regardless of its name.
        """
        return dataset.label_columns.get(self.name) if self.several else dataset.labels

    def figures(self, found: Mapping[str, Metric]) -> dict[str, Metric]:
        """Metrics of this column, under keys and labels that are unique among the columns."""
        return named_figures(found, self.name, self.place) if self.several else dict(found)


def label_columns(model: LatentVariableModel) -> tuple[LabelColumn, ...]:
    """The label columns that a model was fitted to; none if it uses no labels."""
    if model.capabilities.labels == "none":
        return ()
    several = len(model.label_names_) > 1
    classes = model.classes_ if several else [model.classes_]
    return tuple(
        LabelColumn(name, place, tuple(str(one) for one in classes[place]), several)
        for place, name in enumerate(model.label_names_)
    )


def figure_key(key: str, name: str, place: int) -> str:
    """The key of a metric of one of several label columns; see ``named_figures``."""
    return f"{key}: {name}" if place else key


def named_figures(found: Mapping[str, Metric], name: str, place: int) -> dict[str, Metric]:
    """Metrics of one of several label columns.

    Those of the first column keep their keys, so that runs with one and with several label columns
    can be compared; all labels name the column.
    """
    return {
        figure_key(key, name, place): replace(
            metric,
            label=f"{metric.label}, {name}",
            protocol=f"{metric.protocol} Label column: {name}.",
        )
        for key, metric in found.items()
    }


def label_cells(dataset: Dataset) -> dict[str, list[Any]]:
    """The labels of a dataset as columns: ``label``, or ``NAME: label`` for each of several."""
    if not dataset.more_labels:
        return {} if dataset.labels is None else {"label": dataset.labels.tolist()}
    return {f"{name}: label": labels.tolist() for name, labels in dataset.label_columns.items()}
