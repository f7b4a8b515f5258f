"""What the map shows of the latent space, and the positions of rows on it. Pure."""

from __future__ import annotations

import numpy as np

from lvmcore.numerics.array_types import FloatArray
from lvmcore.projection import LatentProjection

__all__ = [
    "MARGIN",
    "Axes",
    "View",
    "axes_after_click",
    "basis",
    "covariances",
    "extent",
    "is_line",
    "latent_position",
    "latent_positions",
    "origin",
    "positions",
    "shown_dimensions",
]


#: Horizontal and vertical latent dimension; None is the row number, for maps of one dimension.
Axes = tuple[int, int | None]
#: What a map shows: two dimensions, or a projection of all of them.
View = Axes | LatentProjection

MARGIN = 0.08
#: Width by height of the plot area, about, and so of the ranges of a map with equal units.
ASPECT = 1.28


def shown_dimensions(view: View) -> tuple[int, ...]:
    """The latent dimensions on the axes; none for a projection."""
    if isinstance(view, LatentProjection):
        return ()
    return tuple(dimension for dimension in view if dimension is not None)


def is_line(view: View) -> bool:
    """Whether the map has one dimension, with the row number on its vertical axis."""
    return len(shown_dimensions(view)) == 1


def origin(view: View, dimensions: int) -> tuple[float, ...]:
    """The latent point, [Q], whose values the dimensions that are not shown have by default."""
    return view.centre if isinstance(view, LatentProjection) else (0.0,) * dimensions


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


def positions(latent: FloatArray, view: View) -> FloatArray:
    """Positions of rows on the map, [N, 2], from their latent means [N, Q]."""
    if isinstance(view, LatentProjection):
        return view.points(latent)
    first, second = view
    vertical = np.arange(1.0, len(latent) + 1) if second is None else latent[:, second]
    return np.column_stack([latent[:, first], vertical])


def covariances(variance: FloatArray, view: View) -> FloatArray:
    """Covariances of rows on the map, [N, 2, 2], from their latent variances [N, Q].

    The row number has no variance.
    """
    if isinstance(view, LatentProjection):
        return view.covariance(variance)
    found = np.zeros((len(variance), 2, 2))
    for axis, dimension in enumerate(shown_dimensions(view)):
        found[:, axis, axis] = variance[:, dimension]
    return found


def basis(view: View, dimensions: int) -> FloatArray:
    """Latent steps of a unit along each axis of the map, [Q, 2]; [Q, 1] with one dimension."""
    if isinstance(view, LatentProjection):
        return np.array(view.basis)
    return np.eye(dimensions)[:, list(shown_dimensions(view))]


def latent_positions(held: tuple[float, ...], view: View, points: FloatArray) -> FloatArray:
    """Latent points [n, Q] at positions [n, 2] of the map.

    Args:
        held: a latent point; the dimensions, or the directions, that the map does not show are
            those of this point.
        view: what the map shows.
        points: positions on the map, [n, 2].
    """
    if isinstance(view, LatentProjection):
        return view.latent(points, np.array(held))
    found = np.tile(np.array(held, dtype=np.float64), (len(points), 1))
    for axis, dimension in enumerate(shown_dimensions(view)):
        found[:, dimension] = points[:, axis]
    return found


def latent_position(held: tuple[float, ...], view: View, x: float, y: float) -> tuple[float, ...]:
    """The latent point at (x, y) of the map, with the other dimensions from ``held``."""
    found: list[float] = latent_positions(held, view, np.array([[x, y]]))[0].tolist()
    return tuple(found)


def extent(
    points: FloatArray, view: View | None = None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The range of points [N, 2] along each axis, with a margin.

    A projection has the same unit on both axes, so the shorter range is widened to the aspect of
    the plot area.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    low, high = low - MARGIN * width, high + MARGIN * width
    if isinstance(view, LatentProjection):
        across, up = (high - low).tolist()
        wanted = np.array([max(across, ASPECT * up), max(up, across / ASPECT)])
        more = (wanted - (high - low)) / 2
        low, high = low - more, high + more
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))
