"""A sweep on the Compare page: its maps as small multiples, the best by a chosen figure first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import comparing, making, navigation, repeated, services, state
from app.colouring import Colouring
from app.comparing import COLUMNS, Side
from app.opened import Opened
from app.repeated import Named, by_seed
from app.small import MOST_MAPS, Small, small_maps
from app.words import count, markdown, number, shortened
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job, Metric
from lvmcore.runs.sweep import swept

__all__ = ["show"]

_EVERY_SECONDS = 1.5
_BOUND = "bound"

_key = partial(state.widget, "compare", "sweep")


def show(jobs: Sequence[Job], whole: Dataset, look: Colouring) -> None:
    """Draw a sweep: how far it is, its figures, and its maps.

    Args:
        jobs: its fits, in order.
        whole: the dataset, all rows.
        look: how its rows are coloured.
    """
    waiting = [job for job in jobs if not job.finished]
    if waiting:
        st.fragment(_wait, run_every=_EVERY_SECONDS)([job.id for job in jobs], len(waiting))
    done = [job for job in jobs if job.has_model]
    stopped = [job for job in jobs if job.finished and not job.has_model]
    if stopped:
        told = markdown(shortened(stopped[0].message or stopped[0].status, 200))
        st.warning(f"{count(len(stopped), 'fit')} left no map. The first: {told}")
    if not done:
        return
    names = {job.id: _settings(job, jobs) for job in jobs}
    by = _chosen(done)
    values = {job.id: _figure(job, by) for job in done}
    better = -1 if by != _BOUND and _column(by).better == -1 else 1
    order = sorted(done, key=lambda job: _rank(values[job.id], better))
    best = order[0] if values[order[0].id].value is not None else None
    if best is not None:
        st.markdown(
            f"Best by {markdown(values[best.id].label)}: **{markdown(names[best.id])}**, "
            f"{number(values[best.id].value)}."
        )
        navigation.link("Open its map", "latent", key="sweep-best", run=best.id)
    _table(order, values)
    if by_seed(done):
        repeats = [Named(job, names[job.id], _said(values[job.id])) for job in order]
        repeated.seeds(repeats, whole, look, key=_key)
    else:
        _maps(order[:MOST_MAPS], names, values, whole, look)
    if len(order) > MOST_MAPS and not by_seed(done):
        st.caption(f"The best {MOST_MAPS} of {count(len(order), 'map')}.")


def _settings(job: Job, jobs: Sequence[Job]) -> str:
    """The settings that differ among the fits, as of one of them."""
    titles, differ = _labels(job), swept([one.spec.parameters for one in jobs])
    parts = [f"{titles.get(name, name)} {_value(job, name)}" for name in differ]
    return ", ".join(parts) or job.name


def _labels(job: Job) -> dict[str, str]:
    """What forms call the settings of a run's model."""
    card = next(card for card in services.cards() if card.key == job.spec.model)
    return {parameter.name: parameter.label for parameter in card.parameters}


def _value(job: Job, name: str) -> str:
    value = job.spec.parameters.get(name)
    return "auto" if value is None else str(value)


# ---- what is best ----------------------------------------------------------------------------


def _column(key: str) -> comparing.Column:
    return next(column for column in COLUMNS if column.key == key)


def _chosen(jobs: Sequence[Job]) -> str:
    """By which figure the fits are ranked: those that at least one of them has."""
    known = [c for c in COLUMNS if c.better is not None]
    had = [c.key for c in known if any(_figure(job, c.key).value is not None for job in jobs)]
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
            help="Figures of rows that no fit has seen come first: the bound favours the model "
            "with more to say about the rows it was fitted to.",
        )
    )


def _figure(job: Job, key: str) -> Metric:
    if key == _BOUND:
        return Metric(
            "bound (ELBO)", job.elbo, "Total nats: of numbers standardised, of counts as they are."
        )
    return services.measured(job).figures[key]


def _rank(metric: Metric, better: int) -> float:
    return float("inf") if metric.value is None else -better * metric.value


# ---- what is shown ---------------------------------------------------------------------------


def _table(order: Sequence[Job], values: Mapping[str, Metric]) -> None:
    """Every fit with its settings and the figure, the best first."""
    titles, differ = _labels(order[0]), swept([job.spec.parameters for job in order])
    rows: list[dict[str, object]] = []
    for job in order:
        settings = {titles.get(name, name): _value(job, name) for name in differ}
        figure = values[job.id]
        rows.append({**settings, figure.label: figure.value, "seconds": job.seconds})
    with st.expander("As a table"):
        st.dataframe(pd.DataFrame(rows), hide_index=True, key=_key("table"))
        st.caption(markdown(values[order[0].id].protocol))


def _maps(
    order: Sequence[Job],
    names: Mapping[str, str],
    values: Mapping[str, Metric],
    whole: Dataset,
    look: Colouring,
) -> None:
    """Small maps, each turned to lie over the best one."""
    opened = []
    for job in order:
        try:
            rows = services.fitted_dataset(job.id)
            opened.append(Opened(job.id, services.model(job.id), rows, page="sweep"))
        except LatentboardError as error:
            st.error(f"{markdown(names[job.id])}: {markdown(error)}")
    sides = {side.opened.run: side for side in comparing.sides(opened, whole)}
    there = [job for job in order if job.id in sides]
    maps = [_small(sides[job.id], names[job.id], values[job.id]) for job in there]
    small_maps(maps, whole, look)


def _small(side: Side, name: str, value: Metric) -> Small:
    return Small(
        key=_key("map", side.opened.run),
        name=name,
        said=_said(value),
        alt=f"Map of the fit with {shortened(name, 60)}",
        place=side.place,
        points=side.points,
        equal=side.axes[1] is not None,
    )


def _said(value: Metric) -> str:
    """A figure below a map, as Markdown."""
    said = "not measured" if value.value is None else number(value.value)
    return f"{markdown(value.label)} {said}"


def _wait(runs: Sequence[str], drawn: int) -> None:
    """Follow the fits, and draw the page anew as soon as one has ended."""
    jobs = [job for job in map(services.job, runs) if job is not None]
    left = sum(not job.finished for job in jobs)
    if left != drawn:
        st.rerun()
    st.progress(1 - left / max(1, len(runs)))
    st.caption(f"{len(runs) - left} of {count(len(runs), 'fit')} done.")
    st.button(
        "Cancel those that wait",
        key=_key("cancel"),
        on_click=making.stop,
        args=(runs[::-1], _key("cancel problem"), 0.0),
        help="The fits that have ended keep their maps.",
    )
    making.refused(_key("cancel problem"))
