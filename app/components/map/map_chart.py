"""The map of a run: its drawing, the handling of its events, and its caption."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import Heatmap, HeatmapRequest, MapChoices
from app.analysis.map.held_out_rows import HeldOutPositions
from app.analysis.map.map_axes import (
    View,
    covariances,
    extent,
    is_line,
    latent_position,
    origin,
    positions,
)
from app.analysis.map.map_view import shown_axes
from app.analysis.map.reconstruction import MapPoint
from app.analysis.map.regions import Region, rounded
from app.analysis.map.row_colours import (
    CategoryStyle,
    Colouring,
    NumericColours,
    group_labels,
    group_of_rows,
)
from app.analysis.map.selections import polygons_on
from app.components.map.canvas import (
    ClickedPoint,
    ClickedRow,
    DrawnPolygon,
    MapEvent,
    MovedCategories,
    draw_canvas,
)
from app.components.map.colour_choices import keep_order
from app.components.map.held_out_layer import (
    coloured_cells,
    held_out_note,
    shown_held_out,
    with_held_out,
)
from app.components.map.large_maps import density_layer, drawn_rows, large_map_note
from app.components.map.map_options import coloured_column
from app.components.map.measured_colours import (
    BY_DISAGREEMENT,
    BY_RESIDUAL,
    describe_residuals,
    disagreement_colour,
    residual_colour,
)
from app.components.map.row_appearance import Appearance, row_appearance
from app.components.map.row_focus import focus_held_out_row, focus_row
from app.components.map.row_texts import hover
from app.components.map.selection_panel import select_region
from app.components.map.shown_view import scene_id, shown_zoom
from app.components.map.side_panel import POINT, open_tab
from app.figures import latent_map, row_traces
from app.figures.canvas_scene import ELLIPSE_SD, Scene
from app.formatting import count, markdown, number
from app.services import fitted_maps, row_analysis, run_colours
from app.state.session import session
from app.state.widgets import map_widget_key
from lvmcore.data import Dataset
from lvmcore.projection import LatentProjection

__all__ = ["axis_titles", "map_chart", "map_style"]

#: Height of the map in pixels, and of what is above it and of its legend: in a lower window the map
#: is lower, so that all of it is in view.
TALLEST, RESERVED = 720, 295
#: Most rows with a posterior ellipse.
MOST_ELLIPSES = 1000


def map_chart(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the map."""
    held = shown_held_out(fitted_map, wanted=choices.held_out)
    appearance = row_appearance(fitted_map, choices.axes, choices.size, choices.shape)
    zoom = shown_zoom(fitted_map, shown_axes(choices.axes))
    points = positions(fitted_map.mean, choices.axes)
    ranges = extent(points, choices.axes)
    asked = choices.heatmap
    if held is not None:
        ranges = extent(positions(held.means_after(fitted_map), choices.axes), choices.axes)
        asked = None if asked is None else replace(asked, ranges=ranges)
    grid = None if asked is None else fitted_maps.heatmap(fitted_map.run, asked)
    visible = zoom or ranges
    colouring = _colouring(fitted_map, choices)
    chosen = drawn_rows(fitted_map, choices, points, visible)
    rows = _rows(fitted_map, choices, appearance, chosen)
    layer = density_layer(fitted_map, choices, points, visible, colouring)
    drawn = rows if held is None else _with_held_out(rows, held, fitted_map, choices)
    draw_canvas(
        Scene(
            rows=drawn,
            held_out=None if held is None else drawn.number >= len(points),
            ranges=ranges,
            titles=axis_titles(choices.axes),
            alt="Map of the rows in two latent dimensions",
            id=scene_id(fitted_map.run, shown_axes(choices.axes)),
            grid=grid,
            contours=choices.contours,
            density=layer.picture,
            all_rows=layer.rows,
            inducing=_inducing(fitted_map, choices),
            outlines=polygons_on(choices.selection, choices.axes),
            marked=_marked(fitted_map, choices.axes),
            group_labels=group_labels(colouring, points) if choices.group_labels else (),
            pictures=fitted_maps.row_pictures(fitted_map.run, dark=choices.dark)
            if choices.pictures
            else None,
            height=TALLEST,
            reserved=RESERVED,
            equal=isinstance(choices.axes, LatentProjection),
            reports_zoom=True,
            reorders=True,
        ),
        key=map_widget_key(fitted_map, "map"),
        dark=choices.dark,
        on_event=partial(_handle_event, fitted_map, choices),
        zoom=zoom,
    )
    st.caption(_caption(fitted_map, choices, grid, rows, appearance, held))


def axis_titles(axes: View) -> tuple[str, str]:
    """Titles of the axes."""
    if isinstance(axes, LatentProjection):
        return "First axis of the best view", "Second axis, in the same unit"
    horizontal, vertical = (latent_map.axis_title(dimension).capitalize() for dimension in axes)
    return horizontal, vertical


def _handle_event(fitted_map: FittedMap, choices: MapChoices, event: MapEvent) -> None:
    """Store the selection or the point of an event."""
    match event:
        case DrawnPolygon(corners):
            select_region(fitted_map, Region(choices.axes, (rounded(corners),)))
        case MovedCategories(codes):
            _order_categories(fitted_map, choices, codes)
        case ClickedRow(row) if row < len(fitted_map.mean):
            focus_row(fitted_map, row)
        case ClickedRow(row):
            focus_held_out_row(fitted_map, row - len(fitted_map.mean))
        case ClickedPoint(x, y):
            fixed = (
                choices.heatmap.fixed
                if choices.heatmap is not None
                else origin(choices.axes, fitted_map.dimensions)
            )
            session.point[fitted_map.run] = MapPoint(latent_position(fixed, choices.axes, x, y))
            open_tab(fitted_map, POINT)
        case _:
            session.point[fitted_map.run] = None


def _order_categories(fitted_map: FittedMap, choices: MapChoices, codes: tuple[int, ...]) -> None:
    """Keep the order of the legend with the run, unless the legend is of another column by now."""
    style = _colouring(fitted_map, choices)
    if choices.colour is None or not isinstance(style, CategoryStyle):
        return
    if sorted(codes) == list(range(len(style.names))):
        column = coloured_column(fitted_map.dataset, choices.colour)
        keep_order(fitted_map, column, tuple(style.names[code] for code in codes))


def _rows(
    fitted_map: FittedMap, choices: MapChoices, appearance: Appearance, chosen: NDArray[np.intp]
) -> row_traces.MapRows:
    """The rows drawn as markers."""
    measured = _measured(fitted_map, choices.colour)
    colouring = _colouring(fitted_map, choices)
    more = [name for name in (choices.size, choices.shape) if name is not None]
    lines = hover(fitted_map.dataset, colouring, chosen, more)
    if measured is not None:
        title = measured.title.partition(",")[0]
        for line, value in zip(lines, measured.values[chosen], strict=True):
            line.append(f"{title}: {number(float(value), 2)}")
    selected = row_analysis.current_selection_mask(fitted_map)
    sd = correlation = None
    if choices.ellipses:
        sd, correlation = _spread(fitted_map.model.embedding_.variance[chosen], choices.axes)
        without_ellipse = np.ones(len(chosen), dtype=bool)
        without_ellipse[subsampling.evenly_spaced(len(chosen), MOST_ELLIPSES)] = False
        sd[without_ellipse] = np.nan
    return row_traces.MapRows(
        points=positions(fitted_map.mean, choices.axes)[chosen],
        number=chosen,
        hover=lines,
        colouring=group_of_rows(colouring, chosen),
        selected=None if selected is None else selected[chosen],
        sd=sd,
        correlation=correlation,
        size=None if appearance.size is None else appearance.size[chosen],
        shape=None
        if appearance.shape is None
        else replace(appearance.shape, symbol=appearance.shape.symbol[chosen]),
    )


def _with_held_out(
    rows: row_traces.MapRows, held: HeldOutPositions, fitted_map: FittedMap, choices: MapChoices
) -> row_traces.MapRows:
    """The drawn rows of the fit and the held-out rows after them."""
    colouring = _colouring(fitted_map, choices)
    measured = _measured(fitted_map, choices.colour) is not None
    more = [name for name in (choices.size, choices.shape) if name is not None]
    cells = None
    if choices.colour is not None and not measured:
        column = coloured_column(held.dataset, choices.colour)
        fitted = coloured_cells(fitted_map.dataset, column)
        cells = fitted, coloured_cells(held.dataset, column)
    lines = hover(held.dataset, None if measured else colouring, np.arange(len(held)), more)
    for line in lines:
        line[0] = f"held-out {line[0]}"
    spread = _spread(held.variance, choices.axes) if choices.ellipses else None
    return with_held_out(rows, held, fitted_map, choices.axes, cells, hover=lines, spread=spread)


def _spread(
    variance: NDArray[np.float64], view: View
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Posterior sd of rows along both axes, [n, 2], and their correlation, [n], if any."""
    found = covariances(variance, view)
    sd = np.sqrt(found[:, [0, 1], [0, 1]])
    if not isinstance(view, LatentProjection):
        return sd, None
    product = sd.prod(axis=1)
    return sd, found[:, 0, 1] / np.where(product > 0, product, 1.0)


def _colouring(fitted_map: FittedMap, choices: MapChoices) -> Colouring:
    return _measured(fitted_map, choices.colour) or map_style(
        fitted_map.run, fitted_map.dataset, choices.colour
    )


def _measured(fitted_map: FittedMap, colour: str | None) -> NumericColours | None:
    """The colours of a measure of the rows that is no column of the table."""
    if colour == BY_DISAGREEMENT:
        return disagreement_colour(fitted_map.run)
    return residual_colour(fitted_map) if colour == BY_RESIDUAL else None


def map_style(run: str, dataset: Dataset, colour: str | None) -> Colouring:
    """Colours of the rows of a dataset, by an option of ``map_options.colour_options``.

    Args:
        run: id of the run whose colours are shown.
        dataset: the rows.
        colour: the option; None for one colour.
    """
    if colour is None:
        return None
    return run_colours.row_colouring(run, dataset, coloured_column(dataset, colour))


def _inducing(fitted_map: FittedMap, choices: MapChoices) -> dict[str, NDArray[np.float64]]:
    if not choices.inducing:
        return {}
    return {
        path: positions(Z, choices.axes) for path, Z in fitted_map.model.inducing_inputs_.items()
    }


def _marked(fitted_map: FittedMap, view: View) -> tuple[float, float] | None:
    point = session.point[fitted_map.run]
    if point is None:
        return None
    x, y = positions(np.array([point.latent]), view)[0].tolist()
    if is_line(view):
        y = 0.0 if point.row is None else point.row + 1.0
        if point.held_out is not None:
            y = len(fitted_map.mean) + point.held_out + 1.0
    return x, y


def _caption(
    fitted_map: FittedMap,
    choices: MapChoices,
    grid: Heatmap | None,
    rows: row_traces.MapRows,
    appearance: Appearance,
    held: HeldOutPositions | None,
) -> str:
    """What the map shows and leaves out."""
    sentences = []
    if grid is not None and grid.flat:
        sentences.append(
            f"The background is empty: the value is {number(float(grid.value[0, 0]), 3)} "
            "everywhere on this map."
        )
    sentences += large_map_note(fitted_map, len(rows.points))
    sentences += map(markdown, appearance.notes)
    if held is not None:
        sentences.append(held_out_note(held))
    if choices.colour == BY_RESIDUAL:
        sentences += describe_residuals(fitted_map)
    if choices.heatmap is not None and choices.heatmap.kind == "magnification":
        sentences.append(_magnification_note(fitted_map, choices.heatmap))
    if choices.ellipses:
        ellipses = len(subsampling.evenly_spaced(len(rows.points), MOST_ELLIPSES))
        of_rows = f"{count(ellipses, 'row')}, evenly spaced"
        if ellipses == len(rows.points):
            of_rows = "each row"
        sentences.append(f"Ellipses: posterior of {of_rows}, {ELLIPSE_SD:g} sd.")
    if fitted_map.model.capabilities.labels != "none":
        sentences.append(
            "The fit used the labels, so the separation of the classes on this map is no measure "
            "of accuracy on new rows."
        )
    sentences.append(
        "Click a row or any point to see its reconstruction. Box, lasso and zoom are in the "
        "toolbar on the map; drag with Shift for a lasso, turn the wheel with Ctrl to zoom. A box "
        "or lasso replaces the one before; conditions on columns stay."
    )
    return " ".join(sentences)


def _magnification_note(fitted_map: FittedMap, ask: HeatmapRequest) -> str:
    """Definition of the magnification factor, with its value far from the rows."""
    size = "unit length" if is_line(ask.axes) else "unit area"
    definition = (
        f"Magnification: change of the columns per {size} of the map, in sd of the columns. "
        "Where it is large, rows that are close on the map differ more in the data."
    )
    far = fitted_maps.far_field_value(fitted_map.run, ask)
    if far is None:
        return definition
    return f"{definition} Far from all rows, at the prior, it is {number(far, 3)}."
