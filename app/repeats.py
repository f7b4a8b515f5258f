"""Maps of the same rows from several starts or seeds, laid over one of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.axes import Axes, positions
from app.figures import evenly
from lvmcore.disagreement import stability
from lvmcore.errors import DataError
from lvmcore.metrics import procrustes

__all__ = ["MOST_ROWS", "apart", "laid_over", "spread"]

FloatArray = NDArray[np.float64]

#: Rows whose places are compared at most.
MOST_ROWS = 1500


def laid_over(means: Sequence[FloatArray], axes: Axes) -> list[FloatArray]:
    """Where several maps draw the same rows, each laid over the first.

    Every map is rotated (or mirrored), scaled and shifted in all its dimensions to lie as near as
    can be to the first, whose axes are then drawn.

    Args:
        means: latent means of the same rows, [N, Q] each.
        axes: the dimensions of the first map to draw.

    Returns:
        Positions, [N, 2] each.
    """
    moved = [means[0]]
    for mean in means[1:]:
        try:
            moved.append(procrustes(means[0], mean).apply(mean))
        except DataError:  # of other dimensions, or all rows in one place: nothing to turn
            moved.append(mean)
    return [positions(mean, axes) for mean in moved]


def apart(means: Sequence[FloatArray]) -> FloatArray | None:
    """How far maps of the same rows disagree on each row, in radii of the map, [N].

    Of more than ``MOST_ROWS`` rows some, evenly spaced, are looked at; the others get NaN. None
    where the maps cannot be compared.
    """
    if len({mean.shape for mean in means}) != 1 or len(means) < 2:
        return None
    rows = evenly(len(means[0]), MOST_ROWS)
    try:
        report = stability([mean[rows] for mean in means])
    except DataError:
        return None
    found = np.full(len(means[0]), np.nan)
    found[rows] = report.disagreement
    return found


def spread(disagreement: FloatArray) -> tuple[float, float]:
    """The median and the 90 % quantile of what is known of a disagreement."""
    middle, high = np.nanquantile(disagreement, [0.5, 0.9])
    return float(middle), float(high)
