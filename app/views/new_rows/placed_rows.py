"""New rows with their inferred positions: unusual, undecided and misclassified rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.state.widgets import widget_key
from lvmcore.numerics.array_types import FloatArray
from lvmcore.runs import Job

__all__ = ["PlacedRows", "placed_rows"]


@dataclass(frozen=True)
class PlacedRows:
    """New rows with their inferred positions.

    Attributes:
        id: id of the job that inferred them.
        frame: one row each.
        mean: latent means, [n, Q].
        sd: latent sds, [n, Q]; None from a model without uncertainty.
        unusual: mask of the unusual rows, [n].
        undecided: mask of the rows whose class is not decided, [n].
        misclassified: mask of the rows with another predicted class than their label, [n].
        label: the shown label column of several; None for the only one.
        least: smallest probability of a decided class.
    """

    id: str
    frame: pd.DataFrame
    mean: FloatArray
    sd: FloatArray | None
    unusual: NDArray[np.bool_]
    undecided: NDArray[np.bool_]
    misclassified: NDArray[np.bool_]
    label: str | None
    least: float

    def key(self, name: str) -> str:
        """Key of a widget."""
        return widget_key("new_rows", self.id, name)


def placed_rows(
    fitted_map: FittedMap, job: Job, frame: pd.DataFrame, label: str | None, least: float
) -> PlacedRows:
    """Compute the masks of rows.

    Args:
        fitted_map: the run.
        job: the job that inferred the positions.
        frame: its table, one row each.
        label: the shown label column of several; None for the only one.
        least: smallest probability of a decided class.
    """
    from lvmcore.prediction.placement import UNUSUAL

    dimensions = range(1, fitted_map.dimensions + 1)
    none = np.zeros(len(frame), dtype=np.bool_)
    unusual = frame["unusual"].to_numpy() >= UNUSUAL if "unusual" in frame else none
    undecided = misclassified = none
    if "predicted" in frame:
        undecided = frame["probability"].to_numpy() < least
        if "label" in frame:
            labelled = frame["label"].notna().to_numpy()
            misclassified = labelled & (frame["label"] != frame["predicted"]).to_numpy()
    return PlacedRows(
        id=job.id,
        frame=frame,
        mean=frame[[f"z{q}" for q in dimensions]].to_numpy(),
        sd=frame[[f"z{q}_sd" for q in dimensions]].to_numpy() if "z1_sd" in frame else None,
        unusual=unusual,
        undecided=undecided,
        misclassified=misclassified,
        label=label,
        least=least,
    )
