"""Draws of functions from the prior of a kernel, along one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.expression import kernel_terms

if TYPE_CHECKING:
    from lvmcore.numerics.array_types import FloatArray

__all__ = ["prior_draws"]


def prior_draws(
    text: str, column: str, x: Sequence[float] | FloatArray, n: int, seed: int = 0
) -> FloatArray:
    """Draws f = K^½ ε, ε ~ N(0, I), of a kernel at the parameters from which a fit starts.

    The symmetric root of K is continuous in the kernel: with the same seed, draws of similar
    kernels are similar functions.

    Args:
        text: the kernel expression.
        column: name of the column; all other columns are at their means.
        x: its values, increasing, in its own units, [G]; they are taken to reach from 2 sd below
            its mean to 2 sd above it.
        n: number of draws.
        seed: of ε.

    Returns:
        The functions, in standard deviations of the target, [n, G].

    Raises:
        ConfigError: the text is no kernel expression.
    """
    import torch

    from lvmcore.kernels.composite import CompositeKernel

    expression = read_kernel(text)
    named = [name for term in kernel_terms(expression) for name in term.columns]
    columns = list(dict.fromkeys([column, *named]))
    values = np.asarray(x, dtype=np.float64)
    scale = float(values[-1] - values[0]) / 4
    rows = torch.zeros(len(values), len(columns), dtype=torch.float64)
    rows[:, 0] = torch.from_numpy((values - values.mean()) / scale)
    scales = torch.ones(len(columns), dtype=torch.float64)
    scales[0] = scale
    kernel = CompositeKernel(expression, columns, scales).to(torch.float64)
    with torch.no_grad():
        K = kernel(rows, rows)
    values_of_K, vectors = torch.linalg.eigh(0.5 * (K + K.mT))
    root = (vectors * values_of_K.clamp_min(0).sqrt()) @ vectors.mT
    normal = np.random.default_rng(seed).standard_normal((n, len(values)))
    draws: FloatArray = (torch.from_numpy(normal) @ root).numpy()
    return draws
