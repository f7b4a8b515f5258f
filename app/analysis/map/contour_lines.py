"""Contour lines of the heatmap behind a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.analysis.map.heatmaps import Heatmap
from lvmcore.numerics.array_types import FloatArray

__all__ = ["ContourLine", "contour_lines"]

#: About this many levels.
_LEVELS = 7


@dataclass(frozen=True)
class ContourLine:
    """A line on which a heatmap has one value.

    Attributes:
        level: the value.
        points: corners of the line, [n, 2].
    """

    level: float
    points: FloatArray


def contour_lines(grid: Heatmap) -> list[ContourLine]:
    """The contour lines of a heatmap at round values; none where its value is constant.

    Between the points of the grid the value is linear along each edge.
    """
    if grid.flat:
        return []
    from contourpy import LineType, contour_generator

    generator = contour_generator(grid.x, grid.y, grid.value, line_type=LineType.Separate)
    return [
        ContourLine(level, np.asarray(line))
        for level in _round_levels(*grid.ends)
        for line in generator.lines(level)
    ]


def _round_levels(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, within the range."""
    rough = (high - low) / _LEVELS
    power = 10.0 ** np.floor(np.log10(rough))
    steps = [power * factor for factor in (1, 2, 5, 10)]
    step = min(steps, key=lambda one: abs(np.log(one / rough)))
    first, last = np.floor(low / step) + 1, np.ceil(high / step) - 1
    return [float(step * multiple) + 0.0 for multiple in np.arange(first, last + 1)]
