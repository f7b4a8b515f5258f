"""The label columns that a model learned from, and what belongs to each of them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
        name: what it is called.
        place: which one it is, from 0.
        classes: its classes as text, sorted as the model has them.
        several: whether the model learned from others too.
    """

    name: str
    place: int
    classes: tuple[str, ...]
    several: bool

    def named(self, word: str) -> str:
        """What belongs to this column: the word itself where it is the only one."""
        return f"{self.name}: {word}" if self.several else word

    def part(self, found: Any) -> Any:
        """Of what a model gives by label column, such as ``predict_proba``, this column's."""
        return found[self.place] if self.several else found

    def labels(self, dataset: Dataset) -> NDArray[np.object_] | None:
        """The labels that a dataset has in this column; None where it has none.

        The only label column of a model is the dataset's, whatever it is called there.
        """
        return dataset.label_columns.get(self.name) if self.several else dataset.labels

    def figures(self, found: Mapping[str, Metric]) -> dict[str, Metric]:
        """Figures about this column, so named that those about others can stand beside them."""
        return named_figures(found, self.name, self.place) if self.several else dict(found)


def label_columns(model: LatentVariableModel) -> tuple[LabelColumn, ...]:
    """The label columns that a fitted model learned from; none where it uses no labels."""
    if model.capabilities.labels == "none":
        return ()
    several = len(model.label_names_) > 1
    classes = model.classes_ if several else [model.classes_]
    return tuple(
        LabelColumn(name, place, tuple(str(one) for one in classes[place]), several)
        for place, name in enumerate(model.label_names_)
    )


def figure_key(key: str, name: str, place: int) -> str:
    """The key of a figure about one of several label columns; see ``named_figures``."""
    return f"{key}: {name}" if place else key


def named_figures(found: Mapping[str, Metric], name: str, place: int) -> dict[str, Metric]:
    """Figures about one of several label columns.

    Those about the first keep their keys, so that runs with one label column and with several
    compare; all say in their labels which column they are about.
    """
    return {
        figure_key(key, name, place): Metric(
            f"{metric.label}, {name}", metric.value, f"{metric.protocol} Label column: {name}."
        )
        for key, metric in found.items()
    }


def label_cells(dataset: Dataset) -> dict[str, list[Any]]:
    """The labels of a dataset as columns: ``label``, or ``NAME: label`` of each of several."""
    if not dataset.more_labels:
        return {} if dataset.labels is None else {"label": dataset.labels.tolist()}
    return {f"{name}: label": labels.tolist() for name, labels in dataset.label_columns.items()}
