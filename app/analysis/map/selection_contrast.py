"""Columns ranked by their difference between selected and other rows, with histograms. Pure.

The measure of a numeric column is the two-sample Kolmogorov–Smirnov distance, max |F(x) − G(x)|
over all x, where F and G are the shares of the selected and of the other rows with a cell of at
most x. It has no unit, is invariant under monotone transforms such as log x, and detects a
difference in spread as well as in mean. Categories have no order: their measure is the largest
difference in the share of one level. Both lie between 0 (equal distributions) and 1 (disjoint).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.selection_masks import cell_levels
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "MOST_CELLS",
    "ColumnContrast",
    "ContrastRanking",
    "PairedHistogram",
    "paired_histogram",
    "rank_columns",
]


#: Most cells of a ranking; rows of larger tables are subsampled evenly.
MOST_CELLS = 2_000_000
#: A column of text with more levels than this is taken as row names, not as categories.
MOST_LEVELS = 50
#: Most levels with bars of their own.
LEVELS_SHOWN = 8
BARS = 24
#: 95 % quantile of the distance for rows picked at random: √(ln(2 / 0.05) / 2) √(1/n + 1/m).
_BY_CHANCE = float(np.sqrt(np.log(2 / 0.05) / 2))


@dataclass(frozen=True)
class ColumnContrast:
    """The difference of a column between the selected and the other rows.

    Attributes:
        name: name of the column.
        distance: 0 for equal distributions, 1 for disjoint ones.
        inside: mean of the selected rows in data units; None for categories and dates.
        outside: mean of the other rows in data units; None for categories and dates.
        level: the level with the largest difference in share; None for numbers.
    """

    name: str
    distance: float
    inside: float | None = None
    outside: float | None = None
    level: str | None = None


@dataclass(frozen=True)
class ContrastRanking:
    """All columns, ranked by distance.

    Attributes:
        columns: the largest distance first.
        by_chance: distance that one column in twenty reaches for rows picked at random.
        compared: number of selected and of other rows in the comparison.
    """

    columns: tuple[ColumnContrast, ...]
    by_chance: float
    compared: tuple[int, int]


@dataclass(frozen=True)
class PairedHistogram:
    """Distributions of a column in the selected and in the other rows.

    Attributes:
        name: name of the column.
        inside: share of the selected rows in each bin, [B]; missing cells are left out.
        outside: share of the other rows in each bin, [B].
        edges: edges of the bins, [B + 1]; None if the bins are levels.
        levels: names of the bins, [B]; the last may stand for several levels.
        dates: whether the edges are seconds since 1970.
    """

    name: str
    inside: FloatArray
    outside: FloatArray
    edges: FloatArray | None = None
    levels: tuple[str, ...] = ()
    dates: bool = False


def rank_columns(dataset: Dataset, selected: NDArray[np.bool_]) -> ContrastRanking | None:
    """Rank the columns of a table by their difference between selected and other rows.

    Args:
        dataset: the rows.
        selected: mask of the selected rows, [N].

    Returns:
        Every feature, label and further column of numbers, dates or few levels; None if all or no
        rows are selected.
    """
    if selected.all() or not selected.any():
        return None
    rows = _compared_rows(dataset, selected)
    chosen = selected[rows]
    n, m = int(chosen.sum()), int((~chosen).sum())
    found = []
    for name, cells in _columns(dataset, rows):
        one = _measure(name, cells, chosen)
        if one is not None:
            found.append(one)
    found.sort(key=lambda column: -column.distance)
    return ContrastRanking(tuple(found), _BY_CHANCE * float(np.sqrt(1 / n + 1 / m)), (n, m))


def _compared_rows(dataset: Dataset, selected: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rows of the ranking: all, or an even subsample of the selected and of the other rows."""
    most = max(200, MOST_CELLS // max(1, len(dataset.feature_names)))
    parts = []
    for part in (np.flatnonzero(selected), np.flatnonzero(~selected)):
        parts.append(
            part[:: max(1, -(-len(part) // (most // 2)))] if len(selected) > most else part
        )
    return np.sort(np.concatenate(parts))


def _columns(dataset: Dataset, rows: NDArray[np.intp]) -> Iterator[tuple[str, pd.Series[Any]]]:
    """The columns that can be compared: labels, features in data units, and other columns."""
    named = dataset.label_columns
    for name, labels in named.items():
        yield name, pd.Series(labels[rows], dtype=object)
    taken = {*named, *dataset.feature_names}
    others = [name for name in map(str, dataset.frame.columns) if name not in taken]
    units = dataset.original_units(dataset.X[rows])
    for d, name in enumerate(dataset.feature_names):
        # A column with one-hot features is compared as a whole, not by level.
        one_hot = name not in dataset.frame and any(name.startswith(f"{o} = ") for o in others)
        if name not in named and not one_hot:
            yield name, pd.Series(units[:, d])
    for name in others:
        yield name, dataset.frame[name].iloc[rows].reset_index(drop=True)


def _measure(name: str, cells: pd.Series[Any], chosen: NDArray[np.bool_]) -> ColumnContrast | None:
    numbers = _numbers(cells)
    if numbers is None:
        return _by_level(name, cells, chosen)
    known = np.isfinite(numbers)
    inside, outside = numbers[known & chosen], numbers[known & ~chosen]
    if not len(inside) or not len(outside) or np.ptp(numbers[known]) == 0:
        return None
    distance = kolmogorov_smirnov(inside, outside)
    if _is_date(cells):
        return ColumnContrast(name, distance)
    return ColumnContrast(name, distance, float(inside.mean()), float(outside.mean()))


def kolmogorov_smirnov(first: FloatArray, second: FloatArray) -> float:
    """max |F(x) − G(x)| of the empirical distribution functions of two samples.

    Args:
        first: finite values, [n].
        second: finite values, [m].
    """
    values = np.concatenate([first, second])
    steps = np.concatenate(
        [np.full(len(first), 1 / len(first)), np.full(len(second), -1 / len(second))]
    )
    order = np.argsort(values)
    gap = np.cumsum(steps[order])
    last = np.append(np.diff(values[order]) != 0, True)  # after all equal values
    return float(np.clip(np.abs(gap[last]).max(), 0.0, 1.0))


def _by_level(name: str, cells: pd.Series[Any], chosen: NDArray[np.bool_]) -> ColumnContrast | None:
    known = cells.notna().to_numpy(dtype=bool)
    if not (known & chosen).any() or not (known & ~chosen).any():
        return None
    codes, levels = cell_levels(cells[known])
    if not 1 < len(levels) <= min(MOST_LEVELS, len(codes) // 2):
        return None
    inside, outside = _shares(codes, chosen[known], len(levels))
    gap = np.abs(inside - outside)
    return ColumnContrast(name, float(gap.max()), level=levels[int(gap.argmax())])


def _shares(
    codes: NDArray[Any], chosen: NDArray[np.bool_], bars: int
) -> tuple[FloatArray, FloatArray]:
    """Share of the chosen and of the other rows in each bin."""
    return (
        np.bincount(codes[chosen], minlength=bars) / max(1, int(chosen.sum())),
        np.bincount(codes[~chosen], minlength=bars) / max(1, int((~chosen).sum())),
    )


def _is_date(cells: pd.Series[Any]) -> bool:
    return pd.api.types.is_datetime64_any_dtype(cells.dtype)


def _numbers(cells: pd.Series[Any]) -> FloatArray | None:
    """Cells as numbers, NaN where missing; dates as seconds since 1970; None for categories."""
    if _is_date(cells):
        if cells.dt.tz is not None:
            cells = cells.dt.tz_convert("UTC").dt.tz_localize(None)
        cells = (cells - pd.Timestamp("1970-01-01")) / pd.Timedelta(seconds=1)
    elif pd.api.types.is_bool_dtype(cells.dtype) or not pd.api.types.is_numeric_dtype(cells.dtype):
        return None
    return cells.to_numpy(dtype=np.float64, na_value=np.nan)


def paired_histogram(dataset: Dataset, selected: NDArray[np.bool_], name: str) -> PairedHistogram:
    """Histograms of a ranked column over all rows, with the same bins for both groups.

    Args:
        dataset: the rows.
        selected: mask of the selected rows, [N].
        name: a column of the ranking.

    Raises:
        KeyError: there is no such column.
    """
    cells = _column(dataset, name)
    numbers = _numbers(cells)
    if numbers is None:
        return _levels(name, cells, selected)
    known = np.isfinite(numbers)
    values, chosen = numbers[known], selected[known]
    edges = _edges(values)
    bar = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    inside, outside = _shares(bar, chosen, len(edges) - 1)
    return PairedHistogram(name, inside, outside, edges, dates=_is_date(cells))


def _column(dataset: Dataset, name: str) -> pd.Series[Any]:
    """One of the columns that can be compared, without computing the others."""
    if name in dataset.label_columns:
        return pd.Series(dataset.label_columns[name], dtype=object)
    if name in dataset.feature_names:
        d = dataset.feature_names.index(name)
        column = dataset.X[:, d]
        return pd.Series(np.expm1(column) if dataset.log1p[d] else column)
    return dataset.frame[name]


def _edges(values: FloatArray) -> FloatArray:
    """Edges of equal bins; integers of a small range get a bin each."""
    low, high = float(values.min()), float(values.max())
    if high - low < BARS and bool((values == np.round(values)).all()):
        return np.arange(low - 0.5, high + 1.0)
    return np.linspace(low, high, BARS + 1)


def _levels(name: str, cells: pd.Series[Any], selected: NDArray[np.bool_]) -> PairedHistogram:
    """Bins of the levels with the largest difference in share; one bin for all others."""
    known = cells.notna().to_numpy(dtype=bool)
    codes, texts = cell_levels(cells[known])
    levels = np.array(texts, dtype=object)
    inside, outside = _shares(codes, selected[known], len(levels))
    order = np.argsort(-np.abs(inside - outside), kind="stable")
    if len(order) <= LEVELS_SHOWN:
        order = np.array(sorted(order, key=lambda code: str(levels[code])), dtype=np.intp)
        return PairedHistogram(
            name, inside[order], outside[order], levels=tuple(map(str, levels[order]))
        )
    shown, rest = order[: LEVELS_SHOWN - 1], order[LEVELS_SHOWN - 1 :]
    return PairedHistogram(
        name,
        np.append(inside[shown], inside[rest].sum()),
        np.append(outside[shown], outside[rest].sum()),
        levels=(*map(str, levels[shown]), f"{len(rest)} others"),
    )
