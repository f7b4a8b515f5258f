"""What a model of a target has made of its columns: hidden units, relevance, a slice of it."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import figures, services, state
from app.colouring import Colouring, Numbers, colouring, part_of
from app.predictions import MOST_DRAWN, SEED, Fit
from app.surfaces import MEAN, SD, Slice, columns_to_slice
from app.words import count, markdown, number, shortened, told_apart

__all__ = ["hidden_map", "relevance", "surface"]

_HEIGHT = 460
_UNIT = re.compile(r"layer (\d+) unit (\d+)")
_Look = Literal["target", "error", "uncertainty"]
#: The upright axis of a layer with a single unit.
_PREDICTED = "prediction"


# ---- hidden layers ---------------------------------------------------------------------------


def hidden_map(fit: Fit, frame: pd.DataFrame) -> None:
    """Draw the rows by two units of a hidden layer.

    Args:
        fit: the run.
        frame: what it predicted of its rows.
    """
    st.header("What a hidden layer makes of the rows")
    units = services.hidden_units(fit.job.id)
    if units is None:
        st.caption(
            f"{markdown(fit.model.title)} is a single layer: nothing stands between the columns "
            "and the target. A deep Gaussian process has layers to look at."
        )
        return
    layers: dict[int, list[str]] = {}
    for name in units.columns:
        found = _UNIT.fullmatch(str(name))
        if found is not None:
            layers.setdefault(int(found[1]), []).append(str(name))
    controls = st.columns([1, 1, 1, 1])
    layer = controls[0].selectbox(
        "Layer",
        list(layers),
        index=len(layers) - 1,
        format_func=lambda n: f"layer {n}",
        key=fit.key("layer"),
        help="Which hidden layer, counted from the columns.",
    )
    spread = {name: float(units[name].to_numpy().std()) for name in layers[layer]}
    names = sorted(spread, key=lambda name: -spread[name])
    across = controls[1].selectbox(
        "Across",
        names,
        format_func=_titled,
        key=fit.key("unit across", layer),
        help="A unit of the layer; those that differ most among the rows come first.",
    )
    upright = controls[2].selectbox(
        "Upright",
        [name for name in names if name != across] or [_PREDICTED],
        format_func=_titled,
        key=fit.key("unit upright", layer, across),
        help="Another unit; of a layer with a single one, what is predicted.",
    )
    looks: list[_Look] = ["target", "error", "uncertainty"]
    look = controls[3].selectbox(
        "Colour",
        looks,
        key=fit.key("hidden colour"),
        help="The truth, how far the prediction is off, or how unsure it is.",
    )
    predicted = frame["mean" if fit.number else "probability"]
    cells = units.assign(**{_PREDICTED: predicted})
    points = cells[[across, upright]].to_numpy(dtype=np.float64)
    _draw(fit, frame, points, _coloured(fit, frame, look), (across, upright))


def _titled(name: str) -> str:
    """What a unit is called in a selector."""
    found = _UNIT.fullmatch(name)
    return name if found is None else f"unit {found[2]}"


def _draw(
    fit: Fit,
    frame: pd.DataFrame,
    points: NDArray[np.float64],
    look: Colouring,
    axes: tuple[str, str],
) -> None:
    drawn = figures.sampled(len(frame), MOST_DRAWN, SEED)
    said = "mean" if fit.number else "predicted"
    some = frame.iloc[drawn]
    rows = figures.Rows(
        points=points[drawn],
        number=drawn,
        hover=[
            [
                f"row {row}",
                f"{fit.target}: {_cell(truth)}",
                f"predicted: {_cell(guess)}",
                "held out" if held else "fitted",
            ]
            for row, truth, guess, held in zip(
                some["row_id"], some["truth"], some[said], some["held_out"], strict=True
            )
        ],
        colouring=part_of(look, drawn),
    )
    figure = figures.map_figure(rows, (0, 1), dark=state.dark(), svg=True)
    figure.update_layout(height=_HEIGHT, margin={"t": 56})
    figure.update_xaxes(title_text=axes[0])
    figure.update_yaxes(title_text=axes[1])
    st.plotly_chart(
        figure,
        theme=None,
        key=fit.key("hidden"),
        alt=f"The rows by two units of a hidden layer, {axes[0]} and {axes[1]}",
    )
    which = f"{count(len(drawn), 'row')} of {count(len(frame), 'row')}, drawn with seed {SEED}"
    rows_told = which if len(drawn) < len(frame) else f"All {count(len(frame), 'row')}"
    st.caption(
        f"{rows_told}, fitted and held out. The axes are means of the units, averaged over draws: "
        "their scale and direction say nothing by themselves, near and far do."
    )


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else shortened(value, 60)


def _coloured(fit: Fit, frame: pd.DataFrame, look: _Look) -> Colouring:
    """What colours the rows."""
    if look == "target":
        return colouring(frame["truth"], fit.target)
    if fit.number:
        error = (frame["mean"] - frame["truth"]).abs().to_numpy(dtype=np.float64)
        if look == "error":
            return Numbers(f"error of {fit.target}, absolute", error)
        return Numbers(f"sd of predicted {fit.target}", frame["sd"].to_numpy())
    if look == "error":
        return Numbers("1 − probability of the true class", 1 - np.exp(frame["log_density"]))
    return Numbers("1 − probability of the predicted class", 1 - frame["probability"].to_numpy())


# ---- the columns -----------------------------------------------------------------------------


def _varying(fit: Fit) -> list[str]:
    """Names of the columns that vary, which the first layer sees."""
    names = [str(name) for name in fit.model.feature_names_in_]
    constant = fit.model.standardiser_.constant.tolist()
    return [name for name, gone in zip(names, constant, strict=True) if not gone]


def relevance(fit: Fit) -> None:
    """Draw how much each input of a layer matters.

    Args:
        fit: the run.
    """
    st.header("Which inputs matter")
    layers = list(fit.model.relevance_)
    layer = layers[0]
    if len(layers) > 1:
        titles = {
            name: f"{'hidden layer' if name != layers[-1] else 'layer to the target,'} {n}"
            for n, name in enumerate(layers, start=1)
        }
        layer = st.selectbox(
            "Relevance of the inputs of",
            layers,
            format_func=titles.__getitem__,
            key=fit.key("relevance layer"),
            help="The first layer sees the columns, every other one the units before it.",
        )
    share = np.asarray(fit.model.relevance_[layer], dtype=np.float64)
    names = _varying(fit) if layer == layers[0] else [f"unit {k + 1}" for k in range(len(share))]
    st.plotly_chart(
        figures.input_relevance_figure(names, share / share.sum(), dark=state.dark()),
        theme=None,
        key=fit.key("relevance"),
        alt="Share of relevance of each input of the layer",
    )
    st.caption(
        "How fast the layer's functions change along each input, standardised: α = 1/ℓ² of its "
        "kernel; through a network the mean over rows of its slopes² by 1/ℓ² of the features."
        + (" The 20 most relevant are drawn." if len(share) > 20 else "")
    )


# ---- a slice ---------------------------------------------------------------------------------


def surface(fit: Fit) -> None:
    """Draw what is predicted over two columns, the others at their median.

    Args:
        fit: the run.
    """
    st.header("A slice of the prediction")
    first = np.asarray(fit.model.relevance_["layer1"], dtype=np.float64)
    columns = columns_to_slice(fit.rows, first, _varying(fit))
    if len(columns) < 2:
        st.caption("A slice runs along two columns with more than two values, and there are fewer.")
        return
    told = dict(zip(columns, told_apart(shortened(name) for name in columns), strict=True))
    across_at, upright_at = st.columns(2)
    across = across_at.selectbox(
        "Along",
        columns,
        format_func=told.__getitem__,
        key=fit.key("slice across"),
        help="The column on the horizontal axis; the most relevant ones come first.",
    )
    others = [name for name in columns if name != across]
    upright = upright_at.selectbox(
        "And along",
        others,
        format_func=told.__getitem__,
        key=fit.key("slice upright", across),
        help="The column on the vertical axis.",
    )
    classes = [] if fit.number else [str(name) for name in fit.model.classes_]
    show = st.selectbox(
        "Show",
        [MEAN, SD] if fit.number else classes,
        format_func=shortened if fit.number else lambda name: f"probability of {shortened(name)}",
        key=fit.key("slice show"),
        help="What the colours show.",
    )
    unit = shortened(fit.target, 24) if fit.number else "0 to 1"
    grid = services.surface(fit.job.id, Slice(across, upright, show, unit))
    learned = np.flatnonzero(~fit.rows.held_out)
    drawn = learned[figures.sampled(len(learned), MOST_DRAWN // 10, SEED)]
    points = fit.rows.X[[across, upright]].to_numpy()[drawn]
    ids = fit.rows.dataset.row_ids
    rows = figures.Rows(
        points=points,
        number=drawn,
        hover=[[f"row {ids[i]}", f"{fit.target}: {_cell(fit.rows.y[i])}"] for i in drawn],
        size=np.full(len(drawn), 5.0),
    )
    figure = figures.map_figure(rows, (0, 1), dark=state.dark(), grid=grid, svg=True)
    figure.update_layout(height=_HEIGHT - 40, margin={"t": 12})
    figure.update_xaxes(title_text=figures.escape(shortened(across)))
    figure.update_yaxes(title_text=figures.escape(shortened(upright)))
    st.plotly_chart(
        figure,
        theme=None,
        key=fit.key("surface"),
        alt="What is predicted over two columns, the others at their median",
    )
    st.caption(
        f"Every other column at its median of the rows of the fit. The points are "
        f"{count(len(drawn), 'row')} of these, which differ in the other columns too."
    )
