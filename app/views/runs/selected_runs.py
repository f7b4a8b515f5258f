"""Panel of the selected runs: open, rename, tag, compare, export and delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from app import navigation
from app.analysis.tables import run_history
from app.analysis.tables.model_cards import ModelCard
from app.figures import live_charts
from app.formatting import count, duration, listed, markdown, number
from app.services import progress, server
from app.services import runs as runs_service
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.bin import KEPT_DAYS
from lvmcore.runs.job_notes import LONGEST_NAME, LONGEST_NOTE, MOST_TAGS

__all__ = ["EVERY_SECONDS", "selected_runs_panel"]

#: Polling interval of runs in progress.
EVERY_SECONDS = 2.0
_HEIGHT = 340
_CURVES = "The bounds of the selected runs"


def selected_runs_panel(jobs: Sequence[Job], cards: Mapping[str, ModelCard]) -> None:
    """Draw the selected runs with their actions.

    Args:
        jobs: at least one run.
        cards: cards of the models, by key.
    """
    if len(jobs) == 1:
        _single_run(jobs[0], cards)
    else:
        _several_runs(jobs, cards)
    every = EVERY_SECONDS if any(not job.finished for job in jobs) else None
    st.fragment(_curves, run_every=every)(run_history.run_names(jobs, cards))
    if len({job.spec.dataset for job in jobs}) > 1:
        st.caption("Bounds of different data are not comparable: each is a sum over its own rows.")
    elif len({job.spec.model for job in jobs}) > 1:
        st.caption(
            "Bounds of different models are comparable only for the same data: that of a model "
            "with labels includes the labels."
        )


def _single_run(job: Job, cards: Mapping[str, ModelCard]) -> None:
    st.header(markdown(job.name))
    st.markdown(_facts(job, cards))
    if job.message is not None:
        st.warning(markdown(job.message))
    if job.note:
        st.markdown("  \n".join(markdown(line) for line in job.note.splitlines()))
    with st.container(horizontal=True, vertical_alignment="center"):
        complete = job.has_model and job.finished
        title, page = _result_link(job) if complete else ("Open the fit", "fit")
        navigation.link(title, page, key="open", run=job.id)
        _resume_button(job)
        _rename_form(job)
        navigation.link("Export", "export", key="export", run=job.id, primary=False)
        _delete_button([job])


def _result_link(job: Job) -> tuple[str, navigation.PageName]:
    """Title and page of the result of a run."""
    return ("Open the predictions", "predict") if job.spec.target else ("Open the map", "latent")


def _facts(job: Job, cards: Mapping[str, ModelCard]) -> str:
    """Model, data, status and scores of the run, in a line."""
    card = cards.get(job.spec.model)
    title = job.spec.model if card is None else card.title
    target = f"{markdown(job.spec.target)} of " if job.spec.target else ""
    parts = [f"{markdown(title)} on {target}{markdown(job.spec.dataset_name)}", job.status]
    settings = run_history.changed_settings(job, cards)
    if settings:
        parts.append(markdown(settings))
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo, 6)} nats")
    parts += [
        f"{markdown(metric.name)}: {number(metric.value)}"
        for key, metric in job.metrics.items()
        if key != "elbo" and metric.value is not None
    ]
    if job.seconds is not None:
        parts.append(duration(job.seconds))
    if job.computation is not None:
        parts.append(markdown(job.computation.text))
    return " · ".join(parts)


def _resume_button(job: Job) -> None:
    """Button that continues a stopped run."""
    if not job.resumable:
        return
    if st.button(
        "Resume",
        key=_key(job, "resume"),
        help="Continues from its last checkpoint, or from the first step without one.",
    ):
        try:
            runs_service.resume(job.id)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            st.rerun()


def _rename_form(job: Job) -> None:
    # The key depends on the content, so that the popover closes after a change.
    key = widget_key("runs", job.id, "about", hash((job.name, job.note, job.tags)))
    with (
        st.popover("Name, note and tags", key=key, width="content"),
        st.form(f"{key}:form", border=False),
    ):
        name = st.text_input(
            "Name",
            job.name,
            max_chars=LONGEST_NAME,
            key=f"{key}:name",
            help="A blank field restores the original name.",
        )
        note = st.text_area(
            "Note",
            job.note,
            max_chars=LONGEST_NOTE,
            key=f"{key}:note",
            help="A note that is saved with the run and shown in its report.",
        )
        known = {tag for run in server.store().list() for tag in run.tags}
        tags = st.multiselect(
            "Tags",
            sorted(known, key=str.casefold),
            job.tags,
            accept_new_options=True,
            max_selections=MOST_TAGS,
            key=f"{key}:tags",
            placeholder="Choose or type a tag",
            help="Words by which the table of runs can be filtered.",
        )
        if st.form_submit_button("Save", type="primary", help="Saves name, note and tags."):
            try:
                server.store().rename(job.id, name)
                server.store().annotate(job.id, note)
                server.store().tag(job.id, tags)
            except LatentboardError as error:
                st.error(markdown(error))
            else:
                st.rerun()


def _several_runs(jobs: Sequence[Job], cards: Mapping[str, ModelCard]) -> None:
    st.header(count(len(jobs), "run"))
    differences = run_history.setting_differences(jobs, cards)
    if len(differences.columns) == 1:
        st.caption("They have the same data, models and settings.")
    else:
        st.caption("Differences:")
        st.dataframe(
            differences,
            hide_index=True,
            column_config={"Run": st.column_config.TextColumn(width="medium")},
            key=widget_key("runs", "differences"),
        )
    with st.container(horizontal=True):
        st.download_button(
            "Curves as CSV",
            partial(progress.curves_csv, [job.id for job in jobs]),
            file_name="curves.csv",
            mime="text/csv",
            on_click="ignore",
            help="One value per row: run, step, seconds, term of the bound, value.",
            key=widget_key("runs", "curves"),
        )
        _delete_button(jobs)


def _delete_button(jobs: Sequence[Job]) -> None:
    """Button that deletes runs, with a confirmation."""
    runs = "this run" if len(jobs) == 1 else f"these {len(jobs)} runs"
    key = widget_key("runs", "delete", *(job.id for job in jobs))
    with st.popover("Delete", key=key, width="content"), st.container(width=340):
        if any(job.status == "running" for job in jobs):
            st.markdown("A running fit cannot be deleted. Cancel it on the Fit page first.")
            return
        named = markdown(listed([job.name for job in jobs]))
        st.markdown(
            f"{named}: model, map, curves and scores will be deleted. The data are kept. The bin "
            f"keeps what was deleted for {KEPT_DAYS} days."
        )
        if st.button(
            f"Delete {runs}",
            type="primary",
            key=f"{key}:yes",
            help="Moves them to the bin, from where they can be restored.",
        ):
            _delete_now([job.id for job in jobs])


def _delete_now(runs: Sequence[str]) -> None:
    try:
        session.deletions = runs_service.delete_runs(runs)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.selected_runs = ()
    if session.run_id in runs:
        session.run_id = None
    st.rerun()


def _curves(names: dict[str, str]) -> None:
    """The bounds of the selected runs in one chart."""
    steps_by_name = {
        name: live_charts.steps_shown(progress.progress(run).steps, None)
        for run, name in names.items()
        if runs_service.job(run) is not None
    }
    curves = {name: steps for name, steps in steps_by_name.items() if steps}
    without = [name for name, steps in steps_by_name.items() if not steps]
    if any(len(steps) > 1 for steps in curves.values()):
        title, control = st.columns([3, 1], vertical_alignment="center")
        title.markdown("**Bound (ELBO)**")
        with control.container(horizontal_alignment="right"):
            chosen = st.segmented_control(
                "Against",
                ["step", "seconds"],
                default="step",
                required=True,
                key=widget_key("runs", "along"),
                label_visibility="collapsed",
                help="Horizontal axis: steps, or seconds since the start of each fit.",
            )
        st.echarts_chart(
            live_charts.overlay_chart(curves, by_seconds=chosen == "seconds", dark=session.is_dark),
            height=_HEIGHT,
            key=widget_key("runs", "bounds", chosen, hash(tuple(names))),
            alt=_CURVES,
        )
        if without:
            st.caption(markdown(f"No bound to draw: {listed(without)}."))
    elif curves:
        st.caption("Solved in closed form, so there is no curve.")


def _key(job: Job, name: str) -> str:
    return widget_key("runs", job.id, name)
