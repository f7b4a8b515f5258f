"""The summands of a Gaussian process's kernel, and its forecast along a single column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from app.analysis.map import subsampling
from app.analysis.tables.prediction_curves import (
    ComponentCurve,
    series_column,
    target_transform,
)
from app.figures.prediction_curve import curve_figure
from app.formatting import count, markdown, number, shortened
from app.services import prediction
from app.state.session import session
from app.views.predict.prediction_charts import MOST_DRAWN, SEED, PredictionRun

__all__ = ["components_panel", "forecast_panel"]


_HEIGHT, _FORECAST_HEIGHT = 190, 400
_ABOUT_SHARES = (
    "A share is the covariance of a component's mean with the target over the rows of the fit, "
    "divided by the target's variance; with that of the noise they add up to 100 %. The bands are "
    "90 % intervals of each component, without the noise."
)
_ABOUT_FACTORS = (
    "The target is modelled on the log scale, where the components add up: in units of the target "
    "they multiply. Each curve is the factor by which a component multiplies the prediction; "
    "shares and sds are of the log scale."
)
_ABOUT_FORECAST = (
    "The band holds a new row with a probability of 90 %, if the pattern continues. The dashed "
    "part is beyond the data: no row checks it."
)


def components_panel(fit: PredictionRun) -> None:
    """Draw each summand of the kernel: its share, its parameters, and its curve.

    Args:
        fit: a run whose kernel has several summands.
    """
    scale = _target_scale(fit)
    for place, component in enumerate(prediction.component_curves(fit.job.id)):
        st.markdown(_title(fit, component, scale))
        if component.curve is not None:
            st.plotly_chart(
                curve_figure(component.curve, scale.axis, dark=session.is_dark, height=_HEIGHT),
                theme=None,
                key=fit.key("component", place),
                alt=f"Component {place + 1} of the prediction with a 90 % band",
            )
    st.caption(" ".join(filter(None, (scale.about, _ABOUT_SHARES))))


@dataclass(frozen=True)
class _TargetScale:
    """The scale on which the summands of a kernel add up.

    Attributes:
        axis: title of the vertical axis of their curves.
        about: the scale in sentences; "" of the target's own.
        phrase: after an sd, "" of the target's own.
    """

    axis: str
    about: str
    phrase: str


def _target_scale(fit: PredictionRun) -> _TargetScale:
    """The scale of a Gaussian process's target."""
    transform = target_transform(fit.model)
    if transform.is_identity:
        return _TargetScale(fit.target, "", "")
    phrase = transform.scale_phrase
    if transform.name == "log":
        return _TargetScale(f"factor of {fit.target}", _ABOUT_FACTORS, f" on {phrase}")
    about = (
        f"The target is modelled on {phrase}. The curves are on that scale, where they add up; in "
        "units of the target they do not. Shares and sds are of that scale too."
    )
    return _TargetScale(f"{shortened(fit.target, 24)}, transformed", about, f" on {phrase}")


def _title(fit: PredictionRun, component: ComponentCurve, scale: _TargetScale) -> str:
    """The share, the summand in words, and its sd."""
    own = component.summary
    words = own.phrase[:1].upper() + own.phrase[1:]
    where = scale.phrase or f" in {markdown(shortened(fit.target, 40))}"
    return f"**{own.share:.0%}** · {markdown(words)} · :gray[sd {number(own.sd, 3)}{where}]"


def forecast_panel(fit: PredictionRun) -> None:
    """Draw the prediction along the only column, and beyond its last row.

    Args:
        fit: a run for a number with one column.
    """
    curve = prediction.series_curve(fit.job.id)
    column = series_column(fit.model, fit.rows)
    assert column is not None
    x = fit.rows.X[column].to_numpy()
    drawn = subsampling.sampled_rows(len(x), MOST_DRAWN, SEED)
    points = (x[drawn], np.asarray(fit.rows.y, dtype=np.float64)[drawn], fit.rows.held_out[drawn])
    st.plotly_chart(
        curve_figure(
            curve, fit.target, dark=session.is_dark, height=_FORECAST_HEIGHT, points=points
        ),
        theme=None,
        key=fit.key("forecast"),
        alt="Prediction along the column and beyond the data, with a 90 % band",
    )
    shown = f" {count(len(drawn), 'row')} of {len(x):,} drawn, a random sample (seed {SEED})."
    st.caption(_ABOUT_FORECAST + ("" if len(drawn) == len(x) else shown))
