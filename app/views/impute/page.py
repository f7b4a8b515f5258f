"""Missing cells: imputation by the fitted model, with a check on hidden cells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app import navigation
from app.components.derived_run import DerivedRun, derived_run_panel
from app.components.page_opening import PageOpening, open_run
from app.formatting import count, duration, listed, markdown
from app.services import fitted_maps, imputation, server
from app.services.imputation import MissingCellCounts
from app.state.widgets import widget_key
from app.views.impute.completed_table import completed_table_panel
from app.views.impute.imputation_check import check_verdict, imputation_check
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

_key = partial(widget_key, "impute")


_OPENING = PageOpening(
    page="impute",
    introduction=(
        "After a fit to a table with missing cells this page imputes them: each missing cell gets "
        "the prediction of the model from the other cells of its row, with a standard deviation. "
        "A check on hidden cells measures the error, and the completed table marks every imputed "
        "cell."
    ),
    pending="Missing cells can be imputed when the fit has finished.",
    first_step=partial(navigation.link, "Go to the data", "data", key="data"),
)


def page() -> None:
    """Draw the page."""
    job = open_run(_OPENING)
    if job is not None:
        _impute(job)


def _impute(job: Job) -> None:
    try:
        model, gaps = fitted_maps.model(job.id), imputation.missing_cell_counts(job.spec.dataset)
        imputation_run = imputation.imputation_job(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    st.markdown(_facts(job, model, gaps))
    if not gaps.cells:
        st.info(
            f"No cell is missing in the {count(gaps.rows, 'row')} and "
            f"{count(gaps.columns, 'column')}. Load a table with missing cells and fit a model to "
            "it that takes them."
        )
        navigation.link("Go to the data", "data", key="data", primary=False)
    elif not model.capabilities.missing_cells:
        st.info(
            f"{markdown(model.title)} cannot impute missing cells: it needs every cell, and was "
            "fitted to the complete rows. Fit a model that takes missing cells to the same data, "
            "such as probabilistic PCA or the Bayesian GPLVM."
        )
        navigation.link("Fit another model", "fit", key="fit")
    elif imputation_run is None:
        _introduction(job)
    else:
        _imputation(imputation_run, gaps)


def _facts(job: Job, model: LatentVariableModel, gaps: MissingCellCounts) -> str:
    """The model, its data, and the missing cells."""
    name = markdown(job.spec.dataset_name)
    text = f"The model: **{markdown(model.title)}** on {name}, {count(gaps.rows, 'row')}."
    if gaps.cells:
        text += (
            f" The table lacks {count(gaps.cells, 'cell')} in {len(gaps.missing)} of "
            f"{count(gaps.columns, 'column')}: {markdown(listed(list(gaps.missing)))}."
        )
    return text


def _introduction(job: Job) -> None:
    """Description of the imputation, and the button that starts it."""
    seconds = f", {duration(job.seconds)}" if job.seconds is not None else ""
    st.markdown(
        "Each missing cell is imputed by the prediction of the model from the other cells of its "
        "row, with a standard deviation. For the check, a tenth of the observed cells is hidden, "
        "the model is fitted once more without them, and column means, nearest neighbours and a "
        f"forest predict them too. This takes about as long as the fit{seconds}, and at most as "
        "long again, or 10 s, for the forest."
    )
    _start_button(job.id, "Impute the missing cells", primary=True)


def _start_button(run: str, title: str, *, primary: bool = False, again: bool = False) -> None:
    if st.button(
        title,
        type="primary" if primary else "secondary",
        key=_key(run, "start"),
        help="Starts a run that imputes the cells and checks them; the table is not changed.",
    ):
        try:
            imputation.start_imputation(run, again=again)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            st.rerun()


def _imputation(job: Job, gaps: MissingCellCounts) -> None:
    derived_run_panel(job, _IMPUTATION)
    if not _has_table(job):
        return
    if job.status == "done":
        check_verdict(job)
    completed_table_panel(job)
    if job.status == "done":
        imputation_check(job, gaps, lambda: _start_button(job.spec.run, "Impute again", again=True))
    with st.container(gap="xxsmall"):
        for note in job.notes:
            st.caption(markdown(note))


def _has_table(job: Job) -> bool:
    return server.store().job_folder(job.id).files.completed.is_file()


def _progress_text(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued."
    if job.stage == "preparing":
        return "Imputing the cells."
    if step is None:
        return "The cells are imputed. Check: the model is fitted without the hidden cells."
    left = step.seconds / step.iteration * (step.total - step.iteration)
    return (
        f"The cells are imputed. Check: step {step.iteration} of {step.total}, at most "
        f"{duration(left)} left."
    )


_IMPUTATION = DerivedRun(
    page="impute",
    activity="The imputation",
    progress_text=_progress_text,
    state=lambda job: (job.status, _has_table(job)),
    alternatives=lambda job: _start_button(job.spec.run, "Start again"),
)


if __name__ == "__main__":  # as the navigation runs it
    page()
