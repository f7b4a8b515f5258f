"""The Riemannian geometry of a latent space: its metric, lengths of paths, shortest paths.

The expected metric at a latent point x is G(x) = Σ_d E[∂f_d/∂x ∂f_d/∂xᵀ], [Q, Q], over the columns
in standardised units (Tosi et al. 2014; Hauberg 2018 for what it measures): a small step δ changes
the columns by √(δᵀ G δ) in root mean square, √det G is the magnification factor (Bishop et al.
1997), and the integral of √(ẋᵀ G ẋ) is the length of a curve.

Far from the data a Gaussian process returns to its prior, whose G is constant, so a shortest path
may cross regions without data. ``shortest_path`` takes an uncertainty of latent points and
penalises steps through uncertain regions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.numerics.linalg import cholesky

__all__ = [
    "Field",
    "LatentPath",
    "constant_metric",
    "latent_path",
    "magnification",
    "segment_lengths",
    "shortest_path",
    "straight_path",
]

#: The metric or another quantity of latent points [n, Q]; differentiable.
Field = Callable[[Tensor], Tensor]

#: Rows in the neighbour graph at most, and neighbours of each.
MAX_NODES = 600
N_NEIGHBOURS = 10
#: Factor by which lengths grow in a region of full uncertainty, less one.
UNCERTAINTY_PENALTY = 10.0
#: A point is certain if its uncertainty is below this quantile over the rows.
KNOWN_QUANTILE = 0.95
#: Points of a curve whose energy is minimised, and evaluations at most: a tenth of a second.
#: Lengths are then within about 1 % of those of the shortest curve.
CURVE_POINTS = 17
CURVE_STEPS = 40
#: Parts of a step in which the metric counts as constant when a curve is resampled.
STEP_PARTS = 8
#: Points in one evaluation of the metric; bounds memory, does not change results.
BLOCK_POINTS = 8192
# Gauss–Legendre on [0, 1] with two points: exact where √(δᵀ G δ) is cubic along the step.
_GAUSS = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)


@dataclass(frozen=True)
class LatentPath:
    """A curve through the latent space.

    Attributes:
        points: at equal distances along the curve, [P, Q].
        distance: the length from the start to each of them, [P]; in sd of the columns.
    """

    points: NDArray[np.float64]
    distance: NDArray[np.float64]


def magnification(metric: Tensor) -> Tensor:
    """√det G of metrics [n, q, q], [n]: the magnification factor at a point."""
    root: Tensor = torch.linalg.det(metric).clamp_min(0).sqrt()
    return root


def constant_metric(weights: Tensor, X: Tensor) -> Tensor:
    """Wᵀ W at every point X [n, Q] of a linear map y = W x, W [D, Q]; [n, Q, Q]."""
    return (weights.T @ weights).expand(len(X), -1, -1)


def segment_lengths(metric: Field, points: Tensor) -> Tensor:
    """Lengths ∫ √(ẋᵀ G ẋ) of the straight steps between points [P, Q], [P − 1]."""
    return _lengths(metric, points[:-1], points[1:])


def latent_path(
    metric: Field,
    ends: tuple[Tensor, Tensor],
    rows: Tensor,
    *,
    along: Literal["data", "line"],
    points: int,
    uncertainty: Field,
) -> LatentPath:
    """A curve between two latent points, ``shortest_path`` ("data") or ``straight_path`` ("line").

    Raises:
        ConfigError: too few points, or no such kind of curve.
    """
    if points < 2:
        raise ConfigError(f"points={points!r} cannot be used: a way has at least 2, its ends.")
    if along not in ("data", "line"):
        raise ConfigError(f'along={along!r} cannot be used: choose "data" or "line".')
    if along == "line":
        return straight_path(metric, *ends, points)
    return shortest_path(metric, *ends, rows, points=points, uncertainty=uncertainty)


def straight_path(metric: Field, start: Tensor, end: Tensor, points: int) -> LatentPath:
    """The straight line from ``start`` to ``end``, both [Q], in equal steps."""
    return _measured_path(metric, _line(start, end, points))


def shortest_path(
    metric: Field,
    start: Tensor,
    end: Tensor,
    rows: Tensor,
    *,
    points: int,
    uncertainty: Field | None = None,
) -> LatentPath:
    """The shortest path found from ``start`` to ``end`` under a metric.

    Minimises the energy Σ δᵀ G δ over the steps of a curve, whose minimum is the shortest curve at
    constant speed, from two initial curves: the straight line, and the shortest path through rows
    (Dijkstra on the graph of nearest neighbours). Returns the shorter result.

    Args:
        metric: G at latent points, [n, Q, Q].
        start: [Q].
        end: [Q].
        rows: latent positions of the rows, [N, Q]; at most ``MAX_NODES`` of them are used.
        points: of the curve that is returned, its two ends among them.
        uncertainty: of latent points, 0 to 1, [n]. Where it exceeds that of most rows, lengths
            count up to 1 + ``UNCERTAINTY_PENALTY`` times. None for no penalty.

    Returns:
        The path; its distances are those of ``metric`` itself, without the penalty.
    """
    if bool((start == end).all()):
        return straight_path(metric, start, end, points)
    cost = metric if uncertainty is None else _penalised_metric(metric, uncertainty, rows)
    found = [_minimum_energy(cost, _line(start, end, CURVE_POINTS))]
    nodes = _evenly_spaced(rows, MAX_NODES)
    along = _graph_path(cost, torch.cat([start[None], end[None], nodes]))
    if len(along) > 2:
        found.append(_minimum_energy(cost, _resampled(cost, along, CURVE_POINTS)))
    with torch.no_grad():
        best = min(found, key=lambda curve: float(segment_lengths(cost, curve).sum()))
        return _measured_path(metric, _resampled(metric, best, points))


# ---- parts -----------------------------------------------------------------------------------


def _line(start: Tensor, end: Tensor, points: int) -> Tensor:
    share = torch.linspace(0, 1, points).to(start)
    return start + share[:, None] * (end - start)


def _evenly_spaced(rows: Tensor, most: int) -> Tensor:
    """At most ``most`` rows, evenly spaced."""
    return rows[:: max(1, -(-len(rows) // most))]


def _squared_lengths(metric: Field, starts: Tensor, ends: Tensor) -> Tensor:
    """δᵀ G δ of straight steps δ, at two quadrature nodes in each, [2, n]."""
    found = []
    for a, b in zip(*(torch.split(at, BLOCK_POINTS) for at in (starts, ends)), strict=True):
        step = b - a
        metrics = [metric(a + share * step) for share in _GAUSS]
        found.append(torch.stack([((step[:, None] @ G)[:, 0] * step).sum(1) for G in metrics]))
    return torch.cat(found, dim=1).clamp_min(0)


def _lengths(metric: Field, starts: Tensor, ends: Tensor) -> Tensor:
    return _squared_lengths(metric, starts, ends).sqrt().mean(0)


def _penalised_metric(metric: Field, uncertainty: Field, rows: Tensor) -> Field:
    """The metric times (1 + UNCERTAINTY_PENALTY · excess uncertainty)²."""
    with torch.no_grad():
        some = _evenly_spaced(rows, BLOCK_POINTS)  # the first rows of a sorted table are alike
        known = torch.quantile(uncertainty(some), KNOWN_QUANTILE).clamp_max(1 - 1e-6)

    def cost(X: Tensor) -> Tensor:
        excess = ((uncertainty(X) - known) / (1 - known)).clamp(0, 1)
        return metric(X) * (1 + UNCERTAINTY_PENALTY * excess).square()[:, None, None]

    return cost


def _graph_path(metric: Field, nodes: Tensor) -> Tensor:
    """The shortest path from the first node to the second through the neighbour graph, [P, Q]."""
    with torch.no_grad():
        mean = metric(nodes).mean(0)
        scaled = (nodes.double() @ cholesky(mean, "mean metric")[0]).cpu().numpy()
        pairs = _neighbours(scaled)
        a, b = (torch.as_tensor(pairs[:, i]).to(nodes.device) for i in (0, 1))
        weights = _lengths(metric, nodes[a], nodes[b]).double().cpu().numpy()
    n = len(scaled)
    # A sparse matrix drops edges of length 0.
    graph = coo_matrix((np.maximum(weights, 1e-300), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, before = dijkstra(graph, directed=False, indices=np.array(0), return_predecessors=True)
    path = [1]
    while path[-1] != 0:
        path.append(int(before[path[-1]]))
    return nodes[path[::-1]]


def _neighbours(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Edges of the connected graph of nearest neighbours, each once, [E, 2]."""
    tree = cKDTree(points)
    _, near = tree.query(points, k=min(N_NEIGHBOURS + 1, len(points)))
    each = np.repeat(np.arange(len(points)), near.shape[1])
    pairs = np.column_stack([each, near.ravel()])
    while True:
        graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            break
        inside = part == part[0]  # add the shortest edge to another component
        own, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        gap, nearest = cKDTree(points[own]).query(points[others])
        bridge = int(np.argmin(gap))
        pairs = np.vstack([pairs, [own[np.ravel(nearest)[bridge]], others[bridge]]])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    found: NDArray[np.intp] = pairs[pairs[:, 0] != pairs[:, 1]]
    return found


def _minimum_energy(metric: Field, curve: Tensor) -> Tensor:
    """A curve [P, Q] with its inner points at minimal energy, by L-BFGS."""
    if len(curve) < 3:
        return curve
    scale = (curve[1:] - curve[:-1]).square().sum().sqrt().clamp_min(1e-12)
    inner = (curve[1:-1] / scale).clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS(
        [inner], max_iter=CURVE_STEPS, max_eval=CURVE_STEPS, line_search_fn="strong_wolfe"
    )

    def full_curve() -> Tensor:
        return torch.cat([curve[:1], inner * scale, curve[-1:]])

    def energy() -> Tensor:
        now = full_curve()
        value = _squared_lengths(metric, now[:-1], now[1:]).mean(0).sum() * (len(curve) - 1)
        # The gradient of these points alone: a model's parameters keep theirs.
        (inner.grad,) = torch.autograd.grad(value, [inner])
        return value

    with torch.enable_grad():
        optimiser.step(energy)  # type: ignore[no-untyped-call]
    result = full_curve().detach()
    return result if bool(torch.isfinite(result).all()) else curve


def _resampled(metric: Field, curve: Tensor, points: int) -> Tensor:
    """Points [points, Q] at equal distances along a polygon, under a metric."""
    with torch.no_grad():
        share = torch.linspace(0, 1, STEP_PARTS + 1).to(curve)[:-1, None]
        parts = curve[:-1, None] + share * (curve[1:] - curve[:-1])[:, None]
        curve = torch.cat([parts.flatten(0, 1), curve[-1:]])
        travelled = torch.cat([curve.new_zeros(1), segment_lengths(metric, curve).cumsum(0)])
        stops = torch.linspace(0, 1, points).to(curve) * travelled[-1]
        leg = torch.searchsorted(travelled, stops, right=True).clamp(1, len(curve) - 1)
        from_, to = travelled[leg - 1], travelled[leg]
        least = torch.finfo(curve.dtype).tiny  # of a step of length 0
        share = ((stops - from_) / (to - from_).clamp_min(least)).clamp(0, 1)[:, None]
        spaced = curve[leg - 1] + share * (curve[leg] - curve[leg - 1])
        spaced[0], spaced[-1] = curve[0], curve[-1]
        return spaced


def _measured_path(metric: Field, points: Tensor) -> LatentPath:
    with torch.no_grad():
        distance = torch.cat([points.new_zeros(1), segment_lengths(metric, points).cumsum(0)])
    return LatentPath(points.double().cpu().numpy(), distance.double().cpu().numpy())
