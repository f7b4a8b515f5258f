"""The map's axes: which latent dimensions they show, and where rows lie on them. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Axes",
    "axes_after_click",
    "extent",
    "place",
    "positions",
]

FloatArray = NDArray[np.float64]

#: The horizontal and the vertical latent dimension; None is the row's number, for maps of one.
Axes = tuple[int, int | None]

MARGIN = 0.08


def axes_after_click(axes: Axes, dimension: int) -> Axes:
    """The axes once a relevance bar was clicked.

    The dimension goes to the horizontal axis, and the one that was there to the vertical. A
    dimension that is on the map already changes places with the other.
    """
    if axes[1] is None:
        return axes
    if dimension in axes:
        return axes[1], axes[0]
    return dimension, axes[0]


def positions(latent: FloatArray, axes: Axes) -> FloatArray:
    """Where rows lie on the map, [N, 2], given their latent means [N, Q]."""
    first, second = axes
    upright = np.arange(1.0, len(latent) + 1) if second is None else latent[:, second]
    return np.column_stack([latent[:, first], upright])


def place(held: tuple[float, ...], axes: Axes, x: float, y: float) -> tuple[float, ...]:
    """The latent point at (x, y) of the map, the other dimensions as in ``held``."""
    latent = list(held)
    latent[axes[0]] = x
    if axes[1] is not None:
        latent[axes[1]] = y
    return tuple(latent)


def extent(points: FloatArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """The range of points [N, 2] along each axis, with a margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    low, high = low - MARGIN * width, high + MARGIN * width
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))
