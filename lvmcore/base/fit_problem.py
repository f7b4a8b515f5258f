"""The input of a model's fit: validated and standardised rows, labels and random generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.estimator import Estimator, choose_device, choose_settings
from lvmcore.base.table_size import TableSize
from lvmcore.base.validation import check_labels, fit_fingerprint, random_seed
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.memory_mapped_rows import MemoryMappedRows
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows, TableRows
from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint

__all__ = ["FitProblem", "fit_generator", "prepare_fit"]

# Share of missing cells above which a fit has a note on how few cells its rows have.
MOST_MISSING = 0.8


@dataclass(frozen=True)
class FitProblem:
    """Input of a model's ``_fit``: validated, standardised and on the device.

    Attributes:
        table: standardised data without its constant columns, [N, D].
        labels: the label columns, codes [N] each; several only for models that accept several,
            none for models without labels.
        n_components: Q.
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        checkpoint: checkpoint to continue from and to write; None for none.
        mixed: whether large products are in single precision, and the rest in double.
    """

    table: TableRows
    labels: tuple[ClassLabels, ...]
    n_components: int
    generator: torch.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None = None
    mixed: bool = False

    @property
    def Y(self) -> Tensor:
        """All rows, [N, D]; 0 (the mean) where a cell is missing."""
        return self.table.take(slice(None))[0]

    @property
    def observed(self) -> Tensor | None:
        """True where a cell of Y is observed, [N, D]; None where every one is."""
        return None if self.table.complete else self.table.take(slice(None))[1]


def prepare_fit(
    model: Estimator,
    X: ArrayLike,
    y: Any,
    decide_components: Callable[[tuple[int, ...]], int],
    callback: Callback | None,
    checkpoint: Checkpoint | None,
) -> FitProblem:
    """Validate the rows and labels of a fit, and compute the moments of the columns.

    Args:
        model: the estimator, which stores the columns, the labels and the notes.
        X: rows in the data's units, [N, D].
        y: labels of the rows, one or several columns; ignored by models without labels.
        decide_components: returns Q for the shape of the table.
        callback: called at every step; True stops the fit.
        checkpoint: checkpoint to continue from and to write; None for none.

    Raises:
        ConfigError: a setting does not suit the size of the table.
        DataError: the rows or labels cannot be used.
        UnsupportedError: several label columns for a model of a single one.
    """
    data = model._check_rows(X, reset=True)
    labels = check_labels(y, len(data), model.capabilities, type(model).__name__)
    choose_device(model, data.shape)
    model._begin(data)
    if labels:
        model._set_labels(labels)
    stays = model.capabilities.streams and isinstance(X, np.memmap)
    like = model._to_tensor(np.zeros((0, 1)))
    table = table_of_rows(data, model._standardiser, like, model._note, on_disk=stays)
    choose_settings(
        model,
        TableSize(
            n_rows=len(data),
            n_columns=data.shape[1],
            n_classes=max((len(column.classes) for column in labels), default=0),
            incomplete=not table.complete,
        ),
    )
    generator = fit_generator(model, data, labels, checkpoint=checkpoint)
    return FitProblem(
        table=table,
        labels=labels,
        n_components=decide_components(data.shape),
        generator=generator,
        callback=callback,
        checkpoint=checkpoint,
        mixed=model.dtype == "mixed",
    )


def fit_generator(
    model: Estimator,
    data: NDArray[Any],
    labels: tuple[ClassLabels, ...] = (),
    target: NDArray[Any] | None = None,
    *,
    checkpoint: Checkpoint | None,
) -> torch.Generator:
    """The only source of randomness of a fit, registered with its checkpoint.

    Args:
        model: the estimator.
        data: rows in the data's units, [N, D].
        labels: the label columns.
        target: the target of a predictor, [N].
        checkpoint: checkpoint to continue from and to write; None for none.
    """
    generator = torch.Generator().manual_seed(random_seed(model.random_state))
    if checkpoint is not None:
        course = fit_fingerprint(model, data, labels, target)
        checkpoint.attach(course, getattr(model, "max_iter", None), generator)
    return generator


def table_of_rows(
    data: NDArray[Any],
    standardiser: Standardiser,
    like: Tensor,
    note: Callable[[str], None],
    *,
    on_disk: bool,
) -> TableRows:
    """Standardised rows of a fit: in memory, or read on demand if they may stay on disk.

    Args:
        data: rows in the data's units, [N, D].
        standardiser: standardiser of the fit.
        like: dtype and device.
        note: called with notes on missing cells.
        on_disk: whether they may stay on disk.
    """
    complete = _is_complete(data, standardiser, note)
    if on_disk:
        return MemoryMappedRows(data, standardiser, like, complete=complete)
    Y = standardiser.transform(data)
    rows = np.ascontiguousarray(Y if complete else np.nan_to_num(Y, nan=0.0))
    observed = None if complete else torch.as_tensor(~np.isnan(Y)).to(like.device)
    return InMemoryRows(torch.as_tensor(rows).to(like), observed)


def _is_complete(
    data: NDArray[Any], standardiser: Standardiser, note: Callable[[str], None]
) -> bool:
    """Whether no cell of the columns that vary is missing; adds notes on missing ones."""
    keep = ~standardiser.constant
    width = int(keep.sum())
    counts = np.concatenate([(~np.isnan(rows[:, keep])).sum(axis=1) for rows in row_blocks(data)])
    size = width * len(counts)
    gaps = size - int(counts.sum())
    if not gaps:
        return True
    incomplete = int((counts < width).sum())
    note(
        f"{gaps:,} of the {size:,} cells {'is' if gaps == 1 else 'are'} missing, in "
        f"{incomplete:,} of {len(counts):,} rows: the fit goes by the others."
    )
    empty = int((counts == 0).sum())
    if empty:
        rows = "1 row has no" if empty == 1 else f"{empty:,} rows have no"
        note(f"{rows} cell to go by: the prior is their position.")
    share = gaps / size
    if share >= MOST_MISSING:
        few = float(np.median(counts))
        note(
            f"{share:.0%} of the cells are missing: half of the rows have at most {few:g} "
            f"cells of {width} to go by, so take the map with care."
        )
    return False
