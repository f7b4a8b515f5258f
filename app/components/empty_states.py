"""Parts of a page without a run: a fit of the sample, an illustration, a missing run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from app import navigation
from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.map_axes import extent
from app.analysis.map.row_colours import CategoryStyle
from app.figures.latent_map import map_figure
from app.figures.row_traces import MapRows
from app.formatting import markdown
from app.services import runs
from app.state.session import session
from app.state.widgets import widget_key

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "fit_sample_button",
    "illustrated_empty_state",
    "interrupted_page",
    "missing_run_warning",
]


def missing_run_warning() -> None:
    """Warn that the run in the address is damaged or does not exist, if the address has one."""
    if session.run_id is None:
        return
    reason = runs.damage(session.run_id)
    if reason is None:
        st.warning("The run in the address does not exist. It may have been deleted.")
        return
    st.error(markdown(f"This run is damaged and cannot be opened. {reason}"))
    st.caption("Other runs are not affected. The Runs page deletes a damaged run.")


def interrupted_page(error: Exception) -> None:
    """Show why the page could not be drawn completely, with a link to the runs.

    Args:
        error: the reason, most often a run that was deleted in another window.
    """
    if session.run_id is not None and runs.job(session.run_id) is None:
        st.warning("The open run was deleted while this page was drawn.")
    else:
        st.error(markdown(error))
    navigation.link("Choose a run", "runs", key="cut-short")


def fit_sample_button(page: str) -> None:
    """Draw a button that fits the recommended model to the bundled sample.

    Args:
        page: page of the widget key.
    """
    if st.button(
        "Fit the sample",
        type="primary",
        key=widget_key(page, "sample"),
        help="Fits the recommended model to the bundled sample wine and shows its progress.",
    ):
        session.open_run_with_dataset(runs.start_sample_fit())
        navigation.go("fit")


def illustrated_empty_state(page: str) -> None:
    """Draw the button that fits the sample, above an illustration of a map.

    Args:
        page: page of the widget keys.
    """
    fit_sample_button(page)
    st.plotly_chart(
        _illustration(session.is_dark),
        theme=None,
        key=widget_key(page, "illustration"),
        config={"staticPlot": True},
        alt="Illustration of a map, not of your data",
    )
    st.caption("An illustration, not computed from any data.")


def _illustration(dark: bool) -> go.Figure:
    """A map of three groups, with uncertainty that increases away from them."""
    rng = np.random.default_rng(7)
    centres = np.array([[-1.3, 0.6], [1.2, 0.9], [0.2, -1.1]])
    codes = np.repeat(np.arange(3), 40)
    points = centres[codes] + 0.33 * rng.standard_normal((120, 2))
    (x0, x1), (y0, y1) = extent(points)
    x, y = np.linspace(x0, x1, 60), np.linspace(y0, y1, 60)
    grid = np.stack(np.meshgrid(x, y), axis=-1)[:, :, None, :]
    similarity = np.exp(-((grid - points) ** 2).sum(axis=-1) / 0.45).max(axis=-1)
    rows = MapRows(
        points=points,
        number=np.arange(120),
        hover=[[""]] * 120,
        colouring=CategoryStyle("group", ("one group", "another", "a third"), codes),
    )
    sd = Heatmap(x, y, np.sqrt(1.05 - similarity), "predictive sd", "sd of a column", None, True)
    return map_figure(rows, (0, 1), dark=dark, grid=sd).update_layout(height=440)
