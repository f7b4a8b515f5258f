"""Gauss–Hermite quadrature: expectations of functions of a normal variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["expectation", "log_expected_density", "normal_nodes", "quadrature_chunks"]

# Nodes, and cells in a chunk; the chunks bound memory and do not change results.
NODES, CHUNK_CELLS = 20, 1 << 18


def expectation(
    function: Callable[[Tensor], Tensor], mean: Tensor, variance: Tensor, *, nodes: int = NODES
) -> Tensor:
    """E g(ψ) for ψ ~ N(mean, variance), the shape of ``mean``; differentiable in both.

    Args:
        function: g of values [nodes, ...], elementwise.
        mean: any shape.
        variance: the same shape.
        nodes: number of nodes; exact for polynomials of a degree below twice as many.
    """
    points, log_weights = (part.to(mean) for part in normal_nodes(nodes))
    shape = (-1, *[1] * mean.dim())
    values = function(mean + variance.sqrt() * points.reshape(shape))
    return (log_weights.exp().reshape(shape) * values).sum(0)


def log_expected_density(
    log_density: Callable[[Tensor], Tensor], mean: Tensor, variance: Tensor
) -> Tensor:
    """log E exp log_density(ψ) for ψ ~ N(mean, variance), by quadrature; the shape of ``mean``."""
    found = torch.full_like(mean, -torch.inf)
    for psi, log_weight in quadrature_chunks(mean, variance):
        found = torch.logaddexp(found, (log_density(psi) + log_weight).logsumexp(0))
    return found


def quadrature_chunks(mean: Tensor, variance: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of nodes of N(mean, variance), [k, ...], with the logarithms of their weights."""
    nodes, log_weights = (
        part.to(mean).reshape(-1, *[1] * mean.dim()) for part in normal_nodes(NODES)
    )
    sd, size = variance.sqrt(), max(1, CHUNK_CELLS // max(1, mean.numel()))
    for begin in range(0, NODES, size):
        yield mean + sd * nodes[begin : begin + size], log_weights[begin : begin + size]


@cache
def normal_nodes(count: int) -> tuple[Tensor, Tensor]:
    """Nodes of a standard normal and the logarithms of their weights, [count] each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return torch.as_tensor(nodes), torch.as_tensor(weights / math.sqrt(2 * math.pi)).log()
