"""The posterior of a Gaussian process given many rows, whose covariance matrix is never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.conjugate_gradients.covariance import cross_product, row_ranges
from lvmcore.gp.conjugate_gradients.local_variance import LocalVariance
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.numerics.conversion import to_numpy

__all__ = ["BlockPosterior", "Solution", "calibrated_exponent"]

#: Rows to predict at a time: their covariances with 30,000 rows take 60 MB.
POINTS = 256
#: Least variance of f, as a share of the prior variance, of a logarithm.
LEAST_SHARE = 1e-12
#: Largest γ, and its reciprocal the least.
MOST_EXPONENT = 4.0


@dataclass(frozen=True)
class Solution:
    """What a posterior needs beside process and rows.

    Attributes:
        alpha: A⁻¹y, [N, 1].
        pivots: positions of the inducing inputs of the variance, [M].
        exponent: γ of ``BlockPosterior``.
    """

    alpha: Float[Tensor, "N 1"]
    pivots: Tensor
    exponent: float = 1.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for a file."""
        return {
            "solution.alpha": to_numpy(self.alpha),
            "solution.pivots": self.pivots.cpu().numpy(),
            "solution.exponent": np.array([self.exponent]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Solution | None:
        """The solution in the arrays of a file; None without one."""
        if "solution.alpha" not in arrays:
            return None
        alpha, pivots = (
            torch.as_tensor(arrays[f"solution.{name}"]).to(like.device)
            for name in ("alpha", "pivots")
        )
        return cls(alpha.to(like), pivots, float(arrays["solution.exponent"][0]))


class BlockPosterior:
    """f given the rows of a fit: mean k(x)ᵀA⁻¹y, A⁻¹y from a solver.

    The variance is that of ``LocalVariance`` in units of the prior variance, to the power of γ, by
    which it agrees with the exact one at some rows of the fit, each given the others.

    Args:
        gp: fitted.
        X: the rows, standardised, [N, H].
        Y: their targets, [N, 1].
        solution: of the solver.
        known: known variances of the noise of the rows, beside σ², [N]; None for none.
        variance: of those rows and pivots, if it is there already.

    Raises:
        NumericalError: a covariance matrix could not be factorised.
    """

    @torch.no_grad()
    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N 1"],
        solution: Solution,
        known: Float[Tensor, "N"] | None = None,
        variance: LocalVariance | None = None,
    ) -> None:
        self.gp, self.X, self.Y, self.solution = gp, X, Y, solution
        noise = gp.noise * X.new_ones(len(X))
        noise = noise if known is None else noise + known
        self.variance = variance or LocalVariance(gp, X, noise, solution.pivots)

    @property
    def alpha(self) -> Float[Tensor, "N 1"]:
        """A⁻¹y, [N, 1]."""
        return self.solution.alpha

    @torch.no_grad()
    def moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of y at rows, σ² included, [n, 1] each."""
        mean, variance = X.new_empty(len(X), 1), X.new_empty(len(X), 1)
        for some in row_ranges(len(X), POINTS):
            k = self.gp.covariance(X[some], self.X)
            mean[some] = k @ self.alpha
            prior = self.gp.kernel.diagonal(X[some])
            share = self.variance.at(X[some], k) / prior
            share = torch.where(prior > 0, share, 0.0).clamp(0.0, 1.0)
            variance[some, 0] = prior * share**self.solution.exponent + self.gp.noise
        return mean, variance

    @torch.no_grad()
    def summand_means(self) -> Float[Tensor, "I N"]:
        """Mean of each summand of f at the rows of the fit, [I, N]."""
        return torch.stack(
            [
                cross_product(summand, self.X, self.X, self.alpha)[:, 0]
                for summand in self.gp.kernel.summands
            ]
        )

    @torch.no_grad()
    def summand_moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of each summand f_i of f at rows, [n, I] each.

        k_i(x)ᵀA⁻¹y, and k_i(x, x) − k_i(x)ᵀP⁻¹k_i(x) with P of low rank in place of A.
        """
        found = []
        for summand in self.gp.kernel.summands:
            parts = []
            for some in row_ranges(len(X), POINTS):
                k = summand.forward(X[some], self.X)
                explained = (k.mT * self.variance.low_rank.solve(k.mT)).sum(0)
                left = (summand.diagonal(X[some]) - explained).clamp_min(0.0)
                parts.append(torch.stack([(k @ self.alpha)[:, 0], left]))
            found.append(torch.cat(parts, 1))
        means, variances = torch.stack(found, 2)
        return means, variances


@torch.no_grad()
def calibrated_exponent(variance: LocalVariance, rows: Tensor, exact: Float[Tensor, "n"]) -> float:
    """γ, by which variances at rows of the fit, of each given the others, are nearest to exact.

    Least squares of log(v/prior) on that of the approximation.

    Args:
        variance: the approximation.
        rows: positions of the rows.
        exact: their variances of f given the other rows.
    """
    prior = variance.prior_sd[rows].square()
    found, wanted = (
        (part / prior).clamp(LEAST_SHARE, 1.0).log() for part in (variance.left_out(rows), exact)
    )
    size = float(found.square().sum())
    exponent = float((found * wanted).sum()) / size if size > 0 else 1.0
    return min(max(exponent, 1 / MOST_EXPONENT), MOST_EXPONENT)
