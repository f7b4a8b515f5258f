"""The tour of a first visit: fit, explore and compare the sample, one line per page."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app import navigation
from app.formatting import markdown
from app.navigation import PageName
from app.services import runs, server
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError

__all__ = ["STEPS", "TourStep", "tour_line", "tour_offer"]


@dataclass(frozen=True)
class TourStep:
    """A step of the tour.

    Attributes:
        page: the page of the step.
        text: what the page shows.
        onward: title of the button or link to the next step.
    """

    page: PageName
    text: str
    onward: str = "Next"


STEPS = (
    TourStep(
        "data",
        "This table has 178 wines with 13 measurements each, and the cultivar as a label. Next, a "
        "model is fitted to it, which takes a few seconds.",
        "Fit a model",
    ),
    TourStep(
        "fit",
        "The bound increases during the fit, and the map develops beside it. The fit ends when the "
        "curve is flat: it has converged.",
    ),
    TourStep(
        "latent",
        "Every point is a wine. Click one to see its reconstruction with intervals beside the map.",
    ),
    TourStep(
        "latent",
        "Under Relevance beside the map, bars show which dimensions the model uses; those near 0 "
        "are switched off. A click on a bar shows its dimension on the map.",
    ),
    TourStep(
        "compare",
        "PCA, t-SNE and UMAP of the same wines are shown beside your map, and the scores of all "
        "below them. A selection on one map is shown on all maps.",
    ),
    TourStep(
        "runs",
        "This page lists all runs. Select one to rename or delete it; the Export page has its "
        "files. Next, load a table of your own on the Data page.",
        "Finish",
    ),
)


def tour_offer() -> None:
    """Draw the offer of the tour on a first visit: no run, no chosen table, no ended tour."""
    if session.tour_step is not None or session.tour_ended or session.source is not None:
        return
    if session.run_id is not None or server.store().list():
        return
    with st.container(key="tour-offer", horizontal=True, vertical_alignment="center"):
        st.markdown("First visit? The tour fits and explores a sample in under a minute.")
        st.button(
            "Take the tour",
            key=widget_key("tour", "take"),
            on_click=session.show_tour_step,
            args=(0,),
            help="Fits the bundled sample wine and explains the pages; end it at any time.",
        )


def tour_line(page: str) -> None:
    """Draw the current step of the tour on a page; nothing outside the tour.

    Args:
        page: the page that is drawn.
    """
    position = session.tour_step
    if position is None:
        return
    if position + 1 < len(STEPS) and page == STEPS[position + 1].page != STEPS[position].page:
        position += 1  # the next page was opened, by any link
        session.tour_step = position
    step = STEPS[position]
    with st.container(key="tour", horizontal=True, vertical_alignment="center"):
        with st.container():
            st.caption(f"Tour, {position + 1} of {len(STEPS)}: {navigation.TITLES[step.page]}")
            st.markdown(markdown(step.text))
        if page != step.page:
            navigation.link("Back to the tour", step.page, key="tour-back", primary=False)
        else:
            _onward(position)
        st.button(
            "Leave",
            key=widget_key("tour", "leave"),
            on_click=session.end_tour,
            help="Ends the tour; nothing is changed.",
        )


def _onward(position: int) -> None:
    """The link to the page of the next step, or a button on the same page."""
    step, last = STEPS[position], position + 1 == len(STEPS)
    key = widget_key("tour", "next", position)
    job = runs.job(session.run_id) if step.page == "fit" else None
    if job is not None and not job.finished:
        st.caption("The next step follows when the fit has ended.", width="content")
    elif step.page == "data":
        if st.button(step.onward, type="primary", key=key, help="Fits the sample."):
            _fit_sample()
    elif last:
        st.button(
            step.onward,
            type="primary",
            key=key,
            on_click=session.end_tour,
            help="Ends the tour; all pages are in the navigation at the left.",
        )
    elif STEPS[position + 1].page == step.page:
        st.button(
            step.onward,
            type="primary",
            key=key,
            on_click=session.show_tour_step,
            args=(position + 1,),
            help="The next step is on this page.",
        )
    else:
        navigation.link(step.onward, STEPS[position + 1].page, key="tour-next")


def _fit_sample() -> None:
    """Fit the sample, and open the Fit page."""
    try:
        run = runs.start_sample_fit()
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.open_run_with_dataset(run)
    navigation.go("fit")
