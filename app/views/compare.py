"""Compare: maps of the same rows side by side, one selection on all of them, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import (
    atlas,
    beside,
    cards,
    chart,
    comparing,
    figures,
    moving,
    multiples,
    repeated,
    selecting,
    services,
    standing,
    state,
)
from app.colouring import Colouring
from app.comparing import Side
from app.opened import Opened
from app.words import count, markdown, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

#: Maps side by side at most.
MOST = 4
#: What one click adds, in this order.
METHODS = ("pca", "factor_analysis", "tsne", "umap", "isomap", "lda")

_key = partial(state.widget, "compare")


def page() -> None:
    """Draw the page."""
    st.title("Compare")
    if _sweep():
        return
    jobs = _compared()
    if not jobs:
        _empty()
        return
    try:
        whole = services.stored_dataset(jobs[0].spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    _choose(jobs, whole)
    maps = _sides(jobs, whole)
    look = _colour(whole)
    chosen, drawn_on = _selection(maps, whole)
    beside.panels(jobs, maps, whole, look, chosen)
    if chosen is not None:
        st.header("The selection")
        clear = partial(state.set_compared_region, "", None)
        selecting.selected_rows(whole, chosen, drawn_on, key=_key, clear=clear)
    moving.show(jobs, maps, whole, look, chosen)
    repeated.show(jobs, maps, whole, look)
    standing.show([job for job in jobs if job.id in maps])


# ---- a sweep ---------------------------------------------------------------------------------


def _sweep() -> bool:
    """Draw the sweep that is looked at, if any; whether there is one."""
    job = services.job(state.run_id())
    found = {} if job is None else services.sweeps(job.spec.dataset)
    asked = state.sweep()
    if asked is not None and asked not in found:
        found = services.sweeps_with(asked) | found
        if asked not in found:
            st.warning("The sweep in the address is not there. Its fits may have been deleted.")
            state.set_sweep(None)
            asked = None
    if not found:
        return False
    titles = {
        sweep: f"sweep of {count(len(jobs), 'fit')}, {shortened(jobs[0].name, 40)}"
        for sweep, jobs in found.items()
    }
    options: list[str | None] = [None, *found]
    key = _key("view")
    state.set_value(key, asked)
    left, _ = st.columns([1, 2])
    left.selectbox(
        "Show",
        options,
        format_func=lambda one: "maps side by side" if one is None else titles[one],
        key=key,
        on_change=lambda: state.set_sweep(state.value(key)),
        help="Up to four maps side by side, or all maps of a sweep as small multiples.",
    )
    if asked is None:
        return False
    state.set_sweep(asked)  # into the address, where it is known from before
    try:
        whole = services.stored_dataset(found[asked][0].spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return True
    multiples.show(found[asked], whole, _colour(whole))
    return True


# ---- which maps ------------------------------------------------------------------------------


def _compared() -> list[Job]:
    """The runs to show, of one dataset; those that cannot be are said."""
    asked = state.compared()
    there = [job for job in map(services.job, asked or _proposed()) if job is not None]
    if len(there) < len(asked):
        gone = count(len(asked) - len(there), "run")
        st.warning(f"{gone} of this comparison cannot be found: deleted, or of another folder.")
    found = [job for job in there if not job.spec.target]
    if len(found) < len(there):
        predicting = count(len(there) - len(found), "run")
        st.warning(f"{predicting} left out: a model that predicts a target has no map.")
    kept = [job for job in found if job.spec.dataset == found[0].spec.dataset][:MOST]
    if len(kept) < len(found):
        left_out = count(len(found) - len(kept), "run")
        st.warning(f"{left_out} left out: a comparison holds {MOST} maps at most, of one dataset.")
    runs = tuple(job.id for job in kept)
    if runs != asked or asked:
        state.set_compared(runs)
    return kept


def _proposed() -> list[str]:
    """What to begin with: the open run, or else the latest that has a map."""
    job = services.job(state.run_id())
    if job is not None and _has_map(job):
        return [job.id]
    return [job.id for job in services.store().list() if job.has_model and _has_map(job)][:1]


def _has_map(job: Job) -> bool:
    """Whether a run has a map, or may have one when it ends."""
    return not job.spec.target and (job.has_model or not job.finished)


def _choose(jobs: Sequence[Job], whole: Dataset) -> None:
    """Which runs are shown, and one click for each method that can be added."""
    here = {job.id: job for job in jobs}
    others = services.store().list()
    here |= {job.id: job for job in others if job.spec.dataset == whole.digest and _has_map(job)}
    titles = comparing.names(list(here.values()))
    told = told_apart(shortened(titles.get(run, ""), 60) for run in here)
    shown = dict(zip(here, told, strict=True))
    key = _key("maps")
    state.set_value(key, [job.id for job in jobs])
    st.multiselect(
        f"Maps of {markdown(whole.name)}",
        list(here),
        format_func=lambda run: shown.get(run, ""),
        max_selections=MOST,
        key=key,
        on_change=_rechoose,
        args=(key,),
        help="The runs of this data set to lay side by side, the first one leading.",
    )
    shape = services.shape(whole)
    known = {card.key: card for card in services.cards()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(":small[Add a method]", width="content")
        for method in METHODS:
            refused = cards.refusal(known[method], shape)
            if st.button(
                known[method].title,
                key=_key("add", method),
                disabled=refused is not None or len(jobs) >= MOST,
                help=refused or known[method].summary,
            ):
                _add(jobs, whole, method)


def _rechoose(key: str) -> None:
    state.set_compared(tuple(state.value(key)))


def _add(jobs: Sequence[Job], whole: Dataset, method: str) -> None:
    try:
        run = services.add_method(whole, method)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    state.set_compared(tuple(dict.fromkeys([*(job.id for job in jobs), run])))
    st.rerun()


def _empty() -> None:
    """No run yet: what will be here, and one way to get there."""
    st.markdown(
        "This page lays maps of the same rows side by side: your model beside PCA, t-SNE, UMAP "
        "and others, turned so that they can be compared. Rows that you encircle on one map show "
        "on all of them, and a table says how well each map does."
    )
    if st.button(
        "Compare PCA and t-SNE on the sample",
        type="primary",
        key=_key("sample"),
        help="Fits both to the bundled sample wine.",
    ):
        try:
            whole = services.sample_dataset()
            state.set_compared(tuple(services.add_method(whole, key) for key in ("pca", "tsne")))
        except LatentboardError as error:
            st.error(markdown(error))
            return
        st.rerun()
    beside.illustration()


# ---- what they share ------------------------------------------------------------------------


def _sides(jobs: Sequence[Job], whole: Dataset) -> dict[str, Side]:
    """The maps that are there, laid over the first of them, by run."""
    opened = []
    for job in jobs:
        if job.has_model:
            try:
                rows = services.fitted_dataset(job.id)
                opened.append(Opened(job.id, services.model(job.id), rows))
            except LatentboardError as error:
                st.error(f"{markdown(job.name)}: {markdown(error)}")
    return {side.opened.run: side for side in comparing.sides(opened, whole)}


def _colour(whole: Dataset) -> Colouring:
    """What colours the rows on all maps, with one legend for all."""
    options = atlas.colours(whole)
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    colour = left.selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=_key(whole.digest, "colour"),
        help="The label or column that colours the rows on all maps.",
    )
    look = chart.look_of(whole, colour or None)
    with right:
        st.html(figures.legend(look, dark=state.dark()) or "<span></span>")
    return look


def _selection(maps: dict[str, Side], whole: Dataset) -> tuple[NDArray[np.bool_] | None, str]:
    """The selected rows of the whole dataset, and where they were encircled."""
    drawn = state.compared_region()
    if drawn is None or drawn[0] not in maps:
        return None, ""
    run, region = drawn
    title = maps[run].opened.model.title
    return maps[run].selected(region, len(whole)), f"drawn on the map of {markdown(title)}"


if __name__ == "__main__":  # as the navigation runs it
    page()
