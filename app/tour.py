"""The first-run tour: the sample fitted, explored, compared and taken away, a line a page."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app import navigation, services, state
from app.navigation import PageName
from app.words import markdown
from lvmcore.errors import LatentboardError

__all__ = ["STEPS", "Step", "line", "offer"]


@dataclass(frozen=True)
class Step:
    """One stop of the tour.

    Attributes:
        page: where it is.
        text: what to look at there.
        onward: what leads to the next one.
    """

    page: PageName
    text: str
    onward: str = "Next"


STEPS = (
    Step(
        "data",
        "This is a table: 178 wines, 13 measurements each, and the cultivar as a label. Next, a "
        "model is fitted to it, which takes a few seconds.",
        "Fit it",
    ),
    Step(
        "fit",
        "The bound rises as the model learns, and the map forms below it. When the curve is flat, "
        "the fit has converged.",
    ),
    Step(
        "latent",
        "Every point is a wine. Click one: beside the map stands what the model expects of such a "
        "wine, and how sure it is.",
    ),
    Step(
        "latent",
        "The relevance bars say which dimensions matter; those near nothing are switched off. A "
        "click on a bar puts its dimension on the map.",
    ),
    Step(
        "compare",
        "Add another method, such as PCA, to see the same wines on its map. A lasso on one map "
        "marks the rows on all.",
    ),
    Step(
        "runs",
        "Every fit is kept here. Tick it to name it, export its model, map, report or Python, or "
        "delete it. Now load a table of your own on the Data page.",
        "Finish",
    ),
)


def offer() -> None:
    """On a first visit, offer the tour: nothing was fitted, chosen or left yet."""
    if state.tour() is not None or state.tour_left() or state.source() is not None:
        return
    if state.run_id() is not None or services.store().list():
        return
    with st.container(key="tour-offer", horizontal=True, vertical_alignment="center"):
        st.markdown("New here? See a map of a sample made and read, in under a minute.")
        st.button(
            "Take the tour",
            key=state.widget("tour", "take"),
            on_click=state.set_tour,
            args=(0,),
            help="Fits the bundled sample wine, and leads through the pages; leave it at any time.",
        )


def line(page: str) -> None:
    """Draw the tour's line on a page, while somebody takes it.

    Args:
        page: which page is drawn.
    """
    place = state.tour()
    if place is None:
        return
    if place + 1 < len(STEPS) and page == STEPS[place + 1].page != STEPS[place].page:
        place += 1  # the way to the next page was taken, whichever
        state.set_tour(place)
    step = STEPS[place]
    with st.container(key="tour", horizontal=True, vertical_alignment="center"):
        with st.container():
            st.caption(f"Tour, {place + 1} of {len(STEPS)}: {navigation.TITLES[step.page]}")
            st.markdown(markdown(step.text))
        if page != step.page:
            navigation.link("Back to the tour", step.page, key="tour-back", primary=False)
        else:
            _onward(place)
        st.button(
            "Leave",
            key=state.widget("tour", "leave"),
            on_click=state.leave_tour,
            help="Ends the tour; everything stays as it is.",
        )


def _onward(place: int) -> None:
    """What leads to the next step: a link to its page, or a button where it is the same page."""
    step, last = STEPS[place], place + 1 == len(STEPS)
    key = state.widget("tour", "next", place)
    if step.page == "data":
        if st.button(step.onward, type="primary", key=key, help="Fits the sample."):
            _fit()
    elif last:
        st.button(
            step.onward,
            type="primary",
            key=key,
            on_click=state.leave_tour,
            help="Ends the tour; all pages are in the list at the left.",
        )
    elif STEPS[place + 1].page == step.page:
        st.button(
            step.onward,
            type="primary",
            key=key,
            on_click=state.set_tour,
            args=(place + 1,),
            help="Goes on on this page.",
        )
    else:
        navigation.link(step.onward, STEPS[place + 1].page, key="tour-next")


def _fit() -> None:
    """Fit the sample, and go where that is watched."""
    try:
        run = services.fit_sample()
    except LatentboardError as error:
        st.error(markdown(error))
        return
    state.open_run(run, follow=True)
    navigation.go("fit")
