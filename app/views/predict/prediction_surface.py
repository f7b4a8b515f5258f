"""Relevance of the inputs of a predictor, and its prediction over two columns."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.analysis.map import subsampling
from app.analysis.tables.prediction_slices import MEAN, SD, PredictionSlice, sliceable_columns
from app.figures import latent_map, row_traces, theme
from app.figures.date_axis import date_ticks
from app.formatting import count, distinct_titles, shortened
from app.services import prediction
from app.state.session import session
from app.views.predict.figures import input_relevance_figure
from app.views.predict.prediction_charts import (
    MOST_DRAWN,
    SEED,
    PredictionRun,
    cell_text,
)

__all__ = ["TYPICAL", "input_relevance_panel", "prediction_slice_panel", "varying_columns"]


#: Where the other columns are.
TYPICAL = (
    "The other columns are at their median in the rows of the fit, or at their mode where they "
    "have two values or are categories."
)
_SLICE_HEIGHT = 360
_EFFECT = "effect"
_ABOUT_EFFECT = (
    "How much the prediction changes if a row gets the column's value of another row (total Sobol "
    "effect, Jansen 1999), through all layers; as shares of the sum. It is the model's use of a "
    "column: of columns that tell the same, one may have the whole share."
)
_ABOUT_WEIGHTS = (
    "Sensitivity of the layer's functions to each standardised input: α = 1/ℓ² of the kernel; "
    "through a network, the mean over rows of its squared slopes times 1/ℓ² of the features. "
    "It under-rates columns with a linear effect."
)


def varying_columns(fit: PredictionRun) -> list[str]:
    """Names of the columns that vary, the inputs of the first layer.

    Args:
        fit: the run.
    """
    names = [str(name) for name in fit.model.feature_names_in_]
    constant = fit.model.standardiser_.constant.tolist()
    return [name for name, is_constant in zip(names, constant, strict=True) if not is_constant]


def input_relevance_panel(fit: PredictionRun) -> None:
    """Draw the share of the prediction's variance of each column, or the weights of a kernel.

    Args:
        fit: the run.
    """
    layers = list(fit.model.relevance_)
    last = layers[-1]
    part = "kernel" if "kernel" in fit.model.get_params() else "weights"
    titles = {_EFFECT: "the prediction"} | {
        name: f"{part} of {'the layer to the target,' if name == last else 'hidden layer'} {n}"
        for n, name in enumerate(layers, start=1)
    }
    shown = st.selectbox(
        "Relevance of the inputs of",
        list(titles),
        format_func=titles.__getitem__,
        key=fit.key("relevance layer"),
        help="The prediction goes through all layers; a later layer's inputs are the units before.",
    )
    if shown == _EFFECT:
        share, of = prediction.column_effects(fit.job.id), "the prediction's variance"
    else:
        weights = np.asarray(fit.model.relevance_[shown], dtype=np.float64)
        share, of = weights / weights.sum(), "the layer's relevance"
    names = (
        varying_columns(fit)
        if shown in (_EFFECT, layers[0])
        else [f"unit {k + 1}" for k in range(len(share))]
    )
    st.plotly_chart(
        input_relevance_figure(names, share, of=of, dark=session.is_dark),
        theme=None,
        key=fit.key("relevance"),
        alt="Share of relevance of each input",
    )
    st.caption(
        (_ABOUT_EFFECT if shown == _EFFECT else _ABOUT_WEIGHTS)
        + (" The 20 most relevant are drawn." if len(share) > 20 else "")
    )


def _shows(fit: PredictionRun) -> dict[str, str]:
    """Titles of what a slice can show: mean and sd of a number, the probability of each class."""
    if fit.number:
        return {name: name for name in (MEAN, SD)}
    classes = [str(name) for name in fit.model.classes_]
    titles = distinct_titles(f"probability of {shortened(name)}" for name in classes)
    return dict(zip(classes, titles, strict=True))


def prediction_slice_panel(fit: PredictionRun) -> None:
    """Draw the prediction over two columns, the others at their median.

    Args:
        fit: the run.
    """
    effects = prediction.column_effects(fit.job.id)
    columns = sliceable_columns(fit.rows, effects, varying_columns(fit))
    if len(columns) < 2:
        st.caption("A slice needs two columns with more than two values.")
        return
    titles = dict(zip(columns, distinct_titles(shortened(name) for name in columns), strict=True))
    left, right, last = st.columns(3)
    across = left.selectbox(
        "Horizontal column",
        columns,
        format_func=titles.__getitem__,
        key=fit.key("slice across"),
        help="The column of the horizontal axis; the most relevant columns come first.",
    )
    others = [name for name in columns if name != across]
    upright = right.selectbox(
        "Vertical column",
        others,
        format_func=titles.__getitem__,
        key=fit.key("slice upright", across),
        help="The column of the vertical axis.",
    )
    shows = _shows(fit)
    show = last.selectbox(
        "Show",
        list(shows),
        format_func=shows.__getitem__,
        key=fit.key("slice show"),
        help="The quantity of the colours.",
    )
    unit = shortened(fit.target, 24) if fit.number else "0 to 1"
    grid = prediction.prediction_slice(fit.job.id, PredictionSlice(across, upright, show, unit))
    fitted = np.flatnonzero(~fit.rows.held_out)
    drawn = fitted[subsampling.sampled_rows(len(fitted), MOST_DRAWN // 10, SEED)]
    points = fit.rows.X[[across, upright]].to_numpy()[drawn]
    ids, target = fit.rows.dataset.row_ids, shortened(fit.target)
    rows = row_traces.MapRows(
        points=points,
        number=drawn,
        hover=[
            [f"row {shortened(ids[i], 60)}", f"{target}: {cell_text(fit.rows.y[i])}"] for i in drawn
        ],
        size=np.full(len(drawn), 5.0),
    )
    figure = latent_map.map_figure(rows, (0, 1), dark=session.is_dark, grid=grid)
    figure.update_layout(height=_SLICE_HEIGHT, margin={"t": 12})
    figure.update_xaxes(title_text=theme.escape(shortened(across)))
    figure.update_yaxes(title_text=theme.escape(shortened(upright)))
    dates = fit.rows.dataset.date_scales
    if across in dates:
        figure.update_xaxes(**date_ticks(dates[across], grid.x[0], grid.x[-1]))
    if upright in dates:
        figure.update_yaxes(**date_ticks(dates[upright], grid.y[0], grid.y[-1]))
    st.plotly_chart(
        figure,
        theme=None,
        key=fit.key("surface"),
        alt="Prediction over two columns, the others at their median",
    )
    st.caption(
        f"{TYPICAL} The points are "
        f"{count(len(drawn), 'row')} of the fit, which also differ in the other columns."
    )
