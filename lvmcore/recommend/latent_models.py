"""Which model suits a table, and why: the star of the page and ``lvmcore fit --model auto``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lvmcore.preprocessing.cell_types import Cells, cell_type

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import Capabilities, LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.parameters import Advised

__all__ = [
    "Obstacle",
    "Proposal",
    "TableSummary",
    "advised_settings",
    "obstacle",
    "propose",
    "route",
    "suggested_settings",
    "summarise",
]

#: A table with fewer rows or columns carries no more than a linear map.
FEW_ROWS = 20
FEW_COLUMNS = 3
#: The longest table for which LDGD is proposed; beyond it Fast LDGD. Measured on curved tables of
#: 20 columns and 3 classes, one core, advised settings, in seconds until Fast LDGD passes the bound
#: that LDGD ends with, of those that LDGD takes: 5,000 rows never of 25, 10,000 rows 25 of 51,
#: 20,000 rows 41 of 104, 50,000 rows 17 of 64 (33 of 64 with four times the noise), 150,000 rows 3
#: of 64. The limit lies well above where they meet: the exact route is left where it is plainly
#: slower, not before.
WHOLE_TABLE_ROWS = 50_000

#: What stands between a model and a table.
Obstacle = Literal[
    "no label", "one class", "one class further", "few whole rows", "below 0", "no counts"
]


@dataclass(frozen=True)
class TableSummary:
    """What matters of a dataset for the choice of a model, of the rows that are not held out.

    Attributes:
        rows: with every cell filled in.
        columns: features.
        classes: different labels; 0 without a label column.
        unlabelled: rows without a label, where there is a label column.
        incomplete: rows that lack a cell.
        further: different labels in each of the further label columns.
        cells: the narrowest kind that all cells are of.
        image: a row is an image, whose whole numbers are no counts.
    """

    rows: int
    columns: int
    classes: int
    unlabelled: int
    incomplete: int
    further: tuple[int, ...] = ()
    cells: Cells = "any"
    image: bool = False

    @property
    def counted(self) -> Cells:
        """What the cells are, for a choice of likelihood."""
        return "any" if self.image else self.cells

    @property
    def all_rows(self) -> int:
        """Rows, whether they lack a cell or not."""
        return self.rows + self.incomplete

    def rows_for(self, can: Capabilities) -> int:
        """Rows that such a model can use."""
        return self.all_rows if can.missing_cells else self.rows

    def classes_for(self, can: Capabilities) -> tuple[int, ...]:
        """Classes of each label column that such a model would learn from."""
        return (self.classes, *(self.further if can.several_labels else ()))


@dataclass(frozen=True)
class Proposal:
    """The model to try first on a table.

    Attributes:
        key: the model's key.
        reason: why, as a clause without its full stop.
    """

    key: str
    reason: str


def summarise(dataset: Dataset) -> TableSummary:
    """What matters of a dataset for the choice of a model."""
    fitted = dataset.subset(~dataset.held_out) if dataset.held_out.any() else dataset
    complete = int((~np.isnan(fitted.X)).all(axis=1).sum())
    labels = [] if fitted.labels is None else fitted.labels.tolist()
    further = list(fitted.label_columns)[1:]
    return TableSummary(
        rows=complete,
        columns=fitted.X.shape[1],
        classes=len(fitted.classes),
        unlabelled=labels.count(None),
        incomplete=len(fitted) - complete,
        further=tuple(len(fitted.label_classes(name)) for name in further),
        cells=cell_type(fitted.X),
        image=fitted.image_shape is not None,
    )


def suggested_settings(model: type[LatentVariableModel], shape: TableSummary) -> dict[str, Any]:
    """Settings of a model that suit a table, where they differ from the defaults."""
    can = model.capabilities
    return model.suggest(
        n_rows=shape.rows_for(can),
        n_columns=shape.columns,
        n_classes=max(shape.classes_for(can)),
        cells=shape.counted,
    )


def advised_settings(model: type[LatentVariableModel], shape: TableSummary) -> dict[str, Advised]:
    """``suggested``, each setting that differs from its default with the reason for it."""
    can = model.capabilities
    found = model.advise(
        n_rows=shape.rows_for(can),
        n_columns=shape.columns,
        n_classes=max(shape.classes_for(can)),
        cells=shape.counted,
    )
    usual = {parameter.name: parameter.default for parameter in model.parameters()}
    return {name: one for name, one in found.items() if one.value != usual[name]}


def obstacle(can: Capabilities, shape: TableSummary) -> Obstacle | None:
    """What keeps a model with these capabilities from being fitted to a table; None: nothing."""
    if can.labels == "required":
        if shape.classes == 0:
            return "no label"
        if shape.classes == 1:
            return "one class"
        if 1 in shape.classes_for(can):
            return "one class further"
    if not can.missing_cells and shape.rows < 2:
        return "few whole rows"
    if can.cells != "any" and shape.cells == "any":
        return "below 0"
    if can.cells == "counts" and shape.cells not in ("counts", "binary"):
        return "no counts"
    return None


def propose(models: Mapping[str, type[LatentVariableModel]], shape: TableSummary) -> Proposal:
    """The model to try first on a table, and the reason.

    A small table gets a linear map, a table with labels one that learns from them. Of the two
    routes to the same model, LDGD is the default, and Fast LDGD takes its place in tables so long
    that it is faster, unless it would have to leave out some of their rows or labels.

    Args:
        models: to choose from by key, in the order of menus.
        shape: of the table.
    """
    n, columns, classes = shape.all_rows, shape.columns, shape.classes
    if (n < FEW_ROWS or columns < FEW_COLUMNS) and "ppca" in models:
        small = f"{n:,} {'row' if n == 1 else 'rows'}, {columns} "
        small += "column" if columns == 1 else "columns"
        return Proposal(
            "ppca", f"the table is small ({small}), and a linear map is all it can carry"
        )
    usable = {
        key: model for key, model in models.items() if obstacle(model.capabilities, shape) is None
    }
    if _batches_are_faster(models, shape):
        why = f"learning from {_batch(models)} of {n:,} rows at a time is faster than from all"
        return Proposal("fast_ldgd", f"the label has {classes} classes, and {why}")
    if "ldgd" in usable:
        return Proposal("ldgd", f"the label has {classes} classes to learn from")
    if "bayesian_gplvm" in usable:
        return Proposal("bayesian_gplvm", f"{_no_classes(shape)}, and it finds curved structure")
    first = next(iter(usable or models))
    return Proposal(first, "it is the first that can be fitted to this table")


def route(
    models: Mapping[str, type[LatentVariableModel]],
    key: str,
    shape: TableSummary,
    batch: int | None,
) -> str | None:
    """Which rows a step of LDGD or Fast LDGD uses, and what the other would do where it is faster.

    Args:
        models: to choose from by key.
        key: of the model that was chosen.
        shape: of the table.
        batch: the setting ``batch_size``; None for a model that has none.

    Returns:
        One or two sentences; None for any other model.
    """
    if key not in _ROUTES or not models.keys() >= _ROUTES:
        return None
    n = shape.rows_for(models[key].capabilities)
    long = _is_long(shape)
    if key == "ldgd":
        every = f"Each step uses all {n:,} rows"
        if not long:
            return f"{every}, the faster route in tables of up to about {WHOLE_TABLE_ROWS:,} rows."
        lost = n - shape.rows_for(models["fast_ldgd"].capabilities)
        if lost:
            return f"{every}. Fast LDGD would be faster, and leave out {lost:,} that lack a cell."
        return f"{every}. Fast LDGD learns from {_batch(models)} at a time, and is faster here."
    if batch is None or batch >= n:
        return f"All {n:,} rows fit into one batch, so that each step uses them all."
    some = f"Each step uses {batch:,} of {n:,} rows"
    if long:
        return f"{some}, which is faster here than steps over all of them."
    return (
        f"{some}. LDGD, whose steps use all of them, is faster in tables of up to about "
        f"{WHOLE_TABLE_ROWS:,} rows."
    )


_ROUTES = {"ldgd", "fast_ldgd"}


def _is_long(shape: TableSummary) -> bool:
    return shape.all_rows > WHOLE_TABLE_ROWS


def _batches_are_faster(
    models: Mapping[str, type[LatentVariableModel]], shape: TableSummary
) -> bool:
    """Whether Fast LDGD is at hand, takes the whole table, and that is so long that it pays."""
    if "fast_ldgd" not in models or not _is_long(shape):
        return False
    can = models["fast_ldgd"].capabilities
    every_row = shape.rows_for(can) == shape.all_rows
    every_label = len(shape.classes_for(can)) == 1 + len(shape.further)
    gaps = shape.unlabelled > 0 and not can.missing_labels
    return every_row and every_label and not gaps and obstacle(can, shape) is None


def _batch(models: Mapping[str, type[LatentVariableModel]]) -> int:
    """Rows a step of Fast LDGD, as it comes."""
    (size,) = [p for p in models["fast_ldgd"].parameters() if p.name == "batch_size"]
    return int(size.default)


def _no_classes(shape: TableSummary) -> str:
    """Why no model that learns from labels is proposed, as a clause."""
    if shape.classes == 0:
        return "there is no label"
    if shape.classes == 1:
        return "the label has one class only"
    return "one of the further labels has one class only"
