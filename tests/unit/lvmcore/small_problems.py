"""Small problems with every number in view, for tests that compare two routes."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmcore.gp.bounds import collapsed_bound
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.paths import DataPath
from lvmcore.kernels.psi_statistics import psi_sums
from lvmcore.kernels.stationary import RBF, Linear

__all__ = ["Small", "small_decoder", "small_problem"]


@dataclass(frozen=True)
class Small:
    """q(X), inducing inputs, data and noise of a small problem.

    Attributes:
        mean: [N, Q].
        variance: [N, Q].
        Z: inducing inputs, well apart, [M, Q].
        Y: [N, D].
        noise: [D].
    """

    mean: Tensor
    variance: Tensor
    Z: Tensor
    Y: Tensor
    noise: Tensor

    @property
    def rbf(self) -> RBF:
        Q = self.Z.shape[1]
        return RBF(torch.tensor(1.3).to(self.Z), torch.linspace(0.8, 1.5, Q).to(self.Z))

    @property
    def linear(self) -> Linear:
        return Linear(torch.linspace(0.5, 1.6, self.Z.shape[1]).to(self.Z))

    @property
    def squares(self) -> Tensor:
        return self.Y.square().sum(0)


def small_problem(
    *, N: int = 9, D: int = 3, Q: int = 2, M: int = 5, shared: bool = False, seed: int = 0
) -> Small:
    """A problem whose columns are smooth functions of the latent means, plus noise."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(N, Q))
    Y = np.sin(mean @ rng.normal(size=(Q, D))) + 0.3 * rng.normal(size=(N, D))
    noise = np.full(D, 0.2) if shared else np.linspace(0.05, 0.5, D)
    Z = np.linspace(-2, 2, M)[:, None] * np.resize([1.0, -1.0], Q) + 0.5 * rng.normal(size=(M, Q))
    variance = rng.uniform(0.05, 0.6, size=(N, Q))
    return Small(*(torch.as_tensor(array) for array in (mean, variance, Z, Y, noise)))


def small_decoder(p: Small) -> DataDecoder:
    """The frozen data path of a problem, at the optimal q(V)."""
    path = DataPath(p.Z, p.noise)
    with torch.no_grad():
        path.log_lengthscales.copy_(p.rbf.lengthscales.log())
        path.log_variance.copy_(p.rbf.variance.log())
        kernel = path.kernel
        sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
        _, q = collapsed_bound(sums, kernel(p.Z, p.Z), path.noise, p.squares, len(p.Y))
    return path.decoder(q)
