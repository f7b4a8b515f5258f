"""Compare: maps of the same rows side by side, with a common selection and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.comparison import map_alignment
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.row_colours import Colouring
from app.analysis.tables import model_cards as tables_model_cards
from app.components.empty_states import missing_run_warning
from app.components.learning_curves import has_learning_curve, learning_curves_panel
from app.components.map.map_chart import map_style
from app.components.map.map_options import colour_options
from app.components.map.selection_panel import selected_rows_panel
from app.components.score_table import score_table
from app.figures import legend
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import fitted_maps, model_cards, reference_maps, server, sweeps, tables
from app.services import runs as runs_service
from app.state.session import session
from app.state.widgets import set_widget_value, widget_key, widget_value
from app.views.compare.map_panels import illustration, map_panels
from app.views.compare.repeated_fits import repeated_fits_panel
from app.views.compare.sweep_maps import sweep_maps_panel
from app.views.compare.trajectories import trajectories_panel
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

#: Most maps side by side.
MOST = 4
#: Methods with a button, in this order.
METHODS = ("pca", "factor_analysis", "tsne", "umap", "isomap", "lda")

_key = partial(widget_key, "compare")


def page() -> None:
    """Draw the page."""
    st.title("Compare")
    if runs_service.job(session.run_id) is None:
        missing_run_warning()
    if _draw_sweep():
        return
    jobs = _compared_runs()
    if not jobs:
        _empty_state()
        return
    try:
        full_dataset = fitted_maps.stored_dataset(jobs[0].spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    left, right = st.columns([3, 1])
    with left:
        _choose_runs(jobs, full_dataset)
    with right:
        colouring = _choose_colour(jobs[0].id, full_dataset)
    _method_buttons(jobs, full_dataset)
    _legend(colouring)
    maps = _aligned_maps(jobs, full_dataset)
    chosen, description = _selection(maps, full_dataset)
    map_panels(jobs, maps, full_dataset, colouring, chosen)
    score_table([job for job in jobs if job.id in maps])
    _learning_curves([job for job in jobs if job.id in maps])
    if chosen is not None:
        st.header("The selection")
        selected_rows_panel(full_dataset, chosen, description, key=_key, clear=_clear_region)
    trajectories_panel(jobs, maps, full_dataset, colouring, chosen)
    repeated_fits_panel(jobs, maps, full_dataset, colouring)


def _learning_curves(jobs: Sequence[Job]) -> None:
    """Learning curves of the compared maps that learn from labels."""
    titles = map_alignment.map_names(jobs)
    fits = [(titles[job.id], job) for job in jobs if has_learning_curve(job.spec)]
    if fits:
        st.header("Learning curves")
        learning_curves_panel(fits, page="compare", key=partial(_key, "learning curve"))


def _clear_region() -> None:
    session.compared_region = None


def _show_sweep(key: str) -> None:
    session.sweep_id = widget_value(key)


def _draw_sweep() -> bool:
    """Draw the chosen sweep, if there is one, and return whether there is."""
    job = runs_service.job(session.run_id)
    found = {} if job is None else sweeps.dataset_sweeps(job.spec.dataset)
    asked = session.sweep_id
    if asked is not None and asked not in found:
        found = sweeps.sweep_by_id(asked) | found
        if asked not in found:
            st.warning("The sweep in the address does not exist. Its fits may have been deleted.")
            session.sweep_id = None
            asked = None
    if not found:
        return False
    titles = {
        sweep: f"sweep of {count(len(jobs), 'fit')}, {shortened(jobs[0].name, 40)}"
        for sweep, jobs in found.items()
    }
    options: list[str | None] = [None, *found]
    key = _key("view")
    set_widget_value(key, asked)
    left, _ = st.columns([1, 2])
    left.selectbox(
        "Show",
        options,
        format_func=lambda one: "maps side by side" if one is None else titles[one],
        key=key,
        on_change=_show_sweep,
        args=(key,),
        help="Up to four maps side by side, or all maps of a sweep as small multiples.",
    )
    if asked is None:
        return False
    session.sweep_id = asked  # writes it to the address
    try:
        full_dataset = fitted_maps.stored_dataset(found[asked][0].spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return True
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    with left:
        colouring = _choose_colour(found[asked][0].id, full_dataset)
    with right:
        _legend(colouring)
    sweep_maps_panel(found[asked], full_dataset, colouring)
    return True


def _compared_runs() -> list[Job]:
    """The runs to compare, of one dataset, with a warning about those left out."""
    job = runs_service.job(session.run_id)
    asked = session.comparison_with(None if job is None or not _has_map(job) else job.id)
    jobs = [job for job in map(runs_service.job, asked or _default_runs()) if job is not None]
    if len(jobs) < len(asked):
        missing = count(len(asked) - len(jobs), "run")
        st.warning(f"{missing} of this comparison cannot be found: deleted, or in another folder.")
    found = [job for job in jobs if not job.spec.target]
    if len(found) < len(jobs):
        predicting = count(len(jobs) - len(found), "run")
        st.warning(f"{predicting} left out: a model that predicts a target has no map.")
    compared = [job for job in found if job.spec.dataset == found[0].spec.dataset][:MOST]
    if len(compared) < len(found):
        left_out = count(len(found) - len(compared), "run")
        st.warning(f"{left_out} left out: a comparison has at most {MOST} maps, of one dataset.")
    runs = tuple(job.id for job in compared)
    if runs != asked or asked:
        session.compared_runs = runs
    return compared


def _default_runs() -> list[str]:
    """The open run, or else the latest with a map, and the reference maps of the same rows."""
    job = runs_service.job(session.run_id)
    if job is None or not _has_map(job):
        job = next((one for one in server.store().list() if one.has_model and _has_map(one)), None)
    if job is None:
        return []
    try:
        full_dataset = fitted_maps.stored_dataset(job.spec.dataset)
    except LatentboardError:  # the page says so
        return [job.id]
    start = len(full_dataset) <= reference_maps.MOST_ROWS
    return [job.id, *reference_maps.reference_runs(job, full_dataset, start=start)]


def _has_map(job: Job) -> bool:
    """Whether a run has a map, or may have one when it finishes."""
    return not job.spec.target and (job.has_model or not job.finished)


def _choose_runs(jobs: Sequence[Job], full_dataset: Dataset) -> None:
    """Choice of the compared runs."""
    options = {job.id: job for job in jobs}
    others = server.store().list()
    options |= {
        job.id: job for job in others if job.spec.dataset == full_dataset.digest and _has_map(job)
    }
    titles = map_alignment.map_names(list(options.values()))
    texts = distinct_titles(shortened(titles.get(run, ""), 60) for run in options)
    shown = dict(zip(options, texts, strict=True))
    key = _key("maps")
    set_widget_value(key, [job.id for job in jobs])
    st.multiselect(
        f"Maps of {markdown(full_dataset.name)}",
        list(options),
        format_func=lambda run: shown.get(run, ""),
        max_selections=MOST,
        key=key,
        on_change=_set_runs,
        args=(key,),
        help="The runs of this dataset to compare; the others are aligned to the first.",
    )


def _method_buttons(jobs: Sequence[Job], full_dataset: Dataset) -> None:
    """A button for each method to add."""
    shape = tables.table_summary(full_dataset)
    known = {card.key: card for card in model_cards.cards()}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(":small[Add a method]", width="content")
        if len(jobs) == 1 and len(full_dataset) > reference_maps.MOST_ROWS:
            _reference_button(jobs[0], full_dataset)
        for method in METHODS:
            refusal = tables_model_cards.refusal(known[method], shape)
            if len(jobs) >= MOST:
                refusal = f"There are {MOST} maps already: remove one above first."
            if st.button(
                known[method].title,
                key=_key("add", method),
                disabled=refusal is not None,
                help=refusal or known[method].summary,
            ):
                _add_method(jobs, full_dataset, method)


def _reference_button(job: Job, full_dataset: Dataset) -> None:
    """The button that starts the reference maps of a long table."""
    if st.button(
        "PCA, t-SNE and UMAP",
        key=_key("add", "references"),
        type="primary",
        help=f"Fits them to these {count(len(full_dataset), 'row')}. Up to "
        f"{count(reference_maps.MOST_ROWS, 'row')} they start with the page.",
    ):
        runs = reference_maps.reference_runs(job, full_dataset, start=True)
        session.compared_runs = (job.id, *runs)
        st.rerun()


def _set_runs(key: str) -> None:
    session.compared_runs = tuple(widget_value(key))


def _add_method(jobs: Sequence[Job], full_dataset: Dataset, method: str) -> None:
    try:
        run = runs_service.find_or_start_fit(full_dataset, method)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.compared_runs = tuple(dict.fromkeys([*(job.id for job in jobs), run]))
    st.rerun()


def _empty_state() -> None:
    """No run: introduction, and a button that compares two methods on the sample."""
    st.markdown(
        "This page compares maps of the same rows: your model, PCA, t-SNE, UMAP and others, side "
        "by side and aligned to the first. A selection on one map is shown on all of them, and a "
        "table gives the scores of each map."
    )
    if st.button(
        "Compare PCA and t-SNE on the sample",
        type="primary",
        key=_key("sample"),
        help="Fits both to the bundled sample wine.",
    ):
        try:
            full_dataset = tables.sample_dataset()
            session.compared_runs = tuple(
                runs_service.find_or_start_fit(full_dataset, key) for key in ("pca", "tsne")
            )
        except LatentboardError as error:
            st.error(markdown(error))
            return
        st.rerun()
    illustration()


def _aligned_maps(jobs: Sequence[Job], full_dataset: Dataset) -> dict[str, AlignedMap]:
    """The fitted maps, aligned to the first of them, by run."""
    found = []
    for job in jobs:
        if job.has_model:
            try:
                rows = fitted_maps.fitted_dataset(job.id)
                found.append(FittedMap(job.id, fitted_maps.model(job.id), rows))
            except LatentboardError as error:
                st.error(f"{markdown(job.name)}: {markdown(error)}")
    return {
        aligned.fitted_map.run: aligned for aligned in map_alignment.align_maps(found, full_dataset)
    }


def _choose_colour(run: str, full_dataset: Dataset) -> Colouring:
    """Choice of the row colours on all maps.

    Args:
        run: id of the run whose chosen colours are shown.
        full_dataset: all rows.
    """
    options = colour_options(full_dataset)
    colour = st.selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=_key(full_dataset.digest, "colour"),
        help="The label or column of the row colours on all maps.",
    )
    return map_style(run, full_dataset, colour or None)


def _legend(colouring: Colouring) -> None:
    """One legend for all maps."""
    html = legend.legend_html(colouring, dark=session.is_dark)
    if html:
        st.html(html)


def _selection(
    maps: dict[str, AlignedMap], full_dataset: Dataset
) -> tuple[NDArray[np.bool_] | None, str]:
    """Mask of the selected rows of the whole dataset, and a description of the selection."""
    drawn = session.compared_region
    if drawn is None or drawn[0] not in maps:
        return None, ""
    run, region = drawn
    title = maps[run].fitted_map.model.title
    return maps[run].selected(region, len(full_dataset)), f"drawn on the map of {markdown(title)}"


if __name__ == "__main__":  # as the navigation runs it
    page()
