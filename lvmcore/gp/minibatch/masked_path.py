"""Data path of a mini-batch fit with missing cells: statistics by column.

A missing cell only drops out of the likelihood, so a batch gives unbiased estimates of the
statistics G_d and P_d over each column's observed rows, and q(V_d), the optimum for their running
means, is N(B_d⁻¹P_d, σ_d² B_d⁻¹) with B_d = σ_d² I + G_d. Columns with the same observed rows
share G.

Notation: lvmcore/README.md; for complete tables see lvmcore/gp/minibatch/data_path.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.bounds import OptimalInducing
from lvmcore.gp.masked_bound import (
    column_blocks,
    masked_bound,
    masked_optimum,
    whitened,
    whitened_optimum,
)
from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_path import BatchedDataPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.psi_exponents import full_from_pairs, pairs
from lvmcore.kernels.psi_statistics import MaskedPsiSums, masked_psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky_batch, solve_lower
from lvmcore.preprocessing.observed_cells import ObservedCells
from lvmcore.preprocessing.table_rows import TableRows

__all__ = ["MaskedStochasticDataPath", "column_groups"]

# Rows in a block of weights [M, M]; bounds memory, does not change results.
ROWS_OF_WEIGHTS = 512
_B = "The kernel matrix of a column's observed rows"


def column_groups(table: TableRows) -> tuple[Tensor, Tensor]:
    """Groups of columns that are observed in the same rows.

    Args:
        table: N rows with missing cells, read once.

    Returns:
        The group of each column, [D], and one column of each of the K groups, [K].
    """
    groups = torch.zeros(table.n_columns, dtype=torch.long)
    for _, observed in table.blocks():
        if observed is not None:
            # Two columns share a group as long as they agree in every block.
            marks = torch.cat([groups[None], observed.cpu().long()])
            groups = torch.unique(marks, dim=1, return_inverse=True)[1]
    columns = torch.arange(table.n_columns).flip(0)
    first = torch.empty(int(groups.max()) + 1, dtype=torch.long)
    first[groups[columns]] = columns
    return groups, first


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of q(V) of every column, the optimum for the running means, for the bound.

    Attributes:
        mean: m_d, [M, D].
        weights: Σ_d (m_d m_dᵀ + cov_d − I)/σ_d² over the columns of each group, [K, M, M].
        quadratic: tr[G_d (m_d m_dᵀ + cov_d − I)] of the given rows, [D].
        kl: Σ_d KL(q(V_d) ‖ N(0, I)), [].
    """

    mean: Tensor
    weights: Tensor
    quadratic: Tensor
    kl: Tensor

    def expected_error(self, P: Tensor, psi0: Tensor, squares: Tensor) -> Tensor:
        """E‖y_d − f_d‖² of the given rows as in ``InducingMoments.expected_error``, [D].

        Args:
            P: [M, D].
            psi0: [D].
            squares: ‖y_d‖², [D].
        """
        return squares - 2 * (self.mean * P).sum(0) + psi0 + self.quadratic


@dataclass(frozen=True)
class DrawnRows:
    """Rows of a batch at one sample of each row's position.

    Attributes:
        K: kernel between the samples and Z, [B, M].
        psi1Y: Σ_n k(Z, x_n) y_nᵀ, [M, D].
        psi0: k(x, x) summed over the observed rows of each column, [D].
        sets: 1 where a group of columns has the row, [B, K].
    """

    K: Tensor
    psi1Y: Tensor
    psi0: Tensor
    sets: Tensor


class MaskedStochasticDataPath(BatchedDataPath):
    """``StochasticDataPath`` for a table with missing cells.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        noise: initial noise variances, [D] or [1]; those by column stay above half of the
            columns' average.
        table: all rows, standardised.
        expression: of the kernel; None for the RBF kernel.
    """

    groups: Tensor
    first: Tensor

    def __init__(
        self,
        Z: Tensor,
        noise: Tensor,
        table: TableRows,
        *,
        expression: KernelExpression | None = None,
    ) -> None:
        groups, first = column_groups(table)
        n_groups = len(first)
        super().__init__(Z, noise, table, n_groups=n_groups, pooled=True, expression=expression)
        self.register_buffer("groups", groups.to(Z.device), persistent=False)
        self.register_buffer("first", first.to(Z.device), persistent=False)

    def _cells(self, Y: Tensor, observed: Tensor | None) -> ObservedCells:
        mask = torch.ones_like(Y, dtype=torch.bool) if observed is None else observed
        return ObservedCells(mask, mask[:, self.first].double(), self.groups, mask.sum(0).double())

    def sums(
        self, mean: Tensor, variance: Tensor, Y: Tensor, observed: Tensor | None
    ) -> MaskedPsiSums:
        """See ``BatchedDataPath.sums``."""
        cells = self._cells(Y, observed)
        return masked_psi_sums(self.kernel, mean, variance, self.Z, Y.double(), cells)

    def drawn_sums(self, X: Tensor, Y: Tensor, observed: Tensor | None) -> DrawnRows:
        """See ``BatchedDataPath.drawn_sums``; psi2 is computed in ``batch_bound``."""
        kernel, cells = self.kernel, self._cells(Y, observed)
        K = kernel(X, self.Z).double()
        if isinstance(kernel, RBF):
            psi0 = cells.counts * kernel.variance.double()
        else:
            psi0 = cells.mask.double().T @ kernel.diagonal(X).double()
        return DrawnRows(K, K.T @ Y.double(), psi0, cells.sets)

    def drawn_totals(self, X: Tensor, Y: Tensor, observed: Tensor | None) -> MaskedPsiSums:
        """See ``BatchedDataPath.drawn_totals``."""
        drawn, (i, j) = self.drawn_sums(X, Y, observed), pairs(len(self.Z), X.device)
        psi2 = (drawn.K[:, i] * drawn.K[:, j]).T @ drawn.sets
        return self.as_sums(drawn.psi0, drawn.psi1Y, psi2)

    def as_sums(self, psi0: Tensor, psi1Y: Tensor, psi2: Tensor) -> MaskedPsiSums:
        """See ``BatchedDataPath.as_sums``."""
        return MaskedPsiSums(psi0, psi1Y, psi2, self.groups)

    def whiten(self, sums: MaskedPsiSums) -> tuple[Tensor, Tensor]:
        """See ``BatchedDataPath.whiten``."""
        L = self._root()
        return whitened(sums.psi2, L), solve_lower(L, sums.psi1Y)

    @torch.no_grad()
    def moments(self, rows: Tensor) -> ColumnMoments:
        """The current q(V); constant for gradients.

        Args:
            rows: G of the given rows, [K, M, M].
        """
        noises, M = self._noise_by_column(), len(self.P)
        eye = torch.eye(M).to(self.P)
        mean, weights = torch.empty_like(self.P), torch.zeros_like(self.G)
        traces, log_dets, quadratic = (torch.empty_like(self.P[0]) for _ in range(3))
        for columns, begin, end in column_blocks(self.groups, M):
            noise, P = noises[columns], self.P[:, columns]
            group = self.groups[columns] - begin
            factor = cholesky_batch(self.G[begin:end][group] + noise[:, None, None] * eye, _B)
            inverse = torch.cholesky_inverse(factor)
            m = torch.cholesky_solve(P.T[:, :, None], factor)[:, :, 0]
            second = inverse + (m[:, :, None] * m[:, None, :] - eye) / noise[:, None, None]
            weights[begin:end].index_add_(0, group, second)
            quadratic[columns] = noise * (second * rows[begin:end][group]).sum((1, 2))
            mean[:, columns] = m.T
            traces[columns] = noise * inverse.diagonal(dim1=1, dim2=2).sum(1)  # tr cov
            log_dets[columns] = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1)
        kl = 0.5 * (traces + mean.square().sum(0) - M + log_dets - M * noises.log()).sum()
        return ColumnMoments(mean, weights, quadratic, kl)

    def _error(self, sums: MaskedPsiSums, Y: Tensor) -> Tensor:
        G, P = self.whiten(sums)
        squares = Y.square().sum(0, dtype=torch.float64)
        return self.moments(G).expected_error(P, sums.psi0, squares)

    def _own_noise(self, residual: Tensor) -> Tensor:
        """Each column's own part o_d of σ_d² = o_d + s, s the average of o over all D columns.

        With o_d ≥ 0, s is the maximum over k of Σ/(D + k), Σ the sum of the k largest variances.
        """
        D, most = len(residual), residual.sort(descending=True).values.cumsum(0)
        return residual - (most / (D + torch.arange(1, D + 1).to(residual))).max()

    def bound_of_sums(
        self, sums: MaskedPsiSums | DrawnRows, cells: CellSums, excess: Tensor | None = None
    ) -> Tensor:
        """See ``BatchedDataPath.bound_of_sums``."""
        if cells.n_rows == self.n_rows and isinstance(sums, MaskedPsiSums):
            return self.best_bound(sums)
        scale = self.n_rows / cells.n_rows
        if isinstance(sums, DrawnRows):
            L = self._root()
            P, a = solve_lower(L, sums.psi1Y), solve_lower(L, sums.K.T)
            G = _grams(a.detach(), sums.sets)
            q = self.moments(G)
            curvature = _curvature(q.weights, a, sums.sets)
        else:
            G, P = self.whiten(sums)
            q = self.moments(G.detach())
            curvature = (q.weights * G).sum()
        noise = self._noise_by_column().detach()
        error = cells.squares - 2 * (q.mean * P).sum(0) + sums.psi0
        logs = (cells.counts * (LOG_2PI + noise.log()) + error / noise).sum()
        fit = -0.5 * (logs + curvature)
        if P.requires_grad:
            error = q.expected_error(P, sums.psi0, cells.squares)
            self._follow_batch(G, P, excess, error, cells)
        return scale * fit - q.kl

    def best_bound(self, sums: MaskedPsiSums) -> Tensor:
        """The collapsed bound of all rows, independent of the current q(V), []."""
        Kuu = self.kernel(self.Z, self.Z)
        return masked_bound(sums, Kuu, self._noise_by_column(), self.squares, self.counts)

    @torch.no_grad()
    def optimum(self, sums: MaskedPsiSums) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, in the form that ``decoder`` uses."""
        return masked_optimum(sums, self.kernel(self.Z, self.Z), self._noise_by_column())

    @torch.no_grad()
    def current(self) -> OptimalInducing:
        """See ``BatchedDataPath.current``."""
        noise = self._noise_by_column().double()
        return whitened_optimum(self.G, self.P, self._root(), noise, self.groups)


def _grams(a: Tensor, sets: Tensor) -> Tensor:
    """Σ_n a_n a_nᵀ over the rows of each set, [K, M, M].

    Args:
        a: whitened kernel of the rows, [M, B].
        sets: 1 where the set contains the row, [B, K].
    """
    M = len(a)
    i, j = pairs(M, a.device)
    return full_from_pairs((a[i] * a[j]) @ sets, M).permute(2, 0, 1)


def _curvature(weights: Tensor, a: Tensor, sets: Tensor) -> Tensor:
    """Σ_k tr[T_k Σ_n a_n a_nᵀ] over the rows of each set; cheap to differentiate, [].

    Args:
        weights: T_k, [K, M, M], constant.
        a: whitened kernel of the rows, [M, B].
        sets: 1 where the set contains the row, [B, K].
    """
    M, B = a.shape
    total = a.new_zeros(())
    for begin in range(0, B, ROWS_OF_WEIGHTS):
        some, rows = sets[begin : begin + ROWS_OF_WEIGHTS], a[:, begin : begin + ROWS_OF_WEIGHTS].T
        of_rows = (some @ weights.reshape(-1, M * M)).reshape(-1, M, M)
        total = total + (rows * (of_rows @ rows[:, :, None])[:, :, 0]).sum()
    return total
