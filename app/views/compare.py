"""Compare: maps of the same rows side by side, one selection on all of them, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import aside, atlas, cards, chart, comparing, figures, services, state
from app.colouring import Colouring
from app.comparing import Side
from app.opened import Opened
from app.regions import region_of
from app.words import count, duration, markdown, shortened
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

#: Maps side by side at most.
MOST = 4
#: What one click adds, in this order.
METHODS = ("pca", "factor_analysis", "tsne", "umap", "isomap", "lda")
_EVERY_SECONDS = 1.0
_CANCEL_SECONDS = 1.0
_CONFIG = {"scrollZoom": False, "modeBarButtonsToRemove": ["autoScale2d"]}

_key = partial(state.widget, "compare")


def page() -> None:
    """Draw the page."""
    st.title("Compare")
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
    _panels(jobs, maps, whole, look, chosen)
    if chosen is not None:
        st.subheader("The selection")
        clear = partial(state.set_compared_region, "", None)
        aside.selected_rows(whole, chosen, drawn_on, key=_key, clear=clear)
    _figures(jobs)


# ---- which maps ------------------------------------------------------------------------------


def _compared() -> list[Job]:
    """The runs to show, of one dataset; those that cannot be are said."""
    asked = state.compared()
    found = [job for job in map(services.job, asked or _proposed()) if job is not None]
    if len(found) < len(asked):
        gone = count(len(asked) - len(found), "run")
        st.warning(f"{gone} of this comparison cannot be found: deleted, or of another folder.")
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
    if job is not None and (job.has_model or not job.finished):
        return [job.id]
    return [job.id for job in services.store().list() if job.has_model][:1]


def _choose(jobs: Sequence[Job], whole: Dataset) -> None:
    """Which runs are shown, and one click for each method that can be added."""
    here = {job.id: job for job in jobs}
    others = services.store().list()
    here |= {
        job.id: job
        for job in others
        if job.spec.dataset == whole.digest and (job.has_model or not job.finished)
    }
    key = _key("maps")
    state.set_value(key, [job.id for job in jobs])
    st.multiselect(
        f"Maps of {markdown(whole.name)}",
        list(here),
        format_func=lambda run: shortened(here[run].name, 48) if run in here else "",
        max_selections=MOST,
        key=key,
        on_change=_rechoose,
        args=(key,),
    )
    shape = services.shape(whole)
    titles = {card.key: card for card in services.cards()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(":small[Add a method]", width="content")
        for method in METHODS:
            refused = cards.refusal(titles[method], shape)
            if st.button(
                titles[method].title,
                key=_key("add", method),
                disabled=refused is not None or len(jobs) >= MOST,
                help=refused if refused else titles[method].summary,
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
    if st.button("Compare PCA and t-SNE on the sample", type="primary", key=_key("sample")):
        try:
            whole = services.sample_dataset()
            state.set_compared(tuple(services.add_method(whole, key) for key in ("pca", "tsne")))
        except LatentboardError as error:
            st.error(markdown(error))
            return
        st.rerun()


# ---- the panels ------------------------------------------------------------------------------


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
        "Colour", list(options), format_func=options.__getitem__, key=_key(whole.digest, "colour")
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


def _panels(
    jobs: Sequence[Job],
    maps: dict[str, Side],
    whole: Dataset,
    look: Colouring,
    chosen: NDArray[np.bool_] | None,
) -> None:
    across = 3 if len(jobs) == 3 else 2
    height = 340 if across == 3 else 430
    columns = [
        column for _ in range(0, len(jobs), across) for column in st.columns(across, gap="small")
    ]
    for job, column in zip(jobs, columns, strict=False):
        with column.container(border=True, key=_key("panel", job.id), height="stretch"):
            st.markdown(f"**{markdown(shortened(job.name, 60))}**")
            if job.id in maps:
                _map(maps[job.id], whole, look, chosen, height, len(jobs))
            else:
                every = None if job.finished else _EVERY_SECONDS
                st.fragment(_absent, run_every=every)(job.id, job.status)
    if len(jobs) == 1:
        columns[1].info("Add a method above to see its map here, beside this one.")


def _map(
    side: Side,
    whole: Dataset,
    look: Colouring,
    chosen: NDArray[np.bool_] | None,
    height: int,
    among: int,
) -> None:
    """One map, drawn with the shared colours and the shared selection."""
    run, dark = side.opened.run, state.dark()
    shown = figures.evenly(len(side.points), chart.MOST_DRAWN // among)
    place = side.place[shown]
    rows = figures.Rows(
        points=side.points[shown],
        number=place,
        hover=chart.hover(whole, look, place),
        colouring=chart.part_of(look, place),
        selected=None if chosen is None else chosen[place],
    )
    drawn = state.compared_region()
    outlines = side.outlines(drawn[1]) if drawn is not None and drawn[0] == run else ()
    key = _key("map", run)
    st.plotly_chart(
        figures.side_figure(
            rows, equal=side.axes[1] is not None, dark=dark, height=height, outlines=outlines
        ),
        theme=None,
        key=key,
        on_select=partial(_take, side, key),
        selection_mode=("box", "lasso"),
        config=_CONFIG,
        alt=f"Map of {side.opened.model.title}",
    )
    st.caption(_about(side, shown, chosen))


def _take(side: Side, key: str) -> None:
    """What a box or a lasso on a map selects."""
    event = state.value(key).selection
    region = region_of(side.axes, event.box, event.lasso)
    if region is not None:
        state.set_compared_region(side.opened.run, side.own(region))


def _about(side: Side, shown: NDArray[np.intp], chosen: NDArray[np.bool_] | None) -> str:
    """What a map shows, in a line."""
    said = [side.about]
    if len(shown) < len(side.points):
        said.append(f"{count(len(shown), 'row')} of {count(len(side.points), 'row')} drawn")
    if side.opened.model.capabilities.labels != "none":
        said.append("shaped by the labels that it was fitted with")
    if chosen is not None:
        away = int(chosen.sum() - chosen[side.place].sum())
        if away:
            said.append(f"{count(away, 'selected row')} not on this map")
    return ". ".join(text[0].upper() + text[1:] for text in said) + "."


def _absent(run: str, drawn: str) -> None:
    """A run without a map: how far it is, or why there is none."""
    job = services.job(run)
    if job is None or job.status != drawn:
        st.rerun()
    if job.finished:
        st.warning(markdown(job.message or f"This run is {job.status} and left no map."))
        return
    if job.status == "queued":
        st.caption(f"Queued, place {job.queue_place or 1}.")
    else:
        steps = services.progress(run).steps
        if steps:
            last = steps[-1]
            st.progress(min(1.0, last.iteration / max(1, last.total)))
            st.caption(f"Step {last.iteration} of at most {last.total}.")
        else:
            st.caption(f"Under way for {duration(job.seconds)}.")
    cancel = partial(services.cancel, run, patience=_CANCEL_SECONDS)
    st.button("Cancel", key=_key("cancel", run), on_click=cancel)


# ---- the figures -----------------------------------------------------------------------------


def _figures(jobs: Sequence[Job]) -> None:
    """How well each map does, each figure with its protocol."""
    shown = [job for job in jobs if job.has_model]
    if not shown:
        return
    st.subheader("How well they do")
    measured = {job.id: services.measured(job) for job in shown}
    rows = [(job.name, measured[job.id].figures) for job in shown]
    st.html(comparing.table(rows))
    st.caption(
        "The best of each column is set in bold. A dash has its reason, and a figure how it was "
        "measured: point at it, or open the list below. Labels that a fit has seen are not "
        "scored: the model is fitted anew to 80 % of the rows and scored on the other 20 %."
    )
    unscored = [job for job in shown if measured[job.id].unscored]
    if unscored and st.button(
        f"Measure {count(len(unscored), 'map')} on held-out rows",
        key=_key("score"),
        help="Fits each of these models anew to 80 % of the rows: about as long as its fit took.",
    ):
        for job in unscored:
            services.start_score(job)
        st.rerun()
    if any(one.under_way for one in measured.values()):
        st.fragment(_wait, run_every=_EVERY_SECONDS)([job.id for job in shown])
    with st.expander("How each figure was measured"):
        for name, found in rows:
            lines = [f"- {markdown(m.label)}: {markdown(m.protocol)}" for m in found.values()]
            st.markdown("\n".join([f"**{markdown(name)}**", "", *lines]))


def _wait(runs: Sequence[str]) -> None:
    """Follow what is still being measured, and draw the page anew as soon as one is done."""
    jobs = [job for job in map(services.job, runs) if job is not None]
    under_way = sum(services.measured(job).under_way for job in jobs)
    seen = state.value(_key("under way"))
    state.set_value(_key("under way"), under_way)
    if under_way == 0 or (seen is not None and under_way < seen):
        st.rerun()
    st.caption(f"{count(under_way, 'map')} being measured.")


if __name__ == "__main__":  # as the navigation runs it
    page()
