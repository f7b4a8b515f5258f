"""The controls above the map: axes, colour, background, ellipses, inducing inputs."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import HeatmapRequest, Kind, MapChoices
from app.analysis.map.map_axes import View, is_line, latent_position, origin
from app.analysis.map.map_view import (
    DECODED_MEAN,
    NO_BACKGROUND,
    OF_ONE_COLUMN,
    MapOptions,
    has_contours,
    shown_axes,
)
from app.components.map.colour_choices import colour_choices
from app.components.map.map_options import (
    BACKGROUNDS,
    OF_COLUMNS,
    OF_LABEL_COLUMNS,
    coloured_column,
    map_options,
)
from app.components.map.measured_colours import BY_DISAGREEMENT, BY_RESIDUAL
from app.components.map.row_appearance import appearance_controls
from app.components.map.shown_view import (
    AT_POINT,
    contours_name,
    fixed_key,
    label_key,
    open_view,
    record_view,
)
from app.components.map.view_choice import choose_view, shows_best_view
from app.figures import canvas_scene
from app.formatting import distinct_titles, markdown, shortened
from app.services import run_colours
from app.state.session import session
from app.state.widgets import map_widget_key, set_first_value
from lvmcore.prediction.label_columns import label_columns
from lvmcore.projection import LatentProjection

__all__ = ["map_controls"]

_MEAN = -1  # option of the mean over columns, among their positions
#: Widths of the controls in their line: those of the axes, and the others.
_OF_AXES, _OTHERS = (1.05, 0.95), (1.75, 1.7, 1.6, 1.3, 1.4)


def map_controls(fitted_map: FittedMap) -> MapChoices:
    """Draw the controls above the map, record the view that they say, and return their values."""
    options = map_options(fitted_map)
    open_view(fitted_map, options)
    of_axes = (sum(_OF_AXES),) if shows_best_view(fitted_map) else _OF_AXES
    columns = st.columns((*of_axes, *_OTHERS), gap="small", vertical_alignment="bottom")
    by, behind, of, ellipse, more = columns[len(of_axes) :]
    axes = choose_view(fitted_map, columns[: len(of_axes)])
    colour = by.selectbox(
        "Colour",
        list(options.colours),
        format_func=options.colours.__getitem__,
        key=map_widget_key(fitted_map, "colour"),
        help="The label or column of the row colours.",
    )
    set_first_value(map_widget_key(fitted_map, "behind"), options.new.background)
    background = behind.selectbox(
        "Background",
        [NO_BACKGROUND, *BACKGROUNDS],
        format_func=lambda name: _background_title(options, name),
        key=map_widget_key(fitted_map, "behind"),
        help="A quantity of the model at every point of the map.",
    )
    ellipses = False
    if not is_line(axes):
        set_first_value(map_widget_key(fitted_map, "ellipses"), options.new.ellipses)
        ellipses = ellipse.toggle(
            "Ellipses",
            key=map_widget_key(fitted_map, "ellipses"),
            help=f"Posterior of each row, {canvas_scene.ELLIPSE_SD:g} sd."
            if options.ellipses
            else f"{fitted_map.model.title} gives each row a point without a posterior variance.",
            disabled=not options.ellipses,
        )
    with more:
        appearance = appearance_controls(fitted_map, options)
    details = appearance.details
    with details:
        _colour_choices(fitted_map, colour)
    heatmap = _heatmap_request(fitted_map, axes, background, of, details)
    contours = False
    if heatmap is not None:
        key = map_widget_key(fitted_map, contours_name(background))
        set_first_value(key, has_contours(background))
        contours = details.toggle(
            "Contours", key=key, help="Lines of equal value of the background, at round numbers."
        )
    record_view(fitted_map, options)
    selection = session.selection[fitted_map.run]
    return MapChoices(
        axes,
        colour or None,
        heatmap,
        ellipses,
        appearance.inducing,
        selection,
        session.is_dark,
        appearance.size,
        appearance.shape,
        appearance.held_out,
        contours,
        appearance.group_labels,
        appearance.pictures,
    )


def _colour_choices(fitted_map: FittedMap, colour: str) -> None:
    """Draw the choice of the colours of the column; nothing where no column gives the colour."""
    if colour in ("", BY_DISAGREEMENT, BY_RESIDUAL):
        return
    column = coloured_column(fitted_map.dataset, colour)
    box = st.expander(
        f"Colours of {markdown(shortened(column, 30))}",
        on_change="rerun",
        key=map_widget_key(fitted_map, f"colours {column}"),
    )
    if box.open:
        with box:
            colouring = run_colours.row_colouring(fitted_map.run, fitted_map.dataset, column)
            colour_choices(fitted_map, column, colouring)


def _background_title(options: MapOptions, name: str) -> str:
    """Name of a heatmap, with what it needs and the model lacks."""
    if name == NO_BACKGROUND or name in options.drawn:
        return name
    return f"{name} (needs {'decoding' if name in OF_COLUMNS else 'labels'})"


def _heatmap_request(
    fitted_map: FittedMap,
    axes: View,
    background: str,
    control: DeltaGenerator,
    details: DeltaGenerator,
) -> HeatmapRequest | None:
    """Draw the column or class of a heatmap and its details, and return the request."""
    column = label = None
    path, noise = 0, True
    if background == NO_BACKGROUND:
        return None
    kind: Kind = BACKGROUNDS[background]
    if background in OF_COLUMNS and not fitted_map.model.capabilities.decoding:
        quantity = {"sd": "sd", "mean": "decoded mean"}.get(kind, "magnification")
        st.caption(
            f"{markdown(fitted_map.model.title)} cannot decode latent points, so it has no "
            f"{quantity}. Fit a model that can, such as the Bayesian GPLVM."
        )
        return None
    if background == OF_ONE_COLUMN:
        names = fitted_map.dataset.feature_names
        titles = distinct_titles(["all columns", *(shortened(name) for name in names)])
        column = control.selectbox(
            "Decoded column",
            [_MEAN, *range(len(names))],
            format_func=lambda d: titles[0 if d == _MEAN else d + 1],
            key=map_widget_key(fitted_map, "column"),
            help="The column whose sd the background shows.",
        )
        column = None if column == _MEAN else column
        noise = details.toggle(
            "Noise",
            key=map_widget_key(fitted_map, "noise"),
            help="Adds the noise of a new observation.",
        )
    elif background == DECODED_MEAN:
        names = fitted_map.dataset.feature_names
        titles = distinct_titles(shortened(name) for name in names)
        column = control.selectbox(
            "Decoded column",
            range(len(names)),
            format_func=titles.__getitem__,
            key=map_widget_key(fitted_map, "mean column"),
            help="The column that the model decodes at every point of the background.",
        )
    elif kind == "magnification":
        pass
    elif fitted_map.model.capabilities.labels == "none":
        st.caption(
            f"{markdown(fitted_map.model.title)} does not use labels. Class probabilities need a "
            "model that learns from labels, such as LDGD."
        )
        return None
    else:
        path, label = _class(fitted_map, control, background)
    with details:
        fixed = _fixed_dimensions(fitted_map, axes)
    return HeatmapRequest(kind, axes, fixed, column=column, noise=noise, label=label, path=path)


def _class(
    fitted_map: FittedMap, control: DeltaGenerator, background: str
) -> tuple[int, int | None]:
    """Choice of a class, or of a label column for a heatmap of all its classes.

    Returns:
        The label column and the class, by their positions.
    """
    columns, whole = label_columns(fitted_map.model), background in OF_LABEL_COLUMNS
    if whole:
        options: list[tuple[int, int | None]] = [(column.place, None) for column in columns]
        titles = [shortened(column.name) for column in columns]
    else:
        options = [(c.place, k) for c in columns for k in range(len(c.classes))]
        titles = [
            f"{shortened(c.name)}: {shortened(name)}" if c.several else shortened(name)
            for c in columns
            for name in c.classes
        ]
    if len(options) == 1:
        return options[0]
    titles = distinct_titles(titles)
    position = control.selectbox(
        "Labels" if whole else "Class",
        range(len(options)),
        format_func=titles.__getitem__,
        key=label_key(fitted_map, background),
        help="The label column or the class of the background.",
    )
    return options[position]


def _fixed_dimensions(fitted_map: FittedMap, axes: View) -> tuple[float, ...]:
    """Values of the dimensions that the map does not show (0 on its own axes)."""
    centre = origin(axes, fitted_map.dimensions)
    if len(centre) < 3:
        return centre
    projected = isinstance(axes, LatentProjection)
    key = fixed_key(fitted_map, shown_axes(axes))
    first = "the mean" if projected else "0"
    set_first_value(key, first)
    at = st.segmented_control(
        "Other directions at" if projected else "Other dimensions at",
        [first, AT_POINT],
        required=True,
        key=key,
        help="The mean of the rows, or the last clicked point."
        if projected
        else "0 is the prior mean; the point is the last clicked point.",
    )
    point = session.point[fitted_map.run]
    if at == first or point is None:
        return centre
    return latent_position(point.latent, axes, 0.0, 0.0)
