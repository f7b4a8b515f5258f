"""A table: the frame, the column types, the detected file format, and notes on its reading."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lvmcore.data.cell_texts import CellTexts
from lvmcore.data.column_names import unique_names
from lvmcore.data.column_types import (
    ColumnDescription,
    ColumnType,
    describe_column,
    label_like_names,
)
from lvmcore.data.number_questions import NumberQuestion
from lvmcore.data.table_files import TableFiles
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.dataset import Dataset

__all__ = ["DetectedFormat", "Table", "infinity_notes", "precision_notes", "rounded_note"]

#: Whole numbers up to this size are exact as float64.
_EXACT = 2**53


@dataclass(frozen=True)
class DetectedFormat:
    """File format of a table, as detected or as set by the caller.

    Attributes:
        format: "csv", "tsv", "text", "jsonl", "json", "xlsx", "npz", "parquet", "h5ad" or "frame",
            followed by " (gzip)" for a compressed file.
        delimiter: The character between cells; " " for runs of spaces; None where there is none.
        encoding: Python's name of the text encoding; None for a binary format.
        decimal: The decimal mark; None where numbers are not stored as text.
        thousands: The character between groups of three digits, or None.
        header_row: Index of the header among the non-blank lines; None without a header.
        header_rows: Number of header rows, of which nested ones were joined.
        missing: The markers of missing cells that occurred; "" is an empty cell.
        second_header: Whether the first row of the frame is a second header row (units, or
            sub-headings). It is kept in the frame and left out of datasets.
        sheet: The sheet of the workbook, or the matrix of the H5AD file, that was read; None for
            other formats.
        sheets: The names of all non-empty sheets of the workbook, in its order, or of all matrices.
    """

    format: str
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header_row: int | None = None
    header_rows: int = 1
    missing: tuple[str, ...] = ()
    second_header: bool = False
    sheet: str | None = None
    sheets: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    Attributes:
        name: Its name.
        frame: Every row of data and every column, constant ones too. Numbers are float64, int64
            or nullable Int64, missing cells NaN or NA; dates are datetime64; the rest strings.
        columns: Descriptions of the columns, in the frame's order.
        notes: What was left out, converted or guessed, in sentences.
        detected: The file format.
        digest: sha256 of the bytes that were read and of the settings that were overridden.
        questions: The columns whose numbers allow two readings, with the one that was taken.
        texts: Texts of the cells of a text file; None for other formats and large files.
        files: The files of which the frame is a sample; None for a table that was read whole.
    """

    name: str
    frame: pd.DataFrame
    columns: tuple[ColumnDescription, ...]
    notes: tuple[str, ...]
    detected: DetectedFormat
    digest: str
    questions: tuple[NumberQuestion, ...] = ()
    texts: CellTexts | None = None
    files: TableFiles | None = None

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        name: str = "table",
        notes: Sequence[str] = (),
        detected: DetectedFormat | None = None,
        digest: str | None = None,
        annotation_columns: Sequence[int] = (),
    ) -> "Table":
        """Make a table from a data frame; the index is dropped.

        Args:
            frame: Rows and columns; the cells are taken as they are.
            name: Name of the table.
            notes: Notes of the reader.
            detected: The file format.
            digest: Digest of the content; computed from the frame by default.
            annotation_columns: Positions of columns that annotate the rows (not measurements).
        """
        unnamed = [not str(column).strip() for column in frame.columns]
        names, renamed = unique_names([str(column) for column in frame.columns])
        clean = frame.reset_index(drop=True).set_axis(names, axis="columns")
        likely, beside = label_like_names(names), set(annotation_columns)
        columns = tuple(
            describe_column(
                label,
                clean[label],
                position=position,
                named=not unnamed[position],
                label_like=label in likely,
                is_annotation=position in beside,
            )
            for position, label in enumerate(names)
        )
        return cls(
            name=name,
            frame=clean,
            columns=columns,
            notes=(*notes, *renamed, *infinity_notes(clean), *precision_notes(clean)),
            detected=detected or DetectedFormat("frame"),
            digest=digest or _frame_digest(clean),
        )

    def column(self, name: str) -> ColumnDescription:
        """Return the description of a column.

        Raises:
            KeyError: There is no column of that name.
        """
        place = self.frame.columns.get_loc(name)
        assert isinstance(place, int)  # as names are unique
        return self.columns[place]

    def with_types(self, types: Mapping[str, ColumnType | str]) -> "Table":
        """Return the table with other column types; the cells stay as they are.

        The types decide which columns are features by default and which are proposed as label or
        row id.

        Args:
            types: New types by column name.

        Raises:
            DataError: There is no such column or type, or its cells do not allow the type.
        """
        for name, kind in types.items():
            if name not in self.frame.columns:
                raise DataError(f"There is no column {name!r} in {self.name!r}.")
            if kind not in {str(known) for known in ColumnType}:
                raise DataError(
                    f"There is no column type {kind!r}. Expected one of "
                    f"{', '.join(str(known) for known in ColumnType)}."
                )
            _check_type(self.column(name), ColumnType(kind), self.frame[name])
        columns = tuple(
            replace(column, type=ColumnType(types[column.name]), reason="Set by you.")
            if types.get(column.name, column.type) != column.type
            else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    def dataset(
        self,
        *,
        features: Sequence[str] | None = None,
        label: str | Sequence[str] | None = None,
        row_id: str | None = None,
        name: str | None = None,
        log1p: Sequence[str] = (),
        one_hot: Sequence[str] = (),
        likelihoods: Mapping[str, str] | None = None,
        hold_out: float = 0.0,
        hold_out_seed: int = 0,
    ) -> "Dataset":
        """Make a dataset: the numeric matrix that models are fitted to.

        Args:
            features: Names of the columns to use; by default all numeric, count and binary
                columns other than the label and the row id, and those of ``one_hot``. A column of
                dates is the number of years, months, days or hours since its first date
                (`DateScale`).
            label: Name of the column of classes, names of several, or None.
            row_id: Name of the column that identifies rows; by default they are numbered from 1.
            name: Name of the dataset; by default the table's.
            log1p: Names of numeric or count features to transform by log(1 + x).
            one_hot: Names of categories (or binary columns of text) to encode as one 0/1 feature a
                level, named "column = level"; at most 50 levels.
            likelihoods: Likelihoods of columns by name, in place of the proposed ones, for models
                with a likelihood for each column; see `lvmcore.likelihoods.catalogue`.
                "ordinal(low < mid < high)" sets the order of the levels, and of their features.
            hold_out: Share of the rows, 0 to 0.5, held out of the fit to score it; stratified by
                the label, or by the combination of labels.
            hold_out_seed: Random seed of the held-out rows.

        Returns:
            The dataset. Missing cells are NaN; rows with an infinite value are left out, with a
            note, and so are columns that are neither numeric nor dates that were chosen.

        Raises:
            DataError: A column does not exist, or cannot be used as requested.
        """
        from lvmcore.data.build_dataset import ColumnRoles, build_dataset

        return build_dataset(
            self,
            ColumnRoles(
                features=features,
                label=label,
                row_id=row_id,
                log1p=log1p,
                one_hot=one_hot,
                likelihoods=likelihoods or {},
                hold_out=hold_out,
                hold_out_seed=hold_out_seed,
            ),
            name=name,
        )


def _check_type(column: ColumnDescription, kind: ColumnType, values: pd.Series) -> None:
    """Check that the cells of a column allow a type."""
    numeric = values.dtype.kind in "iuf"
    if kind in {ColumnType.NUMERIC, ColumnType.COUNT} and not numeric:
        example = values.dropna().iloc[0]
        raise DataError(
            f"Column {column.name!r} cannot be {kind}: its cells are not numbers, for example "
            f"{str(example)!r}."
        )
    if kind is ColumnType.COUNT:
        numbers = values.dropna().to_numpy(dtype=np.float64)
        if np.any(numbers < 0) or np.any(numbers != np.floor(numbers)):
            raise DataError(
                f"Column {column.name!r} cannot be count: some cells are negative or not whole "
                "numbers. Make it numeric."
            )
    if kind is ColumnType.BINARY and column.distinct != 2:
        raise DataError(
            f"Column {column.name!r} cannot be binary: it has {column.distinct} different values. "
            "Expected exactly two."
        )
    if kind is ColumnType.DATE and column.type is not ColumnType.DATE:
        raise DataError(f"Column {column.name!r} cannot be date: its cells are not dates.")


def infinity_notes(frame: pd.DataFrame) -> list[str]:
    """Notes on the columns with infinite values: their number, and the first row."""
    notes = []
    for name, values in frame.items():
        if values.dtype.kind != "f":
            continue
        infinite = np.flatnonzero(np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan)))
        if infinite.size:
            cells = "1 infinite value" if infinite.size == 1 else f"{infinite.size} infinite values"
            notes.append(
                f"Column {name!r} has {cells}, the first in row {infinite[0] + 1}. Rows with an "
                "infinite value are left out of a dataset that uses the column."
            )
    return notes


def precision_notes(frame: pd.DataFrame) -> list[str]:
    """Notes on the columns with whole numbers that are exact here, and not as float64."""
    notes = []
    for name, values in frame.items():
        if values.dtype.kind not in "iu" or getattr(values.dtype, "itemsize", 8) < 8:
            continue
        numbers = values.dropna()
        large = numbers[(numbers > _EXACT) | (numbers < -_EXACT)]
        if len(large):
            cells = "1 whole number" if len(large) == 1 else f"{len(large):,} whole numbers"
            notes.append(
                f"Column {name!r} has {cells} above 2^53, the first in row {large.index[0] + 1}. "
                "Models compute with 15 to 17 digits: the last digits of such numbers are lost "
                "where the column is a feature."
            )
    return notes


def rounded_note(name: str, row: int) -> str:
    """Note on a column whose large numbers were rounded when they were read.

    Args:
        name: The column.
        row: The first such row, from 0.
    """
    return (
        f"Column {name!r} has numbers above 2^53 with more digits than are read, the first in row "
        f"{row + 1}: they were rounded to 15 to 17 digits. Save the column as text if it is a code."
    )


def _frame_digest(frame: pd.DataFrame) -> str:
    digest = hashlib.sha256("\x1f".join(map(str, frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()
