"""A model of a target beside baselines on the same held-out rows: who is best, and all scores."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from app.formatting import markdown, number
from app.services import prediction, runs
from app.views.predict.prediction_charts import PredictionRun
from lvmcore.errors import LatentboardError
from lvmcore.evaluation.target_scores import (
    BASELINES,
    COLUMNS,
    MODEL,
    MethodScores,
    TargetComparison,
    verdict,
)

__all__ = ["baseline_scores_panel", "baseline_verdict"]

_EVERY_SECONDS = 2.0
_EARLIER = (
    "This run was fitted before baselines were part of a fit to a target. Fit the model again to "
    "compare it with a linear model, histogram boosting and a random forest."
)
_STOPPED = "The run ended before the baselines were fitted. Fit the model again to compare it."


def baseline_verdict(comparison: TargetComparison | None) -> None:
    """Draw the sentence that names the best method on the held-out rows.

    Args:
        comparison: the scores; None draws nothing.
    """
    text = "" if comparison is None else verdict(comparison, lambda value: number(value, 3))
    if text:
        best, stop, more = text.partition(". ")
        st.markdown(f"**{markdown(best + stop.strip())}** {markdown(more)}")


def baseline_scores_panel(fit: PredictionRun) -> None:
    """Draw the scores of the model and of the baselines, or why there are none.

    Args:
        fit: the run.
    """
    try:
        comparison = prediction.comparison(fit.job.id)
    except LatentboardError as problem:
        st.error(markdown(problem))
        return
    if comparison is not None:
        _table(fit, comparison)
    elif fit.job.stage == "measuring":
        st.fragment(_wait, run_every=_EVERY_SECONDS)(fit.job.id)
    else:
        st.caption(_STOPPED if fit.job.status in ("cancelled", "interrupted") else _EARLIER)


def _wait(run: str) -> None:
    """Draw that the baselines are being fitted, and the page anew when they are."""
    job = runs.job(run)
    if job is None or job.stage != "measuring":
        st.rerun()
    st.info("Baselines are being fitted to the same rows.")


def _table(fit: PredictionRun, comparison: TargetComparison) -> None:
    columns = COLUMNS[comparison.task]
    names = {MODEL: "the model"} | {key: name.removeprefix("a ") for key, name in BASELINES.items()}
    data: dict[str, list[object]] = {"method": [names[one.method] for one in comparison.methods]}
    for key, title in columns.items():
        values = [one.values[key] for one in comparison.methods]
        data[title] = [math.nan if value is None else value for value in values]
    data["against the model"] = [
        _against(one, list(columns.values())) for one in comparison.methods
    ]
    frame = pd.DataFrame(data)
    st.dataframe(
        frame.style.format(_cell, subset=list(columns.values())),
        hide_index=True,
        key=fit.key("baselines"),
        alt="Scores of the model and of baselines on the held-out rows",
    )
    st.caption(
        "Better or worse: by more than two standard errors of the difference on these rows. "
        f"{markdown(comparison.protocol)}"
    )


def _against(scores: MethodScores, titles: list[str]) -> str:
    """How a method compares with the model, in words."""
    if scores.method == MODEL:
        return ""
    names = {"error": titles[0], "density": titles[1]}
    parts = []
    for word, criteria in (("better", scores.better), ("worse", scores.worse)):
        if set(criteria) == set(names):
            return f"{word} in both"
        parts += [f"{word} in {names[name]}" for name in criteria if name in names]
    return ", ".join(parts) or "within the error"


def _cell(value: object) -> str:
    return number(value, 3) if isinstance(value, float) else str(value)
