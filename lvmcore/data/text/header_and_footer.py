"""Layout of a table in its text: title lines, header, first row, footnotes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lvmcore.data.text.dialect import Dialect, ParsedRow, count_filled, split_rows
from lvmcore.data.text.header_rows import count_header_rows, is_group_row, joined_names
from lvmcore.data.text.missing_markers import is_marker
from lvmcore.data.text.number_format import NumberFormat
from lvmcore.errors import ConfigError, DataError

__all__ = ["HeaderChoice", "TableLayout", "find_footnotes", "find_table_layout"]

_NOTE_WORDS = re.compile(
    r"^\W*(notes?|source|footnotes?|legend|remarks?|see|data (from|as of))\b", re.I
)
_NOTE_SIGNS = ("*", "#", "†", "‡", "©", "¹", "²")
_MAX_TITLE_ROWS = 40
_MAX_FOOTNOTES = 60


#: The header of a file: see `read_table`.
HeaderChoice = int | bool | Sequence[int] | None


@dataclass(frozen=True)
class TableLayout:
    """Position and shape of a table in its text.

    Attributes:
        cells: The header's cells as written, one per column; "" where there is no name.
        width: Number of columns in the text.
        first: Index of the first line of data among the first lines of the text.
        header_row: Index of the header among the non-blank lines; None without a header.
        header_rows: Number of header rows that were joined to the names.
        numeric: For each column, whether its cells are numbers, as detected from the first lines.
        second_header: The cells of a second header row (units, sub-headings), or None.
        notes: Notes on the lines above the data.
    """

    cells: tuple[str, ...]
    width: int
    first: int
    header_row: int | None
    numeric: tuple[bool, ...]
    header_rows: int = 1
    second_header: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)


def find_table_layout(
    rows: Sequence[ParsedRow], numbers: NumberFormat, header: HeaderChoice, name: str
) -> TableLayout:
    """Locate the header and the first row of data.

    Args:
        rows: The records of the first lines, blank ones included.
        numbers: The number format.
        header: See `read_table`.
        name: Name of the file in messages.

    Raises:
        DataError: There are no data below the header.
        ConfigError: The given header does not exist.
    """
    written = [row for row in rows if count_filled(row.cells)]
    if not written:
        raise DataError(
            f"{name!r} holds only blank lines. Expected a table with a header row and at least "
            "one row of values."
        )
    top, count = _find_header(written, numbers, header, name)
    notes = _title_notes(written[:top])
    body = written[top + count :]
    if not body:
        raise DataError(
            f"{name!r} has a header ({_preview(written[top].cells)}) and no rows below it. "
            "Expected at least one row of values. If that line is data, say that there is no "
            "header."
        )
    width = _modal_width(body)
    numeric = numeric_columns(body, width, numbers, least=0.5)
    cells = written[top].cells if count else ("",) * width
    if count > 1:
        cells = joined_names([row.cells for row in written[top : top + count]], width)
        notes.append(_nested_note(top, count, cells))
    if count:
        cells, width, numeric = _align_header(cells, body, width, numeric, notes)
    else:
        notes.append("There is no header row; the columns are numbered.")
    second = _second_header(body, width, numbers) if count == 1 else None
    return TableLayout(
        cells=cells,
        width=width,
        first=body[0].start,
        header_row=top if count else None,
        numeric=numeric,
        header_rows=max(1, count),
        second_header=second,
        notes=notes,
    )


def _find_header(
    written: Sequence[ParsedRow], numbers: NumberFormat, header: HeaderChoice, name: str
) -> tuple[int, int]:
    """Index of the header among the rows that are not blank, and its number of rows, 0 for none."""
    if header is None or isinstance(header, bool):
        return _detected_header(written, numbers, header)
    chosen = [header] if isinstance(header, int) else list(header)
    if not chosen or not 0 <= chosen[0] <= chosen[-1] < len(written):
        raise ConfigError(
            f"header={header}, but {name!r} begins with {len(written)} lines that are not "
            "blank. Expected the header's number among them, counted from 0."
        )
    if chosen != list(range(chosen[0], chosen[-1] + 1)):
        raise ConfigError(
            f"header={header}: the header rows do not follow one another. Expected numbers such as "
            "0, 1."
        )
    return chosen[0], len(chosen)


def _detected_header(
    written: Sequence[ParsedRow], numbers: NumberFormat, header: bool | None
) -> tuple[int, int]:
    """Index and number of the header rows, as detected; True and False say if there are any."""
    width = _modal_width(written)
    top = _count_titles(written, width, numbers)
    if header is False:
        return top, 0
    # What looks like a title may be a row of groups without the blank cells at its end.
    for first in [top - 1, top] if top and is_group_row(written[top - 1].cells) else [top]:
        numeric = numeric_columns(written[first + 1 :], width, numbers, least=0.5)
        cells = [row.cells for row in written[first:]]
        count = count_header_rows(cells, numeric, numbers)
        if count > 1:
            return first, count
    return top, int(header is True or _is_header(written[top:], width, numbers))


def numeric_columns(
    rows: Sequence[ParsedRow], width: int, numbers: NumberFormat, least: float = 0.8
) -> tuple[bool, ...]:
    """For each column, whether at least a share of its non-missing cells are numbers."""
    known = [0] * width
    good = [0] * width
    for row in rows:
        if len(row.cells) != width:
            continue
        for position, cell in enumerate(row.cells):
            if not is_marker(cell):
                known[position] += 1
                good[position] += numbers.matches(cell)
    return tuple(k > 0 and g >= least * k for k, g in zip(known, good, strict=True))


def find_footnotes(
    lines: Sequence[str], dialect: Dialect, numeric: Sequence[bool], keep: int
) -> tuple[int, int]:
    """Count the footnotes at the end of the text, with the blank lines among and after them.

    A footnote is a record with one text cell, in its first column, of a table of three columns or
    more, that is a remark (it starts with "Note", "Source", a star and the like, is a long
    sentence, or is in a numeric column); or a record of another width than the table's, or with
    words in every numeric column, that is a remark. All lines after the first footnote are
    footnotes or blank.

    Args:
        lines: The last lines of the text.
        dialect: Delimiter and quotation mark.
        numeric: For each column of the table, whether it is numeric.
        keep: Minimal number of lines that remain.

    Returns:
        Number of lines to cut off, and number of footnotes among them.
    """
    cut = notes = 0
    for index in range(len(lines) - 1, max(keep, len(lines) - _MAX_FOOTNOTES) - 1, -1):
        cells = next((row.cells for row in split_rows([lines[index]], dialect)), ())
        if count_filled(cells) == 0:
            continue
        if not _is_footnote(cells, numeric):
            break
        cut = len(lines) - index
        notes += 1
    return cut, notes


def _is_footnote(cells: Sequence[str], numeric: Sequence[bool]) -> bool:
    width = len(numeric)
    text = cells[0] if cells else ""
    remark = bool(_NOTE_WORDS.search(text)) or text.startswith(_NOTE_SIGNS)
    if width >= 3 and count_filled(cells) == 1 and text:
        sentence = len(text) > 40 and text.count(" ") >= 4
        return remark or sentence or (numeric[0] and not any(char.isdigit() for char in text))
    if width < 2 or not remark:
        return False
    under = [cell for cell, number in zip(cells, numeric, strict=False) if number and cell]
    words = [cell for cell in under if not any(char.isdigit() for char in cell)]
    if len(cells) == width:
        return bool(words) and len(words) == len(under)
    return bool(words) or not any(numeric) or len(cells) == 1


def _modal_width(rows: Sequence[ParsedRow]) -> int:
    return Counter(len(row.cells) for row in rows).most_common(1)[0][0]


def _count_titles(rows: Sequence[ParsedRow], width: int, numbers: NumberFormat) -> int:
    """Number of records above the header: titles, comments, and short descriptions."""
    last = min(len(rows) - 1, _MAX_TITLE_ROWS)
    top = 0
    while top < last and _is_title(rows, top, width, numbers):
        top += 1
    # A title with commas may have as many cells as the header; a lone cell below reveals it.
    for index in range(top, last):
        cells = rows[index].cells
        if len(cells) == width and any(numbers.matches(cell) for cell in cells):
            return top
        if len(cells) == 1 < width and _is_title(rows, index, width, numbers):
            top = index + 1
    return top


def _is_title(rows: Sequence[ParsedRow], top: int, width: int, numbers: NumberFormat) -> bool:
    cells, below = rows[top].cells, rows[top + 1].cells
    if width < 2:
        return cells[0].startswith("#") and not below[0].startswith("#") and top == 0
    if cells[0].startswith("#") and len(cells) != width:
        return True
    count = count_filled(cells)
    if len(cells) == width:
        return count == 1 and bool(cells[0]) and width >= 3 and not numbers.matches(cells[0])
    if count <= 2 and width >= count + 2:
        return True
    if count == 1 and width == 2:
        return not _all_decimal_commas(rows[top + 1 :])
    text_only = not any(numbers.matches(cell) for cell in cells)
    return len(cells) < width - 1 and text_only and rows[top + 1 :] != []


def _all_decimal_commas(rows: Sequence[ParsedRow]) -> bool:
    return all(len(row.cells) == 2 and all(c.isdigit() for c in row.cells) for row in rows)


def _is_header(rows: Sequence[ParsedRow], width: int, numbers: NumberFormat) -> bool:
    """Whether the first record is a header rather than the first row of values."""
    first, rest = rows[0].cells, [row for row in rows[1:] if len(row.cells) == width]
    if not rest:
        return not any(numbers.matches(cell) for cell in first)
    # Repetitions of the header are not data.
    others = [row for row in rest if row.cells != first]
    numeric = numeric_columns(others or rest, width, numbers)
    names = [cell for cell, number in zip(first, numeric, strict=False) if number]
    like_numbers = [cell for cell in names if numbers.matches(cell)]
    if names:
        return 2 * len(like_numbers) < len(names) or _is_sequence(like_numbers, rest[0].cells)
    seen: list[set[str]] = [set() for _ in range(width)]
    for row in rest:
        for position, cell in enumerate(row.cells):
            seen[position].add(cell)
    again = sum(
        cell in values
        for cell, values in zip(first, seen, strict=False)
        if cell and len(values) > 1
    )
    return 2 * again < count_filled(first)


def _is_sequence(cells: list[str], below: Sequence[str]) -> bool:
    """Whether the cells are 0, 1, 2, … or years, unlike those of the row below."""

    def steps(values: Sequence[str]) -> set[int]:
        whole = [int(value) for value in values if value.isdigit()]
        if len(whole) != len(values) or len(whole) < 3:
            return set()
        return {after - before for before, after in pairwise(whole)}

    if len(cells) >= 3 and all(re.fullmatch(r"(1[89]|20)\d\d", cell) for cell in cells):
        return not any(re.fullmatch(r"(1[89]|20)\d\d", cell) for cell in below)
    return cells[:1] == ["0"] and steps(cells) == {1} != steps(below[-len(cells) :])


def _align_header(
    cells: tuple[str, ...],
    body: Sequence[ParsedRow],
    width: int,
    numeric: tuple[bool, ...],
    notes: list[str],
) -> tuple[tuple[str, ...], int, tuple[bool, ...]]:
    """Align the header's length with that of the rows, where a usual reason explains the gap."""
    last_is_empty = all(len(row.cells) < width or not row.cells[-1] for row in body)
    if len(cells) == width - 1 and not last_is_empty:
        notes.append(
            "The header has one name fewer than the rows have cells; the first column was taken "
            "as row names."
        )
        return ("", *cells), width, numeric
    if len(cells) < width:
        return cells + ("",) * (width - len(cells)), width, numeric
    trimmed = cells[:width]
    if not any(cells[width:]):
        return trimmed, width, numeric
    extra = len(cells) - width
    return cells, len(cells), numeric + (False,) * extra


def _second_header(
    body: Sequence[ParsedRow], width: int, numbers: NumberFormat
) -> tuple[str, ...] | None:
    """The first record, if it has words in the numeric columns; else None."""
    if len(body) < 3 or len(body[0].cells) != width:
        return None
    numeric = numeric_columns(body[1:], width, numbers, least=0.9)
    cells = body[0].cells
    under = [cell for cell, number in zip(cells, numeric, strict=True) if number]
    words = [cell for cell in under if cell and not is_marker(cell)]
    if len(words) < max(1, len(under) // 2) or any(numbers.matches(cell) for cell in cells):
        return None
    again = sum(cell in {row.cells[0] for row in body[1:]} for cell in cells[:1] if cell)
    return None if again or len(under) < min(2, width) else cells


def _nested_note(top: int, count: int, names: Sequence[str]) -> str:
    joined = [name for name in names if " / " in name]
    shown = ", ".join(map(repr, joined[:2])) + (" and others" if len(joined) > 2 else "")
    return (
        f"Rows {top + 1} to {top + count} are header rows; their cells were joined to one name a "
        f"column{': ' if joined else ''}{shown}. A blank cell belongs to the group at its left."
    )


def _title_notes(rows: Sequence[ParsedRow]) -> list[str]:
    if not rows:
        return []
    first = _preview(rows[0].cells)
    if len(rows) == 1:
        return [f"Line {rows[0].line} above the header was left out as a title: {first}."]
    return [f"{len(rows)} lines above the header were left out as titles, the first: {first}."]


def _preview(cells: Sequence[str]) -> str:
    text = ", ".join(cell for cell in cells if cell)
    return repr(text if len(text) <= 80 else text[:77] + "...")
