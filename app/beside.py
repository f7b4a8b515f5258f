"""The panels of the Compare page: each shows one map, with shared colours and one selection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import canvas, chart, comparing, figures, making, services, state
from app.axes import extent
from app.colouring import Categories, Colouring, part_of
from app.comparing import Side
from app.figures import Scene
from app.regions import Region
from app.words import count, duration, markdown, shortened
from lvmcore.data import Dataset
from lvmcore.runs import Job

__all__ = ["illustration", "panels"]

_EVERY_SECONDS = 1.0

_key = partial(state.widget, "compare")


def panels(
    jobs: Sequence[Job],
    maps: dict[str, Side],
    whole: Dataset,
    look: Colouring,
    chosen: NDArray[np.bool_] | None,
) -> None:
    """Draw the maps side by side.

    Args:
        jobs: the runs.
        maps: the maps that are there, by run.
        whole: all rows of the dataset.
        look: how its rows are coloured.
        chosen: which of them are selected, [N]; None without a selection.
    """
    across = 3 if len(jobs) == 3 else 2
    height = 340 if across == 3 else 430
    columns = [
        column for _ in range(0, len(jobs), across) for column in st.columns(across, gap="small")
    ]
    titles = comparing.names(jobs)
    for job, column in zip(jobs, columns, strict=False):
        with column.container(border=True, key=_key("panel", job.id), height="stretch"):
            st.markdown(f"**{markdown(shortened(titles[job.id], 60))}**")
            if job.id in maps:
                _map(maps[job.id], whole, look, chosen, height, len(jobs))
            else:
                every = None if job.finished else _EVERY_SECONDS
                st.fragment(_absent, run_every=every)(job.id, job.status)
    if len(jobs) == 1:
        columns[1].info("Add a method above to see its map here, beside this one.")


def illustration() -> None:
    """Two maps as they could be: the same three groups, one of them selected on both."""
    rng = np.random.default_rng(7)
    codes = np.repeat(np.arange(3), 40)
    loose = np.array([[-1.3, 0.6], [1.2, 0.9], [0.2, -1.1]])[codes] + 0.6 * rng.normal(
        size=(120, 2)
    )
    tight = np.array([[-1.6, 0.4], [1.4, 0.8], [0.3, -1.3]])[codes] + 0.22 * rng.normal(
        size=(120, 2)
    )
    for points, column, name in zip((loose, tight), st.columns(2), ("one", "another"), strict=True):
        rows = figures.Rows(
            points=points,
            number=np.arange(120),
            hover=[[""]] * 120,
            colouring=Categories("group", ("one group", "another", "a third"), codes),
            selected=codes == 1,
        )
        column.plotly_chart(
            figures.side_figure(rows, equal=True, dark=state.dark(), height=360),
            theme=None,
            key=_key("illustration", name),
            config={"staticPlot": True},
            alt=f"Illustration of {name} map, not of your data",
        )
    st.caption("An illustration, not computed from any data.")


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
    key, turn, ranges = _key("map", run), f"{run} {side.about}", extent(side.points)
    seen = canvas.closer(key, turn) or ranges
    shown = chart.picked(side.points, seen, among)
    place = side.place[shown]
    rows = figures.Rows(
        points=side.points[shown],
        number=place,
        hover=chart.hover(whole, look, place),
        colouring=part_of(look, place),
        selected=None if chosen is None else chosen[place],
    )
    density = None
    if len(shown) < len(side.points):
        own = None if chosen is None else chosen[side.place]
        picture = figures.density_picture(
            side.points, part_of(look, side.place), seen, selected=own, dark=dark
        )
        density = picture, seen
    drawn = state.compared_region()
    canvas.draw(
        Scene(
            rows=rows,
            ranges=ranges,
            titles=None,
            alt=f"Map of {side.opened.model.title}",
            turn=turn,
            density=density,
            outlines=side.outlines(drawn[1]) if drawn is not None and drawn[0] == run else (),
            marked=_marked(side, whole),
            equal=side.axes[1] is not None,
            places=False,
            legend=False,
            height=height,
        ),
        key=key,
        dark=dark,
        take=partial(_take, side, whole.digest),
    )
    st.caption(_about(side, shown, chosen))


def _take(side: Side, dataset: str, what: canvas.Picked) -> None:
    """A box or a lasso selects rows, a click on a row marks it, on all maps."""
    if isinstance(what, canvas.Outline):
        state.set_compared_region(side.opened.run, side.own(Region(side.axes, (what.corners,))))
    else:
        state.set_compared_row(dataset, what.number if isinstance(what, canvas.Row) else None)


def _marked(side: Side, whole: Dataset) -> tuple[float, float] | None:
    """Where the row that is looked at lies on this map, if it is there."""
    row = state.compared_row(whole.digest)
    found = np.flatnonzero(side.place == (-1 if row is None else row))
    if not len(found):
        return None
    x, y = side.points[found[0]].tolist()
    return x, y


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
    problem = _key("cancel problem", run)
    st.button(
        "Cancel",
        key=_key("cancel", run),
        on_click=making.stop,
        args=([run], problem),
        help="Stops this fit at its next step; what was fitted until then is kept.",
    )
    making.refused(problem)
