"""Another table as the matrix that a model was fitted to: same features, made the same way."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.build import numbers, row_ids, rows_to_keep
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.transforms import refuse_low_cells
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["column_of", "dataset_like"]

_LOG1P = re.compile(r"log\(1 \+ (.*)\)", re.DOTALL)
_LEVEL = " = "
_NAMED = 8


def dataset_like(table: "Table", names: Sequence[str], *, row_id: str | None = None) -> Dataset:
    """Make of a table the features that a model knows by name.

    A name is that of a column, or "log(1 + column)", or "column = level" for a feature that is 1
    where the column has that level: `Dataset.learned_names`, as a fitted model keeps them in
    ``feature_names_in_``. Columns may stand in any order, and others are not used.

    Args:
        table: The table.
        names: Names of the features, in the order wanted.
        row_id: Name of the column that names rows; by default they are numbered from 1.

    Returns:
        The dataset, without labels. Missing cells are NaN, also where a column is missing
        throughout; rows with an infinite value are left out, with a note.

    Raises:
        DataError: A column is not there, or its cells cannot be used.
    """
    known = set(table.frame.columns)
    found = {name: _source(name, known) for name in names}
    lacking = [name for name, source in found.items() if source is None]
    if lacking or (row_id is not None and row_id not in known):
        wanted = [*lacking, *([row_id] if row_id is not None and row_id not in known else [])]
        has = ", ".join(map(repr, table.frame.columns[:_NAMED]))
        raise DataError(
            f"{table.name!r} lacks {_listed(wanted)}. Expected the columns that the model was "
            f"fitted to, by the same names. It has {has}{', …' if len(known) > _NAMED else ''}."
        )
    notes: list[str] = []
    sources = [source for source in found.values() if source is not None]
    matrix = np.column_stack([_cells(table, source, notes) for source in sources])
    log1p = np.array([kind == "log1p" for kind, _, _ in sources])
    _note_levels(table, sources, notes)
    keep = rows_to_keep(table, matrix, names, notes)
    X = np.ascontiguousarray(matrix[keep])
    X[:, log1p] = np.log1p(X[:, log1p])
    frame = table.frame.iloc[keep].reset_index(drop=True)
    return Dataset(
        X=X,
        feature_names=tuple(
            column if kind == "log1p" else name
            for name, (kind, column, _) in zip(names, sources, strict=True)
        ),
        row_ids=row_ids(frame, row_id, keep),
        rows=keep,
        frame=frame,
        name=table.name,
        notes=tuple(notes),
        log1p=log1p,
    )


def column_of(table: "Table", name: str) -> str | None:
    """The column that a feature of this name is made of; None where it is not there."""
    if name in table.frame.columns:
        return name
    source = _source(name, set(table.frame.columns))
    return None if source is None else source[1]


#: What a feature is made of: "plain", "log1p" or "level"; the column; the level.
_Source = tuple[str, str, str]


def _source(name: str, known: set[str]) -> _Source | None:
    """What a feature of this name is made of; None where no such column is there."""
    if name in known:
        return "plain", name, ""
    logarithm = _LOG1P.fullmatch(name)
    if logarithm is not None and logarithm[1] in known:
        return "log1p", logarithm[1], ""
    for mark in re.finditer(re.escape(_LEVEL), name):
        if name[: mark.start()] in known:
            return "level", name[: mark.start()], name[mark.end() :]
    return None


def _cells(table: "Table", source: _Source, notes: list[str]) -> NDArray[np.float64]:
    """The cells of a feature before any logarithm, [N]."""
    kind, name, level = source
    values, column = table.frame[name], table.column(name)
    if column.missing == len(values):
        return np.full(len(values), np.nan)
    if kind == "level":
        cells = np.where(labels_as_text(values) == level, 1.0, 0.0)
        cells[values.isna().to_numpy()] = np.nan
        return cells
    cells = numbers(table, column, notes)
    if kind == "log1p":
        refuse_low_cells(table, name, cells)
    return cells


def _note_levels(table: "Table", sources: Sequence[_Source], notes: list[str]) -> None:
    """Say which levels the model does not know."""
    known: dict[str, set[str]] = {}
    for kind, name, level in sources:
        if kind == "level":
            known.setdefault(name, set()).add(level)
    for name, levels in known.items():
        cells = labels_as_text(pd.Series(table.frame[name].dropna().unique(), dtype=object))
        new = sorted(set(map(str, cells)) - levels)
        if new:
            notes.append(
                f"Column {name!r} has levels that the model does not know: {_listed(new)}. Rows "
                "with them have none of the levels that it knows."
            )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more
