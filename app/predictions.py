"""Predictions beside the truth, on the Predict page: how far off, and how honest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import figures, state
from app.words import count
from lvmcore.runs import Job
from lvmcore.runs.target import TargetRows

if TYPE_CHECKING:
    from lvmcore.predictor import Predictor

__all__ = ["MOST_DRAWN", "Fit", "against_the_truth"]

#: Rows drawn at most; more are sampled.
MOST_DRAWN, SEED = 3000, 0
_HEIGHT = 400
_LEVELS = np.linspace(0.05, 0.95, 19)
_BINS = 10


@dataclass(frozen=True)
class Fit:
    """A run of a model of a target, as the page works on it.

    Attributes:
        job: the run.
        model: its model.
        rows: that it was fitted to and measured on.
    """

    job: Job
    model: Predictor
    rows: TargetRows

    @property
    def target(self) -> str:
        """The column that it predicts."""
        return self.job.spec.target

    @property
    def number(self) -> bool:
        """Whether that is a number."""
        return self.model.task == "number"

    def key(self, *parts: object) -> str:
        """Key of a widget."""
        return state.widget("predict", self.job.id, *parts)


def against_the_truth(fit: Fit, frame: pd.DataFrame) -> None:
    """Draw the predictions of the held-out rows against the truth, and their calibration.

    Args:
        fit: the run.
        frame: what it predicted of its rows.
    """
    held = frame[frame["held_out"]]
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Predicted against true**")
        if fit.number:
            _numbers(fit, held)
        else:
            _confusion(fit, held)
    with right:
        st.markdown("**Calibration**")
        if fit.number:
            _coverage(fit, held)
        else:
            _reliability(fit, held)


def _numbers(fit: Fit, held: pd.DataFrame) -> None:
    drawn = held.iloc[figures.sampled(len(held), MOST_DRAWN, SEED)]
    cells = figures.Hidden(
        row=[str(name) for name in drawn["row_id"]],
        truth=drawn["truth"].to_numpy(dtype=np.float64),
        mean=drawn["mean"].to_numpy(),
        lower=drawn["q05"].to_numpy(),
        upper=drawn["q95"].to_numpy(),
    )
    st.plotly_chart(
        figures.hidden_figure(
            cells, fit.target, 0.9, dark=state.dark(), made="predicted", height=_HEIGHT
        ),
        theme=None,
        key=fit.key("scatter"),
        alt="Predicted values with 90 % intervals over the true ones, of the rows held out",
    )
    st.caption(_which(held, drawn) + " The bars are 90 % intervals.")


def _confusion(fit: Fit, held: pd.DataFrame) -> None:
    known = [str(name) for name in fit.model.classes_]
    strange = sorted(set(held["truth"].astype(str)) - set(known))
    classes = [*known, *strange]
    place = {name: code for code, name in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
    rows = (held[name].astype(str).map(place).to_numpy() for name in ("truth", "predicted"))
    np.add.at(counts, tuple(rows), 1)
    st.plotly_chart(
        figures.confusion_figure(counts, classes, dark=state.dark()),
        theme=None,
        key=fit.key("confusion"),
        alt="How often rows of each class are said to be of each, of the rows held out",
    )
    st.caption(
        _which(held, held) + " The numbers count rows; a line's colours add up to all of it."
    )


def _which(held: pd.DataFrame, drawn: pd.DataFrame) -> str:
    """Which rows a figure is of."""
    rows = f"{count(len(held), 'row')} that the fit did not see"
    if len(drawn) == len(held):
        return f"All {rows}."
    return f"{count(len(drawn), 'row')} of the {rows}, drawn with seed {SEED}."


def _coverage(fit: Fit, held: pd.DataFrame) -> None:
    from lvmcore.runs.target_measure import coverage_at

    rows = np.full(len(_LEVELS), len(held))
    _calibration(
        fit,
        (_LEVELS, coverage_at(held, _LEVELS), rows),
        across="level of the interval",
        upright="truths inside it",
    )
    st.caption(
        "On the dotted line intervals hold what they promise; below it they are too narrow, above "
        "it too wide."
    )


def _reliability(fit: Fit, held: pd.DataFrame) -> None:
    said = held["probability"].to_numpy()
    right = (held["predicted"].astype(str) == held["truth"].astype(str)).to_numpy()
    place = np.minimum((said * _BINS).astype(np.intp), _BINS - 1)
    rows = np.bincount(place, minlength=_BINS)
    there = rows > 0
    mean, share = (
        np.bincount(place, weights=values, minlength=_BINS)[there] / rows[there]
        for values in (said, right.astype(np.float64))
    )
    _calibration(
        fit,
        (mean, share, rows[there]),
        across="probability of the predicted class",
        upright="predictions that are right",
    )
    st.caption(
        f"Rows in {_BINS} bins by the probability of what is predicted. Below the dotted line the "
        "model is too sure of itself, above it not sure enough."
    )


def _calibration(
    fit: Fit,
    found: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]],
    *,
    across: str,
    upright: str,
) -> None:
    st.plotly_chart(
        figures.calibration_figure(*found, across=across, upright=upright, dark=state.dark()),
        theme=None,
        key=fit.key("calibration"),
        alt=f"{upright} against {across}, of the rows held out",
    )
