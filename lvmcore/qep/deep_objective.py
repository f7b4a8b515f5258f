"""The objective of a q-exponential latent variable model with hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
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

    With several hidden layers, the outputs of all but the last are sampled too.

    Args:
        layers: the hidden layers.
        path: from the last of them to the columns.
        problem: the table; its generator draws X.
        exponent: q.
    """

    def __init__(
        self,
        layers: Sequence[DeepDataPath],
        path: DataPath,
        problem: FitProblem,
        exponent: QExponent,
    ) -> None:
        super().__init__(path, problem, exponent)
        self.layers = tuple(layers)

    def value(self, sample: LatentSample) -> Tensor:
        """The bound at the optimal q(V) of each sample of X, averaged over them, []."""
        values = [
            self.bound(self.sums_at(sample.rows, self.draw_noise(sample.rows, sample.generator)))
            for _ in range(sample.draws)
        ]
        return torch.stack([bound.value for bound in values]).mean()

    def draw_noise(self, rows: LatentRows, generator: torch.Generator) -> list[Tensor]:
        """Standard normal numbers, [N, Q] and for each hidden layer but the last [N, I]."""
        N, Q = rows.mean.shape
        widths = [Q, *(layer.q_mu.shape[0] for layer in self.layers[:-1])]
        return [
            torch.randn((N, width), generator=generator, dtype=torch.float64).to(rows.mean)
            for width in widths
        ]

    def sums_at(self, rows: LatentRows, noise: Sequence[Tensor]) -> PsiSums | MaskedPsiSums:
        """Psi statistics of the last hidden rows, at X = mean + sd · noise and likewise on."""
        at = rows.mean + rows.variance.sqrt() * noise[0]
        for layer, own in zip(self.layers[:-1], noise[1:], strict=True):
            mean, variance = layer.latent_function(at)
            at = mean + variance.clamp_min(0).sqrt() * own
        return self.sums(*self.layers[-1].latent_function(at))

    @torch.no_grad()
    def average_sums(self, rows: LatentRows) -> PsiSums | MaskedPsiSums:
        """Psi statistics of the hidden rows, averaged over 16 samples of X."""
        generator = torch.Generator().manual_seed(0)
        total: Any = None  # of either kind of sums
        for _ in range(FINAL_DRAWS // 2):
            noise = self.draw_noise(rows, generator)
            for antithetic in (noise, [-part for part in noise]):
                sums = self.sums_at(rows, antithetic)
                total = sums if total is None else total + sums
        average: PsiSums | MaskedPsiSums = _divide(total, FINAL_DRAWS)
        return average


class HiddenLayerTerm(Term[object]):
    """H(q(V_h)) + ψ(e_h): the bound on E log p(V_h)/q(V_h) of the hidden layer's inducing values.

    Args:
        layer: the hidden layer.
        exponent: q.
        name: of the term.
    """

    def __init__(self, layer: DeepDataPath, exponent: QExponent, name: str) -> None:
        self.layer, self.exponent, self.name = layer, exponent, name

    def value(self, sample: object) -> Tensor:
        """The bound, []; it needs no sample."""
        del sample
        return self.layer.block_bound(self.exponent.q)


class DeepQEPLVMObjective(SparseGPLVMObjective):
    """The bounds of the columns given X, of the hidden layers and of the latent positions.

    Args:
        rows: initial q(X).
        path: from the last hidden layer to the columns.
        problem: the table; its generator draws X.
        exponent: initial q.
        layers: initial hidden layers.
    """

    data: HiddenLayerDataTerm

    def __init__(
        self,
        rows: LatentRows,
        path: DataPath,
        problem: FitProblem,
        exponent: QExponent,
        layers: Sequence[DeepDataPath],
    ) -> None:
        data = HiddenLayerDataTerm(layers, path, problem, exponent)
        further: list[Term[LatentSample]] = [
            HiddenLayerTerm(
                layer,
                exponent,
                "KL of the hidden layer" if len(layers) == 1 else f"KL of hidden layer {number}",
            )
            for number, layer in enumerate(layers, start=1)
        ]
        further.append(LatentBlockTerm(exponent))
        super().__init__(rows, data, problem, further, [exponent, *layers])

    @property
    def exponent(self) -> QExponent:
        """q."""
        return self.data.exponent

    @property
    def latent_path(self) -> DeepDataPath:
        """The first hidden layer."""
        return self.data.layers[0]

    def decoder(self) -> PathDecoder:
        """Hidden layers and data path, q(V) of the columns the optimum for 16 samples of X."""
        data = self.data.in_double()
        hidden = tuple(layer.in_double().decoder() for layer in data.layers)
        return DeepDecoder(hidden, data.decoder_of(data.average_sums(self.rows)))

    def with_problem(self, problem: FitProblem) -> Self:
        """An objective of other cells with a copy of the current parameters."""
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        layers = [deepcopy(layer) for layer in self.data.layers]
        return type(self)(rows, path, problem, deepcopy(self.exponent), layers)


def _divide(sums: Sums, count: int) -> Sums:
    """Psi statistics summed over so many samples, divided by their number."""
    psi0, psi1Y, psi2 = (part / count for part in (sums.psi0, sums.psi1Y, sums.psi2))
    return replace(sums, psi0=psi0, psi1Y=psi1Y, psi2=psi2)
