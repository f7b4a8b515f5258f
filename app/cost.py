"""What a fit would cost, beside the button that starts it."""

from __future__ import annotations

import streamlit as st

from app import services
from app.state import Aim
from app.words import duration, size
from lvmcore.data import Dataset
from lvmcore.runs import Estimate
from lvmcore.runs.capacity import available_memory, total_memory

__all__ = ["refusal", "show"]

_EVERY_SECONDS = 1.0
_ADVICE = "Use fewer rows, columns or inducing points."


def refusal(
    dataset: Dataset, key: str, values: dict[str, object], aim: Aim | None = None
) -> str | None:
    """Why this machine cannot run a fit at all; None where it can, or nobody knows yet."""
    _, cost = services.estimate(dataset, key, values, aim)
    if cost is None or cost.memory is None or cost.memory <= total_memory():
        return None
    return (
        f"This fit needs about {size(cost.memory)} of memory, and this machine has "
        f"{size(total_memory())}. {_ADVICE}"
    )


def show(
    dataset: Dataset,
    key: str,
    values: dict[str, object],
    aim: Aim | None = None,
    *,
    polling: bool,
) -> None:
    """Say how long a fit takes and what memory it needs, as soon as it is known.

    Args:
        dataset: the data.
        key: the model's key.
        values: its settings.
        aim: what it is to predict; None for a map.
        polling: whether to look again until it is known; nothing is estimated beside a run.
    """
    known, _ = services.estimate(dataset, key, values, aim)
    every = _EVERY_SECONDS if polling and not known else None
    st.fragment(_line, run_every=every)(dataset, key, values, aim, known)


def _line(
    dataset: Dataset, key: str, values: dict[str, object], aim: Aim | None, drawn: bool
) -> None:
    known, cost = services.estimate(dataset, key, values, aim)
    if known != drawn:  # so that polling ends
        st.rerun()
    if not known:
        st.caption("Time and memory are being estimated.")
    elif cost is not None:
        _say(cost, int(str(values["max_iter"])) * int(str(values.get("n_restarts", 1))))


def _say(cost: Estimate, steps: int) -> None:
    if cost.memory is None:
        st.warning(
            f"This fit needs more than the {size(cost.free)} of memory that were free when it was "
            f"estimated, so it may fail. {_ADVICE}"
        )
        return
    st.caption(f"At most about {duration(cost.seconds(steps))}, {size(cost.memory)} of memory.")
    if cost.memory > available_memory():
        st.warning(
            f"Only {size(available_memory())} of memory are free now: it waits while other runs "
            f"are under way, and may fail. {_ADVICE}"
        )
