"""Conversion of a table to a dataset: features, valid rows, labels, and notes on the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.date_scales import DateScale, is_dates
from lvmcore.data.held_out_rows import hold_out_rows, keep_every_class, label_strata
from lvmcore.data.number_questions import question_notes
from lvmcore.data.row_numbers import RowNames, RowNumbers
from lvmcore.data.transforms import (
    check_likelihood,
    check_log1p,
    check_one_hot,
    one_hot_features,
)
from lvmcore.errors import DataError
from lvmcore.likelihoods.catalogue import column_likelihood, read_column_likelihood
from lvmcore.preprocessing.picture_shape import propose_image_shape

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = [
    "ColumnRoles",
    "binary_levels",
    "build_dataset",
    "exclusion_reason",
    "numeric_values",
    "row_ids",
    "valid_rows",
]

_EXCLUSION_REASONS = {
    ColumnType.CATEGORY: "it is a category; it can be one-hot features, the label or a colour",
    ColumnType.DATE: "it is a date; it can be a feature",
    ColumnType.IDENTIFIER: "it identifies rows",
    ColumnType.TEXT: "it is text",
}
_POSITIVE_WORDS = {"yes", "y", "true", "t", "positive", "pos", "present", "on", "1", "case"}
_MANY_CLASSES = 50


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of a table's columns, and the rows held out; the arguments of `Table.dataset`."""

    features: Sequence[str] | None = None
    label: str | Sequence[str] | None = None
    row_id: str | None = None
    log1p: Sequence[str] = ()
    one_hot: Sequence[str] = ()
    likelihoods: Mapping[str, str] = field(default_factory=dict)
    hold_out: float = 0.0
    hold_out_seed: int = 0

    def level_order(self, column: str) -> tuple[str, ...]:
        """The order of the levels of a column that was set, from the lowest; () without one."""
        return read_column_likelihood(self.likelihoods.get(column, ""))[1]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the label columns, each once."""
        if self.label is None or isinstance(self.label, str):
            return () if self.label is None else (self.label,)
        return tuple(dict.fromkeys(self.label))


def exclusion_reason(column: ColumnDescription) -> str | None:
    """Why a column is not a feature by default; None for a feature."""
    annotation = "it is an annotation of the row, not a measurement"
    if column.type is ColumnType.DATE and "kept as text" in column.reason:
        return "its dates or times are kept as text"
    return _EXCLUSION_REASONS.get(column.type, annotation if column.is_annotation else None)


def build_dataset(table: "Table", choice: ColumnRoles, *, name: str | None) -> Dataset:
    """Make a dataset of a table; see `Table.dataset`."""
    _check_columns(table, choice)
    notes: list[str] = []
    chosen = _select_columns(table, choice, notes)
    used = {*(column.name for column in chosen), *choice.labels}
    notes += question_notes([asked for asked in table.questions if asked.column in used])
    scales = _date_scales(table, chosen, notes)
    names, matrix, log1p = _feature_matrix(table, chosen, choice, scales, notes)
    keep = valid_rows(table, matrix, names, notes)
    frame = table.frame.iloc[keep].reset_index(drop=True)
    columns = {name: labels_as_text(frame[name]) for name in choice.labels}
    for label, column in columns.items():
        _note_labels(column, label, notes, several=len(columns) > 1)
    labels = list(columns.values())
    strata = label_strata(labels, choice.hold_out)
    drawn = hold_out_rows(len(keep), strata, choice.hold_out, choice.hold_out_seed)
    held_out = keep_every_class(drawn, labels)
    _note_held_out(held_out, choice, notes)
    X = np.ascontiguousarray(matrix[keep])
    X[:, log1p] = np.log1p(X[:, log1p])
    positions = keep if table.files is None else table.files.positions(keep)
    return Dataset(
        X=X,
        feature_names=names,
        row_ids=row_ids(frame, choice.row_id, positions),
        rows=positions,
        frame=frame,
        name=name if name is not None else table.name,
        labels=columns[choice.labels[0]] if columns else None,
        label_name=choice.labels[0] if columns else None,
        more_labels={name: columns[name] for name in choice.labels[1:]},
        notes=tuple(notes),
        image_shape=propose_image_shape(names),
        log1p=log1p,
        held_out=held_out,
        column_decimals={asked.column: asked.taken for asked in table.questions},
        likelihoods={
            name: column_likelihood(kind)
            for name, kind in choice.likelihoods.items()
            if name in used
        },
        date_scales=scales,
        texts=None if table.texts is None else table.texts.take(keep),
        files=table.files,
    )


def _check_columns(table: "Table", choice: ColumnRoles) -> None:
    if table.files is not None and choice.hold_out:
        raise DataError(
            f"No rows of {table.name!r} can be held out: its files stay in place, and only a "
            "sample of their rows is read here. Keep a file of other rows for the comparison."
        )
    known = {column.name for column in table.columns}
    lists = {"features": choice.features, "log1p": choice.log1p, "one_hot": choice.one_hot}
    for what, given in lists.items():
        if isinstance(given, str):
            raise DataError(f"{what}={given!r} is a string. Expected a list of column names.")
    features = [*(choice.features or ()), *choice.one_hot]
    others = [*choice.labels, choice.row_id]
    for name in [*features, *choice.log1p, *choice.likelihoods, *others]:
        if name is not None and name not in known:
            shown = ", ".join(repr(column.name) for column in table.columns[:10])
            more = ", ..." if len(known) > 10 else ""
            raise DataError(f"There is no column {name!r} in {table.name!r}. It has {shown}{more}.")
    roles = [*(("label", name) for name in choice.labels), ("row id", choice.row_id)]
    for role, name in roles:
        if name is not None and name in features:
            raise DataError(
                f"Column {name!r} is both a feature and the {role}. Choose one of them."
            )
    for name in choice.one_hot:
        check_one_hot(table, name)
    for name in choice.log1p:
        check_log1p(table, name)
    for name, kind in choice.likelihoods.items():
        check_likelihood(table, name, kind)


def _select_columns(
    table: "Table", choice: ColumnRoles, notes: list[str]
) -> list[ColumnDescription]:
    """The feature columns, without those whose cells are all missing."""
    if choice.features is not None:
        more = [name for name in choice.one_hot if name not in choice.features]
        wanted = [table.column(feature) for feature in [*choice.features, *more]]
    else:
        others = {*choice.labels, choice.row_id}
        candidates = [column for column in table.columns if column.name not in others]
        excluded = [
            column
            for column in candidates
            if exclusion_reason(column) is not None and column.name not in choice.one_hot
        ]
        excluded_names = {column.name for column in excluded}
        wanted = [column for column in candidates if column.name not in excluded_names]
        notes += [
            f"Column {column.name!r} left out: {exclusion_reason(column)}." for column in excluded
        ]
    names = {column.name for column in wanted}
    for name in choice.log1p:
        if name not in names:
            raise DataError(
                f"Column {name!r} is in log1p, but is not a feature. Add it to the features, or "
                "leave it out of log1p."
            )
    rows = len(table.frame)
    for column in wanted:
        if column.missing == rows:
            notes.append(f"Column {column.name!r} left out: every cell is missing.")
    chosen = [column for column in wanted if column.missing < rows]
    if not chosen:
        raise DataError(
            f"{table.name!r} has no feature column to fit a model to. Expected at least one column "
            "of numbers or dates. Check the column types, the delimiter and the decimal mark."
        )
    return chosen


def _date_scales(
    table: "Table", chosen: Sequence[ColumnDescription], notes: list[str]
) -> dict[str, DateScale]:
    """Unit and origin of each feature that is a column of dates; a note on each."""
    scales = {
        column.name: DateScale.of(table.frame[column.name])
        for column in chosen
        if column.type is ColumnType.DATE and is_dates(table.frame[column.name])
    }
    notes += [scale.note(name) for name, scale in scales.items()]
    return scales


def _feature_matrix(
    table: "Table",
    chosen: Sequence[ColumnDescription],
    choice: ColumnRoles,
    scales: Mapping[str, DateScale],
    notes: list[str],
) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_]]:
    """Names [D], values [N, D] before any transform, and the mask of log(1 + x) columns [D]."""
    names: list[str] = []
    parts: list[NDArray[np.float64]] = []
    log1p: list[bool] = []
    as_log1p, as_levels = set(choice.log1p), set(choice.one_hot)
    for column in chosen:
        if column.name in as_levels:
            levels, values, note = one_hot_features(
                column, table.frame[column.name], choice.level_order(column.name)
            )
            notes.append(note)
        elif column.name in scales:
            dates = scales[column.name].numbers(table.frame[column.name])
            levels, values = [column.name], dates[:, None]
        else:
            levels, values = [column.name], numeric_values(table, column, notes)[:, None]
        names += levels
        parts.append(values)
        log1p += [column.name in as_log1p] * len(levels)
    if any(log1p):
        logs = [repr(column.name) for column in chosen if column.name in as_log1p]
        more = f" and {len(logs) - 8} more" if len(logs) > 8 else ""
        notes.append(f"Transformed by log(1 + x): {', '.join(logs[:8])}{more}.")
    return tuple(names), np.column_stack(parts), np.array(log1p)


def numeric_values(
    table: "Table", column: ColumnDescription, notes: list[str]
) -> NDArray[np.float64]:
    """A column as float64 with NaN for missing cells."""
    values = table.frame[column.name]
    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
        if column.unparsed:
            cells = "1 cell is" if column.unparsed == 1 else f"{column.unparsed} cells are"
            notes.append(f"Column {column.name!r}: {cells} text and missing here.")
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.type is ColumnType.BINARY:
        zero, one = binary_levels(values)
        notes.append(f"Column {column.name!r} is coded 0 = {zero!r}, 1 = {one!r}.")
        coded = np.where(values == one, 1.0, 0.0)
        coded[values.isna().to_numpy()] = np.nan
        return coded
    raise _not_numeric_error(column, values)


def binary_levels(values: pd.Series) -> tuple[str, str]:
    """The two values of a binary column: the one coded 0, then the one coded 1."""
    first, second = sorted(map(str, pd.unique(values.dropna())))
    if first.lower() in _POSITIVE_WORDS and second.lower() not in _POSITIVE_WORDS:
        return second, first
    return first, second


def _not_numeric_error(column: ColumnDescription, values: pd.Series) -> DataError:
    known = values.dropna()
    numbers = pd.to_numeric(known, errors="coerce") if column.type is not ColumnType.DATE else None
    bad = known if numbers is None or numbers.notna().all() else known[numbers.isna()]
    where = f"row {int(bad.index[0]) + 1} has {str(bad.iloc[0])!r}"
    if column.type is ColumnType.CATEGORY:
        advice = (
            "A category is not a number. Use it as one-hot features, as the label or as a colour"
        )
    elif column.type is ColumnType.DATE:
        advice = (
            "Its dates are kept as text, as day and month are ambiguous or the day is missing. "
            "Write them like 2020-01-31, or leave the column out"
        )
    else:
        advice = "Leave the column out, or correct these cells in the file"
    return DataError(
        f"Column {column.name!r} cannot be a feature: {where}, which is not a number. {advice}."
    )


def valid_rows(
    table: "Table", matrix: NDArray[np.float64], names: Sequence[str], notes: list[str]
) -> NDArray[np.intp]:
    """Positions of the data rows with finite cells; a note for each reason to leave rows out."""
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


def _note_labels(
    labels: NDArray[np.object_], name: str, notes: list[str], *, several: bool
) -> None:
    known = [label for label in labels.tolist() if label is not None]
    if not known:
        raise DataError(f"Column {name!r} cannot be the label: every cell is missing.")
    if len(known) < len(labels):
        absent = len(labels) - len(known)
        lack = f"no label in {name!r}" if several else "no label"
        notes.append(
            f"1 row has {lack}; it is kept."
            if absent == 1
            else f"{absent:,} rows have {lack}; they are kept."
        )
    classes = len(set(known))
    if classes > _MANY_CLASSES:
        notes.append(
            f"The label {name!r} has {classes:,} classes. If it is a measured quantity, use it as "
            "a feature or a colour instead."
        )


def _note_held_out(held_out: NDArray[np.bool_], choice: ColumnRoles, notes: list[str]) -> None:
    count = int(held_out.sum())
    if count:
        rows = "1 row is" if count == 1 else f"{count:,} rows are"
        names = " and ".join(repr(name) for name in choice.labels)
        by_class = f", the same share of each {names}" if names else ""
        notes.append(
            f"{rows} held out of the fit, of {len(held_out):,}, drawn with seed "
            f"{choice.hold_out_seed}{by_class}."
        )


def row_ids(frame: pd.DataFrame, row_id: str | None, keep: NDArray[np.intp]) -> RowNames:
    """Unique names of the rows in ``frame``, which are at positions ``keep`` of the table."""
    if row_id is None:
        return RowNumbers(keep)
    ids = labels_as_text(frame[row_id]).tolist()
    first: dict[str, int] = {}
    for row, value in zip(keep.tolist(), ids, strict=True):
        if value is None:
            raise DataError(
                f"Column {row_id!r} cannot identify the rows: the cell in row {row + 1} is missing."
                " Choose another column, or let the rows be numbered."
            )
        if value in first:
            raise DataError(
                f"Column {row_id!r} cannot identify the rows: {value!r} occurs in row "
                f"{first[value] + 1} and in row {row + 1}. Choose another column, or let the rows "
                "be numbered."
            )
        first[value] = row
    return np.array(ids, dtype=np.str_)
