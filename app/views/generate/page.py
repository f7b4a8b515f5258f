"""Generate: rows decoded under a cursor on the map, along paths and sweeps, and sampled rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app import navigation
from app.analysis.map import subsampling
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import Heatmap, HeatmapRequest
from app.analysis.map.map_axes import Axes, extent, latent_position, positions
from app.analysis.map.reconstruction import Reconstruction
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.components.empty_states import illustrated_empty_state, interrupted_page
from app.components.map import canvas, map_chart
from app.components.map.canvas import CursorPosition
from app.components.map.large_maps import SEED
from app.components.map.map_options import colour_options
from app.components.map.reconstruction_panel import (
    MOST_CATEGORIES,
    class_probabilities,
    log_scale_note,
    values_table,
)
from app.components.map.view_choice import choose_axes
from app.components.page_opening import PageOpening, open_map
from app.figures import row_traces
from app.figures.canvas_scene import Scene
from app.figures.pictures import channel_note
from app.formatting import count, markdown, number
from app.services import fitted_maps, generation, row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from app.views.generate import cursor_charts, paths_and_sweeps
from app.views.generate.samples import samples_panel
from lvmcore.errors import LatentboardError
from lvmcore.prediction.label_columns import label_columns
from lvmcore.preprocessing.picture_shape import ImageShape

#: Most rows on the map, which is redrawn as the cursor moves.
MOST_DRAWN = 4000
HEIGHT = 520
_PATH, _SWEEP, _SAMPLE = "Path", "Sweep", "Sample rows"


_OPENING = PageOpening(
    page="generate",
    introduction=(
        "After a fit this page decodes latent points into rows: under the cursor, along a path "
        "between two classes, along one latent dimension, or sampled from the model, each with its "
        "predictive uncertainty."
    ),
    pending="Rows can be generated from its map when the fit has finished.",
    first_step=partial(illustrated_empty_state, "generate"),
)


def page() -> None:
    """Draw the page."""
    opened = open_map(_OPENING)
    if opened is not None:
        _generate(opened[1])


def _generate(fitted_map: FittedMap) -> None:
    dataset = fitted_map.dataset
    title = markdown(fitted_map.model.title)
    st.markdown(f"**{title}** on {markdown(dataset.name)} · {count(len(dataset), 'row')}")
    if not fitted_map.model.capabilities.decoding:
        st.info(
            f"{title} cannot decode latent points. Fit a model that can to the same data, such as "
            "PCA or the Bayesian GPLVM."
        )
        navigation.link("Fit another model", "fit", key="fit")
        return
    axes, colouring, background = _controls(fitted_map)
    map_container = st.container()
    st.divider()
    # "Set A here" sets the widget too, so it has no default.
    if widget_value(map_widget_key(fitted_map, "kind")) is None:
        set_widget_value(map_widget_key(fitted_map, "kind"), _PATH)
    kind = st.segmented_control(
        "Kind of rows",
        [_PATH, _SWEEP, _SAMPLE],
        required=True,
        label_visibility="collapsed",
        key=map_widget_key(fitted_map, "kind"),
        help="A path between two points, a sweep of one dimension, or rows sampled from the model.",
    )
    drawn = paths_and_sweeps.DrawnPath()
    if kind == _PATH:
        drawn = paths_and_sweeps.path_panel(fitted_map, axes, colouring)
    elif kind == _SWEEP:
        drawn = paths_and_sweeps.sweep_panel(
            fitted_map,
            axes,
            colouring,
            session.named_points[fitted_map.run].get("cursor", _origin(fitted_map)),
        )
    else:
        samples_panel(fitted_map)
    with map_container:
        _cursor_map(fitted_map, axes, colouring, background, drawn)


def _origin(fitted_map: FittedMap) -> tuple[float, ...]:
    return (0.0,) * fitted_map.dimensions


def _controls(fitted_map: FittedMap) -> tuple[Axes, Colouring, bool]:
    """The axes, the row colours, and whether the predictive sd is the background."""
    horizontal, vertical, coloured, right, _ = st.columns([0.8, 0.8, 1.6, 1.2, 1.4], gap="small")
    axes = choose_axes(fitted_map, horizontal, vertical)
    options = colour_options(fitted_map.dataset)
    colour = coloured.selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=map_widget_key(fitted_map, "colour"),
        help="The label or column of the row colours.",
    )
    background = right.selectbox(
        "Background",
        ["predictive sd", "nothing"],
        key=map_widget_key(fitted_map, "behind"),
        help="Predictive sd: dark regions have a large sd.",
    )
    return (
        axes,
        map_chart.map_style(fitted_map.run, fitted_map.dataset, colour or None),
        background == "predictive sd",
    )


@st.fragment
def _cursor_map(
    fitted_map: FittedMap,
    axes: Axes,
    colouring: Colouring,
    background: bool,
    drawn: paths_and_sweeps.DrawnPath,
) -> None:
    """The map with its cursor and the decoded row, rerun as the cursor moves."""
    try:
        _map_and_row(fitted_map, axes, colouring, background, drawn)
    except (
        LatentboardError
    ) as error:  # the run was deleted, which main does not notice in a fragment
        interrupted_page(error)


def _map_and_row(
    fitted_map: FittedMap,
    axes: Axes,
    colouring: Colouring,
    background: bool,
    drawn: paths_and_sweeps.DrawnPath,
) -> None:
    left, right = st.columns([1.75, 1], gap="large")
    with left:
        grid = (
            fitted_maps.heatmap(fitted_map.run, HeatmapRequest("sd", axes, _origin(fitted_map)))
            if background
            else None
        )
        at = canvas.cursor(
            _scene(fitted_map, axes, colouring, grid, drawn),
            key=map_widget_key(fitted_map, "map"),
            dark=session.is_dark,
        )
        position = at or CursorPosition(*_centre(fitted_map, axes), held=False)
        latent = latent_position(_origin(fitted_map), axes, position.x, position.y)
        session.set_named_point(fitted_map.run, "cursor", latent)
        _path_end_buttons(fitted_map, latent, held=position.held)
    with right:
        st.header("The row under the cursor" if at else "The row at the centre of the map")
        st.caption(_position_text(axes, position))
        _decoded_row(fitted_map, latent)


def _position_text(axes: Axes, at: CursorPosition) -> str:
    """Coordinates of the cursor."""
    coordinates = f"dimension {axes[0] + 1} at {number(at.x)}"
    if axes[1] is not None:
        coordinates += f", dimension {axes[1] + 1} at {number(at.y)}"
    return f"{'Fixed: latent' if at.held else 'Latent'} {coordinates}."


def _centre(fitted_map: FittedMap, axes: Axes) -> tuple[float, float]:
    x, y = np.median(positions(fitted_map.mean, axes), axis=0).tolist()
    return x, y


def _scene(
    fitted_map: FittedMap,
    axes: Axes,
    colouring: Colouring,
    grid: Heatmap | None,
    drawn: paths_and_sweeps.DrawnPath,
) -> Scene:
    points = positions(fitted_map.mean, axes)
    chosen = subsampling.sampled_rows(len(points), MOST_DRAWN, SEED)
    selected = row_analysis.current_selection_mask(fitted_map)
    on_map = {t: tuple(positions(np.array([at]), axes)[0].tolist()) for t, at in drawn.marks}
    return Scene(
        rows=row_traces.MapRows(
            points=points[chosen],
            number=chosen,
            hover=(),
            colouring=group_of_rows(colouring, chosen),
            selected=None if selected is None else selected[chosen],
        ),
        ranges=extent(points),
        titles=map_chart.axis_titles(axes),
        alt="Map of the rows with a cursor: the arrow keys move it, and a click fixes it",
        id=f"{fitted_map.run} {axes}",
        grid=grid,
        path=None if drawn.path is None or axes[1] is None else positions(drawn.path, axes),
        letters=on_map if axes[1] is not None else {},
        follow=True,
        start=_centre(fitted_map, axes),
        height=HEIGHT,
    )


def _set_path_end(fitted_map: FittedMap, letter: str, latent: tuple[float, ...]) -> None:
    session.set_named_point(fitted_map.run, letter, latent)
    set_widget_value(map_widget_key(fitted_map, "kind"), _PATH)
    set_widget_value(map_widget_key(fitted_map, f"end {letter}"), paths_and_sweeps.NAMED_POINT)


def _path_end_buttons(fitted_map: FittedMap, latent: tuple[float, ...], *, held: bool) -> None:
    """Buttons that set the cursor's position as an end of a path."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for letter, end in (("A", "start"), ("B", "end")):
            if st.button(
                f"Set {letter} here",
                on_click=_set_path_end,
                args=(fitted_map, letter, latent),
                disabled=not held,
                key=map_widget_key(fitted_map, f"set {letter}"),
                help=f"Sets the cursor's position as the {end} of the path. Click the map first to "
                "fix the cursor.",
            ):
                st.rerun()
    drawn = (
        ""
        if len(fitted_map.mean) <= MOST_DRAWN
        else f"{count(MOST_DRAWN, 'row')} are drawn, a random sample (seed {SEED}). "
    )
    others = "Dimensions that the map does not show are at 0. " if fitted_map.dimensions > 2 else ""
    st.caption(
        f"{drawn}{others}Move the mouse over the map; a click fixes the cursor, another releases "
        "it. The arrow keys move it too, with Shift in larger steps."
    )


def _decoded_row(fitted_map: FittedMap, latent: tuple[float, ...]) -> None:
    found = fitted_maps.reconstruction(fitted_map.run, latent)
    dataset, dark = fitted_map.dataset, session.is_dark
    for column, probability in zip(label_columns(fitted_map.model), found.probability, strict=True):
        st.caption(markdown(class_probabilities(column, probability)))
    if dataset.image_shape is None:
        _row_charts(fitted_map, found, dark=dark)
    else:
        _images(fitted_map, found, dataset.image_shape, dark=dark)
    if found.log1p.any():
        st.caption(log_scale_note(found, image=dataset.image_shape is not None))
    with st.expander("Values"):
        st.dataframe(
            values_table(dataset, found, None),
            hide_index=True,
            key=map_widget_key(fitted_map, "values"),
        )


def _row_charts(fitted_map: FittedMap, found: Reconstruction, *, dark: bool) -> None:
    """The decoded numbers with intervals, and the probabilities of the levels of categories."""
    names = [fitted_map.dataset.feature_names[d] for d in found.numbers]
    if names:
        largest = min(max(generation.max_deviation(fitted_map.run), 2.5), 6.0) + 0.5
        limits = -round(largest, 1), round(largest, 1)
        st.echarts_chart(
            cursor_charts.row_chart(names, found.subset(found.numbers), limits, dark=dark),
            height=cursor_charts.height(len(names)),
            key=map_widget_key(fitted_map, "row"),
            alt="The decoded row with intervals",
        )
        interval = "± 2 predictive sd" if found.symmetric else "95 % intervals"
        st.caption(f"Decoded columns, {interval}, in sd from the mean of each column.")
    if found.categories:
        shown = found.categories[:MOST_CATEGORIES]
        st.echarts_chart(
            cursor_charts.level_chart(shown, dark=dark),
            height=cursor_charts.level_height(shown),
            key=map_widget_key(fitted_map, "levels"),
            alt="Probabilities of the levels of the categories",
        )
        st.caption("Probability of each level.")


def _images(fitted_map: FittedMap, found: Reconstruction, shape: ImageShape, *, dark: bool) -> None:
    limits = generation.cell_range(fitted_map.run)
    image, width, most = cursor_charts.images(found, shape, limits, dark=dark)
    left, right = st.columns(2)
    left.image(image, caption="decoded")
    right.image(width, caption=f"width of ± 2 sd, at most {most:.3g}")
    if channel_note(shape):
        st.caption(channel_note(shape))


if __name__ == "__main__":  # as the navigation runs it
    page()
