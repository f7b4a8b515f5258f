"""Compare: the maps of one fit's starts, or of fits with several seeds, and how far they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import comparing, figures, services, state
from app.axes import Axes
from app.colouring import Colouring, Numbers
from app.comparing import Side
from app.repeats import MOST_ROWS, laid_over, spread
from app.small import MOST_MAPS, Small, small_maps
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.sweep import swept

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Named", "by_seed", "seeds", "show"]

FloatArray = NDArray[np.float64]

_SEED = "random_state"
_BY_ROWS, _AS_ABOVE = "disagreement", "as above"

_key = partial(state.widget, "compare", "repeats")


@dataclass(frozen=True)
class Named:
    """A run with what to call it.

    Attributes:
        job: the run.
        name: above its map.
        said: below its map, as Markdown.
    """

    job: Job
    name: str
    said: str


@dataclass(frozen=True)
class _Maps:
    """Maps of the same rows, laid over the first of them.

    Attributes:
        key: of their charts.
        names: of each.
        said: of each, as Markdown.
        means: latent means of those that can be drawn, [N, Q] each.
        n: how many maps there are.
        axes: the dimensions of the first that are drawn.
        place: position of each row in the whole dataset, [N].
        disagreement: on each row, [N]; None where the maps cannot be compared.
        what: what they are maps of, in the plural.
    """

    key: str
    names: Sequence[str]
    said: Sequence[str]
    means: Sequence[FloatArray]
    n: int
    axes: Axes
    place: NDArray[np.intp]
    disagreement: FloatArray | None
    what: str


def by_seed(jobs: Sequence[Job]) -> bool:
    """Whether runs differ by their seed alone."""
    alike = {(job.spec.model, job.spec.dataset) for job in jobs}
    return len(alike) == 1 and set(swept([job.spec.parameters for job in jobs])) == {_SEED}


def show(jobs: Sequence[Job], maps: Mapping[str, Side], whole: Dataset, look: Colouring) -> None:
    """Draw the starts of a run, or runs that differ by their seed; nothing without either.

    Args:
        jobs: the runs side by side.
        maps: the maps that are there, by run.
        whole: all rows of the dataset.
        look: how its rows are coloured above.
    """
    there = [job for job in jobs if job.id in maps]
    titles = comparing.names(there)
    offered: list[tuple[str, list[Job]]] = []
    for job in there:
        if getattr(maps[job.id].opened.model, "restarts_", None) is not None:
            offered.append((f"starts of {shortened(titles[job.id], 60)}", [job]))
    alike: dict[str, list[Job]] = {}
    for job in there:
        rest = {name: value for name, value in job.spec.parameters.items() if name != _SEED}
        alike.setdefault(f"{job.spec.model} {sorted(rest.items())!r}", []).append(job)
    for group in alike.values():
        if len(group) > 1 and by_seed(group):
            offered.append((f"seeds of {shortened(group[0].name, 60)}", group))
    if not offered:
        return
    st.header("Starts and their disagreement")
    group = offered[_which([title for title, _ in offered])][1]
    if len(group) > 1:
        named = [
            Named(job, f"seed {job.spec.parameters.get(_SEED, 0)}", _bound(job.elbo))
            for job in group
        ]
        seeds(named, whole, look)
    else:
        _draw(_of_starts(group[0], maps[group[0].id]), whole, look, _key)


def _which(titles: list[str]) -> int:
    """Ask of which fit, where there are several; two may be called the same."""
    if len(titles) == 1:
        return 0
    told = told_apart(titles)
    left, _ = st.columns([1, 1])
    return int(
        left.selectbox(
            "Show the",
            range(len(titles)),
            format_func=told.__getitem__,
            key=_key("which", *titles),
            help="Starts of one fit, or fits that differ by their seed alone.",
        )
    )


def seeds(
    runs: Sequence[Named],
    whole: Dataset,
    look: Colouring,
    *,
    key: Callable[..., str] = _key,
) -> None:
    """Draw the maps of runs that differ by their seed alone, laid over the first of them.

    Args:
        runs: the best first, where they are ranked.
        whole: all rows of the dataset.
        look: how its rows are coloured above.
        key: makes the keys of the widgets from their parts.
    """
    there: list[tuple[Named, Any]] = []
    for one in runs[:MOST_MAPS]:  # the server keeps few models at a time
        try:
            there.append((one, services.model(one.job.id)))
        except LatentboardError as error:
            st.error(f"{markdown(one.name)}: {markdown(error)}")
    if not there:
        return
    first, model = there[0]
    try:
        ids = services.fitted_dataset(first.job.id).row_ids.tolist()
    except LatentboardError as error:
        st.error(markdown(error))
        return
    order = {name: i for i, name in enumerate(whole.row_ids.tolist())}
    drawn = [one.job.id for one, _ in there]
    compared = [*drawn, *(one.job.id for one in runs[MOST_MAPS:])]
    found = _Maps(
        key=f"seeds {' '.join(drawn)}",
        names=[one.name for one, _ in there],
        said=[one.said for one, _ in there],
        means=[model.embedding_.mean for _, model in there],
        n=len(compared),
        axes=leading_dimensions(model.relevance_),
        place=np.array([order[name] for name in ids], dtype=np.intp),
        disagreement=_apart(compared),
        what="fits",
    )
    _draw(found, whole, look, key)


def _apart(runs: Sequence[str]) -> FloatArray | None:
    """How far the maps of runs disagree on each row; None where that cannot be told."""
    if len(runs) < 2:
        return None
    try:
        return services.apart(runs)
    except LatentboardError as error:
        st.error(markdown(error))
        return None


def _of_starts(job: Job, side: Side) -> _Maps:
    """The maps that the starts of one fit came to."""
    starts = side.opened.model.restarts_
    stored = services.agreement(job.id)
    order = sorted(range(len(starts.bounds)), key=lambda r: (r != starts.kept, -starts.bounds[r]))
    return _Maps(
        key=f"starts {job.id}",
        names=[f"start {starts.starts[r]}{', kept' if r == starts.kept else ''}" for r in order],
        said=[_bound(float(starts.bounds[r])) for r in order],
        means=[starts.means[r] for r in order],
        n=len(order),
        axes=side.axes,
        place=side.place,
        disagreement=None if stored is None else stored["disagreement"].to_numpy(np.float64),
        what="starts",
    )


def _bound(value: float | None) -> str:
    return "" if value is None else f"bound (ELBO) {markdown(number(value, 6))} nats"


def _draw(found: _Maps, whole: Dataset, look: Colouring, key: Callable[..., str]) -> None:
    """What is known of the disagreement, and the small maps."""
    shown, colours = look, None
    if found.disagreement is not None and np.isfinite(found.disagreement).any():
        st.markdown(_figure(found.disagreement, found.what, found.n))
        left, right = st.columns([1, 2], vertical_alignment="bottom")
        colours = left.segmented_control(
            "Colour of the small maps",
            [_BY_ROWS, _AS_ABOVE],
            default=_BY_ROWS,
            required=True,
            key=key("colour"),
            help="How far the maps disagree on each row, or what colours the rows above.",
        )
        if colours == _BY_ROWS:
            values = np.full(len(whole), np.nan)
            values[found.place] = found.disagreement
            shown = Numbers("disagreement, radii of the map", values)
            with right:
                st.html(figures.legend(shown, dark=state.dark()))
    else:
        st.caption(
            "How far they agree is not known. It takes two maps or more, none with all rows in one "
            "place, and of starts it is measured after the fit."
        )
    points = laid_over(found.means[:MOST_MAPS], found.axes)
    maps = [
        Small(
            key=key("small", found.key, r),
            name=found.names[r],
            said=found.said[r],
            alt=f"Map of {shortened(found.names[r], 60)}",
            place=found.place,
            points=points[r],
            equal=found.axes[1] is not None,
        )
        for r in range(len(points))
    ]
    small_maps(maps, whole, shown)
    st.caption(_about(found))


def _figure(disagreement: FloatArray, what: str, n: int) -> str:
    """The disagreement in a sentence."""
    middle, high = spread(disagreement)
    return (
        f"Disagreement of these {n} {what} on a row: median **{number(middle, 2)}**, 90 % quantile "
        f"**{number(high, 2)}** radii of the map."
    )


def _about(found: _Maps) -> str:
    said = (
        f"Each map is turned, mirrored, scaled and shifted in all its dimensions to lie over the "
        f"first, {markdown(found.names[0])}. The disagreement on a row is the root mean square "
        "distance between its places on two maps; a radius is that of the rows from the middle of "
        "the map. 0 is the same place on all, 1.41 nothing in common."
    )
    drawn = min(len(found.means), MOST_MAPS)
    if drawn < found.n:
        said += f" {drawn} of {count(found.n, 'map')} are drawn."
    known = 0 if found.disagreement is None else int(np.isfinite(found.disagreement).sum())
    if 0 < known < len(found.place):
        said += f" Compared were {count(known, 'row')}, evenly spaced: {MOST_ROWS} at most."
    return said
