"""The posterior variance of a process on many rows, by low rank and the nearest rows.

The exact k(x, x) − k(x)ᵀA⁻¹k(x) takes a solve with A for each x. Here f = Φᵀu + e, u ~ N(0, I) the
whitened inducing values, and the covariance K − ΦᵀΦ of e joins x and the rows of the highest
correlation with x alone: the partially independent conditional (Snelson and Ghahramani 2007), whose
block is of the nearest rows of x.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lvmcore.gp.conjugate_gradients.covariance import row_ranges
from lvmcore.gp.conjugate_gradients.low_rank import LowRankCovariance, low_rank_features
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.numerics.linalg import cholesky_batch

__all__ = ["LocalVariance"]

#: Rows of the block of a point, and points at a time.
NEAREST, POINTS = 48, 64
_NAME = "The covariance matrix of the nearest rows"


class LocalVariance:
    """Var f(x) given the rows of a fit.

    Args:
        gp: fitted.
        X: the rows, standardised, [N, H].
        noise: variances of their noise, [N].
        pivots: positions of the inducing inputs among the rows, [M].

    Raises:
        NumericalError: a covariance matrix could not be factorised.
    """

    @torch.no_grad()
    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        noise: Float[Tensor, "N"],
        pivots: Int[Tensor, "M"],
    ) -> None:
        self.gp, self.X, self.noise = gp, X, noise
        self.low_rank = LowRankCovariance(gp, X, noise, pivots, keeps_diagonal=True)
        self.prior_sd = gp.kernel.diagonal(X).clamp_min(torch.finfo(X.dtype).tiny).sqrt()
        self.whitened = self._whiten(self.low_rank.features)

    @torch.no_grad()
    def at(self, X: Float[Tensor, "n H"], k: Float[Tensor, "n N"]) -> Float[Tensor, "n"]:
        """Variances at rows X.

        Args:
            X: rows, standardised.
            k: k(x, x_n).
        """
        score, count = k.abs() / self.prior_sd, min(NEAREST, len(self.X))
        found = X.new_empty(len(X))
        for some in row_ranges(len(X), POINTS):
            near = score[some].topk(count, dim=1).indices
            found[some] = self._given(X[some], k[some], near, near)
        return found

    @torch.no_grad()
    def left_out(self, rows: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Variances at rows of the fit, of each given the others."""
        X = self.X[rows]
        k = self.gp.covariance(X, self.X)
        score = (k.abs() / self.prior_sd).scatter(1, rows[:, None], torch.inf)
        near = score.topk(min(NEAREST + 1, len(self.X)), dim=1).indices  # itself first
        return self._given(X, k, near, near[:, 1:])

    def _given(
        self,
        X: Float[Tensor, "n H"],
        k: Float[Tensor, "n N"],
        apart: Int[Tensor, "n A"],
        near: Int[Tensor, "n B"],
    ) -> Float[Tensor, "n"]:
        """Variances given u from all rows but those apart, and the near rows exactly."""
        low = self.low_rank
        phi = low_rank_features(self.gp, X, low.Z, low.factor)[:, None]
        psi = self._whiten(phi[:, 0])[:, None]
        phi_near, psi_near = low.features[near], self.whitened[near]
        psi_apart = self.whitened[apart]
        # Var(u | rows that are not apart) = S, ΦᵀSΦ = ΨᵀΨ + ΨᵀΨ_a (Λ_a − Ψ_aᵀΨ_a)⁻¹ Ψ_aᵀΨ
        downdated = torch.diag_embed(low.diagonal[apart]) - psi_apart @ psi_apart.mT
        D = cholesky_batch(downdated, _NAME)
        half_near = torch.linalg.solve_triangular(D, psi_apart @ psi_near.mT, upper=False)
        half_x = torch.linalg.solve_triangular(D, psi_apart @ psi.mT, upper=False)
        # Cov(f_near, f_near) + noise, Cov(f(x), f_near) and Var f(x) given those rows
        K = self.gp.kernel.forward(self.X[near], self.X[near]) - phi_near @ phi_near.mT
        K = K + psi_near @ psi_near.mT + half_near.mT @ half_near
        K = K + torch.diag_embed(self.noise[near])
        cross = torch.take_along_dim(k, near, 1)[:, None] - phi @ phi_near.mT
        cross = cross + psi @ psi_near.mT + half_x.mT @ half_near
        own = (self.gp.kernel.diagonal(X) - phi.square().sum((1, 2))).clamp_min(0.0)
        own = own + psi.square().sum((1, 2)) + half_x.square().sum((1, 2))
        half = torch.linalg.solve_triangular(cholesky_batch(K, _NAME), cross.mT, upper=False)
        found: Tensor = own - half.square().sum((1, 2))
        return found.clamp_min(0.0)

    def _whiten(self, features: Float[Tensor, "n M"]) -> Float[Tensor, "n M"]:
        """R⁻¹φ, RRᵀ = I + ΦΛ⁻¹Φᵀ."""
        inner, columns = self.low_rank.inner, features.mT
        found: Tensor = torch.linalg.solve_triangular(inner, columns, upper=False)
        return found.mT
