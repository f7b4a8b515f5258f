"""Nested header rows: groups above the names of columns, in cells that were merged."""

from collections.abc import Sequence

from lvmcore.data.text.missing_markers import is_marker
from lvmcore.data.text.number_format import NumberFormat

__all__ = ["count_header_rows", "is_group_row", "joined_names"]

#: Most header rows that are detected.
_MOST_ROWS = 4
#: The name of a group has at most so many characters; a longer one is a question or a remark.
_MAX_GROUP = 60
_JOINED = " / "


def count_header_rows(
    rows: Sequence[Sequence[str]], numeric: Sequence[bool], numbers: NumberFormat
) -> int:
    """Number of header rows at the top, 1 without nested ones.

    Rows are nested header rows if those below the first have words and no numbers in the numeric
    columns, and if a cell above the last of them is blank between the name of a group at its left
    and a name below it, as a merged cell is written.

    Args:
        rows: The cells of the first rows, the first being a header.
        numeric: For each column, whether its cells are numbers.
        numbers: The number format.
    """
    width = len(numeric)
    count = 1
    while count < min(len(rows) - 1, _MOST_ROWS) and _is_words(rows[count], numeric, numbers):
        count += 1
    header = [_padded(row, width) for row in rows[:count]]
    groups = [cell for row in header[:-1] for cell in row]
    if max(map(len, groups), default=0) > _MAX_GROUP or not _has_merged_cells(header):
        return 1
    return count


def joined_names(rows: Sequence[Sequence[str]], width: int) -> tuple[str, ...]:
    """One name a column: the groups above it and its own name, such as "Blood / Glucose".

    A blank cell belongs to the group at its left where no row above has a new group in between and
    a row below has a name.

    Args:
        rows: The header rows.
        width: Number of columns.
    """
    cells = [list(_padded(row, width)) for row in rows]
    filled: list[list[str]] = []
    for level, row in enumerate(cells[:-1]):
        group, names = "", []
        for position, cell in enumerate(row):
            above = any(upper[position] for upper in cells[:level])
            below = any(lower[position] for lower in cells[level + 1 :])
            group = cell or (group if below and not above else "")
            names.append(group)
        filled.append(names)
    filled.append(cells[-1])
    return tuple(
        _JOINED.join(dict.fromkeys(row[position] for row in filled if row[position]))
        for position in range(width)
    )


def is_group_row(row: Sequence[str]) -> bool:
    """Whether a row has a name with a blank cell before it, unlike a title.

    Args:
        row: Its cells.
    """
    last = max((position for position, cell in enumerate(row) if cell), default=0)
    return last > 0 and not all(row[:last])


def _padded(row: Sequence[str], width: int) -> tuple[str, ...]:
    return (*row, *("",) * (width - len(row)))[:width]


def _is_words(row: Sequence[str], numeric: Sequence[bool], numbers: NumberFormat) -> bool:
    """Whether a row has words in the numeric columns, and no number or marker."""
    under = [cell for cell, number in zip(row, numeric, strict=False) if number and cell]
    return bool(under) and not any(numbers.matches(cell) or is_marker(cell) for cell in under)


def _has_merged_cells(rows: Sequence[tuple[str, ...]]) -> bool:
    for level, row in enumerate(rows[:-1]):
        grouped = False
        for position, cell in enumerate(row):
            below = any(lower[position] for lower in rows[level + 1 :])
            if grouped and not cell and below:
                return True
            grouped = grouped or bool(cell)
    return False
