"""Runs: the table of all runs, with comparison, export and deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from app.analysis.tables import run_history
from app.analysis.tables.model_cards import ModelCard
from app.components.empty_states import fit_sample_button
from app.formatting import count
from app.services import model_cards, progress, server
from app.state.session import session
from app.state.widgets import widget_key, widget_value
from app.views.runs.bin_panel import undo_notice
from app.views.runs.bundle_upload import bundle_upload
from app.views.runs.cluster_panel import cluster_panel
from app.views.runs.damaged_runs import damaged_runs_panel
from app.views.runs.selected_runs import EVERY_SECONDS, selected_runs_panel
from app.views.runs.storage import storage_panel
from lvmcore.runs import Job

_MOST_OPEN = 12
#: Fewest runs that can be filtered.
_FEWEST_FILTERED = 4
_FILTER, _TAGS = widget_key("runs", "filter"), widget_key("runs", "filter tags")
_HEIGHT = 460


def page() -> None:
    """Draw the page."""
    st.title("Runs")
    undo_notice()
    jobs = server.store().list()
    if not jobs:
        _empty_state()
    else:
        cards = model_cards.all_cards()
        _filter_controls(jobs)
        busy = any(map(run_history.in_progress, jobs))
        if busy:
            st.fragment(_table, run_every=EVERY_SECONDS)(cards, _page_state(jobs))
        else:
            _table(cards, None)
        ticked = [job for job in _filtered(jobs, cards) if job.id in session.selected_runs]
        if ticked:
            selected_runs_panel(ticked, cards)
        else:
            st.caption(
                "Select a run to open, rename, tag, export or delete it; select several to compare "
                "their bounds and settings."
            )
        bundle_upload()
    cluster_panel()
    damaged_runs_panel()
    storage_panel(jobs)


def _filter_controls(jobs: Sequence[Job]) -> None:
    """Controls that leave out runs of the table."""
    if len(jobs) < _FEWEST_FILTERED:
        return
    tags = sorted({tag for job in jobs for tag in job.tags}, key=str.casefold)
    words, chosen = st.columns([1, 2], vertical_alignment="bottom")
    words.text_input(
        "Filter",
        key=_FILTER,
        placeholder="words of the name, data, model, tags …",
        help="Shows the runs that have all these words in one of their columns.",
    )
    if tags:
        chosen.pills(
            "Tags",
            tags,
            selection_mode="multi",
            key=_TAGS,
            help="Shows the runs that have all these tags.",
        )


def _filtered(jobs: Sequence[Job], cards: Mapping[str, ModelCard]) -> list[Job]:
    """The runs that the controls leave in the table."""
    text, tags = widget_value(_FILTER), widget_value(_TAGS)
    return run_history.matching_runs(jobs, cards, text or "", tags or ())


def _page_state(jobs: list[Job]) -> tuple[object, ...]:
    """State on which the rest of the page depends: finished and selected runs."""
    return tuple(
        (job.id, job.status, job.stage == "finished") for job in jobs
    ), session.selected_runs


def _table(cards: Mapping[str, ModelCard], drawn: tuple[object, ...] | None) -> None:
    """The table of runs, in a polling fragment while a run is in progress.

    Args:
        cards: cards of the models, by key.
        drawn: state of the page when it was drawn; None without polling.
    """
    jobs = server.store().list()
    if drawn is not None and drawn != _page_state(jobs):
        st.rerun()
    every, jobs = len(jobs), _filtered(jobs, cards)
    if not jobs:
        st.caption(f"None of the {count(every, 'run')} matches the filter.")
        return
    ids = tuple(job.id for job in jobs)
    # Rows are selected by position, so another list of runs is another table.
    key = widget_key("runs", "table", hash(ids))
    positions = [position for position, run in enumerate(ids) if run in session.selected_runs]
    frame = run_history.run_table(jobs, cards, _shares(jobs))
    st.dataframe(
        frame,
        hide_index=True,
        key=key,
        on_select=lambda: _select(key, ids),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": positions}},
        placeholder="–",
        height="content" if len(jobs) <= _MOST_OPEN else _HEIGHT,
        column_config=_COLUMNS,
        alt="Runs",
    )


_COLUMNS = {
    "Name": st.column_config.TextColumn(width=126),
    "Settings": st.column_config.TextColumn(
        width=104, help="Settings that differ from the defaults of the model"
    ),
    run_history.PROGRESS: st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, width=90),
    "Bound": st.column_config.NumberColumn(
        format="%.1f", help="ELBO, total nats, of standardised numbers or of counts"
    ),
    "1-NN": st.column_config.NumberColumn(
        format="%.3f",
        help="1-NN accuracy on the map in all its dimensions, on rows whose labels the fit has not "
        "used",
    ),
    "Held-out accuracy": st.column_config.NumberColumn(
        format="%.3f", width=128, help="Accuracy of classes on held-out rows"
    ),
    "R²": st.column_config.NumberColumn(
        format="%.3f", help="R² of a predicted number on held-out rows"
    ),
    "Trustworthiness": st.column_config.NumberColumn(
        format="%.3f",
        width=113,
        help="Trustworthiness of 5 neighbours, in all dimensions of the map; the Latent page has "
        "its protocol",
    ),
    "Seconds": st.column_config.NumberColumn(format="%.1f", width=68),
    "Tags": st.column_config.ListColumn(width=88),
    "When": st.column_config.DatetimeColumn(format="distance", width=104),
}


def _shares(jobs: list[Job]) -> dict[str, float]:
    """Progress of the runs that are not finished, from 0 to 1, by id."""
    found = {}
    for job in jobs:
        if not job.finished:
            steps = progress.progress(job.id).steps
            found[job.id] = steps[-1].iteration / max(1, steps[-1].total) if steps else 0.0
    return found


def _select(key: str, ids: tuple[str, ...]) -> None:
    rows = widget_value(key).selection.rows
    session.selected_runs = tuple(ids[row] for row in sorted(rows))


def _empty_state() -> None:
    """No run: introduction, and a button that fits the sample."""
    st.markdown(
        "This page lists all runs with their data, model, settings, bound and scores. Runs can be "
        "compared, renamed, exported and deleted."
    )
    with st.container(horizontal=True):
        fit_sample_button("runs")
        bundle_upload()


if __name__ == "__main__":  # as the navigation runs it
    page()
