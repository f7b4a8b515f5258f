"""A table as it was read: frame, column types, and what the reader did."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lvmcore.data.columns import Column, ColumnType, describe, label_like_names
from lvmcore.data.names import unique_names
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.dataset import Dataset

__all__ = ["Detected", "Table", "infinity_notes"]


@dataclass(frozen=True)
class Detected:
    """What was detected about a file, or asked for.

    Attributes:
        format: "csv", "tsv", "text", "jsonl", "json", "xlsx", "npz", "parquet", "h5ad" or "frame",
            with " (gzip)" when it was packed.
        delimiter: The character between cells; " " for runs of spaces; None where there is none.
        encoding: Python's name of the text encoding; None where the format has none of its own.
        decimal: The decimal mark; None where no numbers are written as text.
        thousands: The character between groups of three digits, or None.
        header_row: Number of the header among the lines that are not blank, from 0; None without.
        missing: What stood for a missing cell; "" is an empty cell.
        second_header: Whether the first row of the frame is a second header row (units, or
            sub-headings). It is kept in the frame and left out of datasets.
        sheet: The sheet of the workbook, or the matrix of the H5AD file, that was read; None where
            there are none to choose from.
        sheets: The names of all its sheets that hold something, in the workbook's order; of all
            its matrices.
    """

    format: str
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header_row: int | None = None
    missing: tuple[str, ...] = ()
    second_header: bool = False
    sheet: str | None = None
    sheets: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    Attributes:
        name: What to call it.
        frame: Every row of data and every column, constant ones too. Numbers are float64, int64
            or nullable Int64, missing cells NaN or NA; dates are datetime64; the rest strings.
        columns: What each column holds, in the frame's order.
        notes: What was left out, converted or guessed, in plain words.
        detected: How the file was read.
        digest: sha256 of the bytes that were read and of the settings that were overridden.
    """

    name: str
    frame: pd.DataFrame
    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    detected: Detected
    digest: str

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        name: str = "table",
        notes: Sequence[str] = (),
        detected: Detected | None = None,
        digest: str | None = None,
        about_rows: Sequence[int] = (),
    ) -> "Table":
        """Make a table of a data frame; its index is dropped.

        Args:
            frame: Rows and columns; the cells are taken as they are.
            name: What to call the table.
            notes: Notes from whoever read the frame.
            detected: How it was read.
            digest: Digest of the content; computed from the frame when not given.
            about_rows: Positions of columns that tell of the rows beside what was measured.
        """
        unnamed = [not str(column).strip() for column in frame.columns]
        names, renamed = unique_names([str(column) for column in frame.columns])
        clean = frame.reset_index(drop=True).set_axis(names, axis="columns")
        likely, beside = label_like_names(names), set(about_rows)
        columns = tuple(
            describe(
                label,
                clean[label],
                position=position,
                named=not unnamed[position],
                label_like=label in likely,
                about_row=position in beside,
            )
            for position, label in enumerate(names)
        )
        return cls(
            name=name,
            frame=clean,
            columns=columns,
            notes=(*notes, *renamed, *infinity_notes(clean)),
            detected=detected or Detected("frame"),
            digest=digest or _frame_digest(clean),
        )

    def column(self, name: str) -> Column:
        """Return what is known about one column.

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
            types: The new type of each column that is to change.

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
            replace(column, type=ColumnType(types[column.name]), why="Set by you.")
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
        hold_out: float = 0.0,
        hold_out_seed: int = 0,
    ) -> "Dataset":
        """Make the numeric matrix that models are fitted to.

        Args:
            features: Names of the columns to use; by default all numeric, count and binary
                columns other than the label and the row id, and those of ``one_hot``.
            label: Name of the column of classes, names of several, or None.
            row_id: Name of the column that names rows; by default they are numbered from 1.
            name: What to call the dataset; by default as the table.
            log1p: Names of numeric or count columns among the features that enter as log(1 + x).
            one_hot: Names of categories (or binary columns of text) that enter as one 0/1 feature
                a level, named "column = level"; at most 50 levels.
            hold_out: Share of the rows, 0 to 0.5, that a fit leaves out and is measured with; the
                same share of each class where there is a label, of each combination of classes
                where there are several.
            hold_out_seed: Seed of their draw.

        Returns:
            The dataset. Missing cells are NaN; rows with an infinite value are left out, with a
            note, and so are columns that are no numbers.

        Raises:
            DataError: A column is not there, or cannot be used as asked.
        """
        from lvmcore.data.build import Choice, build_dataset

        return build_dataset(
            self,
            Choice(
                features=features,
                label=label,
                row_id=row_id,
                log1p=log1p,
                one_hot=one_hot,
                hold_out=hold_out,
                hold_out_seed=hold_out_seed,
            ),
            name=name,
        )


def _check_type(column: Column, kind: ColumnType, values: pd.Series) -> None:
    """Refuse a type that the cells of a column do not allow."""
    numeric = values.dtype.kind in "iuf"
    if kind in {ColumnType.NUMERIC, ColumnType.COUNT} and not numeric:
        example = values.dropna().iloc[0]
        raise DataError(
            f"Column {column.name!r} cannot be {kind}: its cells are no numbers, for example "
            f"{str(example)!r}."
        )
    if kind is ColumnType.COUNT:
        numbers = values.dropna().to_numpy(dtype=np.float64)
        if np.any(numbers < 0) or np.any(numbers != np.floor(numbers)):
            raise DataError(
                f"Column {column.name!r} cannot be count: some cells are below zero or no whole "
                "numbers. Make it numeric."
            )
    if kind is ColumnType.BINARY and column.distinct != 2:
        raise DataError(
            f"Column {column.name!r} cannot be binary: it has {column.distinct} different values. "
            "Expected exactly two."
        )
    if kind is ColumnType.DATE and column.type is not ColumnType.DATE:
        raise DataError(f"Column {column.name!r} cannot be date: its cells are no dates.")


def infinity_notes(frame: pd.DataFrame) -> list[str]:
    """One note per column with infinite values: how many, and the first row that has one."""
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


def _frame_digest(frame: pd.DataFrame) -> str:
    digest = hashlib.sha256("\x1f".join(map(str, frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()
