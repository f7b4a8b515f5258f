"""Profiles of columns, and the pattern of missing cells. Pure: no streamlit, no plotly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.formatting import count, listed, number, shortened
from lvmcore.data import ColumnDescription, ColumnType, Table
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MOST_LEVELS", "ColumnProfile", "MissingCells", "column_profile", "missing_cells"]


#: Most and fewest bins of a histogram; fewer only for fewer distinct integers.
MOST_BARS, FEWEST_BARS = 40, 8
#: Most levels with a bar of their own.
MOST_LEVELS = 12
#: Most rows and columns of the picture of missing cells.
PICTURE = (300, 200)
_EXAMPLES = 4
_PATTERNS = 3
_EPOCH = pd.Timestamp("1970-01-01")


@dataclass(frozen=True)
class ColumnProfile:
    """Summary statistics and histogram of a column.

    Attributes:
        title: title of the axis: the name of the column, or log(1 + name).
        facts: titles and texts of the summary statistics.
        counts: rows in each bin, [B]; empty if every cell is missing.
        edges: edges of the bins, [B + 1]; None if the bins are levels.
        levels: names of the bins of a category or text, [B], the most frequent first.
        dates: whether the edges are seconds since 1970.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    counts: NDArray[np.intp]
    edges: FloatArray | None = None
    levels: tuple[str, ...] = ()
    dates: bool = False

    @property
    def names_rows(self) -> bool:
        """Whether no level occurs twice, so that all bars would be equal."""
        return bool(self.levels) and bool((self.counts == 1).all())


@dataclass(frozen=True)
class MissingCells:
    """The pattern of missing cells of a table.

    Attributes:
        share: share of missing cells in each block, [r, c].
        rows: first row of each block, then the number of rows, from 0, [r + 1].
        columns: likewise for columns, [c + 1].
        names: names of all columns.
        cells: number of missing cells.
        by_column: missing cells of each column.
        complete: number of rows without a missing cell.
        patterns: sets of columns that are missing together, with their numbers of rows, the most
            frequent first.
    """

    share: FloatArray
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    names: tuple[str, ...]
    cells: int
    by_column: NDArray[np.intp]
    complete: int
    patterns: tuple[tuple[tuple[str, ...], int], ...] = field(default=())

    @property
    def blocks(self) -> bool:
        """Whether a pixel of the picture stands for several cells of the table."""
        n, d = int(self.rows[-1]), int(self.columns[-1])
        return self.share.shape != (n, d)


def column_profile(table: Table, name: str, *, log1p: bool = False) -> ColumnProfile:
    """Profile of a column.

    Args:
        table: the table.
        name: name of the column.
        log1p: whether the histogram is of log(1 + x); all cells must be above −1.
    """
    column = table.column(name)
    values = _cells(table, name)
    known = values.dropna()
    facts = [
        ("Cells", count(len(values), "row")),
        ("Missing", _share(len(values) - len(known), len(values))),
        ("Distinct", f"{known.nunique():,}".replace(",", "\u202f")),
    ]
    if column.unparsed:
        texts = f"{column.unparsed} cells: {listed(column.examples)}"
        facts.append(("Text among numbers", texts))
    facts += _level_facts(column, known) if _has_levels(column, known) else _quantile_facts(known)
    examples = [shortened(_text(cell), 24) for cell in pd.unique(known)[:_EXAMPLES]]
    facts.append(("Examples", ", ".join(examples) or "–"))
    if known.empty:
        return ColumnProfile(shortened(name), tuple(facts), np.zeros(0, dtype=np.intp))
    if _has_levels(column, known):
        shown = _names(known).value_counts().iloc[:MOST_LEVELS]
        levels = tuple(map(str, shown.index))
        return ColumnProfile(
            shortened(name), tuple(facts), shown.to_numpy().astype(np.intp), levels=levels
        )
    dates = pd.api.types.is_datetime64_any_dtype(known.dtype)
    numbers = _numbers(known)
    numbers = np.log1p(numbers) if log1p else numbers
    edges = _edges(numbers)
    title = f"log(1 + {shortened(name)})" if log1p else shortened(name)
    counts = np.histogram(numbers, bins=edges)[0]
    return ColumnProfile(title, tuple(facts), counts.astype(np.intp), edges, dates=dates)


def _cells(table: Table, name: str) -> pd.Series[Any]:
    """The cells of a column, without a second header row."""
    return table.frame[name].iloc[1 if table.detected.second_header else 0 :]


def _has_levels(column: ColumnDescription, known: pd.Series[Any]) -> bool:
    """Whether a column has levels, and no numbers or dates."""
    measured = pd.api.types.is_numeric_dtype(known.dtype) and known.dtype != bool
    dated = pd.api.types.is_datetime64_any_dtype(known.dtype)
    return not (measured or dated) or column.type is ColumnType.CATEGORY


def _level_facts(column: ColumnDescription, known: pd.Series[Any]) -> list[tuple[str, str]]:
    if known.empty:
        return []
    counts = _names(known).value_counts()
    most = f"{shortened(counts.index[0], 40)} ({_share(int(counts.iloc[0]), len(known))})"
    facts = [("Most frequent", most)] if counts.iloc[0] > 1 else []
    single = int((counts == 1).sum())
    if single and single < len(counts):
        facts.append(("Levels with one row", f"{single}"))
    if column.type is ColumnType.TEXT:
        lengths = known.astype(str).str.len()
        facts.append(("Characters", f"{lengths.min()} to {lengths.max()}"))
    return facts


def _quantile_facts(known: pd.Series[Any]) -> list[tuple[str, str]]:
    """Minimum, quartiles, maximum; for numbers also mean and sd."""
    numbers = _numbers(known)
    infinite = len(known) - len(numbers)
    facts = [("Infinite", count(infinite, "cell"))] if infinite else []
    if not len(numbers):
        return facts
    low, *quartiles, high = np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1])
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        first, middle, last = (_day(seconds) for seconds in (low, quartiles[1], high))
        return [*facts, ("Earliest", first), ("Median", middle), ("Latest", last)]
    return [
        *facts,
        ("Min", _text(low)),
        ("Quartiles", " · ".join(map(_text, quartiles))),
        ("Max", _text(high)),
        ("Mean", number(float(numbers.mean()))),
        ("Sd", number(float(numbers.std()))),
    ]


def _numbers(known: pd.Series[Any]) -> FloatArray:
    """The finite cells as numbers; dates as seconds since 1970."""
    if pd.api.types.is_datetime64_any_dtype(known.dtype):
        if known.dt.tz is not None:
            known = known.dt.tz_convert("UTC").dt.tz_localize(None)
        known = (known - _EPOCH) / pd.Timedelta(seconds=1)
    numbers = known.to_numpy(dtype=np.float64)
    return np.asarray(numbers[np.isfinite(numbers)])


def _edges(numbers: FloatArray) -> FloatArray:
    """Edges of the bins; bins of integers all hold the same number of integers."""
    if not len(numbers):
        return np.array([0.0, 1.0])
    low, high = float(numbers.min()), float(numbers.max())
    bars = int(np.clip(np.ceil(np.sqrt(len(numbers))), FEWEST_BARS, MOST_BARS))
    if high - low < 2**52 and bool((numbers == np.round(numbers)).all()):
        width = max(1.0, np.ceil((high - low + 1) / MOST_BARS))
        bars = int(np.ceil((high - low + 1) / width))
        return np.asarray(low - 0.5 + width * np.arange(bars + 1))
    return np.histogram_bin_edges(numbers, bins=bars)


def _share(part: int, whole: int) -> str:
    digits = f"{part:,}".replace(",", "\u202f")
    return digits if not part or not whole else f"{digits}, {100 * part / whole:.3g} %"


def _text(cell: object) -> str:
    if isinstance(cell, pd.Timestamp | np.datetime64):
        return str(pd.Timestamp(cell)).removesuffix(" 00:00:00")
    if not isinstance(cell, float):
        return str(cell)
    whole = cell.is_integer() and abs(cell) < 1e9
    return f"{int(cell):,}".replace(",", "\u202f").replace("-", "−") if whole else number(cell)


def _names(known: pd.Series[Any]) -> pd.Series[Any]:
    """The cells as text, whole numbers without a decimal point."""
    texts = known.astype(str)
    return texts.str.removesuffix(".0") if known.dtype.kind == "f" else texts


def _day(seconds: float) -> str:
    return _text(_EPOCH + pd.Timedelta(seconds=round(float(seconds))))


def missing_cells(table: Table) -> MissingCells | None:
    """The pattern of missing cells; None if no cell is missing."""
    absent = table.frame.isna().to_numpy()
    if table.detected.second_header:
        absent = absent[1:]
    by_column = absent.sum(axis=0)
    if not by_column.any():
        return None
    rows, columns = (
        np.linspace(0, length, min(length, most) + 1).astype(np.intp)
        for length, most in zip(absent.shape, PICTURE, strict=True)
    )
    blocks = np.add.reduceat(absent, rows[:-1], axis=0, dtype=np.int64)
    blocks = np.add.reduceat(blocks, columns[:-1], axis=1)
    names = tuple(column.name for column in table.columns)
    return MissingCells(
        share=blocks / np.outer(np.diff(rows), np.diff(columns)),
        rows=rows,
        columns=columns,
        names=names,
        cells=int(by_column.sum()),
        by_column=by_column.astype(np.intp),
        complete=int((~absent.any(axis=1)).sum()),
        patterns=_patterns(absent, names),
    )


def _patterns(
    absent: NDArray[np.bool_], names: tuple[str, ...]
) -> tuple[tuple[tuple[str, ...], int], ...]:
    lacking = np.flatnonzero(absent.any(axis=0))
    rows = absent[np.ix_(absent.any(axis=1), lacking)]
    kinds, counts = np.unique(np.packbits(rows, axis=1), axis=0, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_PATTERNS]
    unpacked = np.unpackbits(kinds[most], axis=1, count=len(lacking)).astype(bool)
    return tuple(
        (tuple(names[column] for column in lacking[pattern]), int(n))
        for pattern, n in zip(unpacked, counts[most], strict=True)
    )
