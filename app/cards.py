"""What the page says about each model, and which one suits a table. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.words import count
from lvmcore.parameters import Parameter

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["ModelCard", "Shape", "card_of", "recommend", "refusal"]

#: A table with fewer rows or columns carries no more than a linear map.
FEW_ROWS = 20
FEW_COLUMNS = 3


@dataclass(frozen=True)
class Shape:
    """What matters of a dataset for the choice of a model, of the rows that are not held out.

    Attributes:
        rows: with every cell filled in.
        columns: features.
        classes: different labels; 0 without a label column.
        unlabelled: rows without a label, where there is a label column.
        incomplete: rows that lack a cell.
        further: different labels in each of the further label columns.
    """

    rows: int
    columns: int
    classes: int
    unlabelled: int
    incomplete: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelCard:
    """A model as the Fit page presents it.

    Attributes:
        key: the model's key.
        title: its name.
        summary: one line on when to use it.
        paper: where it comes from.
        supports: what it can do, in a few words each.
        needs_labels: whether it cannot be fitted without labels.
        several_labels: whether it learns from several label columns at once.
        missing_labels: whether some labels may be missing.
        missing_cells: whether cells may be missing.
        has_bound: whether there is a curve to watch.
        tells_steps: whether its fit reports its steps while it runs.
        parameters: metadata of its settings.
        model: its class.
    """

    key: str
    title: str
    summary: str
    paper: str
    supports: tuple[str, ...]
    needs_labels: bool
    several_labels: bool
    missing_labels: bool
    missing_cells: bool
    has_bound: bool
    tells_steps: bool
    parameters: tuple[Parameter, ...]
    model: type[LatentVariableModel]

    def suggest(self, shape: Shape) -> dict[str, Any]:
        """Settings that suit the table, where they differ from the defaults."""
        rows = shape.rows + (shape.incomplete if self.missing_cells else 0)
        most = max(self.classes(shape))
        return self.model.suggest(n_rows=rows, n_columns=shape.columns, n_classes=most)

    def classes(self, shape: Shape) -> tuple[int, ...]:
        """Classes of each label column that the model would learn from."""
        return (shape.classes, *(shape.further if self.several_labels else ()))


def card_of(model: type[LatentVariableModel]) -> ModelCard:
    """The card of a model, made from what it declares."""
    can = model.capabilities
    supports = {
        "learns from labels": can.labels != "none",
        "several labels": can.several_labels,
        "labels may be missing": can.missing_labels,
        "missing cells": can.missing_cells,
        "places new rows": can.new_rows,
        "decodes any point": can.decoding,
        "uncertainty": can.uncertainty,
        "draws new rows": can.sampling,
    }
    return ModelCard(
        key=model.key,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        supports=tuple(words for words, supported in supports.items() if supported),
        needs_labels=can.labels == "required",
        several_labels=can.several_labels,
        missing_labels=can.missing_labels,
        missing_cells=can.missing_cells,
        has_bound=can.bound,
        tells_steps=can.steps,
        parameters=model.parameters(),
        model=model,
    )


def refusal(card: ModelCard, shape: Shape) -> str | None:
    """Why a model cannot be fitted to a table, and what to do; None where it can."""
    if card.needs_labels and shape.classes == 0:
        return "Needs labels. Choose a label column on the Data page."
    if card.needs_labels and shape.classes == 1:
        return "Needs at least two classes, and the label column has one."
    if card.needs_labels and 1 in card.classes(shape):
        return "Needs at least two classes in each label column, and one of the further has one."
    if not card.missing_cells and shape.rows < 2:
        return (
            "Needs at least two rows with every cell filled in. Leave out the columns that lack "
            "most cells on the Data page."
        )
    return None


def recommend(cards: Sequence[ModelCard], shape: Shape) -> tuple[str, str]:
    """The model to try first on a table, and the reason.

    Args:
        cards: of all models, in the order of menus.
        shape: of the table.

    Returns:
        The model's key, and one sentence.
    """
    usable: Mapping[str, ModelCard] = {c.key: c for c in cards if refusal(c, shape) is None}
    rows = shape.rows + shape.incomplete  # those that are recommended take missing cells
    few = (
        f"the table is small ({count(rows, 'row')}, {count(shape.columns, 'column')}), and "
        "a linear map is all it can carry"
    )
    wishes = [
        ("ppca", few, rows < FEW_ROWS or shape.columns < FEW_COLUMNS),
        ("ldgd", f"the label has {shape.classes} classes to learn from", shape.classes >= 2),
        ("bayesian_gplvm", "there is no label, and it finds curved structure", shape.classes < 2),
    ]
    for key, reason, suits in wishes:
        if suits and key in usable:
            return key, f"Recommended here: {reason}."
    first = next(iter(usable), cards[0].key)
    return first, "Recommended here: it is the first that can be fitted to this table."
