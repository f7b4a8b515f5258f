"""Data path of a mini-batch fit: regression Gaussian processes by natural gradients.

For Gaussian noise a natural-gradient step of length ρ on the whitened q(V) *is* a running mean of
the sufficient statistics, G ← (1 − ρ) G + ρ (N/B) L⁻¹ psi2 L⁻ᵀ and likewise P; q(V) is the optimum
for them, in closed form (Hensman, Fusi and Lawrence 2013, section 3.3), and the noise variance
moves towards the residual variance. In a complete table all columns share G, whatever their noise;
for missing cells see lvmcore/gp/minibatch/masked_path.py.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lvmcore.gp.bounds import OptimalInducing, kernel_eigensystem
from lvmcore.gp.minibatch.cell_sums import CellSums, count_cells
from lvmcore.gp.paths import NOISE_FLOOR, DataPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.psi_statistics import PsiSums, psi_sums, sampled_psi_sums
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.preprocessing.table_rows import TableRows
from lvmcore.training.batches import step_length

__all__ = [
    "BatchedDataPath",
    "InducingMoments",
    "StochasticDataPath",
]

_KUU = "The kernel matrix of the inducing inputs"
# Step size of log σ² towards the residual variance.
NOISE_STEP = 0.05
# Largest value of residual/σ² − 1 of a batch; larger ones are clipped.
LARGEST_RESIDUAL_RATIO = 10.0


@dataclass(frozen=True)
class InducingMoments:
    """q(V) of every data column, in the basis that diagonalises all its covariances.

    Attributes:
        vectors: eigenvectors of the running G, [M, M].
        mean: mean of each column in that basis, [M, D].
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
            n_rows: number of rows.
        """
        error = self.expected_error(G, P, psi0, squares)
        return -0.5 * (n_rows * (LOG_2PI + noise.log()) + error / noise).sum()

    def kl(self) -> Tensor:
        """Σ_d KL(q(V_d) ‖ N(0, I)), []."""
        return 0.5 * (self.mean.square() - self.shrinkage - torch.log1p(-self.shrinkage)).sum()


class BatchedDataPath(DataPath, ABC):
    """Base class of regression Gaussian processes whose q(V) is updated with each batch.

    The arguments named ``sums`` are psi statistics as returned by ``sums`` and ``drawn_sums``.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        noise: initial noise variances, [D] or [1].
        table: all rows, standardised.
        n_groups: K, the number of different sets of rows in which columns are observed.
        pooled: whether a column's noise never falls below half of the columns' average.
        expression: of the kernel; None for the RBF kernel.
    """

    G: Tensor
    P: Tensor
    squares: Tensor
    counts: Tensor

    def __init__(
        self,
        Z: Tensor,
        noise: Tensor,
        table: TableRows,
        *,
        n_groups: int = 1,
        pooled: bool = False,
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, noise, pooled=pooled, expression=expression)
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
        """Number of cells in the bound."""
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
        """Unbiased estimates of ``sums`` from one sample of each row's position, X [B, Q]."""

    @abstractmethod
    def as_sums(self, psi0: Tensor, psi1Y: Tensor, psi2: Tensor) -> Any:
        """The psi statistics with these numbers, in the form of ``sums``."""

    def drawn_totals(self, X: Tensor, Y: Tensor, observed: Tensor | None) -> Any:
        """``drawn_sums`` in the form of ``sums``, so that those of several blocks add up."""
        return self.drawn_sums(X, Y, observed)

    @abstractmethod
    def whiten(self, sums: Any) -> tuple[Tensor, Tensor]:
        """G = L⁻¹ psi2 L⁻ᵀ by set of rows [K, M, M], P = L⁻¹ psi1ᵀY [M, D], current kernel."""

    @abstractmethod
    def _error(self, sums: Any, Y: Tensor) -> Tensor:
        """E‖y_d − f_d‖² of some rows under the current q(V), [D]."""

    def _own_noise(self, residual: Tensor) -> Tensor:
        """exp(``log_noise``) for noise variances ``residual`` [D] by column, [D]."""
        return residual

    def batch_bound(
        self, sums: Any, Y: Tensor, excess: Tensor | None = None, observed: Tensor | None = None
    ) -> Tensor:
        """``bound_of_sums`` of rows Y [B, D] and their observed cells, as of ``sums``."""
        return self.bound_of_sums(sums, CellSums.of(Y, observed), excess)

    @abstractmethod
    def bound_of_sums(self, sums: Any, cells: CellSums, excess: Tensor | None = None) -> Tensor:
        """The data term of the bound, less KL(q(V)), estimated from a batch, [].

        Afterwards q(V) is updated with the batch, and the noise moves towards its optimum for the
        running means; the estimate is of the bound before these updates. A batch of all rows gives
        the collapsed bound, with a gradient for the noise. Without gradient recording nothing is
        updated.

        The noise has no gradient in mini-batches: most batches of a column that is mostly 0 are
        constant, and their gradient would drive its noise to 0.

        Args:
            sums: psi statistics summed over the batch, at the current kernel and Z.
            cells: sums over the cells of the batch.
            excess: psi1ᵀ times the part of the cells beyond the clipping range, [M, D]; it is left
                out of the update of q(V). A cell 200 standard deviations from the mean, counted
                N/B times, would dominate the running mean for many steps. The bound itself uses
                every cell unclipped, and holds at any q(V).
        """

    @abstractmethod
    def best_bound(self, sums: Any) -> Tensor:
        """The collapsed bound of all rows, independent of the current q(V), []."""

    @abstractmethod
    def optimum(self, sums: Any) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, in the form that ``decoder`` uses."""

    @abstractmethod
    def current(self) -> OptimalInducing:
        """The current q(V), the optimum for the running means, in the form of ``optimum``."""

    def prime(self, sums: Any, Y: Tensor, observed: Tensor | None = None) -> None:
        """Initialise q(V) at its optimum for some rows, and the noise at the residual variance.

        The noise does not fall below its current value, so that columns that the initial map
        already explains well can still improve.

        Args:
            sums: psi statistics summed over those rows.
            Y: those rows, 0 where a cell is missing, [B, D].
            observed: True where a cell is observed, [B, D]; None where every one is.
        """
        scale, least = self.n_rows / len(Y), self.log_noise.detach().exp()
        cells = CellSums.of(Y, observed)
        with torch.no_grad():
            G, P = self.whiten(sums)
            self.follow(scale * G, scale * P, 1.0)
            for _ in range(2):
                best = self._noise_parameters(self._residual_variance(self._error(sums, Y), cells))
                self.log_noise.copy_(best.maximum(least).log())

    def follow(self, G: Tensor, P: Tensor, rho: float) -> None:
        """A natural-gradient step of length ρ towards the optimum for these statistics."""
        with torch.no_grad():
            self.G.lerp_(G.detach(), rho)
            self.P.lerp_(P.detach(), rho)

    def _residual_variance(self, error: Tensor, cells: CellSums) -> Tensor:
        """Estimate of the noise variance from some rows, error/n_d, [D].

        error = E‖y_d − f_d‖² of these rows. Control variate: ‖y_d‖²/n_d of the batch is replaced by
        its value over all rows, weighted by the noise's share of the column's variance. The
        estimate is unbiased, and exact for a column of pure noise, however sparse.
        """
        noises, whole = self._noise_by_column(), self.squares / self.counts
        n = cells.counts.clamp_min(1)
        residual = error / n + (noises / whole).clamp_max(1) * (whole - cells.squares / n)
        return torch.where(cells.counts > 0, residual, noises)

    def _noise_parameters(self, residual: Tensor) -> Tensor:
        """exp(``log_noise``) for noise variances ``residual`` [D]; [1] if columns share it."""
        if len(self.log_noise) == 1:
            return ((residual * self.counts).sum() / self.counts.sum())[None]
        return self._own_noise(residual)

    def _follow_batch(
        self,
        G: Tensor,
        P: Tensor,
        excess: Tensor | None,
        error: Tensor,
        cells: CellSums,
    ) -> None:
        """Update q(V) with a batch, and the noise with its residuals, E‖y_d − f_d‖² [D]."""
        scale, share = self.n_rows / cells.n_rows, self.cells / (self.n_rows * len(self.counts))
        with torch.no_grad():
            if excess is not None:
                P = P - solve_lower(self._root(), excess)
            rho = step_length(share * cells.n_rows, len(self.Z))
            self.follow(scale * G, scale * P, rho)
            # Step proportional to residual/σ² − 1: a mean of logarithms would be biased downwards
            # by the variance between batches, most where a batch has few cells.
            noises = self._noise_by_column()
            away = self._residual_variance(error, cells) / noises - 1
            residual = noises * (NOISE_STEP * away.clamp(-1, LARGEST_RESIDUAL_RATIO)).exp()
            self.log_noise.copy_(self._noise_parameters(residual).clamp_min(NOISE_FLOOR).log())

    def _root(self) -> Tensor:
        """L with Kuu = L Lᵀ, [M, M]."""
        return cholesky(self.kernel(self.Z, self.Z), _KUU)[0]

    def _noise_floor(self) -> Tensor:
        """A constant, because batches follow the noise without its gradient."""
        return torch.full_like(self.log_noise[0], NOISE_FLOOR)

    def _noise_by_column(self) -> Tensor:
        return self.noise.expand(self.P.shape[1])


class StochasticDataPath(BatchedDataPath):
    """Regression Gaussian processes whose q(V) is updated with batches of a complete table."""

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

    def as_sums(self, psi0: Tensor, psi1Y: Tensor, psi2: Tensor) -> PsiSums:
        """See ``BatchedDataPath.as_sums``."""
        return PsiSums(psi0, psi1Y, psi2)

    def whiten(self, sums: PsiSums) -> tuple[Tensor, Tensor]:
        """See ``BatchedDataPath.whiten``; all columns have the same rows, K = 1."""
        L = self._root()
        half = solve_lower(L, sums.psi2)
        G = solve_lower(L, half.T)
        return 0.5 * (G + G.T)[None], solve_lower(L, sums.psi1Y)

    def moments(self) -> InducingMoments:
        """The current q(V); constant for gradients."""
        with torch.no_grad():
            return InducingMoments.best(self.G, self.P, self._noise_by_column())

    def _error(self, sums: PsiSums, Y: Tensor) -> Tensor:
        squares = Y.square().sum(0, dtype=torch.float64)
        return self.moments().expected_error(*self.whiten(sums), sums.psi0, squares)

    def bound_of_sums(self, sums: PsiSums, cells: CellSums, excess: Tensor | None = None) -> Tensor:
        """See ``BatchedDataPath``; a batch of all rows sets q(V) to its optimum."""
        G, P = self.whiten(sums)
        B, learning = cells.n_rows, G.requires_grad
        scale, whole = self.n_rows / B, self.n_rows == B
        if whole and learning:
            self.follow(G, P, 1.0)
        q = self.moments()
        noise = self._noise_by_column() if whole else self._noise_by_column().detach()
        fit = q.expected_fit(G, P, sums.psi0, cells.squares, noise, B)
        if learning and not whole:
            error = q.expected_error(G, P, sums.psi0, cells.squares)
            self._follow_batch(G, P, excess, error, cells)
        return scale * fit - q.kl()

    def best_bound(self, sums: PsiSums) -> Tensor:
        """The collapsed bound of all rows, independent of the current q(V), []."""
        G, P = self.whiten(sums)
        noise = self._noise_by_column()
        q = InducingMoments.best(G, P, noise)
        return q.expected_fit(G, P, sums.psi0, self.squares, noise, self.n_rows) - q.kl()

    @torch.no_grad()
    def optimum(self, sums: PsiSums) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, in the form that ``decoder`` uses."""
        return self._inducing(InducingMoments.best(*self.whiten(sums), self._noise_by_column()))

    @torch.no_grad()
    def current(self) -> OptimalInducing:
        """See ``BatchedDataPath.current``."""
        return self._inducing(self.moments())

    def _inducing(self, q: InducingMoments) -> OptimalInducing:
        return OptimalInducing(solve_upper(self._root(), q.vectors), q.mean, q.shrinkage)
