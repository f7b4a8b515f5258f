"""New rows: latent positions of the rows of another table, inferred by the fitted model."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.tables.row_counts import rows_in_words
from app.components import (
    table_upload,
)
from app.components.derived_run import DerivedRun, derived_run_panel, files_note
from app.components.empty_states import fit_sample_button
from app.components.new_table_checks import (
    NewTableUse,
    handle_new_upload,
    new_table_panel,
    read_new_table,
)
from app.components.page_opening import PageOpening, open_map
from app.formatting import count, grouped, markdown
from app.services import placement, runs
from app.state.session import session
from app.state.widgets import widget_key
from app.views.new_rows.placements import placements_panel
from lvmcore.results import FitStep
from lvmcore.runs import Job

_key = partial(widget_key, "new_rows")


_OPENING = PageOpening(
    page="new_rows",
    introduction=(
        "After a fit this page takes another table with the same columns and infers the latent "
        "positions of its rows: where they lie on the map and with which uncertainty, their "
        "predicted class, and how unusual they are among the rows of the fit."
    ),
    pending="The positions of new rows can be inferred when the fit has finished.",
    first_step=partial(fit_sample_button, "new_rows"),
)


def page() -> None:
    """Draw the page."""
    opened = open_map(_OPENING)
    if opened is not None:
        _infer(opened[1])


def _infer(fitted_map: FittedMap) -> None:
    title, name = markdown(fitted_map.model.title), markdown(fitted_map.dataset.name)
    st.markdown(f"Map: **{title}** on {name}, {rows_in_words(fitted_map.dataset)}.")
    if not fitted_map.model.capabilities.new_rows:
        st.info(
            f"{title} cannot infer the positions of new rows. Fit another model to the same data, "
            "such as the Bayesian GPLVM or LDGD."
        )
        return
    _uploader(fitted_map)
    given = session.new_table
    job = _placement_job(fitted_map)
    if given is not None and given.problem is not None:
        st.error(markdown(given.problem))
        if table_upload.has_reading_choices(given.upload, None):
            with st.expander("Change how it is read", expanded=True):
                table_upload.reading_form(
                    given.upload,
                    None,
                    current=given.reading,
                    on_submit=partial(read_new_table, fitted_map.run),
                )
    elif given is not None and job is None:
        new_table_panel(_use(fitted_map), given, partial(read_new_table, fitted_map.run))
    elif job is None:
        st.caption(
            "The file needs the columns of the fit, by name and in any order; other columns are "
            "not used. A label in it is compared with the prediction."
        )
    if job is not None:
        derived_run_panel(job, _PLACEMENT)
        if job.status == "done":
            files_note(job)
            placements_panel(fitted_map, job)


def _use(fitted_map: FittedMap) -> NewTableUse:
    """How the page uses the table."""
    return NewTableUse(
        page="new_rows",
        run=fitted_map.run,
        model=fitted_map.model.title,
        labels=getattr(fitted_map.model, "label_names_", ()),
        compares_labels=True,
        action="Infer positions",
        action_help="Infers the latent positions of all rows; the map is not changed.",
        start=placement.start_placement,
    )


def _placement_job(fitted_map: FittedMap) -> Job | None:
    """The job that infers positions on this map; None without one."""
    run = session.placement[fitted_map.run]
    found = runs.job(run)
    if run is not None and found is None:
        st.warning("The new rows in the address do not exist. They may have been deleted.")
    if found is None or found.spec.run != fitted_map.run:
        session.placement[fitted_map.run] = None
        return None
    session.placement[fitted_map.run] = found.id
    return found


def _uploader(fitted_map: FittedMap) -> None:
    key = _key("upload")
    st.file_uploader(
        table_upload.FORMATS,
        type=table_upload.TYPES,
        key=key,
        on_change=handle_new_upload,
        args=(fitted_map.run, key),
        help="A table with the columns of the fit, in any of these formats.",
    )
    table_upload.choose_files("new_rows", partial(read_new_table, fitted_map.run))


def _back_button(job: Job) -> None:
    """Button that returns to the check of the table."""
    if session.new_table is not None:
        st.button(
            "Back to the columns",
            key=_key(job.id, "back"),
            on_click=session.placement.set,
            args=(job.spec.run, None),
            help="Shows how the columns of the table match those of the fit.",
        )


def _progress_text(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued."
    if step is None:
        return "Inferring the positions."
    done = count(step.iteration, "row")
    return f"{done} of {grouped(f'{step.total:,}')} done, including rows of the fit for comparison."


_PLACEMENT = DerivedRun(
    page="new_rows",
    activity="The inference of positions",
    progress_text=_progress_text,
    state=lambda job: job.status,
    alternatives=_back_button,
)


if __name__ == "__main__":  # as the navigation runs it
    page()
