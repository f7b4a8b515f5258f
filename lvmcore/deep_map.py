"""A map that leads to the columns by way of a hidden layer: the layer, and what is left of both.

x ↦ h_i(x), i = 1…I, Gaussian given x, and h ↦ y as from any map: N(h̄(x), diag Var h(x)) takes the
place of q(x) in the psi statistics of the path to the columns, which are sums over rows and so see
no more of a hidden row than its mean and variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.decoding import DataDecoder, ObservedRows, WholeRows
from lvmcore.draws import mirrored_draws
from lvmcore.kernels import RBF
from lvmcore.layers import WhitenedPath
from lvmcore.linalg import cholesky, solve_lower, solve_upper
from lvmcore.qexponential_blocks import log_block
from lvmcore.variational import LOG_2PI, eigen

__all__ = ["DeepDecoder", "HiddenPath"]

# Of q(V) of a hidden layer as it begins, and how near its means follow what they begin with.
START_SD, START_MISFIT = 0.1, 0.01
# Draws of a row's place over which what follows is averaged; fixed.
PLACES = 16
_KUU = "The kernel matrix of the hidden layer's inducing inputs"


class HiddenPath(WhitenedPath):
    """A hidden layer: q-exponential processes with a kernel in common, and q(V) of their own.

    Args:
        Z: inducing inputs to start from, [M, Q].
        X: places to start from, [N, Q].
        H: what the layer makes of them at the start, [N, I].
    """

    def __init__(self, Z: Tensor, X: Tensor, H: Tensor) -> None:
        super().__init__(Z, H.shape[1])
        with torch.no_grad():
            self.log_lengthscales.add_(1.0)  # nearly straight
            L, _ = cholesky(self.kernel(Z, Z), _KUU)
            a = solve_lower(L, self.kernel(Z, X).double())
            ridge = a @ a.T + START_MISFIT * torch.eye(len(Z)).to(L)
            self.q_mu.copy_(torch.linalg.solve(ridge, a @ H.double()).T)
            self.q_sqrt.mul_(START_SD)

    def block(self, q: Tensor | float) -> Tensor:
        """H(q(V)) + ψ(e_V), []: no more than E log p(V)/q(V), V one block of covariance I."""
        mean, factor = self.q_mu.double(), self.factor.double()
        half_log_det = factor.diagonal(dim1=1, dim2=2).abs().log().sum()
        entropy = half_log_det + 0.5 * mean.numel() * (LOG_2PI + 1)
        return entropy + log_block(mean.square().sum() + factor.square().sum(), mean.numel(), q)

    @torch.no_grad()
    def decoder(self) -> DataDecoder:
        """Freeze the layer: each unit in the basis that diagonalises its own covariance."""
        kernel = RBF(self.kernel.variance.detach(), self.kernel.lengthscales.detach())
        Z, factor = self.Z.detach().clone(), self.factor.double()
        L, _ = cholesky(kernel(Z, Z), _KUU)
        values, vectors = eigen(factor @ factor.mT)
        units = len(values)
        return DataDecoder(
            kernel,
            Z,
            basis=solve_upper(L, vectors).to(Z),
            weights=solve_upper(L, self.q_mu.double().T).to(Z),
            shrinkage=(1 - values).T.to(Z),
            noise=Z.new_zeros(units),
            groups=torch.arange(units, device=Z.device),
        )


@dataclass(frozen=True)
class DeepDecoder:
    """Predicts columns at latent points by way of the hidden layer.

    Attributes:
        hidden: the hidden layer, its units in the place of columns, without noise.
        data: the path from it to the columns.
    """

    hidden: DataDecoder
    data: DataDecoder

    @property
    def noise(self) -> Tensor:
        """σ_d² of one more row, [D]."""
        return self.data.noise

    @property
    def row_numbers(self) -> int:
        """See ``inference.RowDecoder``: what the hidden units make of a row's places."""
        return PLACES * self.hidden.weights.numel()

    @property
    def gap_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return max(self.row_numbers, self.data.gap_numbers)

    @cached_property
    def _noises(self) -> Tensor:
        """Standard draws, [S, 1, Q]."""
        return mirrored_draws(PLACES, self.hidden.Z.shape[1], self.hidden.Z)[:, None]

    def places(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Draws of x ~ N(mean, diag variance), always the same ones, [S, N, Q]."""
        return mean + variance.sqrt() * self._noises

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""
        return self.data.moments(*self.hidden.predict(X))

    def reconstruct(self, X: Tensor) -> Tensor:
        """Means of the columns at points X [N, Q], [N, D]."""
        return self.decode(X)[0]

    def comparable(self, Y: Tensor) -> Tensor:
        """Standardised rows as they are."""
        return Y

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``decode`` for x ~ N(mean, diag variance), averaged over fixed draws of x."""
        X = self.places(mean, variance)
        centre, spread, noise = (
            part.reshape(*X.shape[:2], -1) for part in self.decode(X.flatten(0, 1))
        )
        first = centre.mean(0)
        second = (spread + centre.square()).mean(0)
        return first, torch.maximum(second - first.square(), noise[0]), noise[0]

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """Σ_d log N(y_nd | the moments of column d at x_sn), at points X [S, N, Q], [S, N].

        The sum is over the cells that are not NaN.
        """
        mean, total, _ = (part.reshape(*X.shape[:2], -1) for part in self.decode(X.flatten(0, 1)))
        cells = LOG_2PI + total.log() + (Y - mean).square() / total
        return -0.5 * torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    def whole(self, Y: Tensor) -> DeepRows:
        """Complete rows Y [B, D] as functions of their places."""
        return DeepRows(self, self.data.whole(Y))

    def observe(self, Y: Tensor) -> DeepRows:
        """Rows with gaps, NaN, as functions of their places."""
        return DeepRows(self, self.data.observe(Y))

    def doubt(self, X: Tensor) -> Tensor:
        """The share of the prior's variance that is left, of either layer, [N]."""
        beyond = self.data.doubt(self.hidden.predict(X)[0])
        return 1 - (1 - self.hidden.doubt(X)) * (1 - beyond)

    def metric(self, X: Tensor) -> Tensor:
        """Σ_d E[∂f_d ∂f_dᵀ] at points X [N, Q], [N, Q, Q], the columns' slopes A(h) taken at h̄(x).

        With J = ∂k(x, Z)/∂x [Q, M], the slopes of h_i have mean J w_i and covariance
        cov_i = diag(v/ℓ²) − J R_i Jᵀ, R_i = T_i diag(s_i) T_iᵀ, so
        G = E[∂h A ∂hᵀ] = Σ_ij A_ij J w_i w_jᵀ Jᵀ + Σ_i A_ii cov_i.
        """
        layer = self.hidden
        square = layer.kernel.lengthscales.square()
        J = -layer.kernel(X, layer.Z)[:, None, :] * ((X[:, None, :] - layer.Z) / square).transpose(
            1, 2
        )
        A = self.data.metric(layer.predict(X)[0])
        slopes = J @ layer.weights  # [N, Q, I]
        own = A.diagonal(dim1=1, dim2=2)  # [N, I]
        R = (layer.basis * layer.shrinkage.T[:, None, :]) @ layer.basis.mT
        reduced = torch.einsum("ni,imk->nmk", own, R)
        prior = own.sum(1)[:, None, None] * torch.diag(layer.kernel.variance / square)
        return slopes @ A @ slopes.mT + prior - J @ reduced @ J.mT

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What ``from_arrays`` needs."""
        hidden = self.hidden.arrays()
        return {**self.data.arrays(), **{f"hidden.{name}": hidden[name] for name in hidden}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        hidden = {
            name.removeprefix("hidden."): arrays[name] for name in arrays if "hidden." in name
        }
        return cls(DataDecoder.from_arrays(hidden, like), DataDecoder.from_arrays(arrays, like))


@dataclass(frozen=True)
class DeepRows:
    """Rows, as a function of where they lie on the map.

    Attributes:
        decoder: what leads from there to the columns.
        beyond: the rows, as a function of where they lie in the hidden layer.
    """

    decoder: DeepDecoder
    beyond: WholeRows | ObservedRows

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(cells | h(x)) of ``rows`` for x ~ N(mean, diag variance), fixed draws, [n]."""
        X = self.decoder.places(mean, variance).flatten(0, 1)
        hidden = self.decoder.hidden.predict(X)
        found = self.beyond.expected_log_density(rows.repeat(PLACES), *hidden)
        return found.reshape(PLACES, -1).mean(0)
