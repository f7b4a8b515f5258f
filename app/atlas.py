"""The controls above the map: axes, colour, what is behind the rows, ellipses, inducing inputs."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import agreeing, appearance, figures, fitting, state
from app.axes import Axes, axes_after_click, place
from app.exploring import Ask, Choices, Kind
from app.opened import Opened
from app.words import markdown, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.relevance import leading_dimensions
from lvmcore.runs.labels import label_columns

__all__ = ["LABEL", "choose_axes", "colours", "controls", "label_colour", "put_on_axis"]

#: Up to how many rows ellipses are drawn unasked.
ELLIPSES_UNASKED = 200

#: The colour that stands for the label, as the model saw it.
LABEL = "label"
_ONE_COLOUR = "one colour"
_NOTHING = "nothing"
_MEAN = -1  # stands for the mean over columns, among their positions
_BEHIND: dict[str, Kind] = {
    "predictive sd": "sd",
    "magnification": "magnification",
    "class probability": "probability",
    "class entropy": "entropy",
    "class probability variance": "probability variance",
}
#: Heatmaps about the columns; the others are about the classes.
_OF_COLUMNS = ("sd", "magnification")


def controls(opened: Opened) -> Choices:
    """Draw the controls above the map, and return what they say."""
    horizontal, vertical, *others = st.columns([1.05, 0.85, 1.55, 1.48, 1.4], gap="small")
    axes = choose_axes(opened, horizontal, vertical)
    options = colours(opened.dataset)
    if agreeing.look(opened.run) is not None:
        options[agreeing.BY_STARTS] = agreeing.TITLE
    if opened.model.capabilities.decoding:
        options[fitting.BY_RESIDUAL] = fitting.TITLE
    colour = others[0].selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=opened.key("colour"),
        help="The label or column that colours the rows.",
    )
    behind = others[1].selectbox(
        "Behind",
        [_NOTHING, *_BEHIND],
        index=int(opened.model.capabilities.decoding),
        format_func=lambda name: _behind(opened, name),
        key=opened.key("behind"),
        help="What the model says of every place of the map, drawn behind the rows.",
    )
    ellipses = False
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        ask = _ask(opened, axes, None if behind == _NOTHING else _BEHIND[behind], others[2])
        if opened.model.capabilities.uncertainty and axes[1] is not None:
            ellipses = st.toggle(
                "Ellipses",
                len(opened.mean) <= ELLIPSES_UNASKED,
                key=opened.key("ellipses"),
                help=f"Posterior of each row, {figures.ELLIPSE_SD:g} sd.",
            )
        size, shape, inducing = appearance.chooser(opened, inducing=axes[1] is not None)
    selection = state.selection(opened.run)
    return Choices(
        axes, colour or None, ask, ellipses, inducing, selection, state.dark(), size, shape
    )


def choose_axes(opened: Opened, horizontal: DeltaGenerator, vertical: DeltaGenerator) -> Axes:
    """Draw the choice of the two dimensions, and return them."""
    axes = _axes(opened)
    if axes[1] is not None:
        for column, name, title in ((horizontal, "x", "Horizontal"), (vertical, "y", "Vertical")):
            column.selectbox(
                title,
                list(range(opened.dimensions)),
                format_func=lambda q: str(q + 1),
                key=opened.key(name),
                on_change=_keep_apart,
                args=(opened, name, axes),
                help="The latent dimension on this axis.",
            )
    return axes


def _axes(opened: Opened) -> Axes:
    """The axes: as chosen, or else the most relevant dimensions."""
    if opened.dimensions == 1:
        return 0, None
    default = leading_dimensions(opened.model.relevance_)
    found = []
    for name, dimension in zip(("x", "y"), default, strict=True):
        if state.value(opened.key(name)) is None:
            state.set_value(opened.key(name), dimension)
        found.append(int(state.value(opened.key(name))))
    return found[0], found[1]


def _keep_apart(opened: Opened, changed: str, before: Axes) -> None:
    """Two axes never show the same dimension: the other one takes what this one showed."""
    other = "y" if changed == "x" else "x"
    if state.value(opened.key("x")) == state.value(opened.key("y")):
        state.set_value(opened.key(other), before[0 if changed == "x" else 1])


def put_on_axis(opened: Opened, axes: Axes, dimension: int) -> None:
    """Put a latent dimension on the horizontal axis (a relevance bar was clicked)."""
    first, second = axes_after_click(axes, dimension)
    state.set_value(opened.key("x"), first)
    if second is not None:
        state.set_value(opened.key("y"), second)


def colours(dataset: Dataset) -> dict[str, str]:
    """What rows can be coloured by, with its title; the label first where there is one."""
    options = {}
    for label in dataset.label_columns:
        options[label_colour(dataset, label)] = f"label: {shortened(label)}"
    options |= {f"column {name}": shortened(name) for name in map(str, dataset.frame.columns)}
    nothing = {"": _ONE_COLOUR}
    found = {**options, **nothing} if dataset.labels is not None else {**nothing, **options}
    return dict(zip(found, told_apart(found.values()), strict=True))


def label_colour(dataset: Dataset, label: str) -> str:
    """What stands for a label column among the colours; the first one's name is not in it."""
    return LABEL if label == dataset.label_name else f"{LABEL} {label}"


def _behind(opened: Opened, name: str) -> str:
    """A heatmap's name, with what it lacks."""
    can = opened.model.capabilities
    kind = _BEHIND.get(name)
    if kind in _OF_COLUMNS and not can.decoding:
        return f"{name} (needs decoding)"
    if kind is not None and kind not in _OF_COLUMNS and can.labels == "none":
        return f"{name} (needs labels)"
    return name


def _ask(opened: Opened, axes: Axes, kind: Kind | None, beside: DeltaGenerator) -> Ask | None:
    """Draw what the heatmap behind needs to know, and return what to compute."""
    column = label = None
    path, noise = 0, True
    if kind is None:
        return None
    if kind in _OF_COLUMNS and not opened.model.capabilities.decoding:
        what = "sd" if kind == "sd" else "magnification"
        st.caption(
            f"{markdown(opened.model.title)} turns no place of the map back into a row, so there "
            f"is no {what} to draw: that needs a model that decodes, such as the Bayesian GPLVM."
        )
        return None
    if kind == "sd":
        names = opened.dataset.feature_names
        titles = told_apart(["all columns", *(shortened(name) for name in names)])
        column = beside.selectbox(
            "of",
            [_MEAN, *range(len(names))],
            format_func=lambda d: titles[0 if d == _MEAN else d + 1],
            key=opened.key("column"),
            help="Which column or class the picture behind the rows is about.",
        )
        column = None if column == _MEAN else column
        noise = st.toggle(
            "Noise", key=opened.key("noise"), help="Add the noise of a new observation."
        )
    elif kind == "magnification":
        pass
    elif opened.model.capabilities.labels == "none":
        st.caption(
            f"{markdown(opened.model.title)} knows no classes: heatmaps about them need a model "
            "that learns from labels, such as LDGD."
        )
        return None
    else:
        path, label = _class(opened, beside, whole=kind == "entropy")
    held = _held(opened, axes)
    return Ask(kind, axes, held, column=column, noise=noise, label=label, path=path)


def _class(opened: Opened, beside: DeltaGenerator, *, whole: bool) -> tuple[int, int | None]:
    """Ask for a class, or for a label column where it is about all of its classes.

    Returns:
        The label column and the class, by their positions.
    """
    columns = label_columns(opened.model)
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
    found = told_apart(titles)
    place = beside.selectbox(
        "of",
        range(len(options)),
        format_func=found.__getitem__,
        key=opened.key("column of classes" if whole else "class"),
        help="Which column or class the picture behind the rows is about.",
    )
    return options[place]


def _held(opened: Opened, axes: Axes) -> tuple[float, ...]:
    """Where the dimensions that the map does not show are held (0 on its own axes)."""
    held = (0.0,) * opened.dimensions
    if len(held) < 3:
        return held
    at = st.segmented_control(
        "Other dimensions at",
        ["0", "the point"],
        default="0",
        required=True,
        key=opened.key("held"),
        help="0 is the prior mean; the point is the one that was clicked last.",
    )
    point = state.point(opened.run)
    if at == "0" or point is None:
        return held
    return place(point.latent, axes, 0.0, 0.0)
