"""The content of a report of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.map_axes import Axes
from app.figures import row_traces
from app.figures.live_charts import decimate

if TYPE_CHECKING:
    from lvmcore.metrics.metric import Metric
    from lvmcore.results import FitStep
    from lvmcore.runs import Job

__all__ = ["ColumnRow", "Curves", "ReportSubject", "SettingRow"]

#: Steps and values of each curve, by its name.
Curves = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class ColumnRow:
    """A column that the model learned from.

    Attributes:
        name: its name.
        mean: mean of the observed cells.
        sd: standard deviation of the observed cells.
        missing: number of missing cells.
    """

    name: str
    mean: float
    sd: float
    missing: int


@dataclass(frozen=True)
class SettingRow:
    """A setting of the model.

    Attributes:
        name: name in Python.
        label: name on the pages.
        value: its value.
        default: whether the value is the default.
    """

    name: str
    label: str
    value: object
    default: bool


@dataclass(frozen=True)
class ReportSubject:
    """The content of a report.

    Attributes:
        job: the run.
        model: title of the model, and its paper.
        settings: all settings of the model.
        shape: number of rows of the table, rows on the map, and features.
        labels: for each label column, the number of rows of each class.
        columns: columns that the model learned from.
        left_out: sentences on rows, columns and cells that were not used.
        axes: latent dimensions on the map.
        rows: rows on the map.
        sees_labels: whether the map was fitted with the labels.
        relevance: share of each dimension per path, each [Q].
        steps: steps of the restart that was kept.
        metrics: scores of the map, each with its protocol.
        program: Python code that repeats the run; None if there is none.
        digest: SHA-256 of the model's file, hexadecimal.
    """

    job: Job
    model: tuple[str, str]
    settings: Sequence[SettingRow]
    shape: tuple[int, int, int]
    labels: Mapping[str, Mapping[str, int]]
    columns: Sequence[ColumnRow]
    left_out: Sequence[str]
    axes: Axes
    rows: row_traces.MapRows
    sees_labels: bool
    relevance: Mapping[str, NDArray[np.float64]]
    steps: Sequence[FitStep]
    metrics: Sequence[Metric]
    program: str | None
    digest: str

    def curves(self) -> dict[str, tuple[Curves, str]]:
        """Training curves and the title of their vertical axis, for "bound" and "terms".

        Empty for a fit of fewer than two steps.
        """
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
            curves = {name: _curve(steps, values) for name, values in terms.items()}
            alone = f"{next(iter(terms))}, nats" if len(terms) == 1 else "term of the loss"
            found["terms"] = (curves, "part of the bound, nats" if "bound" in found else alone)
        return found


def _curve(
    steps: Sequence[FitStep], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    finite = np.flatnonzero(np.isfinite(values))
    drawn = finite[decimate(values[finite])]
    return np.array([steps[i].iteration for i in drawn], dtype=np.float64), values[drawn]
