"""Relevance bars beside the map."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import View, shown_dimensions
from app.components.map.view_choice import show_dimension
from app.figures.row_panels import relevance_figure
from app.state.widgets import map_widget_key, widget_value
from lvmcore.numerics.array_types import FloatArray
from lvmcore.projection import LatentProjection
from lvmcore.relevance import hidden_dimensions, relevance_shares

__all__ = ["relevance_panel"]

_CARRIED, _WEIGHTS = "Variance carried", "Kernel weights"


def relevance_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the share of each dimension per path; a click on a bar shows its dimension."""
    key = map_widget_key(fitted_map, "relevance")
    carried = fitted_map.model.variance_shares()
    share = _chosen_share(fitted_map, carried)
    st.plotly_chart(
        relevance_figure(share, shown_dimensions(choices.axes), dark=choices.dark),
        theme=None,
        key=key,
        on_select=partial(_handle_bar_click, fitted_map, choices.axes, key),
        selection_mode="points",
        config={"displayModeBar": False},
        alt="Relevance of each latent dimension",
    )
    if isinstance(choices.axes, LatentProjection):
        st.caption(
            "The best view mixes all dimensions. A click on a bar shows its dimension on the "
            "horizontal axis instead."
        )
        return
    hidden = hidden_dimensions(carried, choices.axes)
    if hidden:
        st.caption(_hidden_line(hidden, carried))
    if choices.axes[1] is not None:
        st.caption(
            "A click on a bar shows its dimension on the horizontal axis; the previous dimension "
            "moves to the vertical axis."
        )


def _chosen_share(
    fitted_map: FittedMap, carried: Mapping[str, FloatArray]
) -> Mapping[str, FloatArray]:
    """The share of the variance, or of the weights of the kernel where these differ from it."""
    weights = relevance_shares(fitted_map.model.relevance_)
    if all(np.array_equal(weights[path], share) for path, share in carried.items()):
        return carried
    measure = st.segmented_control(
        "Measure",
        [_CARRIED, _WEIGHTS],
        default=_CARRIED,
        required=True,
        key=map_widget_key(fitted_map, "relevance measure"),
        help="The share of the variance that a dimension carries, or the kernel's weights, such as "
        "inverse squared lengthscales.",
        label_visibility="collapsed",
    )
    return weights if measure == _WEIGHTS else carried


def _hidden_line(hidden: tuple[int, ...], carried: Mapping[str, FloatArray]) -> str:
    """The large dimensions that the map does not show."""
    most = np.max(list(carried.values()), axis=0)
    named = [f"dimension {q + 1} ({100 * most[q]:.0f} %)" for q in hidden]
    return f"Not on the map, and more than a quarter: {', '.join(named)}."


def _handle_bar_click(fitted_map: FittedMap, view: View, key: str) -> None:
    points = widget_value(key).selection.points
    if points:
        show_dimension(fitted_map, view, int(points[0]["customdata"][0]))
