"""The controls above the map: axes, colour, background, ellipses, inducing inputs."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import HeatmapRequest, Kind, MapChoices
from app.analysis.map.map_axes import Axes, axes_after_click, latent_position
from app.components.map.measured_colours import (
    BY_DISAGREEMENT,
    BY_RESIDUAL,
    DISAGREEMENT_TITLE,
    RESIDUAL_TITLE,
    disagreement_colour,
)
from app.components.map.row_appearance import appearance_controls
from app.figures import canvas_scene
from app.formatting import distinct_titles, markdown, shortened
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.data import Dataset
from lvmcore.prediction.label_columns import label_columns
from lvmcore.relevance import leading_dimensions

__all__ = [
    "LABEL",
    "choose_axes",
    "colour_options",
    "label_colour",
    "map_controls",
    "show_dimension",
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
    "magnification": "magnification",
    "class probability": "probability",
    "class entropy": "entropy",
    "class probability variance": "probability variance",
}
#: Widths of the controls in their line.
_WIDTHS = (1.05, 0.95, 1.75, 1.7, 1.6, 1.3, 1.4)
#: Heatmaps of the columns; the others are of the classes.
_OF_COLUMNS = ("sd", "magnification")


def map_controls(fitted_map: FittedMap) -> MapChoices:
    """Draw the controls above the map, and return their values."""
    horizontal, vertical, by, behind, of, ellipse, more = st.columns(
        _WIDTHS, gap="small", vertical_alignment="bottom"
    )
    axes = choose_axes(fitted_map, horizontal, vertical)
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
    if fitted_map.model.capabilities.uncertainty and axes[1] is not None:
        ellipses = ellipse.toggle(
            "Ellipses",
            len(fitted_map.mean) <= MOST_DEFAULT_ELLIPSES,
            key=map_widget_key(fitted_map, "ellipses"),
            help=f"Posterior of each row, {canvas_scene.ELLIPSE_SD:g} sd.",
        )
    with more:
        size, shape, inducing, details = appearance_controls(
            fitted_map, inducing=axes[1] is not None
        )
    kind = None if background == _NOTHING else _BACKGROUNDS[background]
    heatmap = _heatmap_request(fitted_map, axes, kind, of, details)
    selection = session.selection[fitted_map.run]
    return MapChoices(
        axes, colour or None, heatmap, ellipses, inducing, selection, session.is_dark, size, shape
    )


def choose_axes(
    fitted_map: FittedMap, horizontal: DeltaGenerator, vertical: DeltaGenerator
) -> Axes:
    """Draw the choice of the two displayed dimensions, and return them."""
    axes = _axes(fitted_map)
    if axes[1] is not None:
        for column, name, title in ((horizontal, "x", "Horizontal"), (vertical, "y", "Vertical")):
            column.selectbox(
                title,
                list(range(fitted_map.dimensions)),
                format_func=lambda q: str(q + 1),
                key=map_widget_key(fitted_map, name),
                on_change=_swap_equal_axes,
                args=(fitted_map, name, axes),
                help="The latent dimension on this axis.",
            )
    return axes


def _axes(fitted_map: FittedMap) -> Axes:
    """The chosen axes; the most relevant dimensions by default."""
    if fitted_map.dimensions == 1:
        return 0, None
    default = leading_dimensions(fitted_map.model.variance_shares())
    found = []
    for name, dimension in zip(("x", "y"), default, strict=True):
        if widget_value(map_widget_key(fitted_map, name)) is None:
            set_widget_value(map_widget_key(fitted_map, name), dimension)
        found.append(int(widget_value(map_widget_key(fitted_map, name))))
    return found[0], found[1]


def _swap_equal_axes(fitted_map: FittedMap, changed: str, before: Axes) -> None:
    """Swap the axes if both show the same dimension."""
    other = "y" if changed == "x" else "x"
    if widget_value(map_widget_key(fitted_map, "x")) == widget_value(
        map_widget_key(fitted_map, "y")
    ):
        set_widget_value(map_widget_key(fitted_map, other), before[0 if changed == "x" else 1])


def show_dimension(fitted_map: FittedMap, axes: Axes, dimension: int) -> None:
    """Show a latent dimension on the horizontal axis, after a click on its relevance bar."""
    first, second = axes_after_click(axes, dimension)
    set_widget_value(map_widget_key(fitted_map, "x"), first)
    if second is not None:
        set_widget_value(map_widget_key(fitted_map, "y"), second)


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
    axes: Axes,
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
        quantity = "sd" if kind == "sd" else "magnification"
        st.caption(
            f"{markdown(fitted_map.model.title)} cannot decode latent points, so it has no "
            f"{quantity}. Fit a model that can, such as the Bayesian GPLVM."
        )
        return None
    if kind == "sd":
        names = fitted_map.dataset.feature_names
        titles = distinct_titles(["all columns", *(shortened(name) for name in names)])
        column = control.selectbox(
            "of",
            [_MEAN, *range(len(names))],
            format_func=lambda d: titles[0 if d == _MEAN else d + 1],
            key=map_widget_key(fitted_map, "column"),
            help="The column or class of the background.",
        )
        column = None if column == _MEAN else column
        noise = details.toggle(
            "Noise",
            key=map_widget_key(fitted_map, "noise"),
            help="Adds the noise of a new observation.",
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
        "of",
        range(len(options)),
        format_func=titles.__getitem__,
        key=map_widget_key(fitted_map, "column of classes" if whole else "class"),
        help="The column or class of the background.",
    )
    return options[position]


def _fixed_dimensions(fitted_map: FittedMap, axes: Axes) -> tuple[float, ...]:
    """Values of the dimensions that the map does not show (0 on its own axes)."""
    origin = (0.0,) * fitted_map.dimensions
    if len(origin) < 3:
        return origin
    at = st.segmented_control(
        "Other dimensions at",
        ["0", "the point"],
        default="0",
        required=True,
        key=map_widget_key(fitted_map, "held"),
        help="0 is the prior mean; the point is the last clicked point.",
    )
    point = session.point[fitted_map.run]
    if at == "0" or point is None:
        return origin
    return latent_position(point.latent, axes, 0.0, 0.0)
