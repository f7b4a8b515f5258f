"""Charts of columns beside the map, on which a brush or a click filters the rows.

The browser counts the rows anew while a brush is dragged (``static/filter_charts.js``), where the
rows are few enough to send the bar of each; the selection follows when it is released.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.filters.column_bins import ColumnBins
from app.analysis.filters.cross_filter import MOST_CHARTS, CrossFilter, FilterChart
from app.analysis.filters.selection_terms import column_term, terms_of, with_column_term
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.selections import Between, Not, OneOf
from app.figures.theme import accent, page_colours
from app.formatting import count, distinct_titles, grouped, shortened
from app.services import row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value

__all__ = ["MOST_LIVE_ROWS", "filter_charts", "filter_data", "handle_brush"]

#: Most rows that the browser counts while a brush is dragged.
MOST_LIVE_ROWS = 100_000
#: Columns that are shown before any is chosen.
FIRST_CHARTS = 4
_STATIC = Path(str(files("app"))) / "static"
_SCRIPTS = ("markers.js", "scene.js", "legend.js", "filter_charts.js")
_charts = st.components.v2.component(
    "latentboard.filter_charts",
    js="".join((_STATIC / name).read_text("utf-8") for name in _SCRIPTS),
    css=(_STATIC / "filter_charts.css").read_text("utf-8"),
)


def filter_charts(fitted_map: FittedMap) -> None:
    """Draw the choice of columns and their charts."""
    names = [str(name) for name in fitted_map.dataset.frame.columns]
    titles = dict(zip(names, distinct_titles(shortened(name, 60) for name in names), strict=True))
    kept = map_widget_key(fitted_map, "filter columns kept")  # while the tab is closed
    with st.popover(
        "Filter by columns",
        help="Drag over a histogram or click categories to select rows. Each chart counts the "
        "rows that pass all other conditions.",
        key=map_widget_key(fitted_map, "filter choice"),
        width="content",
    ):
        chosen = st.multiselect(
            "Columns with a chart",
            names,
            default=widget_value(kept) or _first_columns(fitted_map, names),
            format_func=titles.__getitem__,
            max_selections=MOST_CHARTS,
            help=f"Up to {MOST_CHARTS} columns, each with a histogram or a bar chart.",
            key=map_widget_key(fitted_map, "filter columns"),
        )
    set_widget_value(kept, chosen)
    if not chosen:
        return
    found = row_analysis.cross_filter(fitted_map, tuple(chosen))
    key = map_widget_key(fitted_map, "filter charts")
    text = json.dumps(filter_data(found, dark=session.is_dark), allow_nan=False)
    _charts(
        key=key,
        data={
            "digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
            "charts": text,
        },
        on_brush_change=partial(_on_brush, fitted_map, key),
    )


def _first_columns(fitted_map: FittedMap, names: list[str]) -> list[str]:
    """Columns with a condition and labels; then by the contrast of a selection, or features."""
    dataset, selection = fitted_map.dataset, session.selection[fitted_map.run]
    first = [name for name in names if column_term(selection, name) is not None]
    first += [name for name in dataset.label_columns if name in names][:1]
    selected = row_analysis.current_selection_mask(fitted_map)
    ranking = None if selected is None else row_analysis.rank_columns(dataset, selected)
    if ranking is not None:
        first += [one.name for one in ranking.columns if one.name in names]
    first += [name for name in dataset.feature_names if name in names]
    return list(dict.fromkeys([*first, *names]))[:FIRST_CHARTS]


def _on_brush(fitted_map: FittedMap, key: str) -> None:
    state = widget_value(key)
    message = None if state is None else state.get("brush")
    if isinstance(message, Mapping):
        handle_brush(fitted_map, message)


def handle_brush(fitted_map: FittedMap, message: Mapping[str, Any]) -> None:
    """Change the selection as a message of the browser says; one for another table does nothing.

    Args:
        fitted_map: the run.
        message: "column", and either "first" and "last", the brushed bars; or "bar", the clicked
            category; or neither, which removes the condition of the chart.
    """
    run, column = fitted_map.run, message.get("column")
    if not isinstance(column, str) or column not in fitted_map.dataset.frame:
        return
    selection = session.selection[run]
    condition: Between | OneOf | None = None
    try:
        if "bar" in message:
            bins = row_analysis.column_bins(fitted_map.dataset, column)
            position = column_term(selection, column)
            before = None if position is None else terms_of(selection)[position]
            before = before.condition if isinstance(before, Not) else before
            chosen = before if isinstance(before, OneOf) else None
            condition = bins.toggled(chosen, int(message["bar"]))
        elif "first" in message:
            bins = row_analysis.column_bins(fitted_map.dataset, column)
            condition = bins.interval(int(message["first"]), int(message["last"]))
    except IndexError:  # the page shows another table than the browser
        return
    session.selection[run] = with_column_term(selection, column, condition)


# ---- what the browser draws -------------------------------------------------------------------


def filter_data(found: CrossFilter, *, dark: bool) -> dict[str, Any]:
    """Input of ``static/filter_charts.js``."""
    live = len(found.met) <= MOST_LIVE_ROWS
    return {
        "charts": [_chart(chart, live) for chart in found.charts],
        "operator": found.operator,
        "rows": len(found.met),
        "selected": found.selected,
        "met": _packed(found.met.astype("<u2")) if live else None,
        "hasOthers": found.has_others,
        "ink": {**vars(page_colours(dark)), "accent": accent(dark)},
    }


def _chart(chart: FilterChart, live: bool) -> dict[str, Any]:
    bins = chart.bins
    numbers = bins.edges is not None
    between = chart.condition if isinstance(chart.condition, Between) else None
    chosen = chart.condition.values if isinstance(chart.condition, OneOf) else ()
    bars = [*bins.levels, *([None] if bins.missing else [])]
    places = [*range(len(bins.levels)), bins.bars]
    return {
        "column": bins.name,
        "title": shortened(bins.name, 40),
        "numbers": numbers,
        "counts": bins.counts.tolist(),
        "passing": chart.passing.tolist(),
        "bars": _bar_names(bins),
        "ends": [_ends(bins, i) for i in range(bins.bars)] if numbers else [],
        "ticks": [_edge(bins, i) for i in (0, bins.bars // 2, bins.bars)] if numbers else [],
        "middle": _middle(bins) if numbers else 0.5,
        "clickable": [] if numbers else places[: len(bars)],
        "missing": bins.missing,
        "range": None if between is None or not numbers else bins.bars_of(between),
        "span": None if between is None else bins.span(between),
        "chosen": [place for place, bar in zip(places, bars, strict=False) if bar in chosen],
        "active": chart.condition is not None,
        "negated": chart.negated,
        "codes": _packed(bins.codes) if live else None,
    }


def _bar_names(bins: ColumnBins) -> list[str]:
    if bins.edges is not None:
        names = [" to ".join(_ends(bins, i)) for i in range(bins.bars)]
        return names + ["without a number"] * bins.missing
    names = [shortened(level, 60) for level in bins.levels]
    if bins.others:
        names.append(count(bins.others, "further category", "further categories"))
    return names + ["(missing)"] * bins.missing


def _ends(bins: ColumnBins, bar: int) -> tuple[str, str]:
    """Lower and upper end of the interval of a bar, as the page writes them."""
    assert bins.lowest is not None
    assert bins.highest is not None
    return _written(bins, bins.lowest[bar]), _written(bins, bins.highest[bar])


def _edge(bins: ColumnBins, edge: int) -> str:
    """A tick: the end of a bar, or the number of the bar of an integer."""
    assert bins.edges is not None
    assert bins.lowest is not None
    if bins.lowest is bins.highest:
        return _written(bins, bins.lowest[min(edge, bins.bars - 1)])
    return _written(bins, bins.edges[edge])


def _middle(bins: ColumnBins) -> float:
    """Where the middle tick is, in shares of the width."""
    half = 0.5 if bins.lowest is bins.highest else 0.0
    return (bins.bars // 2 + half) / max(1, bins.bars)


def _written(bins: ColumnBins, value: float) -> str:
    if not bins.dates:
        text = f"{value:,.10g}" if abs(value) < 1e9 else f"{value:.6g}"
        return grouped(text.replace("-", "−"))
    moment = np.datetime64(round(float(value)), "s")
    short = bins.edges is not None and bins.edges[-1] - bins.edges[0] < 3 * 86_400
    return str(moment).replace("T", " ")[5:16] if short else str(moment)[:10]


def _packed(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
