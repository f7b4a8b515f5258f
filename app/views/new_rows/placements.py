"""The inferred positions of new rows: on the map, in a table, and their scores."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import Axes
from app.figures import canvas_scene
from app.formatting import count, distinct_titles, markdown, number, shortened
from app.services import fitted_maps, placement, run_colours, runs
from app.state.session import session
from app.state.widgets import widget_key
from app.views.new_rows.placed_rows import PlacedRows, placed_rows
from app.views.new_rows.placement_map import BY_CLASS, BY_LABEL, BY_UNUSUAL, placement_map
from app.views.new_rows.placement_table import placement_table
from lvmcore.errors import LatentboardError
from lvmcore.prediction.label_columns import figure_key
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job

__all__ = ["placements_panel"]

_ONE_COLOUR = "one colour"
#: With a larger share of unusual rows the page warns about the table.
_MOST_UNUSUAL = 0.5


def placements_panel(fitted_map: FittedMap, job: Job) -> None:
    """Draw new rows with their inferred positions.

    Args:
        fitted_map: the run.
        job: the finished job that inferred the positions.
    """
    try:
        frame = placement.placements(job.id)
        notes = fitted_maps.stored_dataset(job.spec.dataset).notes
    except LatentboardError as error:
        st.error(markdown(error))
        return
    fit = runs.job(fitted_map.run)
    if fit is not None and fit.ended is not None and job.submitted < fit.ended:
        st.warning(
            "The fit was continued after these positions were inferred, and its map has changed. "
            "Upload the table again to infer them for the new map."
        )
    title, back = st.columns([4, 1], vertical_alignment="bottom")
    title.header(markdown(job.spec.dataset_name))
    if session.new_table is not None:
        back.button(
            "Back to the columns",
            key=widget_key("new_rows", job.id, "back"),
            on_click=session.placement.set,
            args=(fitted_map.run, None),
            width="stretch",
            help="Shows how the columns of the table match those of the fit.",
        )
    label, frame = _choose_label(job, frame)
    axes, colour, least, ellipses = _controls(fitted_map, job, frame)
    placed = placed_rows(fitted_map, job, frame, label, least)
    st.markdown(_summary(placed, job, fitted_map))
    if placed.unusual.mean() > _MOST_UNUSUAL:
        st.warning(
            "Most of these rows are unlike the rows of the fit. The notes below name the columns "
            "that are missing or may have other units."
        )
    placement_map(fitted_map, placed, axes, colour, ellipses=ellipses)
    placement_table(placed)
    _scores_and_notes(job, (*notes, *job.notes))


def _choose_label(job: Job, frame: pd.DataFrame) -> tuple[str | None, pd.DataFrame]:
    """The shown label column of several, and the table with that label alone."""
    from lvmcore.prediction.placement import labels_of, of_label_column

    names = labels_of(frame)
    if len(names) < 2:
        return None, frame
    titles = distinct_titles(shortened(name) for name in names)
    position = st.segmented_control(
        "Label",
        range(len(names)),
        default=0,
        required=True,
        format_func=lambda i: markdown(titles[i]),
        key=widget_key("new_rows", job.id, "label"),
        help="The label of the colours, the table and the counts. The files hold all labels.",
    )
    return names[position], of_label_column(frame, names[position])


def _controls(
    fitted_map: FittedMap, job: Job, frame: pd.DataFrame
) -> tuple[Axes, str, float, bool]:
    """Axes, colour, smallest probability of a decided class, and whether ellipses are drawn."""
    key = partial(widget_key, "new_rows", job.id)
    horizontal, vertical, hue, threshold, rings = st.columns(
        [1, 1, 1.6, 2, 1.2], vertical_alignment="bottom"
    )
    axes = leading_dimensions(fitted_map.model.variance_shares())
    if axes[1] is not None:
        axes = (
            _dimension(horizontal, "Horizontal", fitted_map, axes[0], key("x")),
            _dimension(vertical, "Vertical", fitted_map, axes[1], key("y")),
        )
    has_classes = "predicted" in frame
    has_labels = "label" in frame and run_colours.class_style(fitted_map.run) is not None
    options = [
        *([BY_CLASS] if has_classes else []),
        *([BY_UNUSUAL] if "unusual" in frame else []),
        *([BY_LABEL] if has_labels else []),
        _ONE_COLOUR,
    ]
    colour = hue.selectbox("Colour", options, key=key("colour"), help="The colour of the new rows.")
    least = 0.0
    if has_classes:
        least = threshold.slider(
            "Not decided below",
            0.0,
            1.0,
            0.5,
            0.05,
            key=key("least"),
            help="A row whose most probable class has a lower probability is not decided.",
        )
    ellipses = False
    if fitted_map.model.capabilities.uncertainty and axes[1] is not None:
        ellipses = rings.toggle(
            "Ellipses",
            True,
            key=key("ellipses"),
            help=f"Posterior of each new row, {canvas_scene.ELLIPSE_SD:g} sd.",
        )
    return axes, colour, least, ellipses


def _dimension(
    column: DeltaGenerator, title: str, fitted_map: FittedMap, default: int, key: str
) -> int:
    return column.selectbox(
        title,
        range(fitted_map.dimensions),
        index=default,
        format_func=lambda q: str(q + 1),
        key=key,
        help="The latent dimension on this axis.",
    )


def _summary(placed: PlacedRows, job: Job, fitted_map: FittedMap) -> str:
    """Counts and scores of the rows in one line."""
    parts = [f"**{count(len(placed.frame), 'row')}**"]
    if "unusual" in placed.frame:
        parts.append(f"{int(placed.unusual.sum())} unusual")
    if "predicted" in placed.frame:
        parts.append(f"{int(placed.undecided.sum())} not decided")
    for key in ("accuracy", "expected_calibration_error"):
        metric = job.metrics.get(key)
        if placed.label is not None:
            column = fitted_map.model.label_names_.index(placed.label)
            metric = job.metrics.get(figure_key(key, placed.label, column))
        if metric is not None and metric.value is not None:
            parts.append(f"{markdown(metric.label)} {number(metric.value, 3)}")
    return " · ".join(parts)


def _scores_and_notes(job: Job, notes: tuple[str, ...]) -> None:
    if job.metrics:
        with st.expander("Scores of these rows"):
            for metric in job.metrics.values():
                value = number(metric.value, 3) if metric.value is not None else "not measured"
                st.markdown(f"{markdown(metric.label)}: **{value}**. {markdown(metric.protocol)}")
    with st.container(gap="xxsmall"):
        for note in notes:
            st.caption(markdown(note))
