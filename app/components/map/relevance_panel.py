"""Relevance bars beside the map."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import Axes
from app.components.map.map_controls import show_dimension
from app.figures.row_panels import relevance_figure
from app.state.widgets import map_widget_key, widget_value
from lvmcore.relevance import relevance_shares

__all__ = ["relevance_panel"]


def relevance_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the relevance of each dimension per path; a click on a bar shows its dimension."""
    st.header("Relevance")
    key = map_widget_key(fitted_map, "relevance")
    share = relevance_shares(fitted_map.model.relevance_)
    st.plotly_chart(
        relevance_figure(share, choices.axes, dark=choices.dark),
        theme=None,
        key=key,
        on_select=partial(_handle_bar_click, fitted_map, choices.axes, key),
        selection_mode="points",
        config={"displayModeBar": False},
        alt="Relevance of each latent dimension",
    )
    if choices.axes[1] is not None:
        st.caption(
            "A click on a bar shows its dimension on the horizontal axis; the previous dimension "
            "moves to the vertical axis."
        )


def _handle_bar_click(fitted_map: FittedMap, axes: Axes, key: str) -> None:
    points = widget_value(key).selection.points
    if points:
        show_dimension(fitted_map, axes, int(points[0]["customdata"][0]))
