"""Which rows of a table stand for all: near k-means centroids, at random, or by leverage."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from lvmcore.kernels import RBF
from lvmcore.linalg import cholesky, solve_lower

__all__ = ["SubsetRule", "centroids", "choose_subset"]

#: Rows nearest to the centroids of k-means; uniformly without replacement; by leverage scores.
SubsetRule = Literal["kmeans", "uniform", "leverage"]

# Rows that the leverage scores are computed from, and the share of noise in them.
MOST_LEVERAGE_ROWS, LEVERAGE_NOISE = 2000, 1e-2


def choose_subset(X: Tensor, size: int, rule: SubsetRule, generator: torch.Generator) -> Tensor:
    """Positions of M different rows of X [N, H], in increasing order, [min(M, N)].

    Args:
        X: standardised columns.
        size: M.
        rule: see ``SubsetRule``. Leverage draws rows without replacement in proportion to
            [K (K + N λ I)⁻¹]_nn, K the RBF kernel with lengthscale √H, of at most 2000 rows.
        generator: of what is drawn.
    """
    if size >= len(X):
        return torch.arange(len(X))
    if rule == "kmeans":
        chosen = _near_centroids(X, size, generator)
    elif rule == "uniform":
        chosen = torch.randperm(len(X), generator=generator)[:size]
    else:
        chosen = _by_leverage(X, size, generator)
    return chosen.sort().values


def centroids(X: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Centres of k-means with M clusters, [M, H]; at most as many as there are different rows."""
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    distinct = len(torch.unique(X, dim=0))
    means = KMeans(min(size, distinct), n_init=1, random_state=seed)
    return torch.as_tensor(means.fit(X.cpu().numpy()).cluster_centers_).to(X)


def _near_centroids(X: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """The row nearest to each centroid that no centroid before took; then rows at random.

    Of equal rows one is taken at most, as long as there are others.
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


def _by_leverage(X: Tensor, size: int, generator: torch.Generator) -> Tensor:
    rows = torch.randperm(len(X), generator=generator)[: max(size, MOST_LEVERAGE_ROWS)]
    some = X[rows].double()
    one = torch.ones((), dtype=some.dtype, device=some.device)
    K = RBF(one, one * np.sqrt(X.shape[1]))(some, some)
    noise = LEVERAGE_NOISE * len(some)
    L, _ = cholesky(K + noise * torch.eye(len(some)).to(K), "The kernel matrix of the rows")
    inverse = solve_lower(L, torch.eye(len(some)).to(L))
    scores = 1 - noise * inverse.square().sum(0)
    drawn = torch.multinomial(scores.clamp_min(1e-12).cpu(), size, generator=generator)
    return rows[drawn]
