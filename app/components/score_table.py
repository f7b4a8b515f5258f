"""Scores of the compared maps, with the button that measures them on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from app.analysis.comparison import comparison_table, map_alignment
from app.formatting import count, markdown
from app.services import runs as runs_service
from app.services import scores
from app.state.widgets import set_widget_value, widget_key, widget_value
from lvmcore.runs import Job

__all__ = ["score_button", "score_table"]

_EVERY_SECONDS = 1.0

_key = partial(widget_key, "compare")


def score_table(jobs: Sequence[Job]) -> None:
    """Draw the table of scores, and the button that completes it.

    Args:
        jobs: the compared runs, in their order.
    """
    if not jobs:
        return
    st.header("Scores")
    for job in jobs:
        scores.start_label_score(job)
    scores_by_run = {job.id: scores.map_scores(job, complete=True) for job in jobs}
    titles = map_alignment.map_names(jobs)
    rows = [(titles[job.id], scores_by_run[job.id]) for job in jobs]
    st.html(comparison_table.score_table_html(rows))
    st.caption(
        "A score is for the two dimensions in the picture; below it is that for all dimensions of "
        "a model that has more (all 10: 0.950). The best value of each column is bold. The "
        "protocol of a score, or the reason of a dash, is in its tooltip and in the list below. "
        "† Measured by a fit to 80 % of the rows, on the other 20 %, for models that use the "
        "labels."
    )
    score_button(jobs, _key)
    with st.expander("Protocols of the scores"):
        for name, one in rows:
            lines = [
                f"- {markdown(metric.name)}: {markdown(metric.protocol)}"
                for key, shown in one.metrics.items()
                for metric in (shown, one.overall.get(key))
                if metric is not None
            ]
            st.markdown("\n".join([f"**{markdown(name)}**", "", *lines]))


def score_button(jobs: Sequence[Job], key: Callable[..., str]) -> None:
    """Draw a button that measures maps on held-out rows, and its progress.

    Args:
        jobs: the runs of the maps.
        key: makes the widget keys of the page from their parts.
    """
    scores_by_run = {job.id: scores.map_scores(job) for job in jobs}
    unscored = [job for job in jobs if scores_by_run[job.id].unscored]
    maps = "this map" if len(jobs) == 1 else count(len(unscored), "map")
    if unscored and st.button(
        f"Measure {maps} on held-out rows",
        key=key("score"),
        help="Fits the model to 80 % of the rows and scores it on the others. This takes about as "
        "long as the fit.",
    ):
        for job in unscored:
            scores.start_score(job)
        st.rerun()
    if any(one.in_progress for one in scores_by_run.values()):
        st.fragment(_measurement_progress, run_every=_EVERY_SECONDS)(
            [job.id for job in jobs], key("under way")
        )


def _measurement_progress(runs: Sequence[str], key: str) -> None:
    """Poll the measurements, and rerun the page when one has finished."""
    jobs = [job for job in map(runs_service.job, runs) if job is not None]
    in_progress = sum(scores.map_scores(job).in_progress for job in jobs)
    previous = widget_value(key)
    set_widget_value(key, in_progress)
    if in_progress == 0 or (previous is not None and in_progress < previous):
        st.rerun()
    st.caption(f"{count(in_progress, 'map')} being measured.")
