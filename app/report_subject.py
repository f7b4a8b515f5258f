"""What a report of a run is about. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app import figures
from app.axes import Axes
from app.live import decimate

if TYPE_CHECKING:
    from lvmcore.results import FitStep
    from lvmcore.runs import Job, Metric

__all__ = ["Column", "Curves", "Setting", "Subject"]

#: Steps and values of each curve, by what to call it.
Curves = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class Column:
    """A column that the model learned from.

    Attributes:
        name: what it is called.
        mean: of its observed cells.
        sd: likewise.
        missing: how many cells are missing.
    """

    name: str
    mean: float
    sd: float
    missing: int


@dataclass(frozen=True)
class Setting:
    """A setting of the model.

    Attributes:
        name: as in Python.
        label: for people.
        value: what it was.
        default: whether that is its default.
    """

    name: str
    label: str
    value: object
    default: bool


@dataclass(frozen=True)
class Subject:
    """What a report is about.

    Attributes:
        job: the run.
        model: title of its model and the paper behind it.
        settings: all of them.
        shape: rows of the table, rows of the map, features.
        labels: classes of each label column with their counts, by column.
        columns: that the model learned from.
        left_out: sentences on rows, columns and cells that were not used.
        axes: latent dimensions on the map.
        rows: on the map.
        sees_labels: the model's map has seen the labels.
        relevance: share of each dimension per path, each [Q].
        steps: of the start that was kept.
        metrics: figures about the map, each with its protocol.
        program: Python that repeats the run; None where there is none.
        digest: SHA-256 of the model's file, hexadecimal.
    """

    job: Job
    model: tuple[str, str]
    settings: Sequence[Setting]
    shape: tuple[int, int, int]
    labels: Mapping[str, Mapping[str, int]]
    columns: Sequence[Column]
    left_out: Sequence[str]
    axes: Axes
    rows: figures.Rows
    sees_labels: bool
    relevance: Mapping[str, NDArray[np.float64]]
    steps: Sequence[FitStep]
    metrics: Sequence[Metric]
    program: str | None
    digest: str

    def courses(self) -> dict[str, tuple[Curves, str]]:
        """The curves of the fit and what their vertical axis shows: "bound", "terms", or none."""
        steps = self.steps
        if len(steps) < 2:
            return {}
        bound = np.array([step.objective for step in steps])
        terms = {
            name: np.array([step.terms.get(name, np.nan) for step in steps])
            for name in steps[-1].terms
        }
        found: dict[str, tuple[Curves, str]] = {}
        if np.isfinite(bound).any():
            found["bound"] = ({"bound": _curve(steps, bound)}, "bound (ELBO), nats")
        if terms and not (len(terms) == 1 and "bound" in found):
            found["terms"] = (
                {name: _curve(steps, values) for name, values in terms.items()},
                "part of the bound, nats" if "bound" in found else f"{next(iter(terms))}, nats",
            )
        return found


def _curve(
    steps: Sequence[FitStep], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    usable = np.flatnonzero(np.isfinite(values))
    kept = usable[decimate(values[usable])]
    return np.array([steps[i].iteration for i in kept], dtype=np.float64), values[kept]
