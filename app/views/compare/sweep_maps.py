"""A sweep on the Compare page: its maps as small multiples, ranked by a chosen score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import navigation
from app.analysis.comparison import comparison_table, map_alignment
from app.analysis.comparison.comparison_table import COLUMNS
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.row_colours import Colouring
from app.components.derived_run import stop_error_panel, stop_runs
from app.components.map.small_maps import MOST_MAPS, SmallMap, small_maps
from app.formatting import count, markdown, number, shortened
from app.services import fitted_maps, model_cards, scores
from app.services import runs as runs_service
from app.state.widgets import widget_key
from app.views.compare.repeated_fits import NamedFit, runs_by_seed, seed_runs
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.metrics.metric import Metric
from lvmcore.runs import Job
from lvmcore.runs.sweep import swept_settings

__all__ = ["sweep_maps_panel"]

_EVERY_SECONDS = 1.5
_BOUND = "bound"

_key = partial(widget_key, "compare", "sweep")


def sweep_maps_panel(jobs: Sequence[Job], full_dataset: Dataset, colouring: Colouring) -> None:
    """Draw a sweep: its progress, scores and maps.

    Args:
        jobs: its fits, in order.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
    """
    waiting = [job for job in jobs if not job.finished]
    if waiting:
        st.fragment(_wait, run_every=_EVERY_SECONDS)([job.id for job in jobs], len(waiting))
    done = [job for job in jobs if job.has_model]
    stopped = [job for job in jobs if job.finished and not job.has_model]
    if stopped:
        reason = markdown(shortened(stopped[0].message or stopped[0].status, 200))
        st.warning(f"{count(len(stopped), 'fit')} left no map. The first: {reason}")
    if not done:
        return
    names = {job.id: _settings(job, jobs) for job in jobs}
    by = _choose_score(done)
    values = {job.id: _score(job, by) for job in done}
    better = -1 if by != _BOUND and _column(by).better == -1 else 1
    order = sorted(done, key=lambda job: _rank(values[job.id], better))
    best = order[0] if values[order[0].id].value is not None else None
    if best is not None:
        st.markdown(
            f"Best by {markdown(values[best.id].name)}: **{markdown(names[best.id])}**, "
            f"{number(values[best.id].value)}."
        )
        navigation.link("Open its map", "latent", key="sweep-best", run=best.id)
    _table(order, values)
    if runs_by_seed(done):
        repeats = [NamedFit(job, names[job.id], _caption(values[job.id])) for job in order]
        seed_runs(repeats, full_dataset, colouring, key=_key)
    else:
        _maps(order[:MOST_MAPS], names, values, full_dataset, colouring)
    if len(order) > MOST_MAPS and not runs_by_seed(done):
        st.caption(f"The best {MOST_MAPS} of {count(len(order), 'map')}.")


def _settings(job: Job, jobs: Sequence[Job]) -> str:
    """Values of one fit for the settings that differ among the fits."""
    titles, differ = _labels(job), swept_settings([one.spec.parameters for one in jobs])
    parts = [f"{titles.get(name, name)} {_value(job, name)}" for name in differ]
    return ", ".join(parts) or job.name


def _labels(job: Job) -> dict[str, str]:
    """Labels of the settings of the run's model."""
    card = next(card for card in model_cards.cards() if card.key == job.spec.model)
    return {parameter.name: parameter.label for parameter in card.parameters}


def _value(job: Job, name: str) -> str:
    value = job.spec.parameters.get(name)
    return "auto" if value is None else str(value)


def _column(key: str) -> comparison_table.ScoreColumn:
    return next(column for column in COLUMNS if column.key == key)


def _choose_score(jobs: Sequence[Job]) -> str:
    """Choice of the score for the ranking, among those that at least one fit has."""
    known = [c for c in COLUMNS if c.better is not None]
    had = [c.key for c in known if any(_score(job, c.key).value is not None for job in jobs)]
    options = {_BOUND: "bound (ELBO)"} if any(job.elbo is not None for job in jobs) else {}
    held_out = [key for key in had if key.startswith("held_out")]
    others = [key for key in had if not key.startswith("held_out")]
    titles = {c.key: c.title for c in known}
    options = {key: titles[key] for key in held_out} | options | {k: titles[k] for k in others}
    if not options:
        return COLUMNS[0].key
    left, _ = st.columns([1, 2])
    return str(
        left.selectbox(
            "Best by",
            list(options),
            format_func=options.__getitem__,
            key=_key("by"),
            help="Scores of held-out rows come first; the bound is a score of the rows of the fit.",
        )
    )


def _score(job: Job, key: str) -> Metric:
    if key == _BOUND:
        return Metric("bound (ELBO)", job.elbo, "Total nats, of standardised numbers or of counts.")
    return scores.map_scores(job).metrics[key]


def _rank(metric: Metric, better: int) -> float:
    return float("inf") if metric.value is None else -better * metric.value


def _table(order: Sequence[Job], values: Mapping[str, Metric]) -> None:
    """Every fit with its settings and its score, the best first."""
    titles, differ = _labels(order[0]), swept_settings([job.spec.parameters for job in order])
    rows: list[dict[str, object]] = []
    for job in order:
        settings = {titles.get(name, name): _value(job, name) for name in differ}
        score = values[job.id]
        rows.append({**settings, score.label: score.value, "seconds": job.seconds})
    with st.expander("As a table"):
        st.dataframe(pd.DataFrame(rows), hide_index=True, key=_key("table"))
        st.caption(markdown(values[order[0].id].protocol))


def _maps(
    order: Sequence[Job],
    names: Mapping[str, str],
    values: Mapping[str, Metric],
    full_dataset: Dataset,
    colouring: Colouring,
) -> None:
    """Small maps, aligned to the best one."""
    found = []
    for job in order:
        try:
            rows = fitted_maps.fitted_dataset(job.id)
            found.append(FittedMap(job.id, fitted_maps.model(job.id), rows, page="sweep"))
        except LatentboardError as error:
            st.error(f"{markdown(names[job.id])}: {markdown(error)}")
    aligned_maps = {
        aligned.fitted_map.run: aligned for aligned in map_alignment.align_maps(found, full_dataset)
    }
    loaded = [job for job in order if job.id in aligned_maps]
    maps = [_small(aligned_maps[job.id], names[job.id], values[job.id]) for job in loaded]
    small_maps(maps, full_dataset, colouring)


def _small(aligned: AlignedMap, name: str, value: Metric) -> SmallMap:
    return SmallMap(
        key=_key("map", aligned.fitted_map.run),
        name=name,
        caption=_caption(value),
        alt=f"Map of the fit with {shortened(name, 60)}",
        row_positions=aligned.row_positions,
        points=aligned.points,
        equal=aligned.axes[1] is not None,
    )


def _caption(value: Metric) -> str:
    """A score below a map, as Markdown."""
    text = "not measured" if value.value is None else number(value.value)
    return f"{markdown(value.name)}: {text}"


def _wait(runs: Sequence[str], drawn: int) -> None:
    """Poll the fits, and rerun the page when one has finished."""
    jobs = [job for job in map(runs_service.job, runs) if job is not None]
    left = sum(not job.finished for job in jobs)
    if left != drawn:
        st.rerun()
    st.progress(1 - left / max(1, len(runs)))
    st.caption(f"{len(runs) - left} of {count(len(runs), 'fit')} done.")
    st.button(
        "Cancel the remaining fits",
        key=_key("cancel"),
        on_click=stop_runs,
        args=(runs[::-1], _key("cancel problem"), 0.0),
        help="Finished fits keep their maps.",
    )
    stop_error_panel(_key("cancel problem"))
