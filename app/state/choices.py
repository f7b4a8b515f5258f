"""Choices of a session: the source of the table, parsing options, roles of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The sample of a new session.
DEFAULT_SAMPLE = "wine"


@dataclass(frozen=True)
class SampleChoice:
    """A bundled sample, or a dataset of the papers.

    Attributes:
        key: its key in ``lvmcore.data.samples()``, or its name in ``lvmcore.data.paper_names()``.
    """

    key: str


@dataclass(frozen=True)
class Upload:
    """An uploaded file.

    Attributes:
        name: name of the file.
        digest: SHA-256 of its bytes, hexadecimal.
        content: its bytes.
    """

    name: str
    digest: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class FilesChoice:
    """Files of the server's machine that are read in place.

    Attributes:
        name: name of their table.
        digest: SHA-256 of the stamps of the files as they were chosen, hexadecimal.
        paths: the files, in the order of their rows.
    """

    name: str
    digest: str
    paths: tuple[str, ...]


FileSource = Upload | FilesChoice
Source = SampleChoice | FileSource


@dataclass(frozen=True)
class ReadingChoices:
    """Parsing options of a table; None detects the value.

    Attributes:
        delimiter: one character between the cells of a row.
        encoding: encoding of the text.
        decimal: the decimal mark.
        header: whether the first row holds the names, or the number of the row with them, from 0,
            or the numbers of nested header rows.
        missing: markers of a missing cell.
        thousands: the mark between groups of three digits; "" for none.
        column_decimals: column and decimal mark, "" for text, where two readings are possible.
        sheet: the sheet of a workbook, or the matrix of an H5AD file.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    header: int | bool | tuple[int, ...] | None = None
    missing: tuple[str, ...] | None = None
    thousands: str | None = None
    sheet: str | None = None
    column_decimals: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class FailedSource:
    """An upload that could not be read.

    Attributes:
        upload: the file, or the files.
        message: the error, with advice.
    """

    upload: FileSource
    message: str


@dataclass(frozen=True)
class NewTableUpload:
    """An uploaded table of new rows.

    Attributes:
        upload: the file, or the files.
        reading: parsing options.
        problem: the error of reading it; None without one.
    """

    upload: FileSource
    reading: ReadingChoices = ReadingChoices()
    problem: str | None = None


@dataclass(frozen=True)
class TypeChoices:
    """Column types chosen in place of the proposed ones.

    Attributes:
        chosen: name and type of each such column.
        problem: why the last choice was rejected; None where it was accepted.
        turn: number of choices so far; part of the editor's key, so that each opens a new editor.
    """

    chosen: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    turn: int = 0


@dataclass(frozen=True)
class RoleChoices:
    """Roles of the columns of a table.

    Attributes:
        features: names of the feature columns, in the table's order.
        label: name of the first label column, or None.
        row_id: name of the column of row ids, or None.
        log1p: names of the features that enter as log(1 + x); others are ignored.
        one_hot: names of the features with one-hot encoding; others are ignored.
        hold_out: share of held-out rows.
        more_labels: names of the further label columns.
        likelihoods: columns with the likelihood that was chosen in place of the proposed one.
    """

    features: tuple[str, ...]
    label: str | None
    row_id: str | None
    log1p: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    hold_out: float = 0.0
    more_labels: tuple[str, ...] = ()
    likelihoods: tuple[tuple[str, str], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of all label columns, the first one first."""
        return () if self.label is None else (self.label, *self.more_labels)


@dataclass(frozen=True)
class ColumnChoices:
    """What was chosen for the columns of a table.

    Attributes:
        roles: their roles.
        types: columns with the type that was chosen in place of the proposed one.
    """

    roles: RoleChoices
    types: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TargetChoice:
    """A column to predict, and the columns that decide its held-out rows.

    Attributes:
        target: name of the column.
        groups: column whose groups are held out as a whole; "" for none.
        time: column whose last rows are held out; "" for none.
    """

    target: str
    groups: str = ""
    time: str = ""


@dataclass(frozen=True)
class FitChoices:
    """What was chosen for a fit.

    Attributes:
        target: the column to predict; None fits a map.
        model: key of the chosen model; None means the recommended one.
        fields: values of the fields of its settings, by key of the widget; a field is drawn, and
            here, from the choice on that asks for it.
    """

    target: TargetChoice | None
    model: str | None
    fields: Mapping[str, object]

    def same_choices(self, other: FitChoices) -> bool:
        """Whether both show the same; a field that only one of them has is no difference."""
        shared = self.fields.keys() & other.fields.keys()
        return (self.target, self.model) == (other.target, other.model) and all(
            self.fields[key] == other.fields[key] for key in shared
        )
