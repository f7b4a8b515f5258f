"""Choice of inducing points: by the bound, k-means, or at random by one of three rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.determinantal_process import draw_determinantal
from lvmcore.numerics.linalg import cholesky, solve_lower

__all__ = [
    "InputRule",
    "SubsetRule",
    "centroids",
    "choose_subset",
    "grid_nodes",
    "grid_side",
    "inducing_count",
    "rows_by_bound",
]

#: Rows nearest to k-means centroids; uniform sampling without replacement; by leverage scores; by a
#: determinantal point process.
InputRule = Literal["kmeans", "uniform", "leverage", "determinantal"]
#: In addition: greedily by the bound of a Gaussian process, which needs targets and a kernel.
SubsetRule = Literal["bound", "kmeans", "uniform", "leverage", "determinantal"]

# Maximum number of rows for the rules with a kernel matrix, and the leverage's regularisation λ.
MOST_KERNEL_ROWS, LEVERAGE_NOISE = 2000, 1e-2
# Smallest conditional variance of an eligible row given the chosen rows, over its prior variance.
SMALLEST_VARIANCE_SHARE = 1e-6


def inducing_count(n_inducing: int, n_rows: int, note: Callable[[str], None]) -> int:
    """M, at most the number of rows.

    Args:
        n_inducing: the setting of a model.
        n_rows: N of the fit.
        note: receives a sentence where M is smaller than the setting.
    """
    if n_inducing > n_rows:
        note(f"n_inducing reduced from {n_inducing} to {n_rows}: the table has {n_rows} rows.")
    return min(n_inducing, n_rows)


def choose_subset(X: Tensor, size: int, rule: InputRule, generator: torch.Generator) -> Tensor:
    """Positions of M distinct rows of X [N, H], in increasing order, [min(M, N)].

    Args:
        X: standardised columns.
        size: M.
        rule: see ``InputRule``. With K the RBF kernel with lengthscale √H of at most 2000 rows,
            leverage draws rows without replacement in proportion to [K (K + N λ I)⁻¹]_nn, and the
            determinantal process draws subsets S with probability proportional to det K_SS.
        generator: of the random draws.
    """
    if size >= len(X):
        return torch.arange(len(X))
    if rule == "kmeans":
        chosen = _nearest_to_centroids(X, size, generator)
    elif rule == "uniform":
        chosen = torch.randperm(len(X), generator=generator)[:size]
    else:
        rows = torch.randperm(len(X), generator=generator)[: max(size, MOST_KERNEL_ROWS)]
        some = X[rows].double()
        one = torch.ones((), dtype=some.dtype, device=some.device)
        K = RBF(one, one.expand(X.shape[1]) * np.sqrt(X.shape[1]))(some, some)
        draw = _by_leverage if rule == "leverage" else draw_determinantal
        chosen = rows[draw(K, size, generator)]
    return chosen.sort().values


def rows_by_bound(K: Tensor, Y: Tensor, noise: Tensor, size: int) -> Tensor:
    """Positions of M rows, chosen greedily by the increase of a Gaussian process's bound.

    With Q = K_nS K_SS⁻¹ K_Sn of the rows chosen so far and Σ = Q + σ²I the bound is
    Σ_p log N(y_p | 0, Σ) − P tr(K − Q)/(2σ²) (Titsias 2009, with the same greedy selection). With
    φ = r/√r_n, r the column of K − Q of a further row, that row adds

    ½ Σ_p (φᵀΣ⁻¹y_p)²/(1 + φᵀΣ⁻¹φ) − ½ P log(1 + φᵀΣ⁻¹φ) + P φᵀφ/(2σ²),

    computed for all rows at once from K − Q, Σ⁻¹(K − Q) and Σ⁻¹Y. Each choice is a rank-one update
    of these: M N² operations, and memory for 2 N² numbers.

    Args:
        K: kernel matrix of the rows, [N, N].
        Y: targets, [N, P].
        noise: σ², [].
        size: M, at most N.

    Returns:
        Positions in the order of choice, [M].
    """
    left, weighted, explained = K.clone(), K / noise, Y / noise
    variance, P = K.diagonal(), Y.shape[1]
    open_rows = torch.ones(len(K), dtype=torch.bool, device=K.device)
    chosen = []
    for _ in range(size):
        own = left.diagonal().clone()
        scale = own.clamp_min(SMALLEST_VARIANCE_SHARE * variance)
        square = torch.einsum("ij,ij->j", left, left) / scale
        known = (torch.einsum("ij,ij->j", left, weighted) / scale).clamp_min(0)
        fit = (left @ explained).square().sum(1) / scale / (1 + known)
        gain = 0.5 * (fit + P * (square / noise - known.log1p()))
        # Without an eligible row the choice is arbitrary.
        gain[own < SMALLEST_VARIANCE_SHARE * variance] = torch.finfo(gain.dtype).min
        gain[~open_rows] = -torch.inf
        row = int(gain.argmax())
        chosen.append(row)
        open_rows[row] = False
        root = scale[row].sqrt()
        phi, w, shrink = left[:, row] / root, weighted[:, row] / root, 1 + known[row]
        weighted -= torch.outer(w, left @ w + phi) / shrink
        explained = explained - torch.outer(w, phi @ explained) / shrink
        left -= torch.outer(phi, phi)
    return torch.tensor(chosen)


def centroids(X: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Centres of k-means with M clusters, [M, H]; at most as many as distinct rows."""
    from sklearn.cluster import KMeans

    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    distinct = len(torch.unique(X, dim=0))
    means = KMeans(min(size, distinct), n_init=1, random_state=seed)
    return torch.as_tensor(means.fit(X.cpu().numpy()).cluster_centers_).to(X)


def _nearest_to_centroids(X: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """For each centroid the nearest row not yet chosen; then rows at random.

    Duplicate rows are chosen only once no other row remains.
    """
    distances = torch.cdist(centroids(X, size, generator), X)
    _, same = torch.unique(X, dim=0, return_inverse=True)
    chosen: list[int] = []
    for row in distances:
        nearest = int(row.argmin())
        chosen.append(nearest)
        distances[:, same == same[nearest]] = torch.inf
    left = torch.ones(len(X), dtype=torch.bool)
    left[chosen] = False
    order = torch.randperm(len(X), generator=generator)
    more = order[left[order]][: size - len(chosen)]
    return torch.cat([torch.tensor(chosen), more])


def _by_leverage(K: Tensor, size: int, generator: torch.Generator) -> Tensor:
    noise = LEVERAGE_NOISE * len(K)
    L, _ = cholesky(K + noise * torch.eye(len(K)).to(K), "The kernel matrix of the rows")
    inverse = solve_lower(L, torch.eye(len(K)).to(L))
    scores = 1 - noise * inverse.square().sum(0)
    return torch.multinomial(scores.clamp_min(1e-12).cpu(), size, generator=generator)


def spread_points(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Inducing inputs by k-means++ seeding among the rows of X [N, Q], [count, Q]."""
    from sklearn.cluster import kmeans_plusplus

    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    chosen, _ = kmeans_plusplus(to_numpy(X), count, random_state=seed)
    return torch.as_tensor(chosen).to(X)


def grid_side(count: int) -> int:
    """m, for which m² is nearest to ``count``, at least 2."""
    return max(2, int(count**0.5 + 0.5))


def grid_nodes(X: Tensor, count: int) -> Tensor:
    """Nodes of a grid over the range of rows X [N, 2], [m, 2]; m² is nearest to ``count``."""
    steps = torch.linspace(0, 1, grid_side(count)).to(X)[:, None]
    low, high = X.min(0).values, X.max(0).values
    return low + steps * (high - low)
