"""Axes of the map: the displayed latent dimensions and the positions of rows on them. Pure."""

from __future__ import annotations

import numpy as np

from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "Axes",
    "axes_after_click",
    "extent",
    "latent_position",
    "positions",
]


#: Horizontal and vertical latent dimension; None is the row number, for maps of one dimension.
Axes = tuple[int, int | None]

MARGIN = 0.08


def axes_after_click(axes: Axes, dimension: int) -> Axes:
    """The axes after a click on a relevance bar.

    The clicked dimension becomes the horizontal axis, and the previous horizontal dimension the
    vertical one. A dimension that is already displayed swaps with the other one.
    """
    if axes[1] is None:
        return axes
    if dimension in axes:
        return axes[1], axes[0]
    return dimension, axes[0]


def positions(latent: FloatArray, axes: Axes) -> FloatArray:
    """Positions of rows on the map, [N, 2], from their latent means [N, Q]."""
    first, second = axes
    vertical = np.arange(1.0, len(latent) + 1) if second is None else latent[:, second]
    return np.column_stack([latent[:, first], vertical])


def latent_position(held: tuple[float, ...], axes: Axes, x: float, y: float) -> tuple[float, ...]:
    """The latent point at (x, y) of the map, with the other dimensions from ``held``."""
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
