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
RESIDUAL_TITLE = "largest residual, robust sd"
#: The colour scale ends at this share of the rows: one gross cell would leave no other contrast.
_COLOURED_SHARE = 0.98


def residual_colour(fitted_map: FittedMap) -> NumericColours | None:
    """Rows coloured by their residual, NaN for rows without one; None without decoding."""
    if not fitted_map.model.capabilities.decoding:
        return None
    found = row_analysis.residuals(fitted_map.run)
    values = np.full(len(fitted_map.dataset), np.nan)
    values[found.rows] = found.size
    known = found.size[~np.isnan(found.size)]
    ends = (float(known.min()), float(np.quantile(known, _COLOURED_SHARE))) if len(known) else None
    return NumericColours(RESIDUAL_TITLE, values, ends)


def describe_residuals(fitted_map: FittedMap) -> list[str]:
    """Sentences on the residual, below the map."""
    found, rows = row_analysis.residuals(fitted_map.run), len(fitted_map.dataset)
    sentences = [
        "Residual: the cell of a row that differs most from what its other cells say; half of the "
        f"rows have less than {number(found.typical, 2)} robust sd."
    ]
    if len(found.rows) < rows:
        measured = count(len(found.rows), "row")
        sentences.append(f"It was measured for {measured}; the others are hollow.")
    return sentences
