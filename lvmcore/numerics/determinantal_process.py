"""Samples of a determinantal point process of fixed size: subsets whose members differ."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["draw_determinantal"]

# Least eigenvalue, relative to the largest: eigenvalues of kernel matrices end at rounding errors.
LEAST_EIGENVALUE = 1e-14


def draw_determinantal(
    K: Float[Tensor, "N N"], size: int, generator: torch.Generator
) -> Int[Tensor, "M"]:
    """Positions of a subset S of M rows with probability proportional to det K_SS.

    Exact (Kulesza and Taskar 2012, algorithms 1 and 8): M eigenvectors of K are drawn with
    probability proportional to the product of their eigenvalues, by the elementary symmetric
    polynomials; then rows one by one, each in proportion to its squared norm in the space of those
    vectors that is left. N³ + N M² operations.

    Args:
        K: kernel matrix, positive semi-definite.
        size: M, at most N.
        generator: of the draws, on the CPU.

    Returns:
        Positions in the order of choice, [M].
    """
    values, vectors = torch.linalg.eigh(K.double().cpu())
    logs = values.clamp_min(LEAST_EIGENVALUE * float(values[-1])).log()
    V = vectors[:, _draw_eigenvectors(logs, size, generator)]
    left = V.square().sum(1)
    rows, factors = [], V.new_zeros(size, len(V))
    for step in range(size):
        row = int(torch.multinomial(left.clamp_min(0), 1, generator=generator))
        # The Cholesky factor of V Vᵀ at the rows chosen so far.
        new = (V @ V[row] - factors[:step].T @ factors[:step, row]) / left[row].sqrt()
        factors[step] = new
        left = left - new.square()
        rows.append(row)
        left[rows] = 0
    return torch.tensor(rows)


def _draw_eigenvectors(
    log_values: Float[Tensor, "N"], size: int, generator: torch.Generator
) -> list[int]:
    """Positions of M eigenvalues, with probability proportional to their product."""
    N = len(log_values)
    # log e_m of the first n eigenvalues, for m = 0…M; e_m = 0 for m > n.
    table = log_values.new_full((N + 1, size + 1), -torch.inf)
    table[:, 0] = 0
    for n in range(N):
        table[n + 1, 1:] = torch.logaddexp(table[n, 1:], log_values[n] + table[n, :-1])
    uniform = torch.rand(N, generator=generator, dtype=torch.float64).log()
    chosen, wanted = [], size
    for n in range(N, 0, -1):
        if not wanted:
            break
        share = log_values[n - 1] + table[n - 1, wanted - 1] - table[n, wanted]
        if uniform[n - 1] < share:
            chosen.append(n - 1)
            wanted -= 1
    return chosen
