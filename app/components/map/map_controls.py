"""The controls above the map: axes, colour, background, ellipses, inducing inputs."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import HeatmapRequest, Kind, MapChoices
from app.analysis.map.map_axes import View, is_line, latent_position, origin
from app.components.map.colour_choices import colour_choices
from app.components.map.measured_colours import (
    BY_DISAGREEMENT,
    BY_RESIDUAL,
    DISAGREEMENT_TITLE,
    RESIDUAL_TITLE,
    disagreement_colour,
)
from app.components.map.row_appearance import appearance_controls
from app.components.map.view_choice import choose_view, shows_best_view
from app.figures import canvas_scene
from app.formatting import distinct_titles, markdown, shortened
from app.services import fitted_maps
from app.state.session import session
from app.state.widgets import map_widget_key
from lvmcore.data import Dataset
from lvmcore.prediction.label_columns import label_columns
from lvmcore.projection import LatentProjection

__all__ = [
    "LABEL",
    "colour_options",
    "coloured_column",
    "label_colour",
    "map_controls",
]

#: Most rows for which ellipses are on by default.
MOST_DEFAULT_ELLIPSES = 200

#: Colour option of the first label column.
LABEL = "label"
_ONE_COLOUR = "one colour"
_NOTHING = "nothing"
_MEAN = -1  # option of the mean over columns, among their positions
_BACKGROUNDS: dict[str, Kind] = {
    "predictive sd": "sd",
    "decoded mean": "mean",
    "magnification": "magnification",
    "class probability": "probability",
    "class entropy": "entropy",
    "class probability variance": "probability variance",
}
#: Widths of the controls in their line: those of the axes, and the others.
_OF_AXES, _OTHERS = (1.05, 0.95), (1.75, 1.7, 1.6, 1.3, 1.4)
#: Heatmaps of the columns; the others are of the classes.
_OF_COLUMNS = ("sd", "mean", "magnification")


def map_controls(fitted_map: FittedMap) -> MapChoices:
    """Draw the controls above the map, and return their values."""
    of_axes = (sum(_OF_AXES),) if shows_best_view(fitted_map) else _OF_AXES
    columns = st.columns((*of_axes, *_OTHERS), gap="small", vertical_alignment="bottom")
    by, behind, of, ellipse, more = columns[len(of_axes) :]
    axes = choose_view(fitted_map, columns[: len(of_axes)])
    options = colour_options(fitted_map.dataset)
    if disagreement_colour(fitted_map.run) is not None:
        options[BY_DISAGREEMENT] = DISAGREEMENT_TITLE
    if fitted_map.model.capabilities.decoding:
        options[BY_RESIDUAL] = RESIDUAL_TITLE
    colour = by.selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=map_widget_key(fitted_map, "colour"),
        help="The label or column of the row colours.",
    )
    background = behind.selectbox(
        "Background",
        [_NOTHING, *_BACKGROUNDS],
        index=int(fitted_map.model.capabilities.decoding),
        format_func=lambda name: _background_title(fitted_map, name),
        key=map_widget_key(fitted_map, "behind"),
        help="A quantity of the model at every point of the map.",
    )
    ellipses = False
    if not is_line(axes):
        known = fitted_map.model.capabilities.uncertainty
        ellipses = ellipse.toggle(
            "Ellipses",
            known and len(fitted_map.mean) <= MOST_DEFAULT_ELLIPSES,
            key=map_widget_key(fitted_map, "ellipses"),
            help=f"Posterior of each row, {canvas_scene.ELLIPSE_SD:g} sd."
            if known
            else f"{fitted_map.model.title} gives each row a point without a posterior variance.",
            disabled=not known,
        )
    with more:
        size, shape, inducing, held_out, details = appearance_controls(
            fitted_map, inducing=not is_line(axes)
        )
    with details:
        _colour_choices(fitted_map, colour)
    kind = None if background == _NOTHING else _BACKGROUNDS[background]
    heatmap = _heatmap_request(fitted_map, axes, kind, of, details)
    contours = False
    if heatmap is not None:
        contours = details.toggle(
            "Contours",
            kind == "mean",
            key=map_widget_key(fitted_map, f"contours {kind}"),
            help="Lines of equal value of the background, at round numbers.",
        )
    selection = session.selection[fitted_map.run]
    return MapChoices(
        axes,
        colour or None,
        heatmap,
        ellipses,
        inducing,
        selection,
        session.is_dark,
        size,
        shape,
        held_out,
        contours,
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
            colouring = fitted_maps.row_colouring(fitted_map.run, fitted_map.dataset, column)
            colour_choices(fitted_map, column, colouring)


def colour_options(dataset: Dataset) -> dict[str, str]:
    """Options for the row colours with their titles; labels come first."""
    options = {}
    for label in dataset.label_columns:
        options[label_colour(dataset, label)] = f"label: {shortened(label)}"
    options |= {f"column {name}": shortened(name) for name in map(str, dataset.frame.columns)}
    one_colour = {"": _ONE_COLOUR}
    ordered = {**options, **one_colour} if dataset.labels is not None else {**one_colour, **options}
    return dict(zip(ordered, distinct_titles(ordered.values()), strict=True))


def label_colour(dataset: Dataset, label: str) -> str:
    """Colour option of a label column; that of the first one does not hold its name."""
    return LABEL if label == dataset.label_name else f"{LABEL} {label}"


def coloured_column(dataset: Dataset, colour: str) -> str:
    """Name of the column of an option of ``colour_options``."""
    for label in dataset.label_columns:
        if colour == label_colour(dataset, label):
            return label
    return colour.removeprefix("column ")


def _background_title(fitted_map: FittedMap, name: str) -> str:
    """Name of a heatmap, with what it needs and the model lacks."""
    can = fitted_map.model.capabilities
    kind = _BACKGROUNDS.get(name)
    if kind in _OF_COLUMNS and not can.decoding:
        return f"{name} (needs decoding)"
    if kind is not None and kind not in _OF_COLUMNS and can.labels == "none":
        return f"{name} (needs labels)"
    return name


def _heatmap_request(
    fitted_map: FittedMap,
    axes: View,
    kind: Kind | None,
    control: DeltaGenerator,
    details: DeltaGenerator,
) -> HeatmapRequest | None:
    """Draw the column or class of a heatmap and its details, and return the request."""
    column = label = None
    path, noise = 0, True
    if kind is None:
        return None
    if kind in _OF_COLUMNS and not fitted_map.model.capabilities.decoding:
        quantity = {"sd": "sd", "mean": "decoded mean"}.get(kind, "magnification")
        st.caption(
            f"{markdown(fitted_map.model.title)} cannot decode latent points, so it has no "
            f"{quantity}. Fit a model that can, such as the Bayesian GPLVM."
        )
        return None
    if kind == "sd":
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
    elif kind == "mean":
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
        path, label = _class(fitted_map, control, whole=kind == "entropy")
    with details:
        fixed = _fixed_dimensions(fitted_map, axes)
    return HeatmapRequest(kind, axes, fixed, column=column, noise=noise, label=label, path=path)


def _class(
    fitted_map: FittedMap, control: DeltaGenerator, *, whole: bool
) -> tuple[int, int | None]:
    """Choice of a class, or of a label column for a heatmap of all its classes.

    Returns:
        The label column and the class, by their positions.
    """
    columns = label_columns(fitted_map.model)
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
        key=map_widget_key(fitted_map, "column of classes" if whole else "class"),
        help="The label column or the class of the background.",
    )
    return options[position]


def _fixed_dimensions(fitted_map: FittedMap, axes: View) -> tuple[float, ...]:
    """Values of the dimensions that the map does not show (0 on its own axes)."""
    centre = origin(axes, fitted_map.dimensions)
    if len(centre) < 3:
        return centre
    projected = isinstance(axes, LatentProjection)
    at = st.segmented_control(
        "Other directions at" if projected else "Other dimensions at",
        [first := "the mean" if projected else "0", "the point"],
        default=first,
        required=True,
        key=map_widget_key(fitted_map, "held beside the view" if projected else "held"),
        help="The mean of the rows, or the last clicked point."
        if projected
        else "0 is the prior mean; the point is the last clicked point.",
    )
    point = session.point[fitted_map.run]
    if at == first or point is None:
        return centre
    return latent_position(point.latent, axes, 0.0, 0.0)
