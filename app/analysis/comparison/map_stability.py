"""Stability of maps of the same rows over restarts or seeds. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.analysis.map.map_axes import Axes, positions
from app.analysis.map.subsampling import evenly_spaced
from lvmcore.errors import DataError
from lvmcore.metrics.scores import procrustes
from lvmcore.metrics.stability import stability
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MOST_ROWS", "align_all", "row_disagreement", "spread"]


#: Most rows whose positions are compared.
MOST_ROWS = 1500


def align_all(means: Sequence[FloatArray], axes: Axes) -> list[FloatArray]:
    """Positions of the same rows on several maps, each aligned to the first.

    Every map is rotated (or reflected), scaled and shifted in all its dimensions to the least
    squared distance from the first. The axes are those of the first map.

    Args:
        means: latent means of the same rows, [N, Q] each.
        axes: the dimensions of the first map to display.

    Returns:
        Positions, [N, 2] each.
    """
    aligned = [means[0]]
    for mean in means[1:]:
        try:
            aligned.append(procrustes(means[0], mean).apply(mean))
        except DataError:  # other dimensions, or all rows at one point: no alignment
            aligned.append(mean)
    return [positions(mean, axes) for mean in aligned]


def row_disagreement(means: Sequence[FloatArray]) -> FloatArray | None:
    """Disagreement of maps of the same rows on each row, in radii of the map, [N].

    More than ``MOST_ROWS`` rows are subsampled evenly; the other rows get NaN. None if the maps
    cannot be compared.
    """
    if len({mean.shape for mean in means}) != 1 or len(means) < 2:
        return None
    rows = evenly_spaced(len(means[0]), MOST_ROWS)
    try:
        report = stability([mean[rows] for mean in means])
    except DataError:
        return None
    found = np.full(len(means[0]), np.nan)
    found[rows] = report.disagreement
    return found


def spread(disagreement: FloatArray) -> tuple[float, float]:
    """Median and 90 % quantile of a disagreement, without NaN."""
    middle, high = np.nanquantile(disagreement, [0.5, 0.9])
    return float(middle), float(high)
