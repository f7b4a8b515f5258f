"""Regions drawn on the map, and the rows inside them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.analysis.map.map_axes import View

__all__ = ["Region", "rounded", "rows_inside"]

Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Region:
    """One or more polygons drawn on the map, which together are one selection.

    Attributes:
        axes: the displayed latent dimensions, the second None on a map of one dimension; or the
            projection of all dimensions.
        polygons: corners of each polygon, in latent units; a box has four.
    """

    axes: View
    polygons: tuple[Polygon, ...]

    def members(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which points [N, 2] on the region's axes lie in one of its polygons, [N]."""
        found = np.zeros(len(points), dtype=np.bool_)
        for polygon in self.polygons:
            found |= rows_inside(points, polygon)
        return found


def rounded(polygon: Polygon) -> Polygon:
    """A drawn polygon with corners rounded to 1/1000 of its extent, or less, and no repeated one.

    That is less than a pixel, and keeps the description of a long lasso short.
    """
    corners = np.array(polygon)
    extent = float(np.ptp(corners, axis=0).max())
    if not 0.0 < extent < np.inf:
        return polygon
    digits = 3 - math.floor(math.log10(extent))
    found = [(round(x, digits), round(y, digits)) for x, y in polygon]
    before = [found[-1], *found[:-1]]
    kept = tuple(one for one, last in zip(found, before, strict=True) if one != last)
    return kept if len(kept) > 2 else polygon


def rows_inside(points: NDArray[np.float64], polygon: ArrayLike) -> NDArray[np.bool_]:
    """Which points lie inside a polygon: those with a winding number other than 0.

    A point on the boundary is inside. Every enclosed part of a polygon that crosses itself is
    inside, whatever the number and direction of the turns. The winding number is the sum of signed
    crossings of the horizontal ray to the right.

    Args:
        points: [N, 2].
        polygon: corners in order, [K, 2]; the last is connected to the first.

    Returns:
        [N].
    """
    corners = np.asarray(polygon, dtype=np.float64).reshape(-1, 2)
    found = np.zeros(len(points), dtype=np.bool_)
    near = np.flatnonzero(
        ((points >= corners.min(axis=0)) & (points <= corners.max(axis=0))).all(axis=1)
    )
    near = near[np.argsort(points[near, 1])]  # by height: an edge concerns one interval of them
    x, y = points[near, 0], points[near, 1]
    winding = np.zeros(len(near), dtype=np.int64)
    boundary = np.zeros(len(near), dtype=np.bool_)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        low, high = min(y0, y1), max(y0, y1)
        start, end = np.searchsorted(y, [low, high], side="left")
        past = np.searchsorted(y, high, side="right")
        part = slice(start, past)
        # Twice the signed area of (start, end, point): positive to the left of the edge.
        side = (x1 - x0) * (y[part] - y0) - (x[part] - x0) * (y1 - y0)
        within_x = (min(x0, x1) <= x[part]) & (x[part] <= max(x0, x1))
        boundary[part] |= (side == 0) & within_x
        crossed = side[: end - start]
        winding[start:end] += crossed > 0 if y0 < y1 else -(crossed < 0).astype(np.int64)
    found[near] = boundary | (winding != 0)
    return found
