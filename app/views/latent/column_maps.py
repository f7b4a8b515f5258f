"""The map several times, each time in the colours of another column."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.analysis.map import subsampling
from app.analysis.map.column_smoothness import NEIGHBOURS
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import View, positions
from app.analysis.map.row_colours import group_of_rows
from app.components.map.map_chart import axis_titles
from app.components.map.row_texts import hover
from app.components.map.small_maps import HEIGHT, MARKER, MOST_ROWS
from app.figures.aligned_map import aligned_map_figure
from app.figures.legend import legend_html
from app.figures.row_traces import MapRows
from app.formatting import distinct_titles, markdown, shortened
from app.services import row_analysis, run_colours
from app.state.session import session
from app.state.widgets import map_widget_key
from lvmcore.projection import LatentProjection

__all__ = ["column_maps_panel"]

#: Columns at first, most of them, and maps in a line.
FIRST, MOST, PER_LINE = 6, 12, 3


def column_maps_panel(fitted_map: FittedMap, view: View) -> None:
    """Draw a small map for each of some columns.

    Args:
        fitted_map: the run.
        view: the axes of the map.
    """
    box = st.expander(
        "Map by column", key=map_widget_key(fitted_map, "by column"), on_change="rerun"
    )
    if not box.open:
        return
    with box:
        names = [str(name) for name in fitted_map.dataset.frame.columns]
        titles = distinct_titles(shortened(name, 40) for name in names)
        chosen = st.multiselect(
            "Columns",
            range(len(names)),
            default=_first_columns(fitted_map, view, names),
            format_func=titles.__getitem__,
            max_selections=MOST,
            key=map_widget_key(fitted_map, "columns of small maps"),
            help=f"A map for each column, at most {MOST}.",
        )
        for start in range(0, len(chosen), PER_LINE):
            line = st.columns(PER_LINE, gap="small")
            for at, place in zip(chosen[start : start + PER_LINE], line, strict=False):
                with place:
                    _column_map(fitted_map, view, names[at])
        across, up = axis_titles(view)
        st.caption(
            f"{across} across, {up.lower()} up. The first columns are those that the map shows "
            f"best: their cells are closest to the mean of the {NEIGHBOURS} nearest rows."
        )


def _first_columns(fitted_map: FittedMap, view: View, names: list[str]) -> list[int]:
    """The columns that vary most smoothly over the map, in the table's order."""
    smoothness = row_analysis.column_smoothness(fitted_map.run, view)
    features = fitted_map.dataset.feature_names
    order = np.argsort(-np.nan_to_num(smoothness, nan=-np.inf), kind="stable")
    best = [names.index(features[d]) for d in order if features[d] in names]
    return sorted(best[:FIRST]) or list(range(min(FIRST, len(names))))


def _column_map(fitted_map: FittedMap, view: View, name: str) -> None:
    """Draw the map in the colours of a column, with its legend."""
    colouring = run_colours.row_colouring(fitted_map.run, fitted_map.dataset, name)
    shown = subsampling.evenly_spaced(len(fitted_map.mean), MOST_ROWS)
    rows = MapRows(
        points=positions(fitted_map.mean, view)[shown],
        number=shown,
        hover=hover(fitted_map.dataset, colouring, shown),
        colouring=group_of_rows(colouring, shown),
    )
    st.markdown(f":small[**{markdown(shortened(name, 30))}**]")
    st.html(legend_html(colouring, dark=session.is_dark, titled=False))
    st.plotly_chart(
        aligned_map_figure(
            rows,
            equal=isinstance(view, LatentProjection),
            dark=session.is_dark,
            height=HEIGHT,
            size=MARKER,
        ),
        theme=None,
        key=map_widget_key(fitted_map, f"by column {name}"),
        config={"displayModeBar": False},
        alt=f"Map in the colours of {shortened(name, 60)}",
    )
