"""The figures of a paper, drawn from fits on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import navigation
from app.analysis.papers.catalogue import FigureFit, Paper, PaperFigure
from app.components.derived_run import stop_error_panel, stop_runs
from app.components.paper_data import data_panel
from app.formatting import count, markdown
from app.services import runs as runs_service
from app.services import scores, server
from app.state.session import session
from app.state.widgets import widget_key, widget_value
from app.views.papers.figure_drawings import draw_figure
from app.views.papers.fit_recipes import recipe_run, start_recipe
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

_EVERY_SECONDS = 1.0
_key = partial(widget_key, "papers", "figure")


def figures_panel(paper: Paper) -> None:
    """Draw the list of a paper's figures, and the selected one."""
    chosen = session.paper_figure[paper.key]
    key = _key("list", paper.key)
    st.dataframe(
        pd.DataFrame(
            {
                "Figure": [figure.title for figure in paper.figures],
                "Fits": [sum(one.fit.fits for one in figure.fits) for figure in paper.figures],
            }
        ),
        hide_index=True,
        key=key,
        on_select=partial(_select, paper.key, key),
        selection_mode="single-row",
        selection_default={"selection": {"rows": [] if chosen is None else [chosen]}},
        height="content",
        column_config={
            "Figure": st.column_config.TextColumn(width="large"),
            "Fits": st.column_config.NumberColumn(width=40, help="Fits that it is drawn from"),
        },
        alt="Figures of the paper",
    )
    if chosen is None:
        st.caption("Select a figure to draw it from fits on this machine.")
        return
    _figure(paper.figures[chosen])


def _select(paper: str, key: str) -> None:
    rows = widget_value(key).selection.rows
    session.paper_figure[paper] = rows[0] if rows else None


def _figure(figure: PaperFigure) -> None:
    """The fits of a figure: those to start, those that run, and the drawing of those done."""
    st.markdown(f"**{markdown(figure.title)}**")
    st.markdown(markdown(figure.shows))
    names = dict.fromkeys(one.fit.data for one in figure.fits)
    here = [data_panel(name, "papers", f"fetch {name}") for name in names]
    if not all(here):
        return
    try:
        jobs = [recipe_run(one.model, one.fit) for one in figure.fits]
    except LatentboardError as error:
        st.error(markdown(error))
        return
    missing = [one for one, job in zip(figure.fits, jobs, strict=True) if job is None]
    if missing:
        _start_button(missing)
    found = [job for job in jobs if job is not None]
    waiting = [job.id for job in found if not job.finished]
    if waiting:
        every = _EVERY_SECONDS
        st.fragment(_wait, run_every=every)([job.id for job in found], len(waiting))
    done = [
        (one, job)
        for one, job in zip(figure.fits, jobs, strict=True)
        if job is not None and (job.has_model or (one.fit.sizes and job.status == "done"))
    ]
    draw_figure(figure, done)
    _open_links(figure.page, done)


def _start_button(missing: Sequence[FigureFit]) -> None:
    """The button that starts the fits that are missing."""
    fits = sum(one.fit.fits for one in missing)
    text = "Fit this" if fits == 1 else f"Start {count(fits, 'fit')}"
    if not st.button(
        text,
        type="primary",
        key=_key("start"),
        disabled=not server.store().writable,
        help="Fits the models of the figure with its settings; they wait for each other.",
    ):
        return
    try:
        for one in missing:
            start_recipe(one.model, one.fit)
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()


def _wait(runs: Sequence[str], drawn: int) -> None:
    """Poll the fits, and rerun the page when one has finished."""
    jobs = [job for job in map(runs_service.job, runs) if job is not None]
    if sum(not job.finished for job in jobs) != drawn:
        st.rerun()
    done, fits = (sum(part) for part in zip(*map(_fits_done, jobs), strict=True))
    bar, stop = st.columns([5, 1], vertical_alignment="center")
    with bar:
        st.progress(done / fits)
        st.caption(f"{done} of {count(fits, 'fit')} done.")
    stop.button(
        "Stop",
        key=_key("stop"),
        on_click=stop_runs,
        args=([job.id for job in jobs if not job.finished], _key("stop problem")),
        width="stretch",
        help="Stops the fits of this figure that run or wait. What is done is kept.",
    )
    stop_error_panel(_key("stop problem"))


def _fits_done(job: Job) -> tuple[int, int]:
    """The fits of a run that are done, and all of them."""
    if not job.spec.sizes:
        return int(job.finished), 1
    return len(scores.learning_curve(job.id).points), len(job.spec.sizes) * job.spec.repeats


def _open_links(page: navigation.PageName, done: Sequence[tuple[FigureFit, Job]]) -> None:
    """Links that open the fits on the page of the figure; of repeated ones the first."""
    if not done or any(one.fit.sizes for one, _ in done):  # a learning curve has no page
        return
    first = {one.group or one.title + one.fit.data: (one, job) for one, job in reversed(done)}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f":small[Open on {navigation.TITLES[page]}]", width="content")
        for one, job in reversed(first.values()):
            navigation.link(one.title, page, key=_key("open", job.id), run=job.id, primary=False)
