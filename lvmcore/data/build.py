"""From a table to a dataset: which columns become numbers, which rows stay, and why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.columns import Column, ColumnType
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.propose import propose_image_shape
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["build_dataset"]

_DEFAULT = {ColumnType.NUMERIC, ColumnType.COUNT, ColumnType.BINARY}
_REASONS = {
    ColumnType.CATEGORY: "it is a category; it can be the label or a colour",
    ColumnType.DATE: "it is a date",
    ColumnType.IDENTIFIER: "it names rows",
    ColumnType.TEXT: "it is text",
}
_YES = {"yes", "y", "true", "t", "positive", "pos", "present", "on", "1", "case"}
_MANY_CLASSES = 50


def build_dataset(
    table: "Table",
    *,
    features: Sequence[str] | None,
    label: str | None,
    row_id: str | None,
    name: str | None,
) -> Dataset:
    """Make a dataset of a table; see `Table.dataset`."""
    _check_columns(table, features, label, row_id)
    notes: list[str] = []
    chosen = _chosen(table, features, {label, row_id}, notes)
    matrix = np.column_stack([_numbers(table, column, notes) for column in chosen])
    names = tuple(column.name for column in chosen)
    keep = _rows_to_keep(table, matrix, names, notes)
    frame = table.frame.iloc[keep].reset_index(drop=True)
    labels = None
    if label is not None:
        labels = labels_as_text(frame[label])
        _note_labels(labels, label, notes)
    return Dataset(
        X=np.ascontiguousarray(matrix[keep]),
        feature_names=names,
        row_ids=_row_ids(frame, row_id, keep),
        rows=keep,
        frame=frame,
        name=name if name is not None else table.name,
        labels=labels,
        label_name=label,
        notes=tuple(notes),
        image_shape=propose_image_shape(names),
    )


def _check_columns(
    table: "Table", features: Sequence[str] | None, label: str | None, row_id: str | None
) -> None:
    known = {column.name for column in table.columns}
    if isinstance(features, str):
        raise DataError(f"features={features!r} is one text. Expected a list of column names.")
    for name in [*(features or ()), label, row_id]:
        if name is not None and name not in known:
            shown = ", ".join(repr(column.name) for column in table.columns[:10])
            more = ", ..." if len(known) > 10 else ""
            raise DataError(f"There is no column {name!r} in {table.name!r}. It has {shown}{more}.")
    for role, name in (("label", label), ("row id", row_id)):
        if name is not None and name in (features or ()):
            raise DataError(
                f"Column {name!r} is asked for as a feature and as the {role}. Choose one of them."
            )


def _chosen(
    table: "Table", features: Sequence[str] | None, others: set[str | None], notes: list[str]
) -> list[Column]:
    """The columns to use, without those that are missing throughout."""
    if features is not None:
        wanted = [table.column(feature) for feature in features]
    else:
        candidates = [column for column in table.columns if column.name not in others]
        wanted = [column for column in candidates if column.type in _DEFAULT]
        notes += [
            f"Column {column.name!r} left out: {_REASONS[column.type]}."
            for column in candidates
            if column.type not in _DEFAULT
        ]
    rows = len(table.frame)
    for column in wanted:
        if column.missing == rows:
            notes.append(f"Column {column.name!r} left out: every cell is missing.")
    chosen = [column for column in wanted if column.missing < rows]
    if not chosen:
        raise DataError(
            f"No column of {table.name!r} is left to fit a model to. Expected at least one column "
            "of numbers as a feature. Check the column types, the delimiter and the decimal mark."
        )
    return chosen


def _numbers(table: "Table", column: Column, notes: list[str]) -> NDArray[np.float64]:
    """A column as float64 with NaN for missing cells."""
    values = table.frame[column.name]
    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
        if column.unparsed:
            cells = "1 cell is" if column.unparsed == 1 else f"{column.unparsed} cells are"
            notes.append(f"Column {column.name!r}: {cells} text and missing here.")
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.type is ColumnType.BINARY:
        zero, one = _code(values)
        notes.append(f"Column {column.name!r} is coded 0 = {zero!r}, 1 = {one!r}.")
        coded = np.where(values == one, 1.0, 0.0)
        coded[values.isna().to_numpy()] = np.nan
        return coded
    raise _no_numbers(column, values)


def _code(values: pd.Series) -> tuple[str, str]:
    """The two values of a binary column, the one to be coded 0 first."""
    first, second = sorted(map(str, pd.unique(values.dropna())))
    if first.lower() in _YES and second.lower() not in _YES:
        return second, first
    return first, second


def _no_numbers(column: Column, values: pd.Series) -> DataError:
    known = values.dropna()
    numbers = pd.to_numeric(known, errors="coerce") if column.type is not ColumnType.DATE else None
    bad = known if numbers is None or numbers.notna().all() else known[numbers.isna()]
    where = f"row {int(bad.index[0]) + 1} has {str(bad.iloc[0])!r}"
    if column.type is ColumnType.CATEGORY:
        advice = "A category cannot be used as numbers here. Use it as the label or as a colour"
    elif column.type is ColumnType.DATE:
        advice = "Dates cannot be used as numbers here. Leave the column out"
    else:
        advice = "Leave the column out, or correct these cells in the file"
    return DataError(
        f"Column {column.name!r} cannot be a feature: {where}, which is not a number. {advice}."
    )


def _rows_to_keep(
    table: "Table", matrix: NDArray[np.float64], names: Sequence[str], notes: list[str]
) -> NDArray[np.intp]:
    keep = np.ones(len(matrix), dtype=bool)
    if table.detected.second_header:
        keep[0] = False
        notes.append("Row 1 left out: it is a second header row.")
    infinite = np.isinf(matrix)
    for column in np.flatnonzero(infinite.any(axis=0)).tolist():
        rows = np.flatnonzero(infinite[:, column])
        count = "1 row" if rows.size == 1 else f"{rows.size:,} rows"
        notes.append(
            f"{count} left out: infinite value in column {names[column]!r} (first at row "
            f"{rows[0] + 1})."
        )
    keep &= ~infinite.any(axis=1)
    if not keep.any():
        raise DataError(
            f"No row of {table.name!r} is left: each one has an infinite value or is a header. "
            "Leave out the columns with infinite values."
        )
    return np.flatnonzero(keep)


def _note_labels(labels: NDArray[np.object_], name: str, notes: list[str]) -> None:
    known = [label for label in labels.tolist() if label is not None]
    if not known:
        raise DataError(f"Column {name!r} cannot be the label: every cell is missing.")
    if len(known) < len(labels):
        absent = len(labels) - len(known)
        notes.append(
            "1 row has no label; it is kept."
            if absent == 1
            else f"{absent:,} rows have no label; they are kept."
        )
    classes = len(set(known))
    if classes > _MANY_CLASSES:
        notes.append(
            f"The label {name!r} has {classes:,} classes. If it is a measured quantity, use it as "
            "a feature or a colour instead."
        )


def _row_ids(frame: pd.DataFrame, row_id: str | None, keep: NDArray[np.intp]) -> NDArray[np.str_]:
    if row_id is None:
        return np.array([str(row + 1) for row in keep.tolist()], dtype=np.str_)
    ids = labels_as_text(frame[row_id]).tolist()
    first: dict[str, int] = {}
    for row, value in zip(keep.tolist(), ids, strict=True):
        if value is None:
            raise DataError(
                f"Column {row_id!r} cannot name the rows: the cell in row {row + 1} is missing. "
                "Choose another column, or let the rows be numbered."
            )
        if value in first:
            raise DataError(
                f"Column {row_id!r} cannot name the rows: {value!r} stands in row "
                f"{first[value] + 1} and in row {row + 1}. Choose another column, or let the rows "
                "be numbered."
            )
        first[value] = row
    return np.array(ids, dtype=np.str_)
