"""The map's axes: which latent dimensions they show, and where rows lie on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Axes",
    "axes_after_click",
    "default_axes",
    "extent",
    "place",
    "positions",
    "shares",
]

FloatArray = NDArray[np.float64]

#: The horizontal and the vertical latent dimension; None is the row's number, for maps of one.
Axes = tuple[int, int | None]

MARGIN = 0.08
#: A label dimension with a smaller share than this tells no class from another.
NEGLIGIBLE = 0.01


def shares(relevance: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Relevance of each latent dimension as a share of its path's sum, each [Q]."""
    total = {path: float(alpha.sum()) for path, alpha in relevance.items()}
    return {
        path: alpha / total[path] if total[path] > 0 else np.full(len(alpha), 1 / len(alpha))
        for path, alpha in relevance.items()
    }


def default_axes(relevance: Mapping[str, FloatArray]) -> Axes:
    """The two dimensions to show first.

    The label path decides where there is one, as telling the classes apart is what such a map is
    for; where it uses fewer than two dimensions (the others' share is negligible), and in a model
    without labels, the data path decides. Largest share first; equal shares in order.

    Args:
        relevance: α per path, each [Q].

    Returns:
        Horizontal and vertical dimension; the vertical one is None where Q = 1.
    """
    share = shares(relevance)
    data = share.get("data", next(iter(share.values())))
    by_data = np.argsort(-data, kind="stable")
    labels = share.get("labels", np.zeros(len(data)))
    by_labels = [q for q in np.argsort(-labels, kind="stable") if labels[q] >= NEGLIGIBLE]
    order = list(dict.fromkeys(int(q) for q in (*by_labels, *by_data)))
    return (order[0], order[1]) if len(order) > 1 else (order[0], None)


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
