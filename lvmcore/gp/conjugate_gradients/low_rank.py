"""The partial Cholesky factor of a kernel matrix with pivots, and the matrix that it completes.

K ≈ L Lᵀ, L [N, M] the first M columns of the Cholesky factor of K with its rows in the order of the
pivots: the approximation of Nyström with the pivots as inducing inputs (Fine and Scheinberg 2001;
Harbrecht, Peters and Schneider 2012).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lvmcore.gp.conjugate_gradients.covariance import row_ranges
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.numerics.linalg import cholesky

__all__ = ["LowRankCovariance", "choose_pivots", "low_rank_features"]

#: Share of the mean prior variance; the factor ends where no row has more of it left.
LEAST_SHARE = 1e-9
#: Pivots that are drawn at once, and share of its variance that a row must keep given the others.
DRAWN, KEPT_SHARE = 50, 0.2
_NAME = "The covariance matrix of the pivots"


@torch.no_grad()
def choose_pivots(
    gp: ExactGP, X: Float[Tensor, "N H"], most: int, generator: torch.Generator
) -> Int[Tensor, "M"]:
    """Positions of at most so many rows, drawn by the prior variance that those before leave.

    Randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2024), in batches, of which each
    keeps the rows that add to the factor.
    """
    left = gp.kernel.diagonal(X).clone()
    least = LEAST_SHARE * float(left.mean())
    L = X.new_zeros(most, len(X))
    pivots = torch.empty(0, dtype=torch.long, device=X.device)
    while len(pivots) < most and float(left.max()) > least:
        M, share = len(pivots), torch.where(left > least, left, 0.0).cpu()
        count = min(DRAWN, most - M, int((share > 0).sum()))
        drawn = torch.multinomial(share, count, generator=generator).to(X.device)
        rest = gp.covariance(X[drawn], X) - L[:M, drawn].mT @ L[:M]
        kept, C = _adding(rest[:, drawn])
        if not len(kept):  # rounding is all that was left of them
            left[drawn] = 0.0
            continue
        new = torch.linalg.solve_triangular(C, rest[kept], upper=False)
        L[M : M + len(kept)] = new
        left = left - new.square().sum(0)
        pivots = torch.cat([pivots, drawn[kept]])
        left[pivots] = 0.0
    return pivots


def _adding(A: Float[Tensor, "B B"]) -> tuple[Int[Tensor, "b"], Float[Tensor, "b b"]]:
    """Rows of a covariance matrix that those before leave much of, and their Cholesky factor."""
    first, left = A.diagonal().clone(), A.diagonal().clone()
    L, kept = torch.zeros_like(A), list[int]()
    for i in range(len(A)):
        if float(left[i]) <= max(0.0, KEPT_SHARE * float(first[i])):
            continue
        M = len(kept)
        column = (A[:, i] - L[:, :M] @ L[i, :M]) / left[i].sqrt()
        L[:, M], left = column, left - column.square()
        kept.append(i)
    rows = torch.tensor(kept, dtype=torch.long, device=A.device)
    return rows, L[rows, : len(kept)].tril()


@torch.no_grad()
def low_rank_features(
    gp: ExactGP, X: Float[Tensor, "n H"], Z: Float[Tensor, "M H"], C: Float[Tensor, "M M"]
) -> Float[Tensor, "n M"]:
    """φ(x) = C⁻¹ k(Z, x), CCᵀ = K(Z), [n, M]: φ(x)ᵀφ(x') is what Z explains of k(x, x')."""
    found = X.new_empty(len(X), len(Z))
    for rows in row_ranges(len(X), 4096):
        cross = gp.covariance(Z, X[rows])
        found[rows] = torch.linalg.solve_triangular(C, cross, upper=False).mT
    return found


class LowRankCovariance:
    """P = L Lᵀ + Λ near A = K + D, with the products of P⁻¹.

    Args:
        gp: kernel and noise.
        X: rows, standardised, [N, H].
        noise: the diagonal of D, [N].
        pivots: positions of the inducing inputs among the rows, [M].
        keeps_diagonal: whether Λ = D + diag(K − L Lᵀ), so that P has the diagonal of A; else Λ = D,
            with which conjugate gradients take fewer iterations where the noise is small.

    Attributes:
        features: L, [N, M].
        diagonal: of Λ, [N].
        Z: the inducing inputs, [M, H].

    Raises:
        NumericalError: the covariance matrix of the inducing inputs could not be factorised.
    """

    @torch.no_grad()
    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        noise: Float[Tensor, "N"],
        pivots: Int[Tensor, "M"],
        *,
        keeps_diagonal: bool = False,
    ) -> None:
        self.gp, self.Z = gp, X[pivots]
        self.factor = cholesky(gp.covariance(self.Z, self.Z), _NAME, exact=True)[0].to(X)
        self.features = low_rank_features(gp, X, self.Z, self.factor)
        self.diagonal = noise
        if keeps_diagonal:
            left = gp.kernel.diagonal(X) - self.features.square().sum(1)
            self.diagonal = noise + left.clamp_min(0.0)
        scaled = self.features / self.diagonal[:, None]
        inner = self.features.mT @ scaled  # LᵀΛ⁻¹L
        inner.diagonal().add_(1.0)
        self.inner = cholesky(inner, _NAME, exact=True)[0].to(X)

    @torch.no_grad()
    def solve(self, V: Float[Tensor, "N R"]) -> Float[Tensor, "N R"]:
        """P⁻¹ V = Λ⁻¹V − Λ⁻¹L (I + LᵀΛ⁻¹L)⁻¹ LᵀΛ⁻¹V, [N, R]."""
        scaled = V / self.diagonal[:, None]
        inner = torch.cholesky_solve(self.features.mT @ scaled, self.inner)
        return scaled - (self.features @ inner) / self.diagonal[:, None]

    @property
    def log_determinant(self) -> Tensor:
        """log|P|, []."""
        return 2 * self.inner.diagonal().log().sum() + self.diagonal.log().sum()

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Float[Tensor, "N R"]:
        """Draws from N(0, P), [N, R]."""
        N, M = self.features.shape
        first = torch.randn(M, count, generator=generator, dtype=torch.float64)
        second = torch.randn(N, count, generator=generator, dtype=torch.float64)
        root = self.diagonal.sqrt()[:, None]
        return self.features @ first.to(self.features) + root * second.to(self.features)
