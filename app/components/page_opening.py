"""Opening of a page about a run: the run or its map, or what the page shows without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import navigation
from app.analysis.map.fitted_map import FittedMap
from app.components.empty_states import missing_run_warning
from app.formatting import markdown
from app.navigation import PageName
from app.services import fitted_maps, runs
from app.state.session import session
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

__all__ = ["PageOpening", "open_map", "open_run"]


@dataclass(frozen=True)
class PageOpening:
    """The texts of a page about a run without anything to show.

    Attributes:
        page: the page.
        introduction: content of the page, for a visitor without a run.
        pending: content of the page after the fit, for a run that is not finished.
        first_step: draws the link or button to a first run.
        predicts: whether the page is for runs that predict a target, not for runs with a map.
    """

    page: PageName
    introduction: str
    pending: str
    first_step: Callable[[], None]
    predicts: bool = False


def open_run(opening: PageOpening, line: DeltaGenerator | None = None) -> Job | None:
    """Draw the title, and return the open run if it has a fitted model of the page's kind.

    Otherwise draw what to do: no run, a deleted run, a run of the other kind, an unfinished run.

    Args:
        opening: texts of the page.
        line: container of the title; None for none.
    """
    (line or st).title(navigation.TITLES[opening.page])
    job = runs.job(session.run_id)
    if job is None:
        missing_run_warning()
        st.markdown(opening.introduction)
        opening.first_step()
    elif opening.predicts and not job.spec.target:
        _map_run(job)
    elif job.spec.target and not opening.predicts:
        _target_run(job)
    elif not job.has_model:
        _unfinished_run(job, opening.pending)
    else:
        return job
    return None


def open_map(
    opening: PageOpening, line: DeltaGenerator | None = None
) -> tuple[Job, FittedMap] | None:
    """Draw the title, and return the open run with its map; see ``open_run``.

    An error of loading the map is drawn too.

    Args:
        opening: texts of the page.
        line: container of the title; None for none.
    """
    job = open_run(opening, line)
    if job is None:
        return None
    try:
        dataset = fitted_maps.fitted_dataset(job.id)
        return job, FittedMap(job.id, fitted_maps.model(job.id), dataset, page=opening.page)
    except LatentboardError as error:
        st.error(markdown(error))
        navigation.link("Choose another run", "runs", key="other-run", primary=False)
        return None


def _unfinished_run(job: Job, pending: str) -> None:
    """A run without a model: not finished, or ended without one."""
    if job.finished:
        st.info(markdown(job.message or f"This run is {job.status} and left no model."))
    else:
        st.info(f"This run is not finished. {pending}")
    navigation.link("Go to the fit", "fit", key="fit")


def _target_run(job: Job) -> None:
    """A run that predicts a target, on a page about maps."""
    st.info(
        f"This run predicts {markdown(job.spec.target)} and has no map of its rows. Open a run "
        "with a map, or fit one to the same data."
    )
    with st.container(horizontal=True):
        navigation.link("See the predictions", "predict", key="predictions")
        navigation.link("Choose another run", "runs", key="other-run", primary=False)


def _map_run(job: Job) -> None:
    """A run with a map, on the page about predictions of a target."""
    st.info(
        f"{markdown(job.name)} has a map and predicts no column. To predict a column, choose it "
        "on the Fit page as its target."
    )
    with st.container(horizontal=True):
        navigation.link("Go to the fit", "fit", key="fit")
        navigation.link("Explore the map", "latent", key="map", primary=False)
