"""The kernel that a fit learned: how alike two places are, and the frequencies behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from app import figures
from app.exploring import Choices
from app.opened import Opened

__all__ = ["learned_kernel"]

#: Dimensions drawn at most, those that matter most.
MOST_DRAWN = 6
_DISTANCES = np.linspace(0, 4, 161)


def learned_kernel(opened: Opened, choices: Choices) -> None:
    """The learned kernel, folded away until somebody asks; nothing for a model that has none."""
    model: Any = opened.model
    density = getattr(model, "spectral_", None)
    if density is None:
        return
    box = st.expander("The learned kernel", key=opened.key("kernel"), on_change="rerun")
    with box:
        if not box.open:
            return
        alpha = model.relevance_["data"]
        most = sorted(np.argsort(-alpha, kind="stable")[:MOST_DRAWN].tolist())
        left, right = st.columns(2, gap="medium")
        with left:
            st.plotly_chart(
                figures.kernel_figure(
                    _DISTANCES, model.latent_kernel(_DISTANCES), most, dark=choices.dark
                ),
                theme=None,
                key=opened.key("kernel along"),
                config={"displayModeBar": False},
                alt="The learned kernel along each latent dimension",
            )
            st.caption(
                "How alike the columns are at two places that differ in one dimension. It falls "
                "slowly where the columns change slowly, and comes back up where they repeat."
            )
        horizontal, vertical = choices.axes
        if vertical is None:
            return
        with right:
            st.plotly_chart(
                figures.spectrum_figure(density, (horizontal, vertical), dark=choices.dark),
                theme=None,
                key=opened.key("spectrum"),
                config={"displayModeBar": False},
                alt="The spectrum of the learned kernel",
            )
            st.caption(
                "The kernel's frequencies (points) and the Gaussians that the model sorts them "
                "into, two sd wide, with their weights. Frequencies near 0 make smooth changes, "
                "those far out make fast ones."
            )
