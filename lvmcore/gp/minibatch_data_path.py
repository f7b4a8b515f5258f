"""Bounds from mini-batches: the path to the columns, whose q(V) follows by natural gradients.

For Gaussian noise a natural-gradient step of length ρ on the whitened q(V) *is* a running mean of
the sufficient statistics, G ← (1 − ρ) G + ρ (N/B) L⁻¹ psi2 L⁻ᵀ and likewise P; q(V) is the optimum
for them, in closed form (Hensman, Fusi and Lawrence 2013, section 3.3), and the noise follows what
they leave unexplained. In a complete table one G serves every column, whatever its noise; where
cells are missing, see lvmcore/gp/minibatch_masked_path.py.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lvmcore.gp.bounds import OptimalInducing, kernel_eigensystem
from lvmcore.gp.paths import NOISE_FLOOR, DataPath
from lvmcore.kernels.psi_statistics import PsiSums, psi_sums, sampled_psi_sums
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.preprocessing.table_rows import TableRows
from lvmcore.training.batches import step_length

__all__ = [
    "BatchedDataPath",
    "InducingMoments",
    "StochasticDataPath",
    "count_cells",
]

_KUU = "The kernel matrix of the inducing inputs"
# Length of a step of the noise, as a logarithm, towards what is left unexplained.
NOISE_STEP = 0.05
# How many times the noise a batch may leave unexplained before it counts as an outlier.
FARTHEST = 10.0


def count_cells(Y: Tensor, observed: Tensor | None) -> Tensor:
    """Observed cells of each column of rows Y [B, D], [D]."""
    if observed is None:
        return torch.full_like(Y[0], len(Y), dtype=torch.float64)
    return observed.sum(0).double()


@dataclass(frozen=True)
class InducingMoments:
    """q(V) of every data column, in the basis that diagonalises all its covariances.

    Attributes:
        vectors: eigenvectors of the running G, [M, M].
        mean: of each column in that basis, [M, D].
        shrinkage: s = λ/(σ_d² + λ); the covariances are diag(1 − s), [M, D].
    """

    vectors: Tensor
    mean: Tensor
    shrinkage: Tensor

    @classmethod
    def best(cls, G: Tensor, P: Tensor, noise: Tensor) -> InducingMoments:
        """The optimum for statistics G [1, M, M], P [M, D] and noise [D]."""
        values, vectors = kernel_eigensystem(G[0])
        total = values[:, None] + noise
        return cls(vectors, vectors.T @ P / total, values[:, None] / total)

    def expected_error(self, G: Tensor, P: Tensor, psi0: Tensor, squares: Tensor) -> Tensor:
        """E‖y_d − f_d‖² of the rows that G, P, psi0 and ‖y_d‖² [D] were summed over, [D].

        It is ‖y‖² − 2 mᵀP + psi0 + tr[G (m mᵀ + cov − I)].
        """
        H = self.vectors.T @ G[0] @ self.vectors
        return (
            squares
            - 2 * (self.mean * (self.vectors.T @ P)).sum(0)
            + psi0
            + (self.mean * (H @ self.mean)).sum(0)
            - H.diagonal() @ self.shrinkage
        )

    def expected_fit(
        self, G: Tensor, P: Tensor, psi0: Tensor, squares: Tensor, noise: Tensor, n_rows: int
    ) -> Tensor:
        """E log p(Y | F) of the rows that the statistics were summed over, [].

        Args:
            G: [1, M, M].
            P: [M, D].
            psi0: [].
            squares: ‖y_d‖², [D].
            noise: σ², [D].
            n_rows: how many they are.
        """
        error = self.expected_error(G, P, psi0, squares)
        return -0.5 * (n_rows * (LOG_2PI + noise.log()) + error / noise).sum()

    def kl(self) -> Tensor:
        """Σ_d KL(q(V_d) ‖ N(0, I)), []."""
        return 0.5 * (self.mean.square() - self.shrinkage - torch.log1p(-self.shrinkage)).sum()


class BatchedDataPath(DataPath, ABC):
    """Regression Gaussian processes whose q(V) follows the batches: what both kinds share.

    ``sums`` stands for psi statistics as ``sums`` and ``drawn_sums`` give them.

    Args:
        Z: inducing inputs to start from, [M, Q] (float64).
        noise: noise variances to start from, [D] or [1].
        table: all rows, standardised.
        n_groups: sets of rows that columns are observed in, K.
        pooled: whether a column's noise never falls below half of the columns' average.
    """

    G: Tensor
    P: Tensor
    squares: Tensor
    counts: Tensor

    def __init__(
        self, Z: Tensor, noise: Tensor, table: TableRows, *, n_groups: int = 1, pooled: bool = False
    ) -> None:
        super().__init__(Z, noise, pooled=pooled)
        self.n_rows = len(table)
        M = len(Z)
        self.register_buffer("G", Z.new_zeros(n_groups, M, M))
        self.register_buffer("P", Z.new_zeros(M, table.n_columns))
        squares, counts = Z.new_zeros(table.n_columns), Z.new_zeros(table.n_columns)
        for Y, observed in table.blocks():
            squares += Y.square().sum(0, dtype=torch.float64)
            counts += count_cells(Y, observed)
        self.register_buffer("squares", squares, persistent=False)
        self.register_buffer("counts", counts, persistent=False)

    @property
    def cells(self) -> int:
        """How many cells the bound sums over."""
        return int(self.counts.sum())

    @abstractmethod
    def sums(self, mean: Tensor, variance: Tensor, Y: Tensor, observed: Tensor | None) -> Any:
        """Psi statistics of rows at q(x), in closed form.

        Args:
            mean: [B, Q].
            variance: [B, Q].
            Y: 0 where a cell is missing, [B, D].
            observed: True where a cell is observed, [B, D]; None where every one is.
        """

    @abstractmethod
    def drawn_sums(self, X: Tensor, Y: Tensor, observed: Tensor | None) -> Any:
        """The same without bias from a draw of each row's place, X [B, Q]."""

    @abstractmethod
    def whiten(self, sums: Any) -> tuple[Tensor, Tensor]:
        """G = L⁻¹ psi2 L⁻ᵀ of each set of rows [K, M, M], P = L⁻¹ psi1ᵀY [M, D], kernel of now."""

    @abstractmethod
    def _error(self, sums: Any, Y: Tensor) -> Tensor:
        """E‖y_d − f_d‖² of some rows under q(V) as it stands, [D]."""

    def _own(self, left: Tensor) -> Tensor:
        """What ``log_noise`` has to hold for noise variances ``left`` [D], [D]."""
        return left

    @abstractmethod
    def batch_bound(
        self, sums: Any, Y: Tensor, excess: Tensor | None = None, observed: Tensor | None = None
    ) -> Tensor:
        """The data term of the bound, less KL(q(V)), estimated from a batch, [].

        q(V) then follows the batch, and the noise follows the value that is best for the running
        means: the estimate is of the bound as they were before. A batch of all rows gives the
        collapsed bound, with a gradient for the noise. Where no gradient is recorded, everything
        stays as it is.

        The noise has no gradient in batches, because a column that is rarely anything but 0 would
        mislead it: most batches alone say that it has no noise at all.

        Args:
            sums: psi statistics summed over the batch, at the current kernel and Z.
            Y: rows of the batch, 0 where a cell is missing, [B, D].
            excess: psi1ᵀ times what cells of the batch are too far out by, [M, D]. q(V) follows
                without it: a cell 200 standard deviations out, N/B times in the running mean, would
                make a spike of its column for as long as the mean remembers it. The bound itself
                takes every cell as it is, and holds at any q(V).
            observed: True where a cell is observed, [B, D]; None where every one is.
        """

    @abstractmethod
    def best_bound(self, sums: Any) -> Tensor:
        """The collapsed bound of all rows, whatever q(V) is now, []."""

    @abstractmethod
    def optimum(self, sums: Any) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, as ``decoder`` takes it."""

    def prime(self, sums: Any, Y: Tensor, observed: Tensor | None = None) -> None:
        """Start q(V) at its optimum for some rows, and the noise at what it leaves unexplained.

        The noise starts no lower than it stands, so that what the start explains well is to be
        explained better.

        Args:
            sums: psi statistics summed over those rows.
            Y: those rows, 0 where a cell is missing, [B, D].
            observed: True where a cell is observed, [B, D]; None where every one is.
        """
        scale, least = self.n_rows / len(Y), self.log_noise.detach().exp()
        with torch.no_grad():
            G, P = self.whiten(sums)
            self.follow(scale * G, scale * P, 1.0)
            for _ in range(2):
                best = self._held(self._left(self._error(sums, Y), Y, observed))
                self.log_noise.copy_(best.maximum(least).log())

    def follow(self, G: Tensor, P: Tensor, rho: float) -> None:
        """A natural-gradient step of length ρ towards the optimum for these statistics."""
        with torch.no_grad():
            self.G.lerp_(G.detach(), rho)
            self.P.lerp_(P.detach(), rho)

    def _left(self, error: Tensor, Y: Tensor, observed: Tensor | None) -> Tensor:
        """The noise variance that is left in some rows, error/n_d, [D].

        error = E‖y_d − f_d‖² of these rows, in which ‖y_d‖² gives way to that of all rows by the
        share that noise has of the column: without bias, and what is left of a column that is
        nothing but noise is known exactly, however rarely it is anything but 0.
        """
        noises, cells = self._noises(), count_cells(Y, observed)
        squares, whole = Y.square().sum(0, dtype=torch.float64), self.squares / self.counts
        n = cells.clamp_min(1)
        left = error / n + (noises / whole).clamp_max(1) * (whole - squares / n)
        return torch.where(cells > 0, left, noises)

    def _held(self, left: Tensor) -> Tensor:
        """Noise variances ``left`` [D] as ``log_noise`` holds them, [D] or [1]."""
        if len(self.log_noise) == 1:
            return ((left * self.counts).sum() / self.counts.sum())[None]
        return self._own(left)

    def _follow_batch(
        self,
        G: Tensor,
        P: Tensor,
        excess: Tensor | None,
        error: Tensor,
        Y: Tensor,
        observed: Tensor | None,
    ) -> None:
        """q(V) follows a batch, and the noise what q(V) left of it, E‖y_d − f_d‖² [D]."""
        scale, share = self.n_rows / len(Y), self.cells / (self.n_rows * len(self.counts))
        with torch.no_grad():
            if excess is not None:
                P = P - solve_lower(self._root(), excess)
            rho = step_length(share * len(Y), len(self.Z))
            self.follow(scale * G, scale * P, rho)
            # A step in proportion to left/σ² − 1: a mean of logarithms would lie below the truth
            # by as much as single batches scatter, most of all where a batch has few cells.
            noises = self._noises()
            away = self._left(error, Y, observed) / noises - 1
            left = noises * (NOISE_STEP * away.clamp(-1, FARTHEST)).exp()
            self.log_noise.copy_(self._held(left).clamp_min(NOISE_FLOOR).log())

    def _root(self) -> Tensor:
        """L with Kuu = L Lᵀ, [M, M]."""
        return cholesky(self.kernel(self.Z, self.Z), _KUU)[0]

    def _noises(self) -> Tensor:
        return self.noise.expand(self.P.shape[1])


class StochasticDataPath(BatchedDataPath):
    """Regression Gaussian processes whose q(V) follows batches of a complete table."""

    def sums(
        self, mean: Tensor, variance: Tensor, Y: Tensor, observed: Tensor | None = None
    ) -> PsiSums:
        """See ``BatchedDataPath.sums``."""
        del observed
        return psi_sums(self.kernel, mean, variance, self.Z, Y.double())

    def drawn_sums(self, X: Tensor, Y: Tensor, observed: Tensor | None = None) -> PsiSums:
        """See ``BatchedDataPath.drawn_sums``."""
        del observed
        return sampled_psi_sums(self.kernel, X, self.Z, Y)

    def whiten(self, sums: PsiSums) -> tuple[Tensor, Tensor]:
        """See ``BatchedDataPath.whiten``; all columns have the same rows, K = 1."""
        L = self._root()
        half = solve_lower(L, sums.psi2)
        G = solve_lower(L, half.T)
        return 0.5 * (G + G.T)[None], solve_lower(L, sums.psi1Y)

    def moments(self) -> InducingMoments:
        """q(V) as it stands; constant for gradients."""
        with torch.no_grad():
            return InducingMoments.best(self.G, self.P, self._noises())

    def _error(self, sums: PsiSums, Y: Tensor) -> Tensor:
        squares = Y.square().sum(0, dtype=torch.float64)
        return self.moments().expected_error(*self.whiten(sums), sums.psi0, squares)

    def batch_bound(
        self,
        sums: PsiSums,
        Y: Tensor,
        excess: Tensor | None = None,
        observed: Tensor | None = None,
    ) -> Tensor:
        """See ``BatchedDataPath.batch_bound``; a batch of all rows takes q(V) to its optimum."""
        G, P = self.whiten(sums)
        scale, whole, learning = self.n_rows / len(Y), len(Y) == self.n_rows, G.requires_grad
        if whole and learning:
            self.follow(G, P, 1.0)
        q = self.moments()
        noise = self._noises() if whole else self._noises().detach()
        squares = Y.square().sum(0, dtype=torch.float64)
        fit = q.expected_fit(G, P, sums.psi0, squares, noise, len(Y))
        if learning and not whole:
            error = q.expected_error(G, P, sums.psi0, squares)
            self._follow_batch(G, P, excess, error, Y, observed)
        return scale * fit - q.kl()

    def best_bound(self, sums: PsiSums) -> Tensor:
        """The collapsed bound of all rows, whatever q(V) is now, []."""
        G, P = self.whiten(sums)
        noise = self._noises()
        q = InducingMoments.best(G, P, noise)
        return q.expected_fit(G, P, sums.psi0, self.squares, noise, self.n_rows) - q.kl()

    @torch.no_grad()
    def optimum(self, sums: PsiSums) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, as ``decoder`` takes it."""
        G, P = self.whiten(sums)
        q = InducingMoments.best(G, P, self._noises())
        return OptimalInducing(solve_upper(self._root(), q.vectors), q.mean, q.shrinkage)
