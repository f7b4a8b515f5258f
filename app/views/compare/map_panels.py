"""The panels of the Compare page: one map each, with common colours and one selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.comparison import map_alignment
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.map.map_axes import extent
from app.analysis.map.regions import Region
from app.analysis.map.row_colours import CategoryStyle, Colouring, group_of_rows
from app.components.derived_run import stop_error_panel, stop_runs
from app.components.map import row_texts
from app.components.map.canvas import ClickedRow, DrawnPolygon, MapEvent, draw_canvas, zoomed_ranges
from app.components.map.large_maps import (
    DensityLayer,
    layer_of_rows,
    row_names,
    rows_in_view,
)
from app.figures import density, live_charts, row_traces, snapshot_charts
from app.figures.aligned_map import aligned_map_figure
from app.figures.canvas_scene import Scene
from app.figures.density import AllRows
from app.figures.echarts_options import small_chart
from app.formatting import count, duration, markdown, shortened
from app.services import progress, run_colours, runs
from app.services.progress import Progress
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

__all__ = ["illustration", "map_panels"]

_EVERY_SECONDS = 1.0
#: Height of a map, in pixels, by the number of maps if there are more than two.
_HEIGHTS = {3: 340, 4: 300}
#: Share of that height for the map of a running fit; the rest is for its bound.
_MAP_SHARE = 0.65

_key = partial(widget_key, "compare")


def map_panels(
    jobs: Sequence[Job],
    maps: dict[str, AlignedMap],
    full_dataset: Dataset,
    colouring: Colouring,
    chosen: NDArray[np.bool_] | None,
) -> None:
    """Draw the maps side by side.

    Args:
        jobs: the runs.
        maps: the aligned maps, by run.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
        chosen: mask of the selected rows, [N]; None without a selection.
    """
    height = _HEIGHTS.get(len(jobs), 430)
    columns = st.columns(max(2, len(jobs)), gap="small")
    titles = map_alignment.map_names(jobs)
    for job, column in zip(jobs, columns, strict=False):
        with column.container(border=True, key=_key("panel", job.id), height="stretch"):
            st.markdown(f"**{markdown(shortened(titles[job.id], 60))}**")
            if job.id in maps:
                _map(maps[job.id], full_dataset, colouring, chosen, height, len(jobs))
            else:
                every = None if job.finished else _EVERY_SECONDS
                st.fragment(_pending_map, run_every=every)(job.id, job.status, height)
    if len(jobs) == 1:
        columns[1].info("Add a method above to see its map here, beside this one.")


def illustration() -> None:
    """Illustration of two maps of three groups, one of which is selected on both."""
    rng = np.random.default_rng(7)
    codes = np.repeat(np.arange(3), 40)
    loose = np.array([[-1.3, 0.6], [1.2, 0.9], [0.2, -1.1]])[codes] + 0.6 * rng.normal(
        size=(120, 2)
    )
    tight = np.array([[-1.6, 0.4], [1.4, 0.8], [0.3, -1.3]])[codes] + 0.22 * rng.normal(
        size=(120, 2)
    )
    for points, column, name in zip((loose, tight), st.columns(2), ("one", "another"), strict=True):
        rows = row_traces.MapRows(
            points=points,
            number=np.arange(120),
            hover=[[""]] * 120,
            colouring=CategoryStyle("group", ("one group", "another", "a third"), codes),
            selected=codes == 1,
        )
        column.plotly_chart(
            aligned_map_figure(rows, equal=True, dark=session.is_dark, height=360),
            theme=None,
            key=_key("illustration", name),
            config={"staticPlot": True},
            alt=f"Illustration of {name} map, not of your data",
        )
    st.caption("An illustration, not computed from any data.")


def _map(
    aligned: AlignedMap,
    full_dataset: Dataset,
    colouring: Colouring,
    chosen: NDArray[np.bool_] | None,
    height: int,
    among: int,
) -> None:
    """Draw one map with the common colours and the common selection."""
    run, dark = aligned.fitted_map.run, session.is_dark
    key, scene_id, ranges = _key("map", run), f"{run} {aligned.description}", extent(aligned.points)
    zoom = zoomed_ranges(key, scene_id)
    visible = zoom or ranges
    N = len(aligned.points)
    shown = rows_in_view(aligned.points, visible, among, sample=N > density.MOST_ROWS)
    positions = aligned.row_positions[shown]
    rows = row_traces.MapRows(
        points=aligned.points[shown],
        number=positions,
        hover=row_texts.hover(full_dataset, colouring, positions),
        colouring=group_of_rows(colouring, positions),
        selected=None if chosen is None else chosen[positions],
    )
    layer = DensityLayer()
    if len(shown) < N:
        numbered = np.array_equal(aligned.row_positions, np.arange(N))
        every = AllRows(
            aligned.points,
            group_of_rows(colouring, aligned.row_positions),
            number=None if numbered else aligned.row_positions,
            selected=None if chosen is None else chosen[aligned.row_positions],
            names=row_names(full_dataset),
        )
        layer = layer_of_rows(every, visible, dark=dark)
    drawn = session.compared_region
    draw_canvas(
        Scene(
            rows=rows,
            ranges=ranges,
            titles=None,
            alt=f"Map of {aligned.fitted_map.model.title}",
            id=scene_id,
            density=layer.picture,
            all_rows=layer.rows,
            outlines=aligned.outlines(drawn[1]) if drawn is not None and drawn[0] == run else (),
            marked=_marked(aligned, full_dataset),
            equal=aligned.axes[1] is not None,
            places=False,
            legend=False,
            height=height,
        ),
        key=key,
        dark=dark,
        on_event=partial(_handle_event, aligned, full_dataset.digest),
        zoom=zoom,
    )
    st.caption(_caption(aligned, shown, chosen))


def _handle_event(aligned: AlignedMap, dataset: str, event: MapEvent) -> None:
    """Store the selection of a box or lasso, or the clicked row, for all maps."""
    if isinstance(event, DrawnPolygon):
        session.compared_region = (
            aligned.fitted_map.run,
            aligned.to_own_axes(Region(aligned.axes, (event.corners,))),
        )
    else:
        session.compared_row[dataset] = event.number if isinstance(event, ClickedRow) else None


def _marked(aligned: AlignedMap, full_dataset: Dataset) -> tuple[float, float] | None:
    """Position of the clicked row on this map, if the map has it."""
    row = session.compared_row[full_dataset.digest]
    found = np.flatnonzero(aligned.row_positions == (-1 if row is None else row))
    if not len(found):
        return None
    x, y = aligned.points[found[0]].tolist()
    return x, y


def _caption(aligned: AlignedMap, shown: NDArray[np.intp], chosen: NDArray[np.bool_] | None) -> str:
    """What a map shows, in a line."""
    parts = [aligned.description]
    if len(shown) < len(aligned.points) and len(aligned.points) > density.MOST_ROWS:
        parts.append(f"{count(len(shown), 'row')} of {count(len(aligned.points), 'row')} drawn")
    if aligned.fitted_map.model.capabilities.labels != "none":
        parts.append("fitted with the labels")
    if chosen is not None:
        absent = int(chosen.sum() - chosen[aligned.row_positions].sum())
        if absent:
            parts.append(f"{count(absent, 'selected row')} not on this map")
    return ". ".join(text[0].upper() + text[1:] for text in parts) + "."


def _pending_map(run: str, drawn: str, height: int) -> None:
    """A run without a map: its progress, with the map and the bound so far, or why it has none."""
    job = runs.job(run)
    if job is None or job.status != drawn:
        st.rerun()
    if job.finished:
        st.warning(markdown(job.message or f"This run is {job.status} and left no map."))
        return
    if job.status == "queued":
        st.caption(f"Queued, position {job.queue_place or 1}.")
    else:
        run_progress = progress.progress(run)
        if run_progress.steps:
            last = run_progress.steps[-1]
            st.progress(min(1.0, last.iteration / max(1, last.total)))
            st.caption(f"Step {last.iteration} of at most {last.total}.")
            _charts_so_far(run, run_progress, height)
        else:
            st.caption(f"Running for {duration(job.seconds)}.")
    problem = _key("cancel problem", run)
    st.button(
        "Cancel",
        key=_key("cancel", run),
        on_click=stop_runs,
        args=([run], problem),
        help="Stops this fit at its next step and keeps the model fitted so far.",
    )
    stop_error_panel(problem)


def _charts_so_far(run: str, run_progress: Progress, height: int) -> None:
    """The map and the bound of the current start of a running fit, as far as it reports them."""
    current = run_progress.of_start(run_progress.steps[-1].start)
    dark, bound = session.is_dark, live_charts.steps_shown(current.steps, None)
    if current.snapshot is not None:
        st.echarts_chart(
            small_chart(
                snapshot_charts.map_chart(current.snapshot, _classes(run), dark=dark), numbers=False
            ),
            height=round(_MAP_SHARE * height),
            key=_key("map so far", run),
            alt="Map of the rows so far",
        )
    if bound and math.isfinite(bound[-1].objective):
        st.echarts_chart(
            small_chart(live_charts.bound_chart(bound, dark=dark)),
            height=round((1 - _MAP_SHARE) * height),
            key=_key("bound so far", run),
            alt="Bound at each step so far",
        )


def _classes(run: str) -> CategoryStyle | None:
    """The classes of the rows of a running fit, by its first label."""
    try:
        return run_colours.snapshot_style(run)
    except LatentboardError:  # deleted meanwhile: the next look says so
        return None
