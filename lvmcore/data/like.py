"""Another table as the matrix that a model was fitted to: same features, made the same way."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.build import numbers, row_ids, rows_to_keep
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.matching import Matching, Source, match_columns, quoted
from lvmcore.data.transforms import refuse_low_cells
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["codes_of", "dataset_like"]

#: The words of a column that the model knows as 0 and as 1.
Code = tuple[str, str]


def dataset_like(
    table: "Table",
    names: Sequence[str],
    *,
    row_id: str | None = None,
    label: str | Mapping[str, str] | None = None,
    origin: Dataset | None = None,
    codes: Mapping[str, Code] | None = None,
    missing_cells: bool = False,
) -> Dataset:
    """Make of a table the features that a model knows by name.

    A name is that of a column, or "log(1 + column)", or "column = level" for a feature that is 1
    where the column has that level: `Dataset.learned_names`, as a fitted model keeps them in
    ``feature_names_in_``. Columns may stand in any order, under names that differ in case or
    spacing (`match_columns`), and others are not used.

    Args:
        table: The table.
        names: Names of the features, in the order wanted.
        row_id: Name of the column that names rows; by default they are numbered from 1.
        label: Name of the column of classes, or columns of several by the names that the dataset
            is to give them; by default there are no labels.
        origin: The dataset that the model was fitted to, where it is at hand: a column of two
            words is coded as it was there.
        codes: The same of its columns of two words alone (`codes_of`), where it is not at hand.
        missing_cells: Whether a column that is not there counts as missing in every row.

    Returns:
        The dataset. Missing cells are NaN, also where a column is missing throughout; rows with an
        infinite value are left out. Its notes say all this.

    Raises:
        DataError: A column is not there, or its cells cannot be used.
    """
    columns = label if isinstance(label, Mapping) else {} if label is None else {label: label}
    _check_roles(table, row_id, columns)
    matching = match_columns(
        table, names, origin=_columns_of(origin), others={row_id, *columns.values()} - {None}
    )
    if not missing_cells or not matching.columns:
        matching.refuse_missing(table.name)
    notes = list(matching.notes())
    if matching.missing:
        notes.append(matching.missing_note())
    known = dict(codes or {}) if origin is None else _codes(matching, names, origin)
    matrix = np.column_stack(
        [_cells(table, source, matching, known, notes) for source in matching.sources]
    )
    log1p = np.array([source.kind == "log1p" for source in matching.sources])
    _note_levels(table, matching, notes)
    keep = rows_to_keep(table, matrix, names, notes)
    X = np.ascontiguousarray(matrix[keep])
    X[:, log1p] = np.log1p(X[:, log1p])
    frame = table.frame.iloc[keep].reset_index(drop=True)
    labels = {name: labels_as_text(frame[column]) for name, column in columns.items()}
    return Dataset(
        X=X,
        feature_names=tuple(
            source.column if source.kind == "log1p" else name
            for name, source in zip(names, matching.sources, strict=True)
        ),
        row_ids=row_ids(frame, row_id, keep),
        rows=keep,
        frame=frame,
        name=table.name,
        labels=next(iter(labels.values()), None),
        label_name=next(iter(labels), None),
        more_labels=dict(list(labels.items())[1:]),
        notes=tuple(notes),
        log1p=log1p,
    )


def _columns_of(origin: Dataset | None) -> tuple[str, ...]:
    return () if origin is None else tuple(map(str, origin.frame.columns))


def _check_roles(table: "Table", row_id: str | None, labels: Mapping[str, str]) -> None:
    known = list(table.frame.columns)
    for role, name in (
        ("name the rows", row_id),
        *(("be the label", label) for label in labels.values()),
    ):
        if name is not None and name not in known:
            raise DataError(
                f"{table.name!r} lacks {name!r}, which is to {role}. It has {quoted(known)}."
            )


def codes_of(dataset: Dataset) -> dict[str, Code]:
    """The words that a dataset knows as 0 and 1, by column of two words among its features."""
    words = {}
    for d, name in enumerate(dataset.learned_names):
        if name in dataset.frame and not _of_numbers(dataset.frame[name]):
            words[name] = _code(dataset, d, name)
    return words


def _of_numbers(column: "pd.Series") -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _code(dataset: Dataset, d: int, column: str) -> Code:
    """The words of a column that are 0 and 1 in feature ``d``."""
    X, words = dataset.X[:, d], labels_as_text(dataset.frame[column])
    zero, one = (next(iter(words[code == X]), "") for code in (0.0, 1.0))
    return str(zero), str(one)


def _codes(matching: Matching, names: Sequence[str], origin: Dataset) -> dict[str, Code | None]:
    """How the dataset of the fit coded its columns of text; None for a column of numbers."""
    place = {name: d for d, name in enumerate(origin.learned_names)}
    found: dict[str, Code | None] = {}
    for name, source in zip(names, matching.sources, strict=True):
        if source.column not in origin.frame or source.kind == "level" or name not in place:
            continue
        numeric = _of_numbers(origin.frame[source.column])
        found[source.column] = None if numeric else _code(origin, place[name], source.column)
    return found


def _cells(
    table: "Table",
    source: Source,
    matching: Matching,
    codes: Mapping[str, Code | None],
    notes: list[str],
) -> NDArray[np.float64]:
    """The cells of a feature before any logarithm, [N]."""
    if source.column in matching.missing:
        return np.full(len(table.frame), np.nan)
    name = matching.columns[source.column]
    values, column = table.frame[name], table.column(name)
    if column.missing == len(values):
        return np.full(len(values), np.nan)
    if source.kind == "level":
        cells = np.where(labels_as_text(values) == source.level, 1.0, 0.0)
        cells[values.isna().to_numpy()] = np.nan
        return cells
    if source.column in codes:
        code = codes[source.column]
        if code is not None:
            return _coded(name, values, code, notes)
        _refuse_text(name, values)
    cells = numbers(table, column, notes)
    if source.kind == "log1p":
        refuse_low_cells(table, name, cells)
    return cells


def _coded(name: str, values: "pd.Series", code: Code, notes: list[str]) -> NDArray[np.float64]:
    """A column of two words, coded as in the fit."""
    words = labels_as_text(values)
    cells = np.where(words == code[1], 1.0, np.where(words == code[0], 0.0, np.nan))
    unknown = sorted({str(word) for word in words if word is not None} - set(code))
    notes.append(f"Column {name!r} is coded 0 = {code[0]!r}, 1 = {code[1]!r}, as in the fit.")
    if unknown:
        notes.append(
            f"Column {name!r} has values that the model does not know: {quoted(unknown)}. They "
            "count as missing."
        )
    return np.asarray(cells, dtype=np.float64)


def _refuse_text(name: str, values: "pd.Series") -> None:
    """Refuse text where the model was fitted to numbers."""
    if _of_numbers(values):
        return
    known = values.dropna()
    numeric = pd.to_numeric(known.astype(str), errors="coerce")
    bad = known[numeric.isna()]
    bad = bad if len(bad) else known
    raise DataError(
        f"Column {name!r} cannot be a feature: row {int(bad.index[0]) + 1} has "
        f"{str(bad.iloc[0])!r}, and the model was fitted to numbers there. Correct such cells in "
        "the file, or read it with another decimal mark or with this text as missing."
    )


def _note_levels(table: "Table", matching: Matching, notes: list[str]) -> None:
    """Say which levels the model does not know."""
    known: dict[str, set[str]] = {}
    for source in matching.sources:
        if source.kind == "level" and source.column in matching.columns:
            known.setdefault(matching.columns[source.column], set()).add(source.level)
    for name, levels in known.items():
        cells = labels_as_text(pd.Series(table.frame[name].dropna().unique(), dtype=object))
        new = sorted(set(map(str, cells)) - levels)
        if new:
            notes.append(
                f"Column {name!r} has levels that the model does not know: {quoted(new)}. Rows "
                "with them have none of the levels that it knows."
            )
