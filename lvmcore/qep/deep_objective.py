"""The objective of a q-exponential latent variable model with a hidden layer."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.model import PathDecoder
from lvmcore.gp.objective import LatentSample, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.kernels.psi_statistics import MaskedPsiSums, PsiSums
from lvmcore.qep.deep_decoder import DeepDataPath, DeepDecoder
from lvmcore.qep.objective import LatentBlockTerm, QEPDataTerm, QExponent
from lvmcore.training.objective import Term

__all__ = ["FINAL_DRAWS", "DeepQEPLVMObjective"]

# Samples of X that the decoder's q(V) is the optimum for; antithetic pairs.
FINAL_DRAWS = 16
Sums = TypeVar("Sums", PsiSums, MaskedPsiSums)


class HiddenLayerDataTerm(QEPDataTerm):
    """The bound of the columns given a sample of X, averaged over samples.

    Args:
        layer: the hidden layer.
        path: from the hidden layer to the columns.
        problem: the table; its generator draws X.
        exponent: q.
    """

    def __init__(
        self, layer: DeepDataPath, path: DataPath, problem: FitProblem, exponent: QExponent
    ) -> None:
        super().__init__(path, problem, exponent)
        self.layer = layer

    def value(self, sample: LatentSample) -> Tensor:
        """The bound at the optimal q(V) of each sample of X, averaged over them, []."""
        values = [
            self.bound(self.sums_at(sample.rows, self.draw_noise(sample.rows, sample.generator)))
            for _ in range(sample.draws)
        ]
        return torch.stack([bound.value for bound in values]).mean()

    def draw_noise(self, rows: LatentRows, generator: torch.Generator) -> Tensor:
        """Standard normal numbers, [N, Q]."""
        shape = rows.mean.shape
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(rows.mean)

    def sums_at(self, rows: LatentRows, noise: Tensor) -> PsiSums | MaskedPsiSums:
        """Psi statistics of the hidden rows at X = mean + sd · noise."""
        X = rows.mean + rows.variance.sqrt() * noise
        return self.sums(*self.layer.latent_function(X))

    @torch.no_grad()
    def average_sums(self, rows: LatentRows) -> PsiSums | MaskedPsiSums:
        """Psi statistics of the hidden rows, averaged over 16 samples of X."""
        generator = torch.Generator().manual_seed(0)
        total: Any = None  # of either kind of sums
        for _ in range(FINAL_DRAWS // 2):
            noise = self.draw_noise(rows, generator)
            for antithetic in (noise, -noise):
                sums = self.sums_at(rows, antithetic)
                total = sums if total is None else total + sums
        average: PsiSums | MaskedPsiSums = _divide(total, FINAL_DRAWS)
        return average


class HiddenLayerTerm(Term[object]):
    """H(q(V_h)) + ψ(e_h): the bound on E log p(V_h)/q(V_h) of the hidden layer's inducing values.

    Args:
        layer: the hidden layer.
        exponent: q.
    """

    name = "KL of the hidden layer"

    def __init__(self, layer: DeepDataPath, exponent: QExponent) -> None:
        self.layer, self.exponent = layer, exponent

    def value(self, sample: object) -> Tensor:
        """The bound, []; it needs no sample."""
        del sample
        return self.layer.block_bound(self.exponent.q)


class DeepQEPLVMObjective(SparseGPLVMObjective):
    """The bounds of the columns given X, of the hidden layer and of the latent positions.

    Args:
        rows: initial q(X).
        path: from the hidden layer to the columns.
        problem: the table; its generator draws X.
        exponent: initial q.
        layer: initial hidden layer.
    """

    data: HiddenLayerDataTerm

    def __init__(
        self,
        rows: LatentRows,
        path: DataPath,
        problem: FitProblem,
        exponent: QExponent,
        layer: DeepDataPath,
    ) -> None:
        data = HiddenLayerDataTerm(layer, path, problem, exponent)
        further: list[Term[LatentSample]] = [
            HiddenLayerTerm(layer, exponent),
            LatentBlockTerm(exponent),
        ]
        super().__init__(rows, data, problem, further, [exponent, layer])

    @property
    def exponent(self) -> QExponent:
        """q."""
        return self.data.exponent

    @property
    def latent_path(self) -> DeepDataPath:
        """The hidden layer."""
        return self.data.layer

    def decoder(self) -> PathDecoder:
        """Hidden layer and data path, q(V) of the columns the optimum for 16 samples of X."""
        sums = self.data.average_sums(self.rows)
        return DeepDecoder(self.latent_path.decoder(), self.data.decoder_of(sums))

    def with_problem(self, problem: FitProblem) -> Self:
        """An objective of other cells with a copy of the current parameters."""
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        return type(self)(rows, path, problem, deepcopy(self.exponent), deepcopy(self.latent_path))


def _divide(sums: Sums, count: int) -> Sums:
    """Psi statistics summed over so many samples, divided by their number."""
    psi0, psi1Y, psi2 = (part / count for part in (sums.psi0, sums.psi1Y, sums.psi2))
    return replace(sums, psi0=psi0, psi1Y=psi1Y, psi2=psi2)
