"""The objective of a q-exponential latent variable model, and its learned exponent q."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Annotated, Literal, Self

import torch
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.objective import DataTerm, LatentSample, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.kernels.psi_statistics import MaskedPsiSums, PsiSums, masked_psi_sums
from lvmcore.parameters import Doc, Range
from lvmcore.qep.collapsed_bound import QEPBound, moment_bound, qep_bound
from lvmcore.qep.distribution import MIN_Q
from lvmcore.training.objective import Term

__all__ = [
    "Exponent",
    "LatentBlockTerm",
    "QEPDataTerm",
    "QEPLVMObjective",
    "QExponent",
    "exponent_of",
]

START_Q = 1.5
# Nugget of the inducing values as a share of the kernel variance, times 1 − q/2.
NUGGET = 1e-5

Exponent = Annotated[
    float | Literal["learn"],
    Range(MIN_Q, 2.0),
    Doc(
        "2 is the Gaussian process; less follows the rows more closely, and underestimates the "
        "uncertainty far from them.",
        "exponent q",
    ),
]


def with_nugget(Kuu: Tensor, q: Tensor) -> Tensor:
    """K_uu plus a nugget on its diagonal, [M, M].

    Directions of K_uu with eigenvalues near 0, from inducing inputs close to one another, have no
    information on the columns, and the q(V) of a Gaussian process equals the prior there. Here w_V
    is not 1, so q(V) differs from the prior, and the inverse of these eigenvalues remains in the
    predictions, with rounding errors as large as itself, which would change latent positions.

    Args:
        Kuu: kernel matrix of the inducing inputs, [M, M].
        q: as of the fit, [].
    """
    nugget = NUGGET * (1 - q / 2).to(Kuu) * Kuu.diagonal().mean()
    return Kuu + nugget * torch.eye(len(Kuu)).to(Kuu)


class QExponent(nn.Module):
    """q: fixed, or learned as the logit of its position in its range.

    Args:
        q: its value, or "learn".
    """

    def __init__(self, q: float | Literal["learn"]) -> None:
        super().__init__()
        self.fixed = None if q == "learn" else float(q)
        if self.fixed is None:
            share = (START_Q - MIN_Q) / (2 - MIN_Q)
            logit = torch.tensor(math.log(share / (1 - share)), dtype=torch.float64)
            self.logit = nn.Parameter(logit)

    @property
    def q(self) -> Tensor:
        """[], float64."""
        if self.fixed is not None:
            return torch.tensor(self.fixed, dtype=torch.float64)
        return MIN_Q + (2 - MIN_Q) * torch.sigmoid(self.logit)


class QEPDataTerm(DataTerm):
    """The bound of the columns, whose inducing values are one q-exponential block.

    Args:
        path: kernel, inducing inputs and noise.
        problem: the table.
        exponent: q.
    """

    def __init__(self, path: DataPath, problem: FitProblem, exponent: QExponent) -> None:
        super().__init__(path, problem)
        self.exponent = exponent

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise variances and q."""
        return [*super().frozen_in_warm_up(), *self.exponent.parameters()]

    def value(self, sample: LatentSample) -> Tensor:
        """The bound at the optimal q(V), []."""
        return self.bound(self.row_sums(sample.rows)).value

    def sums(self, mean: Tensor, variance: Tensor) -> PsiSums | MaskedPsiSums:
        """Psi statistics of rows whose inputs are N(mean, diag variance), [N, Q] each."""
        path, Y = self.path, self.Y
        if self.cells is None:
            return path.psi_sums(mean, variance, Y)
        return masked_psi_sums(path.kernel, mean, variance, path.Z, Y, self.cells)

    def row_sums(self, rows: LatentRows) -> PsiSums | MaskedPsiSums:
        """Psi statistics of the rows at q(X)."""
        if self.cells is None:
            return rows.psi_sums(self.path, self.Y)
        return self.sums(rows.mean, rows.variance)

    def bound(self, sums: PsiSums | MaskedPsiSums) -> QEPBound:
        """The bound at the optimal q(V) for psi statistics of all rows."""
        Z, q = self.path.Z, self.exponent.q
        noise = self.path.noise.expand(self.Y.shape[1])
        complete = noise.new_full(noise.shape, len(self.Y))
        counts = complete if self.cells is None else self.cells.counts
        Kuu = with_nugget(self.path.kernel(Z, Z), q)
        return qep_bound(sums, Kuu, noise, self.squares, counts, q)

    @torch.no_grad()
    def decoder(self, rows: LatentRows) -> DataDecoder:
        """The path at the optimal q(V) for q(X); its noise is that of a new row."""
        term = self.in_double()
        return term.decoder_of(term.row_sums(rows))

    @torch.no_grad()
    def decoder_of(self, sums: PsiSums | MaskedPsiSums) -> DataDecoder:
        """The path at the optimal q(V) for psi statistics of all rows."""
        found = self.bound(sums)
        return self.path.decoder(found.inducing, found.conditional_noise(self.path.noise))


class LatentBlockTerm(Term[LatentSample]):
    """H(q(X)) + ψ(e_X): the bound on E log p(X)/q(X), X one q-exponential block.

    Args:
        exponent: q.
    """

    name = "KL of the map"

    def __init__(self, exponent: QExponent) -> None:
        self.exponent = exponent

    def value(self, sample: LatentSample) -> Tensor:
        """The bound, []."""
        rows, q = sample.rows, self.exponent.q
        return moment_bound(*rows.moments(), rows.shape[0] * rows.shape[1], q)


class QEPLVMObjective(SparseGPLVMObjective):
    """The bound of the columns and that of the latent positions, one q-exponential block each.

    Args:
        rows: initial q(X).
        path: initial kernel, inducing inputs and noise.
        problem: the table.
        exponent: initial q.
    """

    data: QEPDataTerm

    def __init__(
        self, rows: LatentRows, path: DataPath, problem: FitProblem, exponent: QExponent
    ) -> None:
        data = QEPDataTerm(path, problem, exponent)
        super().__init__(rows, data, problem, [LatentBlockTerm(exponent)], [exponent])

    @property
    def exponent(self) -> QExponent:
        """q."""
        return self.data.exponent

    def with_problem(self, problem: FitProblem) -> Self:
        """An objective of other cells with a copy of the current parameters."""
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        return type(self)(rows, path, problem, deepcopy(self.exponent))


def exponent_of(fit: SparseGPLVMObjective) -> float:
    """q of a fitted objective: 2 where its processes are Gaussian."""
    return float(fit.data.exponent.q.detach()) if isinstance(fit.data, QEPDataTerm) else 2.0
