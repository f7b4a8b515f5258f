"""The kernel of a fit by random features, and its spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.state.widgets import map_widget_key
from app.views.latent.kernel_figures import kernel_figure, spectrum_figure
from lvmcore.projection import LatentProjection
from lvmcore.relevance import leading_dimensions

if TYPE_CHECKING:
    from lvmcore.kernels.composite import CompositeKernel

__all__ = ["learned_kernel_panel"]

#: Most drawn dimensions, the most relevant ones.
MOST_DRAWN = 6
_LEARNED = (
    "Frequencies of the kernel (points) and the components of their Gaussian mixture, at two sd, "
    "with their weights."
)
_GIVEN = (
    "Frequencies that the features have, a sample of the kernel's spectrum; the area of a point is "
    "its share of the variance. The most distant twentieth is outside of the picture."
)
_DISTANCES = np.linspace(0, 4, 161)


def learned_kernel_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the kernel in an expander; nothing for a model without a spectrum."""
    model: Any = fitted_map.model
    density = getattr(model, "spectral_", None)
    if density is None:
        return
    given = getattr(model, "kernel_", None)
    title = "The learned kernel" if given is None else "The kernel and its spectrum"
    box = st.expander(title, key=map_widget_key(fitted_map, "kernel"), on_change="rerun")
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
                alt="The kernel along each latent dimension",
            )
            st.caption(
                "Correlation of the columns at two points that differ in one dimension. It decays "
                "slowly if the columns change slowly, and increases again if they are periodic."
            )
            if given is not None:
                st.markdown("\n".join(_summand_lines(given)))
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
                alt="The spectrum of the kernel",
            )
            st.caption(
                (_LEARNED if given is None else _GIVEN)
                + " Low frequencies give smooth functions, high ones rapid changes."
            )


def _summand_lines(kernel: CompositeKernel) -> list[str]:
    """A line of Markdown for each summand: its share of the variance, and its hyperparameters."""
    total = sum(float(summand.variance) for summand in kernel.summands)
    lines = []
    for summand in kernel.summands:
        values = [
            f"{one.name}{'' if one.column is None else f' along {one.column}'} {one.value:.3g}"
            for one in summand.hyperparameters()
        ]
        share = f"{float(summand.variance) / total:.0%} of the variance"
        lines.append(f"- `{summand.expression}`: {', '.join([share, *values])}")
    return lines
