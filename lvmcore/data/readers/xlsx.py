"""Reader of XLSX workbooks: the list of sheets, and one of them as text."""

import csv
import datetime as dt
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from lvmcore.data.readers.zip_archive import damaged_archive_error, read_member, unzip_errors
from lvmcore.data.size_limits import check_decoded_bytes, check_density, check_size
from lvmcore.data.text.dialect import NO_DELIMITER
from lvmcore.errors import ConfigError, DataError, LatentboardError, UnsupportedError

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

__all__ = ["Sheet", "read_sheet", "workbook_text_size"]

_WORKBOOK = "xl/workbook.xml"
_RELATIONSHIPS = "xl/_rels/workbook.xml.rels"
_PLACE = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]{1,12})([0-9]{1,18})["']""")
_ROW = re.compile(rb"""<(?:\w+:)?row\s[^>]*?\br\s*=\s*["']([0-9]{1,18})["']""")
_SHARED = re.compile(rb"""\st\s*=\s*["']s["'][^>]*>\s*<(?:\w+:)?v[^>]*>\s*([0-9]{1,9})""")
_LONG_NUMBER = re.compile(
    rb"""<(?:\w+:)?c\s[^>]*?\br\s*=\s*["']([A-Za-z]{1,3})([0-9]{1,7})["'][^>]*>\s*"""
    rb"""<(?:\w+:)?v>\s*-?([0-9]{16,300})\s*<"""
)
_TEXT = re.compile(rb"<(?:\w+:)?si[\s>]")
_CHUNK = 1024 * 1024
_ROWS = 1000
#: Members, in lower case, that a workbook's reader reads whatever the sheet.
_READ_ONCE = ("xl/sharedstrings.xml", "xl/styles.xml")
_VALUE = re.compile(rb"<(?:\w+:)?(?:v|is)>")


@dataclass(frozen=True)
class Sheet:
    """One sheet as text.

    Attributes:
        name: Its name.
        names: The names of all non-empty sheets, in the workbook's order.
        text: Its rows as UTF-8, the cells separated by `NO_DELIMITER`.
        notes: Which sheets were not read.
        decimals: Positions of the columns with cells that are decimal numbers, and not text.
    """

    name: str
    names: tuple[str, ...]
    text: bytes
    notes: list[str]
    decimals: frozenset[int]


def read_sheet(
    data: bytes, archive: zipfile.ZipFile, wanted: str | None, name: str, max_bytes: int
) -> Sheet:
    """Read one sheet of a workbook.

    Args:
        data: The workbook.
        archive: The same, opened.
        wanted: The sheet's name; None for the first that is neither empty nor hidden.
        name: Name of the workbook in messages.
        max_bytes: Largest text of the sheet, in bytes.

    Raises:
        DataError: The workbook is damaged, empty or too large.
        ConfigError: It has no sheet of that name.
        UnsupportedError: The package that reads workbooks is not installed.
    """
    sheets = dict(_sheet_members(archive, name))
    names = tuple(title for title, part in sheets.items() if _has_values(archive, part, name))
    if wanted is not None and wanted not in sheets:
        shown = ", ".join(map(repr, sheets))
        raise ConfigError(f"The workbook {name!r} has no sheet {wanted!r}. Its sheets are {shown}.")
    if not names:
        raise DataError(
            f"The workbook {name!r} is empty: none of its sheets holds a value. Expected a sheet "
            "with a header row and at least one row of values."
        )
    if wanted is not None and wanted not in names:
        raise DataError(
            f"The sheet {wanted!r} of {name!r} is empty. These hold something: "
            f"{', '.join(map(repr, names))}."
        )
    workbook = _open(data, name)
    hidden = _hidden_sheets(workbook)
    title = wanted or next((title for title in names if title not in hidden), names[0])
    _check_extent(archive, sheets[title], name)
    _check_texts(archive, sheets[title], name, max_bytes)
    text, decimals = _text(_rows(workbook, title, name), name, max_bytes)
    notes = [*_other_sheets_note(title, names), *_rounded_note(archive, sheets[title], name)]
    return Sheet(title, names, text, notes, decimals)


def _text(rows: Iterator[list[Any]], name: str, max_bytes: int) -> tuple[bytes, frozenset[int]]:
    """The rows as CSV with `NO_DELIMITER`, and the positions of columns with decimal numbers."""
    decimals: set[int] = set()
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=NO_DELIMITER, lineterminator="\n")
    for number, row in enumerate(rows):
        writer.writerow([_cell_text(cell) for cell in row])
        decimals.update(
            position
            for position, cell in enumerate(row)
            if isinstance(cell, float) and not cell.is_integer()
        )
        if number % _ROWS == 0:
            check_decoded_bytes(buffer.tell(), name, max_bytes)
    return buffer.getvalue().encode("utf-8"), frozenset(decimals)


def _other_sheets_note(title: str, names: tuple[str, ...]) -> list[str]:
    others = [other for other in names if other != title]
    if not others:
        return []
    shown = ", ".join(map(repr, others[:5])) + (" and others" if len(others) > 5 else "")
    return [f"The sheet {title!r} was read. The workbook has more with something on them: {shown}."]


def _rounded_note(archive: zipfile.ZipFile, part: str, name: str) -> list[str]:
    """A note on a number above 2^53 that a float64 cannot hold."""
    for chunk in _chunks(archive, part, name):
        for column, row, digits in _LONG_NUMBER.findall(chunk):
            if int(float(digits)) != int(digits):
                place = (column + row).decode()
                return [
                    f"The number in cell {place} is above 2^53 and has more digits than are read: "
                    "it was rounded to 15 to 17 digits, and so are others like it. Save the column "
                    "as text if it is a code."
                ]
    return []


def _sheet_members(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[str, str]]:
    """The name of each sheet and its member of the archive."""
    links = {link.get("Id"): link.get("Target", "") for link in _xml(archive, _RELATIONSHIPS, name)}
    for element in _xml(archive, _WORKBOOK, name).iter():
        if element.tag.rpartition("}")[2] != "sheet":
            continue
        keys = [key for key in element.keys() if key.endswith("}id")]  # noqa: SIM118
        target = links.get(element.get(keys[0]) if keys else None, "")
        part = posixpath.normpath(posixpath.join("/xl", target)).lstrip("/")
        if "worksheets/" in part:
            yield element.get("name", ""), part


def _xml(archive: zipfile.ZipFile, member: str, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_member(archive, member, name))
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # unknown encodings too
        if isinstance(error, LatentboardError):
            raise
        raise damaged_archive_error(name) from error


def _chunks(archive: zipfile.ZipFile, part: str, name: str) -> Iterator[bytes]:
    """A member of the archive in chunks that never end inside a tag."""
    rest = b""
    with unzip_errors(name), archive.open(part) as file:
        while chunk := file.read(_CHUNK):
            whole, bracket, rest = (rest + chunk).rpartition(b"<")
            rest = bracket + rest
            yield whole
    yield rest


def _has_values(archive: zipfile.ZipFile, part: str, name: str) -> bool:
    return any(_VALUE.search(chunk) for chunk in _chunks(archive, part, name))


def _check_extent(archive: zipfile.ZipFile, part: str, name: str) -> None:
    """Check the extent of a sheet, whose few cells may span too large a table."""
    letters: set[bytes] = set()
    rows: set[int] = set()
    cells = 0
    for chunk in _chunks(archive, part, name):
        places = _PLACE.findall(chunk)
        cells += len(places)
        letters.update(column for column, _ in places)
        numbers = set(map(int, {*_ROW.findall(chunk), *(row for _, row in places)}))
        rows.update((min(numbers), max(numbers)) if numbers else ())
    if rows and letters:
        columns = list(map(_column_number, letters))
        height, width = max(rows) - min(rows) + 1, max(columns) - min(columns) + 1
        check_size(height, width, name)
        check_density(height, width, cells, name)


def _check_texts(archive: zipfile.ZipFile, part: str, name: str, max_bytes: int) -> None:
    """Check the size of a sheet's texts, each of which is stored once and used in many cells."""
    lengths = _text_lengths(archive, name)
    size = 0
    for chunk in _chunks(archive, part, name):
        indices = map(int, _SHARED.findall(chunk))
        size += sum(lengths[index + 1] for index in indices if index + 1 < len(lengths))
        check_decoded_bytes(size, name, max_bytes)


def _text_lengths(archive: zipfile.ZipFile, name: str) -> list[int]:
    """Bytes above the first text of the workbook, and of each text with its markup."""
    lengths = [0]
    for member in archive.namelist():
        if member.lower() in _READ_ONCE:  # to its end, where its checksum is compared
            for chunk in _chunks(archive, member, name):
                first, *others = _TEXT.split(chunk)
                lengths[-1] += len(first)
                lengths += map(len, others)
    return lengths


def workbook_text_size(archive: zipfile.ZipFile, name: str) -> int:
    """Size of the texts in the cells of the sheet that has most of them, at most, in bytes.

    Raises:
        DataError: The workbook is damaged.
    """
    lengths = _text_lengths(archive, name)
    sheets = [part for part in archive.namelist() if "worksheets/" in part]
    counts = [
        sum(len(_SHARED.findall(chunk)) for chunk in _chunks(archive, part, name))
        for part in sheets
    ]
    return max(lengths) * max(counts, default=0)


def _column_number(letters: bytes) -> int:
    total = 0
    for letter in letters.upper():
        total = 26 * total + letter - 64
    return total


def _open(data: bytes, name: str) -> "CalamineWorkbook":
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise UnsupportedError(
            f"{name!r} is an XLSX workbook, and the package that reads it is not installed. "
            "Install it with: pip install 'latentboard[formats]'. Or save the sheet as CSV."
        ) from error
    with _workbook_errors(name, CalamineError):
        return CalamineWorkbook.from_filelike(io.BytesIO(data))


@contextmanager
def _workbook_errors(name: str, kind: type[Exception]) -> Iterator[None]:
    """Convert errors of the package that reads workbooks to a DataError."""
    try:
        yield
    except (kind, OSError, ValueError, OverflowError) as error:
        raise damaged_archive_error(name) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of Rust, and no Exception
            raise damaged_archive_error(name) from error
        raise


def _hidden_sheets(workbook: "CalamineWorkbook") -> set[str]:
    from python_calamine import SheetVisibleEnum

    sheets = workbook.sheets_metadata
    return {sheet.name for sheet in sheets if sheet.visible != SheetVisibleEnum.Visible}


def _rows(workbook: "CalamineWorkbook", title: str, name: str) -> Iterator[list[Any]]:
    from python_calamine import CalamineError

    with _workbook_errors(name, CalamineError):
        yield from workbook.get_sheet_by_name(title).iter_rows()


def _cell_text(cell: object) -> str:
    """A cell as in a CSV file."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, dt.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, (dt.date, dt.time)):
        return cell.isoformat()
    return str(cell)
