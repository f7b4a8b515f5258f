"""New rows: another table on the map of the open run, and what the model makes of its rows."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import absent, checking, intake, making, placed, services, state
from app.opened import Opened
from app.words import count, markdown
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

_key = partial(state.widget, "new_rows")


def page() -> None:
    """Draw the page."""
    st.title("New rows")
    job = services.job(state.run_id())
    if job is None:
        _empty()
    elif job.spec.target:
        absent.predicts(job)
    elif not job.has_model:
        absent.waiting(job, "New rows can be placed when the fit has ended.")
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
                intake.form(
                    given.upload,
                    None,
                    current=given.reading,
                    take=partial(checking.read, opened.run),
                )
    elif given is not None and placing is None:
        checking.show(_use(opened), given, partial(checking.read, opened.run))
    elif placing is None:
        st.caption(
            "It needs the columns that the model was fitted to, by name and in any order; others "
            "are not used. A label in it is compared with what the model predicts."
        )
    if placing is not None:
        making.show(placing, _MAKING)
        if placing.status == "done":
            placed.show(opened, placing)


def _use(opened: Opened) -> checking.Use:
    """What is done with a table that was checked."""
    return checking.Use(
        page="new_rows",
        run=opened.run,
        model=opened.model.title,
        labels=getattr(opened.model, "label_names_", ()),
        compares=True,
        does="Place on the map",
        means="Places every row that has the columns of the fit; none of them changes the map.",
        start=services.start_placing,
    )


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
        on_change=checking.uploaded,
        args=(opened.run, key),
        help="A table with the columns of the fit, in any of these formats.",
    )


# ---- under way -------------------------------------------------------------------------------


def _back(job: Job) -> None:
    """The way back to the table that is still there."""
    if state.new_table() is not None:
        st.button(
            "Back to the columns",
            key=_key(job.id, "back"),
            on_click=state.set_placing,
            args=(job.spec.run, None),
            help="Shows again how the table's columns match those of the fit.",
        )


def _stand(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued: the rows are placed as soon as it is their turn."
    if step is None:
        return "Placing the rows."
    done = count(step.iteration, "row")
    return f"{done} of {step.total} done, those of the fit to compare with included."


_MAKING = making.Making(
    page="new_rows",
    doing="Placing the rows",
    stand=_stand,
    mark=lambda job: job.status,
    otherwise=_back,
)


# ---- nothing to show -------------------------------------------------------------------------


def _empty() -> None:
    """No run: what can be done here, and one way to get there."""
    absent.gone()
    st.markdown(
        "After a fit this page takes another table with the same columns and places its rows on "
        "the map: where they lie and how sure that is, which class they are, and how unusual they "
        "are among the rows of the fit."
    )
    absent.fit_the_sample("new_rows")


if __name__ == "__main__":  # as the navigation runs it
    page()
