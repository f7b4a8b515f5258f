"""Proposed roles of columns: the label, the row id, and the image shape of a row."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lvmcore.data.column_types import ColumnDescription, ColumnType, is_id_name, label_like_names

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["propose_image_shape", "propose_label", "propose_row_id"]

_CLASS_TYPES = {ColumnType.CATEGORY, ColumnType.BINARY}
_MAX_CLASSES = 30
_MAX_TEXT_COLUMNS = 3
_FIRST_NAMES = ("label", "labels", "class", "target", "species")
_GRID = re.compile(r"(?:pixel|px|p)[_ ]?(\d+)[_x ,](\d+)", re.IGNORECASE)
_LINE = re.compile(r"(?:pixel|px)[_ ]?(\d+)", re.IGNORECASE)
_MIN_SIDE = 4


def propose_label(table: "Table") -> str | None:
    """Propose the column of classes.

    First choice is a column with a usual name (label, class, target, species, …) and 2 to 30
    distinct values that repeat; second a text column of such values that is the last or the first
    column among few of its kind, or the only one.

    Returns:
        Its name, or None without a candidate.
    """
    fit = [column for column in table.columns if _can_be_label(column)]
    likely = label_like_names([column.name for column in table.columns])
    named = [column for column in fit if column.name in likely]
    if named:
        ranks = {name: rank for rank, name in enumerate(_FIRST_NAMES)}
        return min(named, key=lambda c: ranks.get(c.name.strip().lower(), len(ranks))).name
    texts = [column for column in fit if table.frame[column.name].dtype.kind not in "iufb"]
    if len(texts) <= _MAX_TEXT_COLUMNS:
        for end in (table.columns[-1], table.columns[0]):
            if end in texts:
                return end.name
    return texts[0].name if len(texts) == 1 else None


def _can_be_label(column: ColumnDescription) -> bool:
    return column.type in _CLASS_TYPES and 2 <= column.distinct <= _MAX_CLASSES


def propose_row_id(table: "Table") -> str | None:
    """Propose the column that identifies rows: an identifier with a distinct value in every row.

    Returns:
        Its name, or None when there is none.
    """
    first = 1 if table.detected.second_header else 0
    rows = len(table.frame) - first
    fit = [
        column
        for column in table.columns
        if column.type is ColumnType.IDENTIFIER
        and table.frame[column.name].iloc[first:].nunique(dropna=True) == rows
    ]
    named = [column for column in fit if is_id_name(column.name)]
    return (named or fit)[0].name if fit else None


def propose_image_shape(names: Sequence[str]) -> tuple[int, int] | None:
    """Infer an image's height and width from the names of its pixels.

    Args:
        names: Feature names: pixel_0_0, pixel_0_1, … row by row, or pixel0, pixel1, … whose
            number is a square.

    Returns:
        (height, width), or None when the names do not form a complete grid in order.
    """
    grid = [_GRID.fullmatch(name) for name in names]
    if names and all(grid):
        places = [(int(match[1]), int(match[2])) for match in grid if match is not None]
        base = places[0]
        height, width = (last - first + 1 for first, last in zip(base, places[-1], strict=True))
        wanted = [(base[0] + i, base[1] + j) for i in range(height) for j in range(width)]
        return (height, width) if places == wanted and min(height, width) > 1 else None
    line = [_LINE.fullmatch(name) for name in names]
    if not names or not all(line):
        return None
    numbers = [int(match[1]) for match in line if match is not None]
    side = math.isqrt(len(numbers))
    in_order = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return (side, side) if side >= _MIN_SIDE and side**2 == len(numbers) and in_order else None
