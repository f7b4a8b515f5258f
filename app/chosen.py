"""What can be done with the runs that are ticked: open, rename, compare, export, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from app import export, history, live, navigation, services, state
from app.cards import ModelCard
from app.words import count, duration, listed, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.about import LONGEST_NAME, LONGEST_NOTE

__all__ = ["EVERY_SECONDS", "show"]

#: How often a page looks at what is under way.
EVERY_SECONDS = 2.0
_HEIGHT = 340
_CURVES = "The bounds of the chosen runs"


def show(jobs: Sequence[Job], cards: Mapping[str, ModelCard]) -> None:
    """Draw what there is to know and to do about the chosen runs.

    Args:
        jobs: at least one.
        cards: of the models, by key.
    """
    if len(jobs) == 1:
        _one(jobs[0], cards)
    else:
        _several(jobs, cards)
    every = EVERY_SECONDS if any(not job.finished for job in jobs) else None
    st.fragment(_curves, run_every=every)(history.names(jobs, cards))
    if len({job.spec.dataset for job in jobs}) > 1:
        st.caption("Bounds of different data cannot be compared: each is a sum over its own rows.")
    elif len({job.spec.model for job in jobs}) > 1:
        st.caption(
            "Bounds of different models compare only where they explain the same: one that learns "
            "from labels counts these too."
        )


# ---- one run ---------------------------------------------------------------------------------


def _one(job: Job, cards: Mapping[str, ModelCard]) -> None:
    st.header(markdown(job.name))
    st.markdown(_facts(job, cards))
    if job.message is not None:
        st.warning(markdown(job.message))
    if job.note:
        st.markdown("  \n".join(markdown(line) for line in job.note.splitlines()))
    with st.container(horizontal=True, vertical_alignment="center"):
        whole = job.has_model and job.finished
        what, page = _way(job) if whole else ("Open the fit", "fit")
        navigation.link(what, page, key="open", run=job.id)
        _resume(job)
        _rename(job)
        export.menu(job)
        _delete([job])


def _way(job: Job) -> tuple[str, navigation.PageName]:
    """The link to what a run has made."""
    return ("Open the predictions", "predict") if job.spec.target else ("Open the map", "latent")


def _facts(job: Job, cards: Mapping[str, ModelCard]) -> str:
    """The run in a line."""
    card = cards.get(job.spec.model)
    title = job.spec.model if card is None else card.title
    target = f"{markdown(job.spec.target)} of " if job.spec.target else ""
    parts = [f"{markdown(title)} on {target}{markdown(job.spec.dataset_name)}", job.status]
    settings = history.changed(job, cards)
    if settings:
        parts.append(markdown(settings))
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo, 6)} nats")
    parts += [
        f"{markdown(metric.label)} {number(metric.value)}"
        for key, metric in job.metrics.items()
        if key != "elbo" and metric.value is not None
    ]
    if job.seconds is not None:
        parts.append(duration(job.seconds))
    return " · ".join(parts)


def _resume(job: Job) -> None:
    """A run that stopped early goes on from where it was."""
    if not job.resumable:
        return
    if st.button(
        "Resume",
        key=_key(job, "resume"),
        help="Goes on from its last checkpoint, or from the start where it left none.",
    ):
        try:
            services.resume(job.id)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            st.rerun()


def _rename(job: Job) -> None:
    # Keyed on what it shows, so that it closes once that has changed.
    key = state.widget("runs", job.id, "about", hash((job.name, job.note)))
    with (
        st.popover("Name and note", key=key, width="content"),
        st.form(f"{key}:form", border=False),
    ):
        name = st.text_input(
            "Name",
            job.name,
            max_chars=LONGEST_NAME,
            key=f"{key}:name",
            help="Blank gives the run its first name back.",
        )
        note = st.text_area(
            "Note",
            job.note,
            max_chars=LONGEST_NOTE,
            key=f"{key}:note",
            help="What you want to remember of this run; it is kept with it and in its report.",
        )
        if st.form_submit_button("Save", type="primary", help="Keeps the name and the note."):
            try:
                services.store().rename(job.id, name)
                services.store().annotate(job.id, note)
            except LatentboardError as error:
                st.error(markdown(error))
            else:
                st.rerun()


# ---- several runs ----------------------------------------------------------------------------


def _several(jobs: Sequence[Job], cards: Mapping[str, ModelCard]) -> None:
    st.header(count(len(jobs), "run"))
    apart = history.differences(jobs, cards)
    if len(apart.columns) == 1:
        st.caption("Their data, models and settings are the same.")
    else:
        st.caption("Where they differ:")
        st.dataframe(
            apart,
            hide_index=True,
            column_config={"Run": st.column_config.TextColumn(width="medium")},
            key=state.widget("runs", "differences"),
        )
    with st.container(horizontal=True):
        st.download_button(
            "Curves as CSV",
            partial(services.curves_csv, [job.id for job in jobs]),
            file_name="curves.csv",
            mime="text/csv",
            on_click="ignore",
            help="One number a row: run, step, seconds, term of the bound, value.",
            key=state.widget("runs", "curves"),
        )
        _delete(jobs)


# ---- both ------------------------------------------------------------------------------------


def _delete(jobs: Sequence[Job]) -> None:
    """Delete, after a second click that says what goes."""
    what = "this run" if len(jobs) == 1 else f"these {len(jobs)} runs"
    key = state.widget("runs", "delete", *(job.id for job in jobs))
    with st.popover("Delete", key=key, width="content"), st.container(width=340):
        if any(job.status == "running" for job in jobs):
            st.markdown("A run under way cannot be deleted. Cancel it on the Fit page first.")
            return
        named = markdown(listed([job.name for job in jobs]))
        st.markdown(
            f"{named} will be gone with model, map, curves and figures. The data stay. "
            "This cannot be undone."
        )
        if st.button(
            f"Delete {what}",
            type="primary",
            key=f"{key}:yes",
            help="Deletes at once; this cannot be undone.",
        ):
            _delete_now([job.id for job in jobs])


def _delete_now(runs: Sequence[str]) -> None:
    try:
        services.delete_runs(runs)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    state.choose_runs(())
    if state.run_id() in runs:
        state.close_run()
    st.rerun()


def _curves(called: dict[str, str]) -> None:
    """The bounds of the chosen runs in one chart."""
    seen = {
        name: live.steps_shown(services.progress(run).steps, None)
        for run, name in called.items()
        if services.job(run) is not None
    }
    curves = {name: steps for name, steps in seen.items() if steps}
    without = [name for name, steps in seen.items() if not steps]
    if any(len(steps) > 1 for steps in curves.values()):
        title, along = st.columns([3, 1], vertical_alignment="center")
        title.markdown("**Bound (ELBO)**")
        with along.container(horizontal_alignment="right"):
            chosen = st.segmented_control(
                "Against",
                ["step", "seconds"],
                default="step",
                required=True,
                key=state.widget("runs", "along"),
                label_visibility="collapsed",
                help="What the curves are drawn against: steps, or seconds since each fit began.",
            )
        st.echarts_chart(
            live.overlay_chart(curves, by_seconds=chosen == "seconds", dark=state.dark()),
            height=_HEIGHT,
            key=state.widget("runs", "bounds", chosen, hash(tuple(called))),
            alt=_CURVES,
        )
        if without:
            st.caption(markdown(f"No bound to draw: {listed(without)}."))
    elif curves:
        st.caption("Solved in one step, in closed form: there is no curve to follow.")


def _key(job: Job, name: str) -> str:
    return state.widget("runs", job.id, name)
