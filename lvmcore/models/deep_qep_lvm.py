"""Bayesian latent variable model of q-exponential processes with a hidden layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import Capabilities, Problem
from lvmcore.deep_map import DeepDecoder, HiddenPath
from lvmcore.deep_starts import principal_axes
from lvmcore.gplvm import SparseDecoder
from lvmcore.layers import DataPath, LatentRows
from lvmcore.parameters import (
    Components,
    Device,
    Doc,
    Dtype,
    Inducing,
    LearningRate,
    MaxIter,
    Noise,
    Range,
    Restarts,
    Seed,
    Start,
)
from lvmcore.psi import MaskedPsiSums, PsiSums
from lvmcore.qep_fit import Exponent, QEPFit, QEPMap, Shape
from lvmcore.training import Schedule

__all__ = ["DeepQEPLVM"]

# Draws of X by which the decoder is frozen; an even number, each with its opposite.
FINAL_DRAWS = 16
Sums = TypeVar("Sums", PsiSums, MaskedPsiSums)


class DeepQEPLVM(QEPMap):
    """A map with a hidden layer: h_i(x_n) and y_nd = f_d(h(x_n)) + ε, q-exponential processes all.

    The bound of ``QEPLVM`` with one block more, the whitened inducing values of the hidden layer,
    whose q(V) is a Gaussian of its own:

    E_q(X)[ψ(e_Y) − ½ Σ_d n_d log σ_d² + H(q(V)) + ψ(e_V)] + H(q(V_h)) + ψ(e_h) + H(q(X)) + ψ(e_X).

    The expectation is over one draw of X a step. Given it and the hidden layer's inducing values, a
    hidden row is Gaussian by the model (of a block that is summed over, not only measured, more
    than the covariance matters); its mean and variance take the place of q(x) in the psi statistics
    of the path to the columns, so that nothing else is drawn and the columns' q(V) stays at its
    optimum. That optimum depends on the draw, which leaves the bound one, q(V | X) being as good a
    q as any; predictions are made with the q(V) that is best for 16 draws at once. The hidden layer
    has no linear mean, so that its lengthscales say which dimensions of the map matter; it begins
    as a straight image of the map.

    Attributes:
        q_: q, as given or as learned.
        relevance_: ``data`` holds α of the hidden layer's kernel, [Q].
        inducing_inputs_: ``data`` holds the hidden layer's Z, [M, Q].
        noise_variance_: of one more row, standardised units, [D]; see ``QEPLVM``.
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "deep_qep_lvm"
    title: ClassVar[str] = "Deep Q-EP LVM"
    summary: ClassVar[str] = (
        "The Q-EP LVM with a hidden layer, for maps that bend unevenly; slower, and no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 12
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )
    final_draws: ClassVar[int] = FINAL_DRAWS

    def __init__(
        self,
        *,
        q: Exponent = 1.5,
        n_components: Components = None,
        hidden_dim: Annotated[
            int | None,
            Range(1, 100),
            Doc("Dimensions of the hidden layer; auto is as many as the map has.", "hidden layer"),
        ] = None,
        n_inducing: Inducing = 25,
        max_iter: MaxIter = 500,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.1,
        start: Start = "pca",
        n_restarts: Restarts = 1,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.q = q
        self.n_components = n_components
        self.hidden_dim = hidden_dim
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.noise = noise
        self.learning_rate = learning_rate
        self.start = start
        self.n_restarts = n_restarts
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def _objective(self, rows: LatentRows, path: DataPath, problem: Problem) -> DeepFit:
        X, Z = rows.mean.detach(), path.Z.detach()
        W = principal_axes(X, self.hidden_dim or X.shape[1])
        gaps = problem.observed is not None
        beyond = DataPath(Z @ W, self._start_noise(problem), pooled=gaps)
        return DeepFit(rows, beyond, problem, Shape(self.q), HiddenPath(Z, X, X @ W))

    def _schedule(self, cells: int) -> Schedule:
        """A bound that is estimated by one draw has to fall further to count as collapsed."""
        usual = super()._schedule(cells)
        return replace(usual, window=2 * usual.window, collapse=10 * usual.collapse)

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> SparseDecoder:
        return DeepDecoder.from_arrays(arrays, like)


class DeepFit(QEPFit):
    """The objective: the bound given draws of X, and the parts of the layer and of the map.

    Args:
        rows: as of ``MapFit``.
        path: from the hidden layer to the columns.
        problem: as of ``MapFit``; its generator draws X.
        shape: q, where it begins.
        layer: the hidden layer, where it begins.
    """

    def __init__(
        self,
        rows: LatentRows,
        path: DataPath,
        problem: Problem,
        shape: Shape,
        layer: HiddenPath,
    ) -> None:
        super().__init__(rows, path, problem, shape)
        self.layer, self.generator = layer, problem.generator

    @property
    def first(self) -> HiddenPath:
        """The path that the map leads into."""
        return self.layer

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """All that is optimised."""
        return [*super().parameters(), *self.layer.parameters()]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The bound of the columns, and the parts of the hidden layer and of the map."""
        values = [
            self.bound(self._sums_at(self._noise(self.generator))).value for _ in range(draws)
        ]
        return {
            "data fit": torch.stack(values).mean(),
            "KL of the hidden layer": self.layer.block(self.shape.q),
            "KL of the map": self.of_map(),
        }

    def _noise(self, generator: torch.Generator) -> Tensor:
        """Standard normal, [N, Q]."""
        mean = self.rows.mean
        return torch.randn(mean.shape, generator=generator, dtype=torch.float64).to(mean)

    def _sums_at(self, noise: Tensor) -> PsiSums | MaskedPsiSums:
        X = self.rows.mean + self.rows.variance.sqrt() * noise
        return self.sums(*self.layer.latent_function(X))

    @torch.no_grad()
    def decoder(self) -> SparseDecoder:
        """Both paths, the columns' at the q(V) that is best for some draws of X at once."""
        generator = torch.Generator().manual_seed(0)
        total: Any = None
        for _ in range(FINAL_DRAWS // 2):
            noise = self._noise(generator)
            for side in (noise, -noise):
                sums = self._sums_at(side)
                total = sums if total is None else total + sums
        return DeepDecoder(self.layer.decoder(), self.frozen(_shared(total, FINAL_DRAWS)))

    def elsewhere(self, problem: Problem) -> Self:
        """See ``MapFit.elsewhere``."""
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        return type(self)(rows, path, problem, deepcopy(self.shape), deepcopy(self.layer))


def _shared(sums: Sums, count: int) -> Sums:
    """Sums over so many draws, over their number."""
    psi0, psi1Y, psi2 = (part / count for part in (sums.psi0, sums.psi1Y, sums.psi2))
    return replace(sums, psi0=psi0, psi1Y=psi1Y, psi2=psi2)
