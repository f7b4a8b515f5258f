"""The learned kernel of a fit, and its spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.state.widgets import map_widget_key
from app.views.latent.kernel_figures import kernel_figure, spectrum_figure
from lvmcore.projection import LatentProjection
from lvmcore.relevance import leading_dimensions

__all__ = ["learned_kernel_panel"]

#: Most drawn dimensions, the most relevant ones.
MOST_DRAWN = 6
_DISTANCES = np.linspace(0, 4, 161)


def learned_kernel_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the learned kernel in an expander; nothing for a model without one."""
    model: Any = fitted_map.model
    density = getattr(model, "spectral_", None)
    if density is None:
        return
    box = st.expander(
        "The learned kernel", key=map_widget_key(fitted_map, "kernel"), on_change="rerun"
    )
    with box:
        if not box.open:
            return
        alpha = model.relevance_["data"]
        most = sorted(np.argsort(-alpha, kind="stable")[:MOST_DRAWN].tolist())
        left, right = st.columns(2, gap="medium")
        with left:
            st.plotly_chart(
                kernel_figure(_DISTANCES, model.latent_kernel(_DISTANCES), most, dark=choices.dark),
                theme=None,
                key=map_widget_key(fitted_map, "kernel along"),
                config={"displayModeBar": False},
                alt="The learned kernel along each latent dimension",
            )
            st.caption(
                "Correlation of the columns at two points that differ in one dimension. It decays "
                "slowly if the columns change slowly, and increases again if they are periodic."
            )
        view = choices.axes
        if isinstance(view, LatentProjection):
            view = leading_dimensions(model.variance_shares())
        horizontal, vertical = view
        if vertical is None:
            return
        with right:
            st.plotly_chart(
                spectrum_figure(density, (horizontal, vertical), dark=choices.dark),
                theme=None,
                key=map_widget_key(fitted_map, "spectrum"),
                config={"displayModeBar": False},
                alt="The spectrum of the learned kernel",
            )
            st.caption(
                "Frequencies of the kernel (points) and the components of their Gaussian mixture, "
                "at two sd, with their weights. Low frequencies give smooth functions, high ones "
                "rapid changes."
            )
