"""Compare: maps of the restarts of a fit, or of fits with several seeds, and their agreement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.comparison import map_alignment
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.comparison.map_stability import MOST_ROWS, align_all, spread
from app.analysis.map.map_axes import Axes
from app.analysis.map.row_colours import Colouring, NumericColours
from app.components.map.small_maps import MOST_MAPS, SmallMap, small_maps
from app.figures import legend
from app.formatting import count, distinct_titles, markdown, number, shortened
from app.services import fitted_maps, row_analysis
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.sweep import swept_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NamedFit", "repeated_fits_panel", "runs_by_seed", "seed_runs"]


_SEED = "random_state"
_BY_ROWS, _AS_ABOVE = "disagreement", "as above"

_key = partial(widget_key, "compare", "repeats")


@dataclass(frozen=True)
class NamedFit:
    """A run with the texts of its map.

    Attributes:
        job: the run.
        name: title above the map.
        caption: text below the map, as Markdown.
    """

    job: Job
    name: str
    caption: str


@dataclass(frozen=True)
class _RepeatedMaps:
    """Maps of the same rows, aligned to the first of them.

    Attributes:
        key: part of the widget keys of their charts.
        names: title of each map.
        captions: text below each map, as Markdown.
        means: latent means of the drawn maps, [N, Q] each.
        n: number of compared maps.
        axes: displayed dimensions of the first map.
        row_positions: position of each row in the whole dataset, [N].
        disagreement: disagreement on each row, [N]; None if the maps cannot be compared.
        kind: what they are maps of: "fits" or "restarts".
    """

    key: str
    names: Sequence[str]
    captions: Sequence[str]
    means: Sequence[FloatArray]
    n: int
    axes: Axes
    row_positions: NDArray[np.intp]
    disagreement: FloatArray | None
    kind: str


def runs_by_seed(jobs: Sequence[Job]) -> bool:
    """Whether runs differ only in their seed."""
    alike = {(job.spec.model, job.spec.dataset) for job in jobs}
    return len(alike) == 1 and set(swept_settings([job.spec.parameters for job in jobs])) == {_SEED}


def repeated_fits_panel(
    jobs: Sequence[Job], maps: Mapping[str, AlignedMap], full_dataset: Dataset, colouring: Colouring
) -> None:
    """Draw the maps of restarts, or of runs that differ in their seed; nothing without either.

    Args:
        jobs: the compared runs.
        maps: the aligned maps, by run.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
    """
    with_map = [job for job in jobs if job.id in maps]
    titles = map_alignment.map_names(with_map)
    options: list[tuple[str, list[Job]]] = []
    for job in with_map:
        if getattr(maps[job.id].fitted_map.model, "restarts_", None) is not None:
            options.append((f"restarts of {shortened(titles[job.id], 60)}", [job]))
    alike: dict[str, list[Job]] = {}
    for job in with_map:
        rest = {name: value for name, value in job.spec.parameters.items() if name != _SEED}
        alike.setdefault(f"{job.spec.model} {sorted(rest.items())!r}", []).append(job)
    for group in alike.values():
        if len(group) > 1 and runs_by_seed(group):
            options.append((f"seeds of {shortened(group[0].name, 60)}", group))
    if not options:
        return
    st.header("Disagreement of restarts and seeds")
    group = options[_choose_fits([title for title, _ in options])][1]
    if len(group) > 1:
        named = [
            NamedFit(job, f"seed {job.spec.parameters.get(_SEED, 0)}", _bound(job.elbo))
            for job in group
        ]
        seed_runs(named, full_dataset, colouring)
    else:
        _draw(_restart_maps(group[0], maps[group[0].id]), full_dataset, colouring, _key)


def _choose_fits(titles: list[str]) -> int:
    """Choice of the fit or the group of fits."""
    if len(titles) == 1:
        return 0
    shown = distinct_titles(titles)
    left, _ = st.columns([1, 1])
    return int(
        left.selectbox(
            "Show the",
            range(len(titles)),
            format_func=shown.__getitem__,
            key=_key("which", *titles),
            help="Restarts of one fit, or fits that differ only in their seed.",
        )
    )


def seed_runs(
    runs: Sequence[NamedFit],
    full_dataset: Dataset,
    colouring: Colouring,
    *,
    key: Callable[..., str] = _key,
) -> None:
    """Draw the maps of runs that differ only in their seed, aligned to the first of them.

    Args:
        runs: the runs, the best first if they are ranked.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
        key: makes widget keys from their parts.
    """
    loaded: list[tuple[NamedFit, Any]] = []
    for one in runs[:MOST_MAPS]:  # the server caches few models at a time
        try:
            loaded.append((one, fitted_maps.model(one.job.id)))
        except LatentboardError as error:
            st.error(f"{markdown(one.name)}: {markdown(error)}")
    if not loaded:
        return
    first, model = loaded[0]
    try:
        ids = fitted_maps.fitted_dataset(first.job.id).row_ids.tolist()
    except LatentboardError as error:
        st.error(markdown(error))
        return
    order = {name: i for i, name in enumerate(full_dataset.row_ids.tolist())}
    drawn = [one.job.id for one, _ in loaded]
    compared = [*drawn, *(one.job.id for one in runs[MOST_MAPS:])]
    found = _RepeatedMaps(
        key=f"seeds {' '.join(drawn)}",
        names=[one.name for one, _ in loaded],
        captions=[one.caption for one, _ in loaded],
        means=[model.embedding_.mean for _, model in loaded],
        n=len(compared),
        axes=leading_dimensions(model.variance_shares()),
        row_positions=np.array([order[name] for name in ids], dtype=np.intp),
        disagreement=_disagreement(compared),
        kind="fits",
    )
    _draw(found, full_dataset, colouring, key)


def _disagreement(runs: Sequence[str]) -> FloatArray | None:
    """Disagreement of the maps of runs on each row; None if it is not known."""
    if len(runs) < 2:
        return None
    try:
        return row_analysis.row_disagreement(runs)
    except LatentboardError as error:
        st.error(markdown(error))
        return None


def _restart_maps(job: Job, aligned: AlignedMap) -> _RepeatedMaps:
    """Maps of the restarts of one fit."""
    starts = aligned.fitted_map.model.restarts_
    stored = fitted_maps.start_agreement(job.id)
    order = sorted(range(len(starts.bounds)), key=lambda r: (r != starts.kept, -starts.bounds[r]))
    return _RepeatedMaps(
        key=f"starts {job.id}",
        names=[f"restart {starts.starts[r]}{', kept' if r == starts.kept else ''}" for r in order],
        captions=[_bound(float(starts.bounds[r])) for r in order],
        means=[starts.means[r] for r in order],
        n=len(order),
        axes=aligned.axes,
        row_positions=aligned.row_positions,
        disagreement=None if stored is None else stored["disagreement"].to_numpy(np.float64),
        kind="restarts",
    )


def _bound(value: float | None) -> str:
    return "" if value is None else f"bound (ELBO) {markdown(number(value, 6))} nats"


def _draw(
    found: _RepeatedMaps, full_dataset: Dataset, colouring: Colouring, key: Callable[..., str]
) -> None:
    """Draw the disagreement and the small maps."""
    shown, colours = colouring, None
    if found.disagreement is not None and np.isfinite(found.disagreement).any():
        st.markdown(_summary(found.disagreement, found.kind, found.n))
        left, right = st.columns([1, 2], vertical_alignment="bottom")
        colours = left.segmented_control(
            "Colour of the small maps",
            [_BY_ROWS, _AS_ABOVE],
            default=_BY_ROWS,
            required=True,
            key=key("colour"),
            help="The disagreement of the maps on each row, or the colours of the maps above.",
        )
        if colours == _BY_ROWS:
            values = np.full(len(full_dataset), np.nan)
            values[found.row_positions] = found.disagreement
            shown = NumericColours("disagreement, radii of the map", values)
            with right:
                st.html(legend.legend_html(shown, dark=session.is_dark))
    else:
        st.caption(
            "The disagreement is not known. It needs at least two maps, none with all rows at one "
            "point; that of restarts is measured after the fit."
        )
    points = align_all(found.means[:MOST_MAPS], found.axes)
    maps = [
        SmallMap(
            key=key("small", found.key, r),
            name=found.names[r],
            caption=found.captions[r],
            alt=f"Map of {shortened(found.names[r], 60)}",
            row_positions=found.row_positions,
            points=points[r],
            equal=found.axes[1] is not None,
        )
        for r in range(len(points))
    ]
    small_maps(maps, full_dataset, shown)
    st.caption(_caption(found))


def _summary(disagreement: FloatArray, kind: str, n: int) -> str:
    """The disagreement as a sentence."""
    middle, high = spread(disagreement)
    return (
        f"Disagreement of these {n} {kind} on a row: median **{number(middle, 2)}**, 90 % quantile "
        f"**{number(high, 2)}** radii of the map."
    )


def _caption(found: _RepeatedMaps) -> str:
    text = (
        f"Each map is rotated, reflected, scaled and shifted in all its dimensions to align with "
        f"the first, {markdown(found.names[0])}. The disagreement on a row is the root mean square "
        "distance between its positions on two maps, in radii: root mean square distances of the "
        "rows from the centre of the map. 0 means equal positions, 1.41 unrelated ones."
    )
    drawn = min(len(found.means), MOST_MAPS)
    if drawn < found.n:
        text += f" {drawn} of {count(found.n, 'map')} are drawn."
    known = 0 if found.disagreement is None else int(np.isfinite(found.disagreement).sum())
    if 0 < known < len(found.row_positions):
        text += f" Compared: {count(known, 'row')}, evenly spaced, at most {MOST_ROWS}."
    return text
