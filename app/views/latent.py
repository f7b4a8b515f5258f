"""Latent: explore the map that a fit found, and take it away."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app import (
    absent,
    aside,
    atlas,
    chart,
    downloads,
    finding,
    looking,
    misfits,
    navigation,
    near,
    replay,
    reporting,
    selecting,
    services,
    spectrum,
    standing,
    state,
)
from app.opened import Opened
from app.words import count, duration, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job


def page() -> None:
    """Draw the page."""
    st.title("Latent")
    job = services.job(state.run_id())
    if job is None:
        _empty()
    elif job.spec.target:
        absent.predicts(job)
    elif not job.has_model:
        absent.waiting(job, "Its map is here when the fit has ended.")
    else:
        _explore(job)


def _explore(job: Job) -> None:
    try:
        dataset = services.fitted_dataset(job.id)
        opened = Opened(job.id, services.model(job.id), dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    looking.keep_up(opened)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(_facts(job, opened))
        if job.still_rising:
            navigation.link("More steps", "fit", key="more-steps", primary=False)
        navigation.link("How to read this", "guide", key="guide", primary=False)
    left, right = st.columns([2, 1], gap="large")
    with left:
        choices = atlas.controls(opened)
        chart.draw(opened, choices)
        finding.tools(opened)
        _export(opened)
        selecting.selection(opened)
        near.neighbours(opened)
        misfits.outliers(opened)
        replay.replay(opened)
        spectrum.learned_kernel(opened, choices)
    with right:
        aside.relevance(opened, choices)
        aside.point(opened, choices)
    _figures_and_notes(job)


def _facts(job: Job, opened: Opened) -> str:
    """The run in a line."""
    parts = [
        f"**{markdown(opened.model.title)}** on {markdown(opened.dataset.name)}",
        count(len(opened.dataset), "row"),
    ]
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo)} nats")
    if not opened.model.capabilities.bound:
        parts.append("no bound: this model has none")
    elif job.converged:
        parts.append("converged")
    else:
        parts.append(":gray[still rising when the steps ran out: a longer fit may sharpen the map]")
    if job.status in ("cancelled", "interrupted"):
        parts.append(f":orange[{job.status}]")
    parts.append(duration(job.seconds))
    return " · ".join(parts)


def _export(opened: Opened) -> None:
    """The whole map as a file."""
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.offer(
            "Embedding",
            "embedding",
            csv=partial(services.embedding_csv, opened.run),
            parquet=partial(services.embedding_parquet, opened.run),
            about="Row id, label, latent means and sds.",
            key=lambda ending: opened.key(f"embedding {ending}"),
            h5ad=partial(services.embedding_h5ad, opened.run),
        )
        reporting.offer(services.store().get(opened.run), key=opened.key("report"))
        if opened.model.capabilities.new_rows:
            navigation.link("New rows", "new_rows", key="new-rows", primary=False)
        if opened.model.capabilities.missing_cells and np.isnan(opened.dataset.X).any():
            navigation.link("Missing cells", "impute", key="impute", primary=False)


def _figures_and_notes(job: Job) -> None:
    """Metrics with their protocol, and what the fit had to say."""
    with st.expander("Figures about this map"):
        for metric in services.figures(job):
            value = number(metric.value) if metric.value is not None else "not measured"
            st.markdown(f"{markdown(metric.label)}: **{value}**. {markdown(metric.protocol)}")
        standing.offer([job], partial(state.widget, "latent"))
    for note in job.notes:
        st.caption(markdown(note))


def _empty() -> None:
    """No run: what will be here, and one way to get there."""
    absent.gone()
    st.markdown(
        "After a fit this page shows its map: every row in two latent dimensions, how sure the "
        "model is, which dimensions matter, and what any place looks like in the data's units."
    )
    absent.fit_the_sample("latent")
    absent.illustrated("latent")


page()
