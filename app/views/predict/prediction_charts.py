"""Predictions of held-out rows against the true values, and their calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.figures import interval_coverage
from app.formatting import count, number, shortened
from app.state.session import session
from app.state.widgets import widget_key
from app.views.predict.figures import calibration_figure, confusion_figure
from lvmcore.prediction.target_rows import SupervisedRows
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor

__all__ = [
    "FIGURE_HEIGHT",
    "MOST_DRAWN",
    "SEED",
    "PredictionRun",
    "calibration_panel",
    "cell_text",
    "predicted_against_true",
]

#: Most drawn rows; of more rows, a random sample is drawn.
MOST_DRAWN, SEED = 3000, 0
_CHART_HEIGHT = 400
#: Height of maps of the rows, in pixels.
FIGURE_HEIGHT = 460
_LEVELS = np.linspace(0.05, 0.95, 19)
_BINS = 10


@dataclass(frozen=True)
class PredictionRun:
    """A run that predicts a target.

    Attributes:
        job: the run.
        model: its model.
        rows: the rows of the fit and the held-out rows.
    """

    job: Job
    model: Predictor
    rows: SupervisedRows

    @property
    def target(self) -> str:
        """The predicted column."""
        return self.job.spec.target

    @property
    def number(self) -> bool:
        """Whether the target is a number."""
        return self.model.task == "number"

    def key(self, *parts: object) -> str:
        """Key of a widget."""
        return widget_key("predict", self.job.id, *parts)


def predicted_against_true(fit: PredictionRun, frame: pd.DataFrame) -> None:
    """Draw the predictions of the held-out rows against the truth.

    Args:
        fit: the run.
        frame: predictions of all rows.
    """
    held = frame[frame["held_out"]]
    st.markdown("**Predicted against true**")
    if fit.number:
        _scatter(fit, held)
    else:
        _confusion(fit, held)


def calibration_panel(fit: PredictionRun, frame: pd.DataFrame) -> None:
    """Draw the calibration of the predictions of the held-out rows.

    Args:
        fit: the run.
        frame: predictions of all rows.
    """
    held = frame[frame["held_out"]]
    if fit.number:
        _coverage(fit, held)
    else:
        _reliability(fit, held)


def _scatter(fit: PredictionRun, held: pd.DataFrame) -> None:
    drawn = held.iloc[subsampling.sampled_rows(len(held), MOST_DRAWN, SEED)]
    cells = interval_coverage.HiddenCellPredictions(
        row=[str(name) for name in drawn["row_id"]],
        truth=drawn["truth"].to_numpy(dtype=np.float64),
        mean=drawn["mean"].to_numpy(),
        lower=drawn["q05"].to_numpy(),
        upper=drawn["q95"].to_numpy(),
    )
    st.plotly_chart(
        interval_coverage.coverage_figure(
            cells, fit.target, 0.9, dark=session.is_dark, quantity="predicted", height=_CHART_HEIGHT
        ),
        theme=None,
        key=fit.key("scatter"),
        alt="Predicted values with 90 % intervals over the true values of the held-out rows",
    )
    st.caption(_row_note(held, drawn) + " The bars are 90 % intervals.")


def _confusion(fit: PredictionRun, held: pd.DataFrame) -> None:
    known = [str(name) for name in fit.model.classes_]
    unknown = sorted(set(held["truth"].astype(str)) - set(known))
    classes = [*known, *unknown]
    code = {name: position for position, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
    rows = (held[name].astype(str).map(code).to_numpy() for name in ("truth", "predicted"))
    np.add.at(counts, tuple(rows), 1)
    st.plotly_chart(
        confusion_figure(counts, classes, dark=session.is_dark),
        theme=None,
        key=fit.key("confusion"),
        alt="Confusion matrix of the held-out rows",
    )
    st.caption(_row_note(held, held) + " Numbers are rows; colours are shares of the true class.")


def _row_note(held: pd.DataFrame, drawn: pd.DataFrame) -> str:
    """The rows of a figure."""
    rows = f"{count(len(held), 'held-out row')}"
    if len(drawn) == len(held):
        return f"All {rows}."
    return f"{count(len(drawn), 'row')} of {rows}, a random sample (seed {SEED})."


def _coverage(fit: PredictionRun, held: pd.DataFrame) -> None:
    from lvmcore.evaluation.target_quality import coverage_at

    rows = np.full(len(_LEVELS), len(held))
    _calibration(
        fit,
        (_LEVELS, coverage_at(held, _LEVELS), rows),
        horizontal="level of the interval",
        vertical="true values inside it",
    )
    st.caption(
        "On the dotted line the intervals are calibrated; below it they are too narrow, above it "
        "too wide."
    )


def _reliability(fit: PredictionRun, held: pd.DataFrame) -> None:
    probability = held["probability"].to_numpy()
    right = (held["predicted"].astype(str) == held["truth"].astype(str)).to_numpy()
    bins = np.minimum((probability * _BINS).astype(np.intp), _BINS - 1)
    rows = np.bincount(bins, minlength=_BINS)
    filled = rows > 0
    mean, share = (
        np.bincount(bins, weights=values, minlength=_BINS)[filled] / rows[filled]
        for values in (probability, right.astype(np.float64))
    )
    _calibration(
        fit,
        (mean, share, rows[filled]),
        horizontal="probability of the predicted class",
        vertical="correct predictions",
    )
    st.caption(
        f"Rows in {_BINS} bins by the probability of the predicted class. Below the dotted line "
        "the model is overconfident, above it underconfident."
    )


def _calibration(
    fit: PredictionRun,
    found: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]],
    *,
    horizontal: str,
    vertical: str,
) -> None:
    st.plotly_chart(
        calibration_figure(*found, horizontal=horizontal, vertical=vertical, dark=session.is_dark),
        theme=None,
        key=fit.key("calibration"),
        alt=f"{vertical} over {horizontal}, of the held-out rows",
    )


def cell_text(value: object) -> str:
    """A cell of the table as text."""
    return number(value) if isinstance(value, float) else shortened(value, 60)
