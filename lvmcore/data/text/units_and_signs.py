"""Percent signs, currencies and units beside the number in every cell of a column."""

import re
from typing import Any

import pyarrow.compute as pc

__all__ = ["split_unit", "strip_unit"]

_BEFORE = re.compile(r"([$€£¥]|CHF|EUR|USD|GBP)\s*([-+]?[\d.,].*)")
# A word needs a space before it: "12 kg" is a measurement, "12A" may be a name.
_AFTER = re.compile(r"(.*[\d.,])(\s*[%‰$€£¥°]|\s+°?[^\W\d_]{1,6}(?:[/²³][^\W\d_]{0,4})?)")


def strip_unit(known: Any, pattern: str) -> tuple[Any, str] | None:
    """Strip the sign or unit that all cells of a column share.

    Args:
        known: Stripped Arrow strings, null where a cell is missing.
        pattern: Regular expression of a number.

    Returns:
        The stripped cells and the unit; None if any cell has another unit or none, or is not a
        number without it.
    """
    cells = known.drop_null()
    if not len(cells):
        return None
    found = split_unit(cells[0].as_py())
    if found is None:
        return None
    _, sign, before = found
    escaped = re.escape(sign)
    unit = rf"^{escaped}\s*" if before else rf"\s*{escaped}$"
    if not pc.all(pc.match_substring_regex(cells, pattern=unit)).as_py():
        return None
    bare = pc.replace_substring_regex(known, pattern=unit, replacement="")
    right = pc.match_substring_regex(bare.drop_null(), pattern=pattern)
    return (bare, sign) if pc.all(right).as_py() else None


def split_unit(cell: str) -> tuple[str, str, bool] | None:
    """Split a cell at its unit.

    Args:
        cell: The cell, stripped.

    Returns:
        What may be a number, the unit, and whether the unit comes first; None without a unit.
    """
    match = _BEFORE.fullmatch(cell)
    if match is not None:
        return match.group(2), match.group(1), True
    match = _AFTER.fullmatch(cell)
    return None if match is None else (match.group(1), match.group(2).strip(), False)
