"""Latent: explore the map of a fit, and export it."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app import navigation
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import View
from app.analysis.tables.row_counts import rows_in_words
from app.components.download_buttons import gpytorch_download, table_downloads
from app.components.empty_states import illustrated_empty_state
from app.components.map.condition_chips import condition_chips
from app.components.map.filter_charts import filter_charts
from app.components.map.map_chart import map_chart
from app.components.map.map_controls import map_controls
from app.components.map.reconstruction_panel import point_panel
from app.components.map.relevance_panel import relevance_panel
from app.components.map.row_focus import refresh_focus
from app.components.map.selection_panel import contrast_panel, selection_panel
from app.components.map.side_panel import (
    COLUMNS,
    POINT,
    RELEVANCE,
    SELECTION,
    is_open,
    panel_tabs,
)
from app.components.page_opening import PageOpening, open_map
from app.components.score_table import score_button
from app.formatting import duration, markdown, number
from app.report.download import report_download_button
from app.services import fitted_maps, scores, server
from app.state.widgets import map_widget_key, widget_key
from app.views.latent.browser_history import browser_history
from app.views.latent.column_maps import column_maps_panel
from app.views.latent.dimension_pairs import dimension_pairs_panel
from app.views.latent.find_rows import find_rows_panel
from app.views.latent.fit_replay import replay_panel
from app.views.latent.largest_residuals import largest_residuals_panel
from app.views.latent.learned_kernel import learned_kernel_panel
from app.views.latent.nearest_rows import nearest_rows_panel
from app.views.latent.view_controls import left_out_note, view_controls
from lvmcore.metrics.metric import RETAINED_NEIGHBOURS
from lvmcore.projection import LatentProjection
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.convergence import Verdict, convergence_verdict

_OPENING = PageOpening(
    page="latent",
    introduction=(
        "After a fit this page shows its map: every row in two latent dimensions, the posterior "
        "uncertainty, the relevance of the dimensions, and the reconstruction of any latent point "
        "in data units."
    ),
    pending="Its map appears here when the fit has finished.",
    first_step=partial(illustrated_empty_state, "latent"),
)


def page() -> None:
    """Draw the page."""
    line = st.container(horizontal=True, vertical_alignment="center")
    opened = open_map(_OPENING, line)
    if opened is not None:
        _explore(*opened)
        with line:  # the controls above the map record the view first
            view_controls(opened[1])
        browser_history(opened[1])  # below the page: it shows nothing, and would take its width


def _explore(job: Job, fitted_map: FittedMap) -> None:
    refresh_focus(fitted_map)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(_facts(job, fitted_map))
        if job.still_rising:
            navigation.link("More steps", "fit", key="more-steps", primary=False)
        navigation.link("How to read this", "guide", key="guide", primary=False)
    choices = map_controls(fitted_map)
    left_out_note(fitted_map)
    left, right = st.columns([1.8, 1], gap="medium")
    with left:
        map_chart(fitted_map, choices)
        _retained_neighbours(fitted_map, choices.axes)
        _export(fitted_map, choices.axes)
        dimension_pairs_panel(fitted_map, choices.colour)
        column_maps_panel(fitted_map, choices.axes)
        largest_residuals_panel(fitted_map)
        replay_panel(fitted_map)
        learned_kernel_panel(fitted_map, choices)
    with right:
        _side_panel(fitted_map, choices)
    _scores_and_notes(job, fitted_map, choices.axes)


def _side_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """What was clicked or selected, beside the map."""
    condition_chips(fitted_map)
    tabs = panel_tabs(fitted_map)
    if is_open(fitted_map, COLUMNS):
        with tabs[COLUMNS]:  # first, as a brush waits for them
            filter_charts(fitted_map)
    with tabs[POINT]:
        point_panel(fitted_map, choices)
        nearest_rows_panel(fitted_map)
    with tabs[SELECTION]:
        find_rows_panel(fitted_map)
        selection_panel(fitted_map)
    with tabs[COLUMNS]:
        contrast_panel(fitted_map)
    with tabs[RELEVANCE]:
        relevance_panel(fitted_map, choices)


_CONVERGENCE: dict[Verdict, str] = {
    "converged": "converged",
    "still improving": ":gray[still improving]",
    "noisy": ":gray[noisy: the batches differ too much for a verdict]",
    "not converged": ":gray[not converged]",
}


def _facts(job: Job, fitted_map: FittedMap) -> str:
    """Model, data, bound and convergence of the run, in a line."""
    parts = [
        f"**{markdown(fitted_map.model.title)}** on {markdown(fitted_map.dataset.name)}",
        rows_in_words(fitted_map.dataset),
    ]
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo)} nats")
    if not fitted_map.model.capabilities.bound:
        parts.append("this model has no bound")
    else:
        parts.append(_CONVERGENCE[convergence_verdict(job)])
    if job.status in ("cancelled", "interrupted"):
        parts.append(f":orange[{job.status}]")
    parts.append(duration(job.seconds))
    return " · ".join(parts)


def _export(fitted_map: FittedMap, view: View) -> None:
    """Downloads of the map, with links to pages that use it."""
    projection = view if isinstance(view, LatentProjection) else None
    about = "Row id, label, latent means and sds"
    about += "." if projection is None else ", positions on the best view and their covariance."
    with st.container(horizontal=True, vertical_alignment="center"):
        table_downloads(
            "Embedding",
            "embedding",
            csv=partial(fitted_maps.embedding_csv, fitted_map.run, projection),
            parquet=partial(fitted_maps.embedding_parquet, fitted_map.run, projection),
            about=about,
            key=lambda ending: map_widget_key(fitted_map, f"embedding {ending}"),
            h5ad=partial(fitted_maps.embedding_h5ad, fitted_map.run, projection),
        )
        job = server.store().get(fitted_map.run)
        gpytorch_download(job, key=map_widget_key(fitted_map, "gpytorch"))
        report_download_button(job, key=map_widget_key(fitted_map, "report"))
        if fitted_map.model.capabilities.new_rows:
            navigation.link("New rows", "new_rows", key="new-rows", primary=False)
        if fitted_map.model.capabilities.missing_cells and np.isnan(fitted_map.dataset.X).any():
            navigation.link("Missing cells", "impute", key="impute", primary=False)


def _retained_neighbours(fitted_map: FittedMap, view: View) -> None:
    """How much of the neighbourhoods in all dimensions the picture has, and others, in a line."""
    best = fitted_maps.best_view(fitted_map.run)
    if best is None:  # at most two live dimensions
        return
    axes = leading_dimensions(fitted_map.model.variance_shares()) if view == best else view
    compared = (best, axes) if view == best else (axes, best)
    own, other = (scores.retained_neighbours(fitted_map.run, shown) for shown in compared)
    if own is None or own.value is None or other is None or other.value is None:
        return
    verbs = ("retains", "retain") if view == best else ("retain", "retains")
    k = min(RETAINED_NEIGHBOURS, len(fitted_map.mean) - 1)
    text = (
        f"{own.dimensions[:1].upper()}{own.dimensions[1:]} {verbs[0]} **{own.value:.0%}** of "
        f"the {k} nearest neighbours in all {fitted_map.dimensions} dimensions; "
        f"{other.dimensions} {verbs[1]} {other.value:.0%}."
    )
    if view == best and fitted_map.model.capabilities.decoding:
        text += (
            " Its axes mix all dimensions, and a distance on it is about the change of the "
            "columns, in their sd."
        )
    st.caption(text, help=markdown(own.protocol))


def _scores_and_notes(job: Job, fitted_map: FittedMap, view: View) -> None:
    """Scores with their protocols, and notes of the fit.

    Scores of other axes than those that the map opens with are computed once they can be seen.
    """
    scores.start_label_score(job)
    box = st.expander(
        "Scores of this map", key=map_widget_key(fitted_map, "scores"), on_change="rerun"
    )
    with box:
        for metric in scores.score_values(job, view if box.open else None):
            value = number(metric.value) if metric.value is not None else "not measured"
            st.markdown(f"{markdown(metric.name)}: **{value}**. {markdown(metric.protocol)}")
        score_button([job], partial(widget_key, "latent"))
    for note in job.notes:
        st.caption(markdown(note))


page()
