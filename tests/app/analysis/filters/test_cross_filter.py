"""Counts of charts that filter one another, against a row at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from app.analysis.filters.column_bins import column_bins
from app.analysis.filters.cross_filter import MOST_CHARTS, CrossFilter, cross_filter
from app.analysis.filters.selection_terms import combined, operator_of, terms_of
from app.analysis.map.selection_masks import selected_rows
from app.analysis.map.selections import Between, Combination, Not, OneOf, RowFilter, Selection
from tests.app.analysis.filters.selections import MEAN, REGIONS, TABLE, selections

NAMES = ("height", "petal length (cm)", 'a "quoted" \\ name', "wet")
BINS = [column_bins(TABLE, name) for name in NAMES]
BETWEEN = Between("height", -0.5, 0.5)
WET = OneOf("wet", ("True",))


def found(selection: Selection | None) -> CrossFilter:
    return cross_filter(selection, BINS, len(TABLE), lambda term: selected_rows(term, MEAN, TABLE))


@given(selections)
def test_a_chart_counts_the_rows_that_pass_all_other_terms(selection: Selection) -> None:
    result = found(selection)
    terms = terms_of(selection)
    assert result.selected == selected_rows(selection, MEAN, TABLE).sum()
    for k, chart in enumerate(result.charts):
        own = next(
            (
                i
                for i, term in enumerate(terms)
                if (inner := term.condition if isinstance(term, Not) else term)
                and isinstance(inner, Between | OneOf)
                and inner.column == NAMES[k]
            ),
            None,
        )
        others = combined(
            operator_of(selection), tuple(one for i, one in enumerate(terms) if i != own)
        )
        passing = np.ones(len(TABLE), dtype=bool)
        if others is not None:
            passing = selected_rows(others, MEAN, TABLE)
        expected = [
            int(sum(passing[row] for row in range(len(TABLE)) if BINS[k].codes[row] == bar))
            for bar in range(len(BINS[k].counts))
        ]
        assert chart.passing.tolist() == expected
        bit = (result.met >> k) & 1
        if own is None:
            assert not bit.any()
            assert chart.condition is None
        else:
            assert (bit == selected_rows(terms[own], MEAN, TABLE)).all()


def test_the_terms_of_no_chart_have_a_bit_of_their_own() -> None:
    tall = RowFilter("height", "at least", 0.0)
    selection = Combination("and", (tall, REGIONS[0], Not(BETWEEN), WET))
    result = found(selection)
    rest = selected_rows(tall, MEAN, TABLE) & selected_rows(REGIONS[0], MEAN, TABLE)
    assert ((result.met >> MOST_CHARTS) == rest).all()
    assert result.has_others
    assert [chart.condition for chart in result.charts] == [BETWEEN, None, None, WET]
    assert [chart.negated for chart in result.charts] == [True, False, False, False]


def test_without_a_selection_all_rows_pass() -> None:
    result = found(None)
    assert result.selected == len(TABLE)
    assert not result.has_others
    for chart in result.charts:
        assert chart.passing.tolist() == chart.bins.counts.tolist()
