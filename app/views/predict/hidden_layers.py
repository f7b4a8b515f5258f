"""The rows by two units of a hidden layer."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.analysis.map.row_colours import Colouring, NumericColours, group_of_rows, row_colours
from app.figures import latent_map, row_traces
from app.formatting import count, markdown, shortened
from app.services import prediction
from app.state.session import session
from app.views.predict.prediction_charts import (
    FIGURE_HEIGHT,
    MOST_DRAWN,
    SEED,
    PredictionRun,
    cell_text,
)

__all__ = ["hidden_layer_map"]

_UNIT = re.compile(r"layer (\d+) unit (\d+)")
_Colour = Literal["target", "error", "uncertainty"]
#: The vertical axis of a layer with a single unit.
_PREDICTED = "prediction"


def hidden_layer_map(fit: PredictionRun, frame: pd.DataFrame) -> None:
    """Draw the rows by two units of a hidden layer.

    Args:
        fit: the run.
        frame: predictions of all rows.
    """
    st.header("Hidden layers")
    units = prediction.hidden_units(fit.job.id)
    if units is None:
        st.caption(
            f"{markdown(fit.model.title)} has no hidden layer. A deep Gaussian process has hidden "
            "layers."
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
    horizontal = controls[1].selectbox(
        "Horizontal unit",
        names,
        format_func=_unit_title,
        key=fit.key("unit across", layer),
        help="A unit of the layer; units with the largest sd over the rows come first.",
    )
    vertical = controls[2].selectbox(
        "Vertical unit",
        [name for name in names if name != horizontal] or [_PREDICTED],
        format_func=_unit_title,
        key=fit.key("unit upright", layer, horizontal),
        help="Another unit; the prediction for a layer with a single unit.",
    )
    colours: list[_Colour] = ["target", "error", "uncertainty"]
    colour = controls[3].selectbox(
        "Colour",
        colours,
        key=fit.key("hidden colour"),
        help="The true value, the error of the prediction, or its uncertainty.",
    )
    predicted = frame["mean" if fit.number else "probability"]
    cells = units.assign(**{_PREDICTED: predicted})
    points = cells[[horizontal, vertical]].to_numpy(dtype=np.float64)
    _draw(fit, frame, points, _row_colours(fit, frame, colour), (horizontal, vertical))


def _unit_title(name: str) -> str:
    """Title of a unit in a selector."""
    found = _UNIT.fullmatch(name)
    return name if found is None else f"unit {found[2]}"


def _draw(
    fit: PredictionRun,
    frame: pd.DataFrame,
    points: NDArray[np.float64],
    colouring: Colouring,
    axes: tuple[str, str],
) -> None:
    drawn = subsampling.sampled_rows(len(frame), MOST_DRAWN, SEED)
    prediction_column = "mean" if fit.number else "predicted"
    some, target = frame.iloc[drawn], shortened(fit.target)
    rows = row_traces.MapRows(
        points=points[drawn],
        number=drawn,
        hover=[
            [
                f"row {shortened(row, 60)}",
                f"{target}: {cell_text(truth)}",
                f"predicted: {cell_text(guess)}",
                "held out" if held else "fitted",
            ]
            for row, truth, guess, held in zip(
                some["row_id"],
                some["truth"],
                some[prediction_column],
                some["held_out"],
                strict=True,
            )
        ],
        colouring=group_of_rows(colouring, drawn),
    )
    figure = latent_map.map_figure(rows, (0, 1), dark=session.is_dark)
    figure.update_layout(height=FIGURE_HEIGHT, margin={"t": 56})
    figure.update_xaxes(title_text=axes[0])
    figure.update_yaxes(title_text=axes[1])
    st.plotly_chart(
        figure,
        theme=None,
        key=fit.key("hidden"),
        alt=f"The rows by two units of a hidden layer, {axes[0]} and {axes[1]}",
    )
    shown = f"All {count(len(frame), 'row')}"
    if len(drawn) < len(frame):
        shown = f"{count(len(drawn), 'row')} of {count(len(frame), 'row')} (seed {SEED})"
    st.caption(
        f"{shown}, fitted and held-out. The axes are the means of the units over draws. Their "
        "scale and direction are arbitrary; only relative distances have a meaning."
    )


def _row_colours(fit: PredictionRun, frame: pd.DataFrame, colour: _Colour) -> Colouring:
    """The row colours of an option."""
    target = shortened(fit.target)
    if colour == "target":
        return row_colours(frame["truth"], target)
    if fit.number:
        error = (frame["mean"] - frame["truth"]).abs().to_numpy(dtype=np.float64)
        if colour == "error":
            return NumericColours(f"error of {target}, absolute", error)
        return NumericColours(f"sd of predicted {target}", frame["sd"].to_numpy())
    if colour == "error":
        return NumericColours("1 − probability of the true class", 1 - np.exp(frame["log_density"]))
    return NumericColours(
        "1 − probability of the predicted class", 1 - frame["probability"].to_numpy()
    )
