"""Missing cells: the gaps of a table filled by the model that was fitted to it, and a check."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app import absent, filled, making, navigation, services, state
from app.services import Gaps
from app.words import count, duration, listed, markdown
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

_key = partial(state.widget, "impute")


def page() -> None:
    """Draw the page."""
    st.title(navigation.TITLES["impute"])
    job = services.job(state.run_id())
    if job is None:
        _empty()
    elif job.spec.target:
        absent.predicts(job)
    elif not job.has_model:
        absent.waiting(job, "Missing cells can be filled when the fit has ended.")
    else:
        _of_run(job)


def _of_run(job: Job) -> None:
    try:
        model, gaps = services.model(job.id), services.gaps(job.spec.dataset)
        made = services.filling(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    st.markdown(_facts(job, model, gaps))
    if not gaps.cells:
        st.info(
            f"Nothing is missing: all {count(gaps.rows, 'row')} have all "
            f"{count(gaps.columns, 'column')}. This page is for tables with gaps: load one, and "
            "fit a model to it that takes missing cells."
        )
        navigation.link("Go to the data", "data", key="data", primary=False)
    elif not model.capabilities.missing_cells:
        st.info(
            f"{markdown(model.title)} cannot fill missing cells: it needs every cell, and was "
            "fitted to the complete rows alone. Fit a model that takes missing cells to the same "
            "data, such as probabilistic PCA or the Bayesian GPLVM."
        )
        navigation.link("Fit another model", "fit", key="fit")
    elif made is None:
        _offer(job)
    else:
        _made(made, gaps)


def _facts(job: Job, model: LatentVariableModel, gaps: Gaps) -> str:
    """The run in a line, and what its table lacks."""
    name = markdown(job.spec.dataset_name)
    said = f"The model: **{markdown(model.title)}** on {name}, {count(gaps.rows, 'row')}."
    if gaps.cells:
        said += (
            f" The table lacks {count(gaps.cells, 'cell')} in {len(gaps.missing)} of "
            f"{count(gaps.columns, 'column')}: {markdown(listed(list(gaps.missing)))}."
        )
    return said


# ---- before ----------------------------------------------------------------------------------


def _offer(job: Job) -> None:
    """What will be done, and the button that does it."""
    seconds = f", {duration(job.seconds)}" if job.seconds is not None else ""
    st.markdown(
        "Each missing cell is filled with what the model expects from the other cells of its row, "
        "and gets a standard deviation. The model then checks itself: a tenth of the known cells "
        "is hidden, and it is fitted once more without them. That takes about as long as the fit "
        f"did{seconds}."
    )
    _start(job.id, "Fill the missing cells", primary=True)


def _start(run: str, title: str, *, primary: bool = False) -> None:
    if st.button(
        title,
        type="primary" if primary else "secondary",
        key=_key(run, "start"),
        help="Starts a run that fills the cells and checks itself; the table stays as it is.",
    ):
        try:
            services.start_filling(run)
        except LatentboardError as error:
            st.error(markdown(error))
        else:
            st.rerun()


# ---- under way, and after --------------------------------------------------------------------


def _made(made: Job, gaps: Gaps) -> None:
    making.show(made, _MAKING)
    if not _has_table(made):
        return
    if made.status == "done":
        filled.check(made, gaps)
    filled.table(made)
    with st.container(gap="xxsmall"):
        for note in made.notes:
            st.caption(markdown(note))


def _has_table(made: Job) -> bool:
    return services.store().job_folder(made.id).completed_path.is_file()


def _stand(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued: the cells are filled as soon as it is their turn."
    if job.stage == "preparing":
        return "Filling the cells."
    if step is None:
        return "The cells are filled. Now the check: the model is fitted without hidden cells."
    left = step.seconds / step.iteration * (step.total - step.iteration)
    return (
        f"The cells are filled. Now the check: step {step.iteration} of {step.total}, at most "
        f"{duration(left)} left."
    )


_MAKING = making.Making(
    page="impute",
    doing="Filling the missing cells",
    stand=_stand,
    mark=lambda job: (job.status, _has_table(job)),
    otherwise=lambda job: _start(job.spec.run, "Start again"),
)


# ---- nothing to show -------------------------------------------------------------------------


def _empty() -> None:
    """No run: what can be done here, and one way to get there."""
    absent.gone()
    st.markdown(
        "After a fit to a table with missing cells this page fills them in: each with what the "
        "model expects from the other cells of its row, and how sure that is. It checks itself by "
        "hiding known cells, and hands out the table with every filled cell flagged."
    )
    navigation.link("Go to the data", "data", key="data")


if __name__ == "__main__":  # as the navigation runs it
    page()
