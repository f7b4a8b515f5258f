"""Reader of XLSX workbooks: the list of sheets, and one of them as text."""

import csv
import datetime as dt
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from lvmcore.data.readers.zip_archive import damaged_archive_error, read_member, unzip_errors
from lvmcore.data.size_limits import check_density, check_size
from lvmcore.data.text.dialect import NO_DELIMITER
from lvmcore.errors import ConfigError, DataError, UnsupportedError

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

__all__ = ["Sheet", "read_sheet"]

_WORKBOOK = "xl/workbook.xml"
_RELATIONSHIPS = "xl/_rels/workbook.xml.rels"
_COLUMN = re.compile(rb'\sr="([A-Z]{1,3})[0-9]')
_ROW = re.compile(rb'<(?:\w+:)?row\s[^>]*?\br="([0-9]{1,7})"')
_CHUNK = 1024 * 1024
_VALUE = re.compile(rb"<(?:\w+:)?(?:v|is)>")


@dataclass(frozen=True)
class Sheet:
    """One sheet as text.

    Attributes:
        name: Its name.
        names: The names of all non-empty sheets, in the workbook's order.
        text: Its rows as UTF-8, the cells separated by `NO_DELIMITER`.
        notes: Which sheets were not read.
    """

    name: str
    names: tuple[str, ...]
    text: bytes
    notes: list[str]


def read_sheet(data: bytes, archive: zipfile.ZipFile, wanted: str | None, name: str) -> Sheet:
    """Read one sheet of a workbook.

    Args:
        data: The workbook.
        archive: The same, opened.
        wanted: The sheet's name; None for the first that is neither empty nor hidden.
        name: Name of the workbook in messages.

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
    rows = _rows(workbook, title, name)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=NO_DELIMITER, lineterminator="\n")
    writer.writerows([_cell_text(cell) for cell in row] for row in rows)
    return Sheet(
        title, names, buffer.getvalue().encode("utf-8", "replace"), _other_sheets_note(title, names)
    )


def _other_sheets_note(title: str, names: tuple[str, ...]) -> list[str]:
    others = [other for other in names if other != title]
    if not others:
        return []
    shown = ", ".join(map(repr, others[:5])) + (" and others" if len(others) > 5 else "")
    return [f"The sheet {title!r} was read. The workbook has more with something on them: {shown}."]


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
    except ElementTree.ParseError as error:
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
        places = _COLUMN.findall(chunk)
        cells += len(places)
        letters.update(places)
        numbers = list(map(int, _ROW.findall(chunk)))
        rows.update((min(numbers), max(numbers)) if numbers else ())
    if rows and letters:
        columns = list(map(_column_number, letters))
        height, width = max(rows) - min(rows) + 1, max(columns) - min(columns) + 1
        check_size(height, width, name)
        check_density(height, width, cells, name)


def _column_number(letters: bytes) -> int:
    total = 0
    for letter in letters:
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
    try:
        return CalamineWorkbook.from_filelike(io.BytesIO(data))
    except (CalamineError, OSError, ValueError) as error:
        raise damaged_archive_error(name) from error


def _hidden_sheets(workbook: "CalamineWorkbook") -> set[str]:
    from python_calamine import SheetVisibleEnum

    sheets = workbook.sheets_metadata
    return {sheet.name for sheet in sheets if sheet.visible != SheetVisibleEnum.Visible}


def _rows(workbook: "CalamineWorkbook", title: str, name: str) -> Iterator[list[Any]]:
    from python_calamine import CalamineError

    try:
        sheet = workbook.get_sheet_by_name(title)
        yield from sheet.iter_rows()
    except (CalamineError, OSError, ValueError) as error:
        raise damaged_archive_error(name) from error


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
