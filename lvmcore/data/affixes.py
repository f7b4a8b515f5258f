"""Percent signs, currencies and units that stand in every cell beside the number."""

import re
from typing import Any

import pyarrow.compute as pc

from lvmcore.data.numberformat import NumberFormat, looks_numeric

__all__ = ["without_affix"]

_BEFORE = re.compile(r"([$€£¥])\s*([-+]?[\d.,].*)")
# A word needs a space before it: "12 kg" is a measurement, "12A" may be a name.
_AFTER = re.compile(r"(.*[\d.,])(\s*[%‰$€£¥°]|\s+°?[^\W\d_]{1,6}(?:[/²³][^\W\d_]{0,4})?)")


def without_affix(known: Any, numbers: NumberFormat) -> tuple[Any, str] | None:
    """Take the one sign or unit that all cells share away from the numbers.

    Args:
        known: Arrow strings without spaces around them, null where a cell is missing.
        numbers: How numbers are written.

    Returns:
        The cells without it, and what it was; None when some cell has none, or another, or what
        is left is no number.
    """
    cells = known.drop_null()
    if not len(cells):
        return None
    found = _split(cells[0].as_py())
    if found is None:
        return None
    _, sign, before = found
    escaped = re.escape(sign)
    pattern = rf"^{escaped}\s*" if before else rf"\s*{escaped}$"
    if not pc.all(pc.match_substring_regex(cells, pattern=pattern)).as_py():
        return None
    bare = pc.replace_substring_regex(known, pattern=pattern, replacement="")
    right = pc.match_substring_regex(bare.drop_null(), pattern=numbers.pattern)
    return (bare, sign) if pc.all(right).as_py() else None


def _split(cell: str) -> tuple[str, str, bool] | None:
    """A number, what stands beside it, and whether that stands before it."""
    match = _BEFORE.fullmatch(cell)
    if match is not None:
        number, sign, before = match.group(2), match.group(1), True
    else:
        match = _AFTER.fullmatch(cell)
        if match is None:
            return None
        number, sign, before = match.group(1), match.group(2).strip(), False
    return (number, sign, before) if looks_numeric(number) else None
