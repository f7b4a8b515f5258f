"""The prediction over one column, the others at a typical row, with the rows as points."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.analysis.tables.prediction_slices import sliceable_columns
from app.figures.prediction_curve import MOST_CLASSES, class_curve_figure, curve_figure
from app.formatting import count, distinct_titles, shortened
from app.services import prediction
from app.state.session import session
from app.views.predict.prediction_charts import SEED, PredictionRun
from app.views.predict.prediction_surface import TYPICAL, varying_columns

__all__ = ["column_prediction_panel"]


#: Height of the figure in pixels, and most rows drawn.
_HEIGHT, _MOST_ROWS = 360, 1000


def column_prediction_panel(fit: PredictionRun) -> None:
    """Draw the prediction over one column: a mean with its band, or class probabilities.

    Args:
        fit: the run.
    """
    effects = prediction.column_effects(fit.job.id)
    columns = sliceable_columns(fit.rows, effects, varying_columns(fit))
    if not columns:
        st.caption("A curve needs a column with more than two values.")
        return
    titles = dict(zip(columns, distinct_titles(shortened(name) for name in columns), strict=True))
    column = st.selectbox(
        "Column of the curve",
        columns,
        format_func=titles.__getitem__,
        key=fit.key("curve column"),
        help="The column of the horizontal axis; the most relevant columns come first.",
    )
    drawn = subsampling.sampled_rows(len(fit.rows.y), _MOST_ROWS, SEED)
    (_draw_number if fit.number else _draw_classes)(fit, column, drawn)
    shown = "" if len(drawn) == len(fit.rows.y) else f", a random sample (seed {SEED})"
    st.caption(
        f"{TYPICAL} The points are {count(len(drawn), 'row')}{shown}, which also differ in the "
        "other columns."
    )


def _draw_number(fit: PredictionRun, column: str, drawn: NDArray[np.intp]) -> None:
    """The predicted mean with its band, and the rows."""
    x, rows = fit.rows.X[column].to_numpy(), fit.rows
    points = (x[drawn], np.asarray(rows.y, dtype=np.float64)[drawn], rows.held_out[drawn])
    st.plotly_chart(
        curve_figure(
            prediction.column_curve(fit.job.id, column),
            fit.target,
            dark=session.is_dark,
            height=_HEIGHT,
            points=points,
        ),
        theme=None,
        key=fit.key("curve"),
        alt="Predicted mean over one column with a 90 % band",
    )
    st.caption("The band holds a new row at these columns with a probability of 90 %.")


def _draw_classes(fit: PredictionRun, column: str, drawn: NDArray[np.intp]) -> None:
    """The probability of each class, and the rows below."""
    curves = prediction.class_curves(fit.job.id, column)
    x, names = fit.rows.X[column].to_numpy()[drawn], fit.rows.y[drawn].astype(str)
    st.plotly_chart(
        class_curve_figure(curves, dark=session.is_dark, height=_HEIGHT, points=(x, names)),
        theme=None,
        key=fit.key("curve"),
        alt="Probability of each class over one column",
    )
    if len(curves.classes) > MOST_CLASSES:
        st.caption(
            f"The {MOST_CLASSES} classes with the highest probabilities of "
            f"{len(curves.classes)} are drawn."
        )
