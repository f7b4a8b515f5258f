"""Estimated time and memory of a fit, beside the button that starts it."""

from __future__ import annotations

import streamlit as st

from app.formatting import duration, size
from app.services import runs
from app.state.choices import TargetChoice
from lvmcore.data import Dataset
from lvmcore.jobs.cost_estimate import CostEstimate
from lvmcore.jobs.machine_limits import available_memory, total_memory

__all__ = ["cost_estimate_line", "refusal"]

_EVERY_SECONDS = 1.0
_ADVICE = "Use fewer rows, columns or inducing points."


def refusal(
    dataset: Dataset, key: str, values: dict[str, object], aim: TargetChoice | None = None
) -> str | None:
    """Why this machine has too little memory for a fit; None if it has enough or it is unknown."""
    _, cost = runs.estimate_cost(dataset, key, values, aim)
    if cost is None or cost.memory is None or cost.memory <= total_memory():
        return None
    return (
        f"This fit needs about {size(cost.memory)} of memory, and this machine has "
        f"{size(total_memory())}. {_ADVICE}"
    )


def cost_estimate_line(
    dataset: Dataset,
    key: str,
    values: dict[str, object],
    aim: TargetChoice | None = None,
    *,
    polling: bool,
) -> None:
    """Draw the estimated time and memory of a fit, when they are known.

    Args:
        dataset: the data.
        key: key of the model.
        values: its settings.
        aim: the target to predict; None for a map.
        polling: whether to poll until it is known; nothing is estimated during a run.
    """
    known, _ = runs.estimate_cost(dataset, key, values, aim)
    every = _EVERY_SECONDS if polling and not known else None
    st.fragment(_line, run_every=every)(dataset, key, values, aim, known)


def _line(
    dataset: Dataset, key: str, values: dict[str, object], aim: TargetChoice | None, drawn: bool
) -> None:
    known, cost = runs.estimate_cost(dataset, key, values, aim)
    if known != drawn:  # stops polling
        st.rerun()
    if not known:
        st.caption("Time and memory are being estimated.")
    elif cost is not None:
        _cost_text(cost, int(str(values["max_iter"])) * int(str(values.get("n_restarts", 1))))


def _cost_text(cost: CostEstimate, steps: int) -> None:
    if cost.memory is None:
        st.warning(
            f"This fit needs more than the {size(cost.free)} of memory that were free at the time "
            f"of the estimate, so it may fail. {_ADVICE}"
        )
        return
    gpu = "" if cost.gpu_memory is None else f", {size(cost.gpu_memory)} of memory of the GPU"
    st.caption(
        f"At most about {duration(cost.seconds(steps))}, {size(cost.memory)} of memory{gpu}."
    )
    if cost.memory > available_memory():
        st.warning(
            f"Only {size(available_memory())} of memory are free now: the fit waits for other runs "
            f"to finish, and may fail. {_ADVICE}"
        )
