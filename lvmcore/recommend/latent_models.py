"""Recommended latent variable model of a table, its settings, and reasons against a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from lvmcore.base.table_size import TableSize
from lvmcore.data.transforms import one_hot_columns
from lvmcore.parameters import Advised
from lvmcore.preprocessing.cell_types import Cells, cell_type

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import Capabilities, LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.parameters import Parameter

__all__ = [
    "DeclaredModel",
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

#: Tables with fewer rows or columns get a linear model.
FEW_ROWS = 20
FEW_COLUMNS = 3
#: The longest table for which LDGD is proposed; beyond it Fast LDGD, so that the proposed fit ends
#: within a minute. Measured on curved tables of 10 columns and 8 classes, one core, advised
#: settings: seconds of LDGD's fit 27 with 5,000 rows (converged), 157 with 20,000 (300 steps, not
#: converged; accuracy 0.853 and log loss 0.40 on other rows); of Fast LDGD's with 20,000 rows 32
#: (1430 steps, its bound still rising; 0.848 and 0.41).
WHOLE_TABLE_ROWS = 5000
#: Tables without labels and with missing cells get the stochastic GPLVM if they have more rows and
#: columns than these, or very many rows. Measured with 5 % of the cells missing, one core, against
#: the Bayesian GPLVM: seconds, and root mean square error of missing cells of other rows in sd.
#: 40,000 rows of 50 columns: 21 and 0.318, against 59 and 0.343 (25 inducing inputs instead of 50).
#: With 10 columns the encoder places rows less well: smooth, 50,000 rows, 14 and 0.44, against 94
#: and 0.38; curved, 20,000 rows, 13 and 0.69, against 255 and 0.52.
WHOLE_INCOMPLETE_ROWS, WHOLE_INCOMPLETE_COLUMNS = 20_000, 30
MOST_WHOLE_INCOMPLETE_ROWS = 200_000
#: The longest table with categories for which likelihoods by column are advised. Measured on five
#: mixed tables of up to 2000 rows (``lvmcore bench mixed``).
MOST_ROWS_BY_COLUMN = 2000

#: Reasons for which a model cannot be fitted to a table.
Obstacle = Literal[
    "on disk",
    "no label",
    "one class",
    "one class further",
    "few whole rows",
    "below 0",
    "no counts",
]


class DeclaredModel(Protocol):
    """What a proposal needs of a model: its class, or its declaration."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model."""

    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the model."""


@dataclass(frozen=True)
class TableSummary:
    """Properties of a dataset for the choice of a model, held-out rows excluded.

    Attributes:
        rows: number of complete rows.
        columns: number of features.
        classes: number of different labels; 0 without a label column.
        unlabelled: number of rows without a label; 0 without a label column.
        incomplete: number of rows with missing cells.
        further: number of different labels in each further label column.
        cells: the narrowest type that all cells have.
        image: whether rows are images, whose integers are not counts.
        categories: number of columns of categories among the features, each one-hot.
        on_disk: whether the rows stay in files; their numbers are then estimated by a sample.
    """

    rows: int
    columns: int
    classes: int
    unlabelled: int
    incomplete: int
    further: tuple[int, ...] = ()
    cells: Cells = "any"
    image: bool = False
    categories: int = 0
    on_disk: bool = False

    @property
    def likelihood_cells(self) -> Cells:
        """Type of the cells for the choice of a likelihood."""
        return "any" if self.image else self.cells

    @property
    def all_rows(self) -> int:
        """Number of rows, complete or not."""
        return self.rows + self.incomplete

    def rows_for(self, can: Capabilities) -> int:
        """Number of rows that a model with these capabilities can use."""
        return self.all_rows if can.missing_cells else self.rows

    def is_incomplete_for(self, can: Capabilities) -> bool:
        """Whether cells are missing in the rows that a model with these capabilities uses."""
        return can.missing_cells and self.incomplete > 0

    def classes_for(self, can: Capabilities) -> tuple[int, ...]:
        """Number of classes of each label column that a model with these capabilities uses."""
        return (self.classes, *(self.further if can.several_labels else ()))

    def size_for(self, can: Capabilities) -> TableSize:
        """The size of the rows and labels that a model with these capabilities uses."""
        return TableSize(
            n_rows=self.rows_for(can),
            n_columns=self.columns,
            n_classes=max(self.classes_for(can)),
            cells=self.likelihood_cells,
            incomplete=self.is_incomplete_for(can),
        )


@dataclass(frozen=True)
class Proposal:
    """The model to try first on a table.

    Attributes:
        key: the model's key.
        reason: of the proposal, as a clause without a full stop.
    """

    key: str
    reason: str


def summarise(dataset: Dataset) -> TableSummary:
    """Summarise a dataset for the choice of a model."""
    fitted = dataset.subset(~dataset.held_out) if dataset.held_out.any() else dataset
    complete = int((~np.isnan(fitted.X)).all(axis=1).sum())
    labels = [] if fitted.labels is None else fitted.labels.tolist()
    further = list(fitted.label_columns)[1:]
    n, scale = len(fitted), 1.0
    if fitted.files is not None and fitted.files.n_rows is not None:
        n = fitted.files.n_rows
        scale = n / len(fitted)
        complete = round(scale * complete)
    return TableSummary(
        rows=complete,
        columns=fitted.X.shape[1],
        classes=len(fitted.classes),
        unlabelled=round(scale * labels.count(None)),
        incomplete=n - complete,
        further=tuple(len(fitted.label_classes(name)) for name in further),
        cells=cell_type(fitted.X),
        image=fitted.image_shape is not None,
        categories=len(one_hot_columns(fitted)),
        on_disk=fitted.files is not None,
    )


def suggested_settings(model: type[LatentVariableModel], shape: TableSummary) -> dict[str, Any]:
    """Settings of a model that suit a table, where they differ from the defaults."""
    return {name: advised.value for name, advised in _advice(model, shape).items()}


def advised_settings(model: type[LatentVariableModel], shape: TableSummary) -> dict[str, Advised]:
    """Those of ``suggested_settings`` that are not the usual ones, each with the reason for it."""
    found = _advice(model, shape)
    usual = {parameter.name: parameter.default for parameter in model.parameters()}
    return {name: one for name, one in found.items() if one.reason and one.value != usual[name]}


def _advice(model: type[LatentVariableModel], shape: TableSummary) -> dict[str, Advised]:
    """The settings that a model advises, and likelihoods by column for a table with categories.

    These predict hidden levels with a log probability that is .2 to .7 nats a cell higher than
    Gaussians of one-hot columns, and are slower: up to ``MOST_ROWS_BY_COLUMN`` rows.
    """
    found = model.advise(shape.size_for(model.capabilities))
    takes = any(parameter.name == "column_likelihood" for parameter in model.parameters())
    if takes and shape.categories and shape.all_rows <= MOST_ROWS_BY_COLUMN:
        reason = "categories then have probabilities, and counts are counts"
        found = {**found, "column_likelihood": Advised("by column", reason)}
    return found


def obstacle(can: Capabilities, shape: TableSummary) -> Obstacle | None:
    """The reason why a model cannot be fitted to a table; None if it can."""
    if shape.on_disk and not can.streams:
        return "on disk"
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


def propose(models: Mapping[str, DeclaredModel], shape: TableSummary) -> Proposal:
    """The model to try first on a table, and the reason.

    A linear model for small tables; LDGD for tables with labels, or Fast LDGD (the same model with
    mini-batches) for tables so long that it is faster, unless it cannot use some of their rows or
    labels; else the Bayesian GPLVM, or the stochastic one for long and wide, or very long, tables
    with missing cells.

    Args:
        models: available models by key, in the order of menus.
        shape: summary of the table.
    """
    n, columns, classes = shape.all_rows, shape.columns, shape.classes
    if shape.on_disk:
        key = "stochastic_gplvm" if shape.classes < 2 else "fast_ldgd"
        return Proposal(key, "the rows stay on disk, and it reads them by mini-batches")
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
        why = f"learning from {_batch_rows(models)} of {n:,} rows at a time is faster than from all"
        return Proposal("fast_ldgd", f"the label has {classes} classes, and {why}")
    if "ldgd" in usable:
        return Proposal("ldgd", f"the label has {classes} classes to learn from")
    if "stochastic_gplvm" in usable and _has_many_gaps(shape):
        size = _batch_rows(models, "stochastic_gplvm")
        why = f"with missing cells learning from {size} of {n:,} rows at a time is faster"
        return Proposal("stochastic_gplvm", f"{_label_reason(shape)}, and {why} than from all")
    if "bayesian_gplvm" in usable:
        return Proposal("bayesian_gplvm", f"{_label_reason(shape)}, and it finds curved structure")
    first = next(iter(usable or models))
    return Proposal(first, "it is the first that can be fitted to this table")


def route(
    models: Mapping[str, DeclaredModel],
    key: str,
    shape: TableSummary,
    batch: int | None,
) -> str | None:
    """Rows in a step of LDGD or Fast LDGD, and the other of the two where it is faster.

    Args:
        models: available models by key.
        key: of the selected model.
        shape: summary of the table.
        batch: the setting ``batch_size``; None for a model without it.

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
        return (
            f"{every}. Fast LDGD learns from {_batch_rows(models)} at a time, and is faster here."
        )
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


def _has_many_gaps(shape: TableSummary) -> bool:
    """Whether a long and wide, or very long, table has missing cells, so that steps are slow."""
    n, wide = shape.all_rows, shape.columns > WHOLE_INCOMPLETE_COLUMNS
    long = n > (WHOLE_INCOMPLETE_ROWS if wide else MOST_WHOLE_INCOMPLETE_ROWS)
    return long and shape.incomplete > 0


def _batches_are_faster(models: Mapping[str, DeclaredModel], shape: TableSummary) -> bool:
    """Whether Fast LDGD is available, can use all rows and labels, and is faster than LDGD."""
    if "fast_ldgd" not in models or not _is_long(shape):
        return False
    can = models["fast_ldgd"].capabilities
    every_row = shape.rows_for(can) == shape.all_rows
    every_label = len(shape.classes_for(can)) == 1 + len(shape.further)
    gaps = shape.unlabelled > 0 and not can.missing_labels
    return every_row and every_label and not gaps and obstacle(can, shape) is None


def _batch_rows(models: Mapping[str, DeclaredModel], key: str = "fast_ldgd") -> int:
    """Default batch size of a model, in rows."""
    (size,) = [p for p in models[key].parameters() if p.name == "batch_size"]
    return int(size.default)


def _label_reason(shape: TableSummary) -> str:
    """The reason why no model with labels is proposed, as a clause."""
    if shape.classes == 0:
        return "there is no label"
    if shape.classes == 1:
        return "the label has one class only"
    return "one of the further labels has one class only"
