"""Replay of a fit: the latent maps of its steps, read from its event log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.services import fitted_maps, server
from app.services.caching import cached

if TYPE_CHECKING:
    from lvmcore.results import FitStep

__all__ = ["FitReplay", "fit_replay"]

#: Largest number of frames, evenly spaced from the first map to the last.
MAX_FRAMES = 200


@dataclass(frozen=True)
class FitReplay:
    """The maps of one start of a fit.

    Attributes:
        frames: steps with a snapshot of the map, in order.
        steps: all steps, without their snapshots.
        low: smallest horizontal and vertical position in any frame, [2].
        high: largest horizontal and vertical position in any frame, [2].
        start: number of the start, from 1.
        starts: number of starts of the fit.
    """

    frames: tuple[FitStep, ...]
    steps: tuple[FitStep, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    start: int
    starts: int


@cached(max_entries=4, spinner="Reading the fit")
def fit_replay(run: str) -> FitReplay | None:
    """The maps of the steps of a fitted run, of the start that its model comes from.

    Returns:
        None where the event log has fewer than two maps, as for a model in closed form.

    Raises:
        DataError: there is no such run, or it has no model.
    """
    start = fitted_maps.selected_start(run)
    steps = [event.step for event in server.store().events(run) if event.step.start == start]
    frames = [step for step in steps if step.snapshot is not None and len(step.snapshot.rows)]
    if len(frames) < 2:
        return None
    if len(frames) > MAX_FRAMES:
        chosen = np.linspace(0, len(frames) - 1, MAX_FRAMES).round().astype(np.intp)
        frames = [frames[i] for i in chosen]
    positions = np.concatenate([step.snapshot.mean for step in frames if step.snapshot is not None])
    positions = positions[np.isfinite(positions).all(axis=1)]
    if not len(positions):
        return None
    return FitReplay(
        frames=tuple(frames),
        steps=tuple(replace(step, snapshot=None) for step in steps),
        low=positions.min(axis=0),
        high=positions.max(axis=0),
        start=start,
        starts=frames[-1].starts,
    )
