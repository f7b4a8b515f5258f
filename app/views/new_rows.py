"""New rows: another table on the map of the open run, and what the model makes of its rows."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import checking, intake, navigation, placed, services, state
from app.opened import Opened
from app.state import NewTable, Reading, Upload
from app.words import count, markdown
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

_EVERY_SECONDS = 0.5
_CANCEL_SECONDS = 0.8

_key = partial(state.widget, "new_rows")


def page() -> None:
    """Draw the page."""
    st.title("New rows")
    job = services.job(state.run_id())
    if job is None:
        _empty(missing=state.run_id() is not None)
    elif not job.has_model:
        _waiting(job)
    else:
        _of_run(job)


def _of_run(job: Job) -> None:
    try:
        opened = Opened(job.id, services.model(job.id), services.fitted_dataset(job.id))
    except LatentboardError as error:
        st.error(markdown(error))
        return
    title, name = markdown(opened.model.title), markdown(opened.dataset.name)
    st.markdown(f"The map: **{title}** on {name}, {count(len(opened.dataset), 'row')}.")
    if not opened.model.capabilities.new_rows:
        st.info(
            f"{title} lays out the rows that it was given and can place no others. Fit another "
            "model to the same data, such as the Bayesian GPLVM or LDGD."
        )
        return
    _upload(opened)
    given = state.new_table()
    placing = _placing(opened)
    if given is not None and given.problem is not None:
        st.error(markdown(given.problem))
        if intake.has_choices(given.upload, None):
            with st.expander("Read it in another way", expanded=True):
                intake.form(given.upload, None, current=given.reading, take=partial(_read, opened))
    elif given is not None and placing is None:
        checking.show(opened, given, partial(_read, opened))
    elif placing is None:
        st.caption(
            "It needs the columns that the model was fitted to, by name and in any order; others "
            "are not used. A label in it is compared with what the model predicts."
        )
    if placing is not None:
        every = None if placing.finished else _EVERY_SECONDS
        st.fragment(_under_way, run_every=every)(placing.id, placing.status)
        if placing.status == "done":
            placed.show(opened, placing)


def _placing(opened: Opened) -> Job | None:
    """What places rows on this map, or has placed them; None where there is nothing to show."""
    asked = state.placing(opened.run)
    found = services.job(asked)
    if asked is not None and found is None:
        st.warning("The placed rows in the address are not there. They may have been deleted.")
    if found is None or found.spec.run != opened.run:
        state.set_placing(opened.run, None)
        return None
    state.set_placing(opened.run, found.id)
    return found


# ---- the file --------------------------------------------------------------------------------


def _upload(opened: Opened) -> None:
    key = _key("upload")
    st.file_uploader(
        intake.FORMATS,
        type=intake.TYPES,
        key=key,
        on_change=_uploaded,
        args=(opened, key),
    )


def _uploaded(opened: Opened, key: str) -> None:
    upload = intake.uploaded(key)
    if upload is None:
        state.set_new_table(None)
    else:
        _read(opened, upload, Reading())


def _read(opened: Opened, upload: Upload, reading: Reading) -> None:
    """Look at an uploaded table from now on; what was placed before makes room for it."""
    try:
        services.table(upload, reading)
    except LatentboardError as error:
        state.set_new_table(NewTable(upload, reading, str(error)))
        return
    state.set_new_table(NewTable(upload, reading))
    state.set_placing(opened.run, None)


# ---- under way -------------------------------------------------------------------------------


def _under_way(run: str, drawn: str) -> None:
    """Where the placing stands: how far it is, or why it ended early."""
    job = services.job(run)
    if job is None or job.status != drawn:
        st.rerun()
    if job.status == "done":
        return
    if job.finished:
        draw = st.error if job.status == "failed" else st.warning
        draw(markdown(job.message or f"Placing the rows was {job.status}."))
        with st.container(horizontal=True):
            if job.resumable and st.button("Go on", key=_key(run, "resume")):
                _resume(run)
            if state.new_table() is not None:
                st.button(
                    "Back to the columns",
                    key=_key(run, "back"),
                    on_click=state.set_placing,
                    args=(job.spec.run, None),
                )
        return
    words, action = st.columns([5, 1], vertical_alignment="center")
    steps = services.progress(run).steps
    done, total = (steps[-1].iteration, steps[-1].total) if steps else (0, 1)
    with words:
        st.progress(min(1.0, done / max(1, total)), text=_stand(job, done, total))
    with action:
        st.button(
            "Cancel",
            key=_key(run, "cancel"),
            on_click=partial(services.cancel, run, patience=_CANCEL_SECONDS),
            width="stretch",
        )


def _resume(run: str) -> None:
    try:
        services.resume(run)
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()


def _stand(job: Job, done: int, total: int) -> str:
    if job.status == "queued":
        return "Queued: the rows are placed as soon as it is their turn."
    if not done:
        return "Placing the rows."
    return f"{count(done, 'row')} of {total} done, those of the fit to compare with included."


# ---- nothing to show -------------------------------------------------------------------------


def _waiting(job: Job) -> None:
    """A run without a model: not yet, or never."""
    if job.finished:
        st.info(markdown(job.message or f"This run is {job.status} and left no model."))
    else:
        st.info("This run is still being fitted. New rows can be placed when the fit has ended.")
    navigation.link("Go to the fit", "fit", key="fit")


def _empty(*, missing: bool) -> None:
    """No run: what can be done here, and one way to get there."""
    if missing:
        st.warning("The run in the address is not there. It may have been deleted.")
    st.markdown(
        "After a fit this page takes another table with the same columns and places its rows on "
        "the map: where they lie and how sure that is, which class they are, and how unusual they "
        "are among the rows of the fit."
    )
    if st.button("Fit the sample", type="primary", key=_key("sample")):
        state.open_run(services.fit_sample(), follow=True)
        navigation.go("fit")


if __name__ == "__main__":  # as the navigation runs it
    page()
