"""Agreement of the starts of a fit: metrics of the map, and a table of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lvmcore.errors import DataError
from lvmcore.evaluation.map_dimensions import all_dimensions
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.stability import Stability, stability

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset

__all__ = ["StartAgreement", "start_agreement"]


@dataclass(frozen=True)
class StartAgreement:
    """Agreement of the starts of a fit.

    Attributes:
        rows: ``row_id``, ``disagreement`` (in radii of the map) and ``neighbour_agreement`` (a
            share; NaN for a row that is not compared) of each row of the fit; None where the maps
            cannot be compared.
        metrics: of the whole map, by key.
    """

    rows: pd.DataFrame | None
    metrics: dict[str, Metric]


def start_agreement(model: LatentVariableModel, dataset: Dataset) -> StartAgreement | None:
    """Compare the maps of the starts of a fit; None for a single start.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
    """
    found = getattr(model, "restarts_", None)
    if found is None:
        return None
    starts = f"{len(found.bounds)} starts; the one with the highest bound is shown."
    spread = float(np.ptp(found.bounds))
    metrics = {
        "bound_spread": Metric(
            "spread of the final bounds",
            spread,
            f"Nats from the lowest ({found.bounds.min():.1f}) to the highest "
            f"({found.bounds.max():.1f}). {starts}",
        )
    }
    labels = {"disagreement": "disagreement of the starts", "neighbours": "neighbours in common"}
    dimensions = all_dimensions(found.means[0].shape[1]).name
    try:
        report = stability(found.means)
    except DataError as error:
        lost = {k: Metric(label, None, str(error), dimensions) for k, label in labels.items()}
        return StartAgreement(None, lost | metrics)
    metrics = {
        "disagreement": Metric(
            labels["disagreement"],
            report.overall,
            "Root mean square distance between a row's positions on the maps of two starts, "
            "aligned by translation, rotation and scale, in units of the map's radius: 0 for equal "
            f"maps, 1.41 for unrelated maps. {starts}",
            dimensions,
        ),
        "neighbours": Metric(
            labels["neighbours"],
            report.overall_agreement,
            f"Share of a row's {report.neighbours} nearest rows that the maps of two starts have "
            f"in common; by chance {report.chance:.2g}. {_compared(report)}{starts}",
            dimensions,
        ),
        **metrics,
    }
    rows = pd.DataFrame(
        {
            "row_id": dataset.row_ids.tolist(),
            "disagreement": report.disagreement,
            "neighbour_agreement": report.neighbour_agreement,
        }
    )
    return StartAgreement(rows, metrics)


def _compared(report: Stability) -> str:
    """The rows whose neighbours are compared, as a sentence; "" for all."""
    n = len(report.neighbour_agreement)
    return "" if report.compared == n else f"{report.compared:,} of {n:,} rows, evenly spaced. "
