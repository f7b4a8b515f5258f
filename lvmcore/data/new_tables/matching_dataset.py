"""Dataset of a new table with the features and transforms of a fitted model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.build_dataset import numeric_values, row_ids, valid_rows
from lvmcore.data.cell_texts import written_cells
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.date_scales import DateScale, is_dates
from lvmcore.data.new_tables.column_matching import (
    ColumnMatching,
    FeatureSource,
    match_columns,
    quote_names,
)
from lvmcore.data.new_tables.date_cells import date_cells
from lvmcore.data.transforms import check_log1p_cells
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["BinaryCode", "binary_codes", "column_codes", "matching_dataset"]

#: The two values of a binary text column: those coded 0 and 1.
BinaryCode = tuple[str, str]


def matching_dataset(
    table: "Table",
    names: Sequence[str],
    *,
    row_id: str | None = None,
    label: str | Mapping[str, str] | None = None,
    origin: Dataset | None = None,
    codes: Mapping[str, BinaryCode | None] | None = None,
    date_scales: Mapping[str, DateScale] | None = None,
    missing_cells: bool = False,
) -> Dataset:
    """Make the features of a model from a new table.

    A feature name is "column", "log(1 + column)", or "column = level" for a one-hot feature:
    `Dataset.transformed_names`, which a fitted model keeps in ``feature_names_in_``. The columns
    are found by name in any order, also if case or spacing differs (`match_columns`); others are
    not used.

    Args:
        table: The table.
        names: Names of the features, in the model's order.
        row_id: Name of the column that identifies rows; by default they are numbered from 1.
        label: Name of the label column, or of several by the names that they get in the dataset;
            by default there are no labels.
        origin: The dataset that the model was fitted to, if available: binary text columns are
            coded as in it, and dates counted in its units since its origins.
        codes: The codes of its binary text columns (`binary_codes`), if it is not available, or in
            place of its own; None for a column of numbers.
        date_scales: The units and origins of its dates, likewise.
        missing_cells: Whether an absent column counts as missing in every row.

    Returns:
        The dataset, with notes. Missing cells and absent columns are NaN; rows with an infinite
        value are left out.

    Raises:
        DataError: A column is absent, or its cells cannot be used.
    """
    columns = label if isinstance(label, Mapping) else {} if label is None else {label: label}
    _check_roles(table, row_id, columns)
    matching = match_columns(
        table, names, origin=_frame_columns(origin), others={row_id, *columns.values()} - {None}
    )
    if not missing_cells or not matching.columns:
        matching.check_complete(table.name)
    notes = list(matching.notes())
    if matching.missing:
        notes.append(matching.missing_note())
    known: dict[str, BinaryCode | DateScale | None] = {
        **({} if origin is None else _origin_codes(matching, names, origin)),
        **(codes or {}),
    }
    scales = {**(date_scales or {}), **({} if origin is None else origin.date_scales)}
    scales = {
        source.column: scales[source.column]
        for source in matching.sources
        if source.kind == "plain" and source.column in scales
    }
    found = matching.columns
    notes += [scale.note(found[name]) for name, scale in scales.items() if name in found]
    ways = known | scales
    matrix = np.column_stack(
        [_feature_cells(table, source, matching, ways, notes) for source in matching.sources]
    )
    log1p = np.array([source.kind == "log1p" for source in matching.sources])
    _note_unknown_levels(table, matching, notes)
    keep = valid_rows(table, matrix, names, notes)
    X = np.ascontiguousarray(matrix[keep])
    X[:, log1p] = np.log1p(X[:, log1p])
    frame = table.frame.iloc[keep].reset_index(drop=True)
    labels = {name: labels_as_text(frame[column]) for name, column in columns.items()}
    positions = keep if table.files is None else table.files.positions(keep)
    return Dataset(
        X=X,
        feature_names=tuple(
            source.column if source.kind == "log1p" else name
            for name, source in zip(names, matching.sources, strict=True)
        ),
        row_ids=row_ids(frame, row_id, positions),
        rows=positions,
        frame=frame,
        name=table.name,
        labels=next(iter(labels.values()), None),
        label_name=next(iter(labels), None),
        more_labels=dict(list(labels.items())[1:]),
        notes=tuple(notes),
        log1p=log1p,
        column_decimals={asked.column: asked.taken for asked in table.questions},
        date_scales=scales,
        texts=None if table.texts is None else table.texts.take(keep),
        files=table.files,
    )


def _frame_columns(origin: Dataset | None) -> tuple[str, ...]:
    return () if origin is None else tuple(map(str, origin.frame.columns))


def _check_roles(table: "Table", row_id: str | None, labels: Mapping[str, str]) -> None:
    known = list(table.frame.columns)
    for role, name in (
        ("name the rows", row_id),
        *(("be the label", label) for label in labels.values()),
    ):
        if name is not None and name not in known:
            raise DataError(
                f"{table.name!r} lacks {name!r}, which is to {role}. It has {quote_names(known)}."
            )


def binary_codes(dataset: Dataset) -> dict[str, BinaryCode]:
    """The values coded 0 and 1 of a dataset's binary text features, by column."""
    words = {}
    for d, name in enumerate(dataset.transformed_names):
        if name in dataset.date_scales or name not in dataset.frame:
            continue
        if not _is_numeric(dataset.frame[name]):
            words[name] = _binary_code(dataset, d, name)
    return words


def column_codes(
    table: "Table", names: Sequence[str], origin: Dataset
) -> dict[str, BinaryCode | None]:
    """The codes of the columns of a fit's dataset by name; None for a column of numbers.

    Args:
        table: A table with these columns.
        names: Names of the features, in the model's order.
        origin: The dataset that the model was fitted to.
    """
    matching = match_columns(table, names, origin=_frame_columns(origin))
    return _origin_codes(matching, names, origin)


def _is_numeric(column: "pd.Series") -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _binary_code(dataset: Dataset, d: int, column: str) -> BinaryCode:
    """The values of a text column that are coded 0 and 1 in feature ``d``."""
    X, words = dataset.X[:, d], labels_as_text(dataset.frame[column])
    zero, one = (next(iter(words[code == X]), "") for code in (0.0, 1.0))
    return str(zero), str(one)


def _origin_codes(
    matching: ColumnMatching, names: Sequence[str], origin: Dataset
) -> dict[str, BinaryCode | None]:
    """Codes of the fit's dataset by column; None for a numeric column."""
    place = {name: d for d, name in enumerate(origin.transformed_names)}
    found: dict[str, BinaryCode | None] = {}
    for name, source in zip(names, matching.sources, strict=True):
        if source.column not in origin.frame or source.kind == "level" or name not in place:
            continue
        if source.column in origin.date_scales:
            continue
        numeric = _is_numeric(origin.frame[source.column])
        found[source.column] = None if numeric else _binary_code(origin, place[name], source.column)
    return found


def _feature_cells(
    table: "Table",
    source: FeatureSource,
    matching: ColumnMatching,
    ways: Mapping[str, BinaryCode | DateScale | None],
    notes: list[str],
) -> NDArray[np.float64]:
    """Cells of a feature before the log(1 + x) transform, [N].

    Args:
        table: The new table.
        source: Column and transform of the feature.
        matching: The columns of the table.
        ways: How a column was coded in the fit, where that is known; None of a numeric one.
        notes: To which those on the column are added.
    """
    if source.column in matching.missing:
        return np.full(len(table.frame), np.nan)
    name = matching.columns[source.column]
    values, column = table.frame[name], table.column(name)
    if column.missing == len(values):
        return np.full(len(values), np.nan)
    if source.kind == "level":
        cells = np.where(_level_words(table, name) == source.level, 1.0, 0.0)
        cells[values.isna().to_numpy()] = np.nan
        return cells
    if source.column in ways:
        way = ways[source.column]
        if isinstance(way, DateScale):
            return way.numbers(date_cells(name, values, way))
        if way is not None:
            return _apply_code(name, values, way, notes)
        _check_numeric(name, values)
    elif is_dates(values):
        raise DataError(
            f"Column {name!r} holds dates, and the model was fitted to numbers there; if these "
            "count from a date, its file does not say which. Give the folder of the run, or the "
            "table of the fit too."
        )
    cells = numeric_values(table, column, notes)
    if source.kind == "log1p":
        check_log1p_cells(table, name, cells)
    return cells


def _level_words(table: "Table", name: str) -> NDArray[np.object_]:
    """The cells of a category as text [N]; of one that is read as dates now, those of the file."""
    values = table.frame[name]
    if not is_dates(values):
        return labels_as_text(values)
    kept = None if table.texts is None else table.texts.columns.get(name)
    words = np.array(written_cells(values) if kept is None else kept.to_pylist(), dtype=object)
    words[values.isna().to_numpy()] = None
    return words


def _apply_code(
    name: str, values: "pd.Series", code: BinaryCode, notes: list[str]
) -> NDArray[np.float64]:
    """A binary text column coded as in the fit, [N]."""
    words = labels_as_text(values)
    cells = np.where(words == code[1], 1.0, np.where(words == code[0], 0.0, np.nan))
    unknown = sorted({str(word) for word in words if word is not None} - set(code))
    notes.append(f"Column {name!r} is coded 0 = {code[0]!r}, 1 = {code[1]!r}, as in the fit.")
    if unknown:
        notes.append(
            f"Column {name!r} has values that the model does not know: {quote_names(unknown)}. "
            "They count as missing."
        )
    return np.asarray(cells, dtype=np.float64)


def _check_numeric(name: str, values: "pd.Series") -> None:
    """Check that a column is numeric, as it was in the fit."""
    if _is_numeric(values):
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


def _note_unknown_levels(table: "Table", matching: ColumnMatching, notes: list[str]) -> None:
    """Note the levels that the model does not know."""
    known: dict[str, set[str]] = {}
    for source in matching.sources:
        if source.kind == "level" and source.column in matching.columns:
            known.setdefault(matching.columns[source.column], set()).add(source.level)
    for name, levels in known.items():
        words = {str(word) for word in _level_words(table, name) if word is not None}
        new = sorted(words - levels)
        if new:
            notes.append(
                f"Column {name!r} has levels that the model does not know: {quote_names(new)}. "
                "Rows with them have 0 in all of the column's features."
            )
