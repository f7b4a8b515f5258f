"""The geometry of a map: how fast the columns change over it, and the shortest ways on it.

The expected metric at a latent point x is G(x) = Σ_d E[∂f_d/∂x ∂f_d/∂xᵀ], [Q, Q], over the columns
in standardised units (Tosi et al. 2014; Hauberg 2018 for what it measures): a small step δ changes
the columns by √(δᵀ G δ) in root mean square, √det G is the magnification factor (Bishop et al.
1997), and the integral of √(ẋᵀ G ẋ) is the length of a curve.

Where nothing was seen a Gaussian process returns to its prior, whose G is the same everywhere: the
shortest way may then lead over ground that the model knows nothing of. ``shortest`` can be told how
little the model knows of a place, and then takes every step over such ground for a longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from torch import Tensor

from lvmcore.linalg import cholesky

__all__ = [
    "Field",
    "LatentPath",
    "constant_metric",
    "length",
    "magnification",
    "shortest",
    "straight",
]

#: The metric or another quantity of latent points [n, Q]; differentiable.
Field = Callable[[Tensor], Tensor]

#: Rows that a way can be laid along, at most; each with so many neighbours.
MOST_NODES = 600
NEIGHBOURS = 10
#: How much longer a step over wholly unknown ground counts.
DETOUR = 10.0
#: Ground is known where the model knows as much as it does of this share of the rows' places.
KNOWN_ROWS = 0.95
#: A curve is bent at so many places, until so many evaluations have been spent on it: a tenth of a
#: second. Lengths are then within about 1 % of those of the shortest curve.
BENT_AT = 17
BENDS = 40
#: Parts of a step within which the metric is taken to be even when points are spaced.
PARTS = 8
#: Places at which the metric is evaluated at a time: bounds memory, changes no result.
PLACES_AT_A_TIME = 8192
# Gauss–Legendre on [0, 1] with two points: exact where √(δᵀ G δ) is cubic along the step.
_GAUSS = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)


@dataclass(frozen=True)
class LatentPath:
    """A curve through the latent space.

    Attributes:
        points: along it, evenly spaced by what is on the way, [P, Q].
        distance: the length from the start to each of them, [P]; in sd of the columns.
    """

    points: NDArray[np.float64]
    distance: NDArray[np.float64]


def magnification(metric: Tensor) -> Tensor:
    """√det G of metrics [n, q, q], [n]: how much the map is blown up around a place."""
    root: Tensor = torch.linalg.det(metric).clamp_min(0).sqrt()
    return root


def constant_metric(weights: Tensor, X: Tensor) -> Tensor:
    """Wᵀ W at every point X [n, Q] of a linear map y = W x, W [D, Q]; [n, Q, Q]."""
    return (weights.T @ weights).expand(len(X), -1, -1)


def length(metric: Field, points: Tensor) -> Tensor:
    """Lengths ∫ √(ẋᵀ G ẋ) of the straight steps between points [P, Q], [P − 1]."""
    return _lengths(metric, points[:-1], points[1:])


def straight(metric: Field, start: Tensor, end: Tensor, points: int) -> LatentPath:
    """The straight line from ``start`` to ``end``, both [Q], in steps of one size."""
    return _way(metric, _line(start, end, points))


def shortest(
    metric: Field,
    start: Tensor,
    end: Tensor,
    rows: Tensor,
    *,
    points: int,
    doubt: Field | None = None,
) -> LatentPath:
    """The shortest way found from ``start`` to ``end`` under a metric.

    Two curves are bent until they cost the least, Σ δᵀ G δ over their steps (whose minimum is the
    shortest curve, walked evenly), and the shorter one is taken: the straight line, and the
    shortest path by way of rows (Dijkstra over each one's nearest neighbours).

    Args:
        metric: G at latent points, [n, Q, Q].
        start: [Q].
        end: [Q].
        rows: where the rows lie, [N, Q]; at most ``MOST_NODES`` of them, evenly, are gone by.
        points: of the curve that is returned, its two ends among them.
        doubt: how little is known of latent points, 0 to 1, [n]: beyond what is known of most
            rows' places, lengths count up to 1 + ``DETOUR`` times. None: lengths count as they are.

    Returns:
        The way; its distances are those of ``metric`` itself.
    """
    if bool((start == end).all()):
        return straight(metric, start, end, points)
    cost = metric if doubt is None else _around(metric, doubt, rows)
    found = [_bent(cost, _line(start, end, BENT_AT))]
    nodes = _evenly(rows, MOST_NODES)
    along = _along_rows(cost, torch.cat([start[None], end[None], nodes]))
    if len(along) > 2:
        found.append(_bent(cost, _spaced(cost, along, BENT_AT)))
    with torch.no_grad():
        best = min(found, key=lambda curve: float(length(cost, curve).sum()))
        return _way(metric, _spaced(metric, best, points))


# ---- the parts -------------------------------------------------------------------------------


def _line(start: Tensor, end: Tensor, points: int) -> Tensor:
    share = torch.linspace(0, 1, points).to(start)
    return start + share[:, None] * (end - start)


def _evenly(rows: Tensor, most: int) -> Tensor:
    """At most so many rows, evenly spaced."""
    return rows[:: max(1, -(-len(rows) // most))]


def _squares(metric: Field, starts: Tensor, ends: Tensor) -> Tensor:
    """δᵀ G δ of straight steps δ, at two places within each, [2, n]."""
    found = []
    for a, b in zip(*(torch.split(at, PLACES_AT_A_TIME) for at in (starts, ends)), strict=True):
        step = b - a
        places = [metric(a + share * step) for share in _GAUSS]
        found.append(torch.stack([((step[:, None] @ G)[:, 0] * step).sum(1) for G in places]))
    return torch.cat(found, dim=1).clamp_min(0)


def _lengths(metric: Field, starts: Tensor, ends: Tensor) -> Tensor:
    return _squares(metric, starts, ends).sqrt().mean(0)


def _around(metric: Field, doubt: Field, rows: Tensor) -> Field:
    """The metric, larger by (1 + DETOUR · excess doubt)² off the known ground."""
    with torch.no_grad():
        some = _evenly(rows, PLACES_AT_A_TIME)  # of a sorted table the first rows are all alike
        known = torch.quantile(doubt(some), KNOWN_ROWS).clamp_max(1 - 1e-6)

    def cost(X: Tensor) -> Tensor:
        excess = ((doubt(X) - known) / (1 - known)).clamp(0, 1)
        return metric(X) * (1 + DETOUR * excess).square()[:, None, None]

    return cost


def _along_rows(metric: Field, nodes: Tensor) -> Tensor:
    """The shortest path from the first to the second of some points by way of the others."""
    with torch.no_grad():
        mean = metric(nodes).mean(0)
        scaled = (nodes.double() @ cholesky(mean, "mean metric")[0]).cpu().numpy()
        pairs = _neighbours(scaled)
        a, b = (torch.as_tensor(pairs[:, i]).to(nodes.device) for i in (0, 1))
        weights = _lengths(metric, nodes[a], nodes[b]).double().cpu().numpy()
    n = len(scaled)
    # A step of length 0 would be no edge at all.
    graph = coo_matrix((np.maximum(weights, 1e-300), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, before = dijkstra(graph, directed=False, indices=np.array(0), return_predecessors=True)
    path = [1]
    while path[-1] != 0:
        path.append(int(before[path[-1]]))
    return nodes[path[::-1]]


def _neighbours(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Pairs of near points, each once, [E, 2]; enough to reach every point from every other."""
    tree = cKDTree(points)
    _, near = tree.query(points, k=min(NEIGHBOURS + 1, len(points)))
    each = np.repeat(np.arange(len(points)), near.shape[1])
    pairs = np.column_stack([each, near.ravel()])
    while True:
        graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            break
        inside = part == part[0]  # joined to what is nearest of the rest, until nothing is left
        own, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        gap, nearest = cKDTree(points[own]).query(points[others])
        bridge = int(np.argmin(gap))
        pairs = np.vstack([pairs, [own[np.ravel(nearest)[bridge]], others[bridge]]])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    found: NDArray[np.intp] = pairs[pairs[:, 0] != pairs[:, 1]]
    return found


def _bent(metric: Field, curve: Tensor) -> Tensor:
    """A curve [P, Q] whose inner points have been moved until its energy is low."""
    if len(curve) < 3:
        return curve
    scale = (curve[1:] - curve[:-1]).square().sum().sqrt().clamp_min(1e-12)
    inner = (curve[1:-1] / scale).clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        [inner], max_iter=BENDS, max_eval=BENDS, line_search_fn="strong_wolfe"
    )

    def whole() -> Tensor:
        return torch.cat([curve[:1], inner * scale, curve[-1:]])

    def energy() -> Tensor:
        now = whole()
        value = _squares(metric, now[:-1], now[1:]).mean(0).sum() * (len(curve) - 1)
        # Of these points alone: a model's own parameters are left as they are.
        (inner.grad,) = torch.autograd.grad(value, [inner])
        return value

    with torch.enable_grad():
        optimiser.step(energy)  # type: ignore[no-untyped-call]
    bent = whole().detach()
    return bent if bool(torch.isfinite(bent).all()) else curve


def _spaced(metric: Field, curve: Tensor, points: int) -> Tensor:
    """Points [points, Q] on a polygon, at equal distances under a metric."""
    with torch.no_grad():
        share = torch.linspace(0, 1, PARTS + 1).to(curve)[:-1, None]
        parts = curve[:-1, None] + share * (curve[1:] - curve[:-1])[:, None]
        curve = torch.cat([parts.flatten(0, 1), curve[-1:]])
        travelled = torch.cat([curve.new_zeros(1), length(metric, curve).cumsum(0)])
        stops = torch.linspace(0, 1, points).to(curve) * travelled[-1]
        leg = torch.searchsorted(travelled, stops, right=True).clamp(1, len(curve) - 1)
        from_, to = travelled[leg - 1], travelled[leg]
        least = torch.finfo(curve.dtype).tiny  # where there is no way to go, no matter where
        share = ((stops - from_) / (to - from_).clamp_min(least)).clamp(0, 1)[:, None]
        spaced = curve[leg - 1] + share * (curve[leg] - curve[leg - 1])
        spaced[0], spaced[-1] = curve[0], curve[-1]
        return spaced


def _way(metric: Field, points: Tensor) -> LatentPath:
    with torch.no_grad():
        distance = torch.cat([points.new_zeros(1), length(metric, points).cumsum(0)])
    return LatentPath(points.double().cpu().numpy(), distance.double().cpu().numpy())
