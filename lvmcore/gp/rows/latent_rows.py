"""q(X) of a fit with every row in every step: one Gaussian for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.row_relocation import best_positions
from lvmcore.gp.rows.label_draws import standard_noise
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.results import Posterior
from lvmcore.training.parameter_state import ParameterState, ParameterVectors
from lvmcore.training.snapshots import thinned

__all__ = ["LatentRows", "PsiPath"]


class PsiPath(Protocol):
    """A kernel with inducing inputs."""

    def psi_sums(self, mean: Tensor, variance: Tensor, Y: Tensor) -> PsiSums:
        """Psi statistics of rows Y [N, D] whose inputs are N(mean, diag variance), [N, Q] each."""


class LatentRows(nn.Module):
    """q(X) = ∏_n N(mean_n, diag variance_n): one Gaussian for each row, not amortised."""

    is_sharded: ClassVar[bool] = False  # whether the rows are in shards

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean.clone())
        self.log_variance = nn.Parameter(torch.full_like(mean, math.log(variance)))

    @property
    def variance(self) -> Tensor:
        """[N, Q]."""
        return self.log_variance.exp()

    @property
    def shape(self) -> tuple[int, int]:
        """N and Q."""
        return self.mean.shape[0], self.mean.shape[1]

    def posterior(self) -> Posterior:
        """q(X) as arrays."""
        return Posterior(to_numpy(self.mean), to_numpy(self.variance))

    def means_of(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of some rows, [n, Q]."""
        return self.mean[torch.as_tensor(rows)]

    def kl(self) -> Tensor:
        """KL(q(X) ‖ N(0, I)), []."""
        return kl_standard_normal(self.mean, self.variance).sum()

    def moments(self) -> tuple[Tensor, Tensor]:
        """Σ log variance and Σ (mean² + variance) over rows and dimensions, [] each."""
        variance = self.variance.double()
        return variance.log().sum(), (self.mean.double().square() + variance).sum()

    def psi_sums(self, path: PsiPath, Y: Tensor) -> PsiSums:
        """Psi statistics of rows Y [N, D] at q(X)."""
        return path.psi_sums(self.mean, self.variance, Y)

    def draw(self, samples: int, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Reparameterised samples of ``rows``, [samples, n, Q]."""
        return self.displaced(rows, standard_noise(samples, len(rows), self.shape[1], generator))

    def displaced(self, rows: Tensor, noise: Tensor) -> Tensor:
        """mean + sd · noise of ``rows``, noise [samples, n, Q], [samples, n, Q]."""
        mean, sd = self.mean[rows], (0.5 * self.log_variance[rows]).exp()
        return mean + sd * noise.to(mean)

    def scales(self) -> dict[nn.Parameter, Tensor]:
        """The expected scale of each parameter.

        At an optimum the curvature by a mean of q(x) is the inverse of its variance, and by the
        logarithm of that variance ½.
        """
        return {
            self.mean: self.variance.sqrt(),
            self.log_variance: torch.full_like(self.mean, 2**0.5),
        }

    # ---- relocation ----------------------------------------------------------------------------

    @torch.no_grad()
    def find_moves(self, decoder: DataDecoder, Y: Tensor, observed: Tensor | None) -> bool:
        """Find the position, of at most 2000 rows, where each row fits best.

        Args:
            decoder: the data path with q(U) at its optimum.
            Y: rows, 0 where a cell is missing, [N, D].
            observed: 1 where a cell is observed, else 0, [N, D]; None if all are.

        Returns:
            Whether any row is not there.
        """
        candidates = torch.as_tensor(thinned(len(Y)), device=Y.device)
        mean, variance = self.mean.double(), self.variance.double()
        self._best = best_positions(decoder, Y, observed, mean, variance, candidates)
        return not bool((self._best == torch.arange(len(Y), device=Y.device)).all())

    @torch.no_grad()
    def move(self) -> None:
        """Move each row to the position that was found."""
        self._places = [parameter.clone() for parameter in self.parameters()]
        for parameter, place in zip(self.parameters(), self._places, strict=True):
            parameter.copy_(place[self._best])

    @torch.no_grad()
    def move_back(self) -> None:
        """Move each row back."""
        for parameter, place in zip(self.parameters(), self._places, strict=True):
            parameter.copy_(place)

    # ---- optimisers ----------------------------------------------------------------------------

    def parameter_state(
        self, parameters: Sequence[nn.Parameter], others: Sequence[Tensor]
    ) -> ParameterState:
        """The parameters of an objective with these rows, and other tensors that a step changes."""
        return ParameterState(parameters, others)

    def parameter_vectors(self, parameters: Sequence[nn.Parameter]) -> ParameterVectors:
        """The parameters of an objective with these rows in one vector."""
        return ParameterVectors(parameters)
