"""Charts of columns that filter one another: each counts the rows that pass all other terms. Pure.

This is the convention of crossfilter and Mosaic: the condition that a chart sets is left out of its
own counts, so that its bars show what another choice there would select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.analysis.filters.column_bins import ColumnBins
from app.analysis.filters.selection_terms import column_term, operator_of, terms_of
from app.analysis.map.selections import Between, Not, OneOf, Operator, Selection

__all__ = ["MOST_CHARTS", "CrossFilter", "FilterChart", "cross_filter"]

#: Charts at most: one bit of ``CrossFilter.met`` each.
MOST_CHARTS = 8


@dataclass(frozen=True, eq=False)
class FilterChart:
    """A chart of a column.

    Attributes:
        bins: its bars.
        passing: rows of each bar that pass all terms but the chart's own, [B].
        condition: its own condition; None without one.
        negated: whether NOT stands before that.
    """

    bins: ColumnBins
    passing: NDArray[np.intp]
    condition: Between | OneOf | None
    negated: bool


@dataclass(frozen=True, eq=False)
class CrossFilter:
    """Charts of columns, and what of the selection each row meets.

    Attributes:
        charts: the charts.
        operator: how the terms are combined.
        selected: rows of the selection; all rows without one.
        met: uint16 [N]; bit k tells whether a row meets the condition of chart k, bit
            ``MOST_CHARTS`` whether it passes the terms of no chart.
        has_others: whether there are terms of no chart.
    """

    charts: tuple[FilterChart, ...]
    operator: Operator
    selected: int
    met: NDArray[np.uint16]
    has_others: bool


def cross_filter(
    selection: Selection | None,
    bins: Sequence[ColumnBins],
    n: int,
    mask: Callable[[Selection], NDArray[np.bool_]],
) -> CrossFilter:
    """Count the rows of charts.

    Args:
        selection: the selected rows.
        bins: the columns, ``MOST_CHARTS`` at most.
        n: number of rows.
        mask: gives the mask of the rows of a selection, [N].
    """
    terms, operator = terms_of(selection), operator_of(selection)
    masks = [mask(term) for term in terms]
    combine = np.logical_and if operator == "and" else np.logical_or
    own = [column_term(selection, one.name) for one in bins]

    def passing(leave_out: set[int | None]) -> NDArray[np.bool_]:
        kept = [one for i, one in enumerate(masks) if i not in leave_out]
        return combine.reduce(kept) if kept else np.ones(n, dtype=np.bool_)

    met = passing(set(own)).astype(np.uint16) << np.uint16(MOST_CHARTS)
    charts = []
    for k, (one, position) in enumerate(zip(bins, own, strict=True)):
        counted = one.codes[passing({position})]
        condition, negated = None, False
        if position is not None:
            met |= masks[position].astype(np.uint16) << np.uint16(k)
            term = terms[position]
            negated = isinstance(term, Not)
            inner = term.condition if isinstance(term, Not) else term
            condition = inner if isinstance(inner, Between | OneOf) else None
        counts = np.bincount(counted, minlength=len(one.counts))
        charts.append(FilterChart(one, counts, condition, negated))
    others = set(range(len(terms))) - set(own)
    return CrossFilter(tuple(charts), operator, int(passing(set()).sum()), met, bool(others))
