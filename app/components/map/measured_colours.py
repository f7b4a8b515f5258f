"""Row colours by the disagreement of restarts and by the residual, with their descriptions."""

from __future__ import annotations

import numpy as np

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.row_colours import NumericColours
from app.formatting import count, number
from app.services import fitted_maps, row_analysis

__all__ = [
    "BY_DISAGREEMENT",
    "BY_RESIDUAL",
    "DISAGREEMENT_TITLE",
    "RESIDUAL_TITLE",
    "describe_disagreement",
    "describe_residuals",
    "disagreement_colour",
    "residual_colour",
]

#: Colour option of the disagreement of restarts.
BY_DISAGREEMENT = "starts"
DISAGREEMENT_TITLE = "disagreement of restarts"


def disagreement_colour(run: str) -> NumericColours | None:
    """Rows coloured by the disagreement of restarts; None for a run without restarts."""
    found = fitted_maps.start_agreement(run)
    if found is None:
        return None
    return NumericColours(
        f"{DISAGREEMENT_TITLE}, radii of the map", found["disagreement"].to_numpy(np.float64)
    )


def describe_disagreement(run: str, row: int) -> str | None:
    """The disagreement of restarts on a row, as a sentence; None without restarts."""
    found = fitted_maps.start_agreement(run)
    if found is None:
        return None
    apart, shared = found["disagreement"].iloc[row], found["neighbour_agreement"].iloc[row]
    neighbours = "" if np.isnan(shared) else f"; {shared:.0%} of its nearest rows are the same"
    return (
        f"Its positions in two restarts differ by {number(float(apart), 2)} radii of the map (root "
        f"mean square){neighbours}."
    )


#: Colour option of the residual.
BY_RESIDUAL = "residual"
RESIDUAL_TITLE = "standardised residual"


def residual_colour(fitted_map: FittedMap) -> NumericColours | None:
    """Rows coloured by their residual, NaN for rows without one; None without decoding."""
    if not fitted_map.model.capabilities.decoding:
        return None
    found = row_analysis.residuals(fitted_map.run)
    values = np.full(len(fitted_map.dataset), np.nan)
    values[found.rows] = found.size
    return NumericColours(RESIDUAL_TITLE, values)


def describe_residuals(fitted_map: FittedMap) -> list[str]:
    """Sentences on the residual, below the map."""
    measured, rows = len(row_analysis.residuals(fitted_map.run).rows), len(fitted_map.dataset)
    sentences = ["Residual: the expected value for a new row is 1."]
    if measured < rows:
        sentences.append(f"It was measured for {count(measured, 'row')}; the others are hollow.")
    return sentences
