"""Conversion of a column of strings to numbers, dates or text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lvmcore.data.text.dates import read_dates
from lvmcore.data.text.missing_markers import NUMBER_MARKERS, TEXT_MARKERS
from lvmcore.data.text.number_format import NumberFormat
from lvmcore.data.text.number_marks import looks_numeric
from lvmcore.data.text.ranges import range_hint
from lvmcore.data.text.units_and_signs import strip_unit

__all__ = ["ConvertedColumn", "convert_column"]

#: A column is numeric if at least this share of its non-missing cells are numbers.
NUMERIC_SHARE = 0.8
_CODE = r"^[+-]?0[0-9xX]"
_LONG_CODE = r"^\d{16,}$"
_COUNTRY_CODE = r"^[A-Z]{1,3}$"
_EXAMPLES = 3
_SAMPLE = 500
_MAX_SUSPECTS = 1000


@dataclass
class ConvertedColumn:
    """One column after conversion.

    Attributes:
        values: int64 or float64 (NumPy), nullable Int64, datetime64 or strings.
        unparsed: Number of text cells of a numeric column, which are missing now.
        examples: The first few distinct ones.
        bad_rows: Their rows.
        markers: The markers of missing cells that occurred.
        hint: Why the column is a date or a code, for the explanation of its type.
        na_answers: Number of cells of a text column that are "N/A" and kept as values.
        unit: The sign or unit that was stripped from every number.
        suspects: Cells that look like numbers in another format than the one used.
        rounded: The first row whose number lost digits above 2^53; None without one.
        decimal: The decimal mark of its numbers.
    """

    values: Any
    unparsed: int = 0
    examples: tuple[str, ...] = ()
    bad_rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    markers: frozenset[str] = frozenset()
    hint: str = ""
    na_answers: int = 0
    unit: str = ""
    suspects: tuple[str, ...] = ()
    rounded: int | None = None
    decimal: str = "."


def convert_column(
    cells: Any, numbers: NumberFormat | None, extra: Sequence[str] = (), headers: int = 0
) -> ConvertedColumn:
    """Convert a column of strings.

    Args:
        cells: Arrow string array without nulls.
        numbers: The number format; None for cells that stay text.
        extra: Further markers of missing cells.
        headers: Number of leading cells of a second header row: in a numeric column they are
            missing and not counted as text.
    """
    if numbers is None:
        hint = "its cells may be numbers, and are kept as text"
        return _convert_text(pc.utf8_trim_whitespace(cells), extra, hint)
    whole = _cast(cells, pa.int64())
    if whole is not None and not _any(cells, _CODE):
        return ConvertedColumn(whole.to_numpy(zero_copy_only=False))
    trimmed = pc.utf8_trim_whitespace(cells)
    absent = pc.is_in(trimmed, value_set=pa.array([*NUMBER_MARKERS, *extra]))
    known = pc.if_else(absent, pa.scalar(None, pa.string()), trimmed)
    if known.null_count == len(known):
        markers = frozenset(pc.unique(trimmed).to_pylist())
        return ConvertedColumn(np.full(len(known), np.nan), markers=markers)
    if _any(known, _CODE) and _all(known, r"^[+-]?\d+$"):
        return _convert_text(
            trimmed, extra, hint="its cells are codes with leading zeros, kept as text"
        )
    digits = _any(known, _LONG_CODE) and _all(known, r"^\d+$")
    if digits and _cast(known, pa.int64()) is None:
        return _convert_text(
            trimmed, extra, hint="its numbers have too many digits to be exact as numbers"
        )
    plain = _plain_numbers(known, numbers)
    if plain is not None:
        markers = _used_markers(trimmed, absent)
        return ConvertedColumn(plain, markers=markers, rounded=_first_rounded(plain, known))
    return _convert_mixed(trimmed, known, absent, numbers, extra, headers)


def _convert_mixed(
    trimmed: Any,
    known: Any,
    absent: Any,
    numbers: NumberFormat,
    extra: Sequence[str],
    headers: int,
) -> ConvertedColumn:
    """Numbers in a local format or with text among them, else dates, else text."""
    signed = pc.replace_substring(known, pattern="−", replacement="-")
    good = pc.fill_null(pc.match_substring_regex(signed, pattern=numbers.pattern), False)
    below = known.slice(headers)
    count = len(below) - below.null_count
    right = pc.sum(good.slice(headers)).as_py() or 0
    if count and right >= NUMERIC_SHARE * count:
        right_cells = pc.if_else(good, signed, pa.scalar(None, pa.string()))
        values = numbers.to_plain(right_cells)
        bad = pc.and_(pc.invert(good), pc.is_valid(known))
        strange = pc.unique(pc.filter(below, bad.slice(headers))).to_pylist()
        written_whole = not _any(right_cells, rf"^[^eEnN{numbers.decimal}]*[{numbers.decimal}eEnN]")
        return ConvertedColumn(
            _as_integers(values) if written_whole else values.to_numpy(zero_copy_only=False),
            unparsed=count - right,
            examples=tuple(strange[:_EXAMPLES]),
            bad_rows=np.flatnonzero(bad.slice(headers).to_numpy(zero_copy_only=False)) + headers,
            markers=_used_markers(trimmed, absent),
            suspects=_other_format_cells(strange),
            rounded=_first_rounded(
                values.to_numpy(zero_copy_only=False), right_cells, numbers.decimal
            ),
        )
    bare = strip_unit(known, numbers.pattern)
    if bare is not None:
        converted = _convert_mixed(trimmed, bare[0], absent, numbers, extra, headers)
        converted.unit = bare[1]
        return converted
    text = _convert_text(trimmed, extra)
    dates = read_dates(pd.Series(known.to_pandas()))
    if dates is not None and dates.values is not None:
        return ConvertedColumn(
            dates.values, markers=_used_markers(trimmed, absent), hint=dates.reason
        )
    text.hint = dates.reason if dates is not None else range_hint(known)
    text.suspects = _other_format_cells(
        pc.unique(known.drop_null()).slice(0, _MAX_SUSPECTS).to_pylist()
    )
    return text


def _convert_text(trimmed: Any, extra: Sequence[str], hint: str = "") -> ConvertedColumn:
    markers = [*TEXT_MARKERS, *extra]
    if _are_country_codes(trimmed):
        markers.remove("NA")
    absent = pc.is_in(trimmed, value_set=pa.array(markers))
    known = pc.if_else(absent, pa.scalar(None, pa.string()), trimmed)
    answers = pc.sum(pc.is_in(known, value_set=pa.array(["N/A", "n/a"]))).as_py() or 0
    values = pd.Series(known.to_pandas())
    return ConvertedColumn(
        values, markers=_used_markers(trimmed, absent), hint=hint, na_answers=answers
    )


def _are_country_codes(trimmed: Any) -> bool:
    """Whether all cells are one to three capitals: "NA" is then Namibia or North America."""
    values = [value for value in pc.unique(trimmed).to_pylist() if value not in {"", "NA"}]
    if len(values) < 5:
        return False
    return _all(pa.array(values), _COUNTRY_CODE)


def _plain_numbers(known: Any, numbers: NumberFormat) -> Any:
    """Whole or decimal numbers in Arrow's format; None if any cell is in another format."""
    whole = _cast(known, pa.int64())
    if whole is not None:
        return _nullable_integers(whole)
    if numbers.decimal != ".":
        return None
    floats = _cast(known, pa.float64())
    return None if floats is None else floats.to_numpy(zero_copy_only=False)


def _as_integers(values: Any) -> Any:
    """Floats as integers if all of them are whole."""
    floats = values.to_numpy(zero_copy_only=False)
    known = floats[~np.isnan(floats)]
    if not np.all(np.isfinite(known)) or np.any(np.abs(known) > 2**53):
        return floats
    if np.any(known != np.round(known)):
        return floats
    return _nullable_integers(pc.cast(values, pa.int64()))


def _first_rounded(values: Any, cells: Any, decimal: str = ".") -> int | None:
    """The first row of a number above 2^53 that is not the number written in its cell."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return None
    large = np.flatnonzero(np.isfinite(values) & (np.abs(values) >= 2**53))
    for row in large[:_MAX_SUSPECTS].tolist():
        whole, _, rest = cells[row].as_py().partition(decimal)
        digits = re.sub(r"[^0-9]", "", whole)
        if not re.search("[eE]", whole + rest) and int(digits or 0) != int(abs(values[row])):
            return int(row)
    return None


def _nullable_integers(whole: Any) -> Any:
    if whole.null_count == 0:
        return whole.to_numpy(zero_copy_only=False)
    absent = whole.is_null().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)
    return pd.arrays.IntegerArray(filled.copy(), absent.copy())


def _cast(cells: Any, kind: Any) -> Any:
    """The cells as numbers, or None if any is not one; a sample is cast first to fail early."""
    try:
        pc.cast(cells.slice(0, _SAMPLE), kind)
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def _any(cells: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern=pattern)).as_py())


def _all(cells: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(cells, pattern=pattern)).as_py())


def _used_markers(trimmed: Any, absent: Any) -> frozenset[str]:
    return frozenset(pc.unique(pc.filter(trimmed, absent)).to_pylist())


def _other_format_cells(cells: Sequence[str]) -> tuple[str, ...]:
    numeric = tuple(cell for cell in cells[:_MAX_SUSPECTS] if looks_numeric(cell))
    return numeric if 2 * len(numeric) >= len(cells[:_MAX_SUSPECTS]) else ()
