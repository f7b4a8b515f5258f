"""Missing-value markers: words such as NA, and sentinel numbers such as -200."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NUMBER_MARKERS", "TEXT_MARKERS", "Sentinel", "find_sentinels", "is_marker"]

#: Markers of a missing cell in a column of numbers or dates, in lower case.
_NUMBER_WORDS = (
    "na",
    "n/a",
    "n.a.",
    "n.a",
    "#n/a",
    "#na",
    "<na>",
    "nan",
    "-nan",
    "1.#qnan",
    "nat",
    "null",
    "none",
    "nil",
    "missing",
    "n/d",
    "nd",
    "?",
    "-",
    "--",
    "---",
    "–",
    "—",
    ".",
    "..",
    "...",
    "*",
    "#value!",
    "#div/0!",
    "#num!",
    "#ref!",
    "#null!",
    "#name?",
)
_FORMS = {form for word in _NUMBER_WORDS for form in (word, word.upper(), word.capitalize())}
NUMBER_MARKERS: tuple[str, ...] = ("", *sorted(_FORMS | {"NaN", "NaT", "-NaN", "N/a", "1.#QNAN"}))
#: Markers in a column of text: only those written by programs, since others can be answers.
TEXT_MARKERS: tuple[str, ...] = ("", "NaN", "nan", "NaT", "<NA>", "#N/A", "NULL", "null", "NA")

_COMMON_NEGATIVE = (-9.0, -99.0, -999.0, -9999.0, -99999.0, -999999.0, -32768.0)
_COMMON_POSITIVE = (999.0, 9999.0, 99999.0, 999999.0, 32767.0)
_MIN_COLUMNS = 3
_MIN_CELLS = 10


@dataclass(frozen=True)
class Sentinel:
    """A number that probably stands for missing cells.

    Attributes:
        value: The number.
        columns: Positions of the columns that contain it.
        cells: Number of cells that contain it.
        confirmed: Whether the evidence suffices to treat it as missing.
    """

    value: float
    columns: tuple[int, ...]
    cells: int
    confirmed: bool


def is_marker(cell: str) -> bool:
    """Whether a cell is empty or a marker of a missing number."""
    return cell in _MARKER_SET


_MARKER_SET = frozenset(NUMBER_MARKERS)


def find_sentinels(columns: Sequence[NDArray[np.float64] | None]) -> list[Sentinel]:
    """Find numbers that stand for missing cells, such as the -200 of an air-quality logger.

    A negative whole number of -9 or below is a candidate in a column if it is the column's
    minimum, occurs at least twice, and is separate: every other value is above half of it, and
    the others are either all at least zero or span less than the gap to it. It is confirmed, and
    treated as missing, only if it is a candidate in three columns or more, in every column that
    contains it, and in ten cells or more: no measured quantity has the same extreme value in
    unrelated columns. Other candidates (fewer columns, fewer cells, or 999, 9999 and the like
    above all other values) are reported, and their values are kept.

    Args:
        columns: For each column its numbers with NaN for missing cells, or None for other columns.
    """
    suspects: dict[float, list[tuple[int, int]]] = {}
    for position, values in enumerate(columns):
        if values is None:
            continue
        for value, count in _candidate_sentinels(values):
            suspects.setdefault(value, []).append((position, count))
    found = []
    for value, places in sorted(suspects.items()):
        cells = sum(count for _, count in places)
        enough = value < 0 and len(places) >= _MIN_COLUMNS and cells >= _MIN_CELLS
        confirmed = enough and _occurs_only_in(columns, value, {position for position, _ in places})
        classic = value in _COMMON_NEGATIVE or value in _COMMON_POSITIVE
        if confirmed or enough or (classic and cells >= _MIN_CELLS // 2):
            positions = tuple(position for position, _ in places)
            found.append(Sentinel(value, positions, cells, confirmed))
    return found


def _candidate_sentinels(values: NDArray[np.float64]) -> list[tuple[float, int]]:
    known = values[np.isfinite(values)]
    if known.size < 3:
        return []
    low, high = float(known.min()), float(known.max())
    found = []
    if low <= -9.0 and low == round(low):
        rest = known[known > low]
        count = known.size - rest.size
        if rest.size and count >= 2 and _is_separate(low, rest):
            found.append((low, int(count)))
    if high in _COMMON_POSITIVE:
        rest = known[known < high]
        count = known.size - rest.size
        if rest.size and count >= 2 and high - float(rest.max()) > 5 * float(np.ptp(rest)) > 0:
            found.append((high, int(count)))
    return found


def _is_separate(low: float, rest: NDArray[np.float64]) -> bool:
    nearest = float(rest.min())
    return nearest > low / 2 and (nearest >= 0 or nearest - low > float(np.ptp(rest)))


def _occurs_only_in(
    columns: Sequence[NDArray[np.float64] | None], value: float, places: set[int]
) -> bool:
    return all(
        position in places or values is None or not bool((values == value).any())
        for position, values in enumerate(columns)
    )
