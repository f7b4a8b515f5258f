"""The maps that a fit passed through on its way, as its events tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.services import maps, server

if TYPE_CHECKING:
    from lvmcore.results import FitStep

__all__ = ["Film", "film", "forget"]

#: Maps that are kept of a fit at most, evenly spaced; the first and the last are among them.
MOST_FRAMES = 200


@dataclass(frozen=True)
class Film:
    """A fit, to be seen again.

    Attributes:
        frames: the steps with a map, in order.
        steps: all steps, without their maps.
        low: smallest horizontal and vertical position in any frame, [2].
        high: the largest, [2].
        start: which start of the fit this is, from 1.
        starts: how many there were.
    """

    frames: tuple[FitStep, ...]
    steps: tuple[FitStep, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    start: int
    starts: int


def film(run: str) -> Film | None:
    """The maps that a run with a model passed through, those of the start that was kept.

    Returns:
        The film; None where fewer than two maps were written down, as of a method that is solved
        in one go.

    Raises:
        DataError: there is no such run, or it has no model.
    """
    return _film(server.home(), run, maps.attempt(run))


@st.cache_resource(show_spinner="Reading the fit", max_entries=4)
def _film(home: str | None, run: str, attempt: int) -> Film | None:
    from dataclasses import replace

    del home, attempt  # the cache's key
    kept = maps.kept_start(run)
    steps = [event.step for event in server.store().events(run) if event.step.start == kept]
    frames = [step for step in steps if step.snapshot is not None and len(step.snapshot.rows)]
    if len(frames) < 2:
        return None
    if len(frames) > MOST_FRAMES:
        chosen = np.linspace(0, len(frames) - 1, MOST_FRAMES).round().astype(np.intp)
        frames = [frames[i] for i in chosen]
    places = np.concatenate([step.snapshot.mean for step in frames if step.snapshot is not None])
    places = places[np.isfinite(places).all(axis=1)]
    if not len(places):
        return None
    return Film(
        frames=tuple(frames),
        steps=tuple(replace(step, snapshot=None) for step in steps),
        low=places.min(axis=0),
        high=places.max(axis=0),
        start=kept,
        starts=frames[-1].starts,
    )


def forget() -> None:
    """Let go of all films."""
    _film.clear()
