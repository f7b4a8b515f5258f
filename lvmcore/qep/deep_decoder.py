"""Decoder with hidden layers: the variational layer, and the fitted decoder of all layers.

x ↦ h_i(x), i = 1…I, is Gaussian given x, and h ↦ y is a path as in a single-layer model.
N(h̄(x), diag Var h(x)) replaces q(x) in the psi statistics of the data path, which are sums over
rows and depend on mean and variance of a hidden row only. With several hidden layers the outputs of
all but the last are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.bounds import kernel_eigensystem
from lvmcore.gp.data_decoder import CompleteRows, DataDecoder, ObservedRows
from lvmcore.gp.paths import WhitenedPath
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.numerics.quasi_random import antithetic_draws
from lvmcore.qep.blocks import log_block

__all__ = ["DeepDataPath", "DeepDecoder"]

# Initial sd of q(V) of a hidden layer, and the ridge of the regression of its initial means.
INITIAL_SD, INITIAL_MISFIT = 0.1, 0.01
# Fixed draws of a row's latent position that expectations average over.
LATENT_DRAWS = 16
_KUU = "The kernel matrix of the hidden layer's inducing inputs"


class DeepDataPath(WhitenedPath):
    """A hidden layer: q-exponential processes with one kernel, each with its own q(V).

    Args:
        Z: initial inducing inputs, [M, Q].
        X: initial latent positions, [N, Q].
        H: initial hidden positions, [N, I].
    """

    def __init__(
        self, Z: Float[Tensor, "M Q"], X: Float[Tensor, "N Q"], H: Float[Tensor, "N I"]
    ) -> None:
        super().__init__(Z, H.shape[1])
        with torch.no_grad():
            self.log_lengthscales.add_(1.0)  # nearly linear
            L, _ = cholesky(self.kernel(Z, Z), _KUU)
            a = solve_lower(L, self.kernel(Z, X).double())
            ridge = a @ a.T + INITIAL_MISFIT * torch.eye(len(Z)).to(L)
            self.q_mu.copy_(torch.linalg.solve(ridge, a @ H.double()).T)
            self.q_sqrt.mul_(INITIAL_SD)

    def block_bound(self, q: Tensor | float) -> Float[Tensor, ""]:
        """H(q(V)) + ψ(e_V), []: a lower bound on E log p(V)/q(V), V one block of covariance I."""
        mean, factor = self.q_mu.double(), self.factor.double()
        half_log_det = factor.diagonal(dim1=1, dim2=2).abs().log().sum()
        entropy = half_log_det + 0.5 * mean.numel() * (LOG_2PI + 1)
        return entropy + log_block(mean.square().sum() + factor.square().sum(), mean.numel(), q)

    @torch.no_grad()
    def decoder(self) -> DataDecoder:
        """The layer as a decoder, each unit in the basis that diagonalises its covariance."""
        kernel = self.rbf.detached()
        Z, factor = self.Z.detach().clone(), self.factor.double()
        L, _ = cholesky(kernel(Z, Z), _KUU)
        values, vectors = kernel_eigensystem(factor @ factor.mT)
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
    """Predicts columns at latent points through the hidden layers.

    Attributes:
        hidden: the hidden layers, their units as columns, without noise.
        data: the path from the last of them to the columns.
    """

    hidden: tuple[DataDecoder, ...]
    data: DataDecoder

    @property
    def noise(self) -> Float[Tensor, "D"]:
        """σ_d² of a new row, [D]."""
        return self.data.noise

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``: the hidden units at all draws of a row."""
        return LATENT_DRAWS * max(layer.weights.numel() for layer in self.hidden)

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return max(self.complete_row_size, self.data.incomplete_row_size)

    @property
    def _drawn_units(self) -> int:
        """Units of the hidden layers but the last, whose outputs are drawn."""
        return sum(layer.weights.shape[1] for layer in self.hidden[:-1])

    @cached_property
    def _standard_draws(self) -> Float[Tensor, "S 1 J"]:
        """Standard draws of a latent point and of the hidden units that are drawn."""
        Z = self.hidden[0].Z
        return antithetic_draws(LATENT_DRAWS, Z.shape[1] + self._drawn_units, Z)[:, None]

    @property
    def unit_draws(self) -> Float[Tensor, "S 1 U"]:
        """Standard draws of the hidden units that are drawn."""
        return self._standard_draws[..., self.hidden[0].Z.shape[1] :]

    def latent_draws(
        self, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"]
    ) -> Float[Tensor, "S N Q"]:
        """Fixed draws of x ~ N(mean, diag variance), [S, N, Q]."""
        return mean + variance.sqrt() * self._standard_draws[..., : mean.shape[1]]

    def last_hidden(
        self, X: Float[Tensor, "S N Q"], draws: Float[Tensor, "S 1 U"]
    ) -> tuple[Float[Tensor, "SN I"], Float[Tensor, "SN I"]]:
        """Mean and variance of the last hidden layer at points, given draws of those before it.

        Args:
            X: points, [S, N, Q].
            draws: standard draws, the same for all N points, [S, 1, U].
        """
        at, used = X, 0
        for layer in self.hidden[:-1]:
            mean, variance = (
                part.reshape(*X.shape[:2], -1) for part in layer.predict(at.flatten(0, 1))
            )
            units = mean.shape[-1]
            at = mean + variance.sqrt() * draws[..., used : used + units]
            used += units
        return self.hidden[-1].predict(at.flatten(0, 1))

    def decode(
        self, X: Float[Tensor, "N Q"]
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""
        if len(self.hidden) == 1:
            return self.data.moments(*self.hidden[0].predict(X))
        return self._mixture(X.expand(LATENT_DRAWS, *X.shape))

    def reconstruct(self, X: Float[Tensor, "N Q"]) -> Float[Tensor, "N D"]:
        """Means of the columns at points X [N, Q], [N, D]."""
        return self.decode(X)[0]

    def distance_features(self, Y: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Standardised rows as they are."""
        return Y

    def moments(
        self, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"]
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """``decode`` for x ~ N(mean, diag variance), averaged over fixed draws of x."""
        return self._mixture(self.latent_draws(mean, variance))

    def _mixture(
        self, X: Float[Tensor, "S N Q"]
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Mean, variance with noise and noise variance, averaged over draws of points, [N, D]."""
        hidden = self.last_hidden(X, self.unit_draws)
        centre, spread, noise = (
            part.reshape(*X.shape[:2], -1) for part in self.data.moments(*hidden)
        )
        first = centre.mean(0)
        second = (spread + centre.square()).mean(0)
        return first, torch.maximum(second - first.square(), noise[0]), noise[0]

    def log_density(
        self, Y: Float[Tensor, "N D"], X: Float[Tensor, "S N Q"]
    ) -> Float[Tensor, "S N"]:
        """Σ_d log N(y_nd | the moments of column d at x_sn), at points X [S, N, Q], [S, N].

        The sum is over the cells that are not NaN. With several hidden layers each s has its own
        draw of the hidden units, and the moments are given that draw.
        """
        draws = X.new_zeros(len(X), 1, 0)
        if self._drawn_units:
            draws = antithetic_draws(len(X), self._drawn_units, X)[:, None]
        hidden = self.last_hidden(X, draws)
        mean, total, _ = (part.reshape(*X.shape[:2], -1) for part in self.data.moments(*hidden))
        cells = LOG_2PI + total.log() + (Y - mean).square() / total
        return -0.5 * torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    def complete_rows(self, Y: Tensor) -> DeepRows:
        """Complete rows Y [B, D] as functions of their latent positions."""
        return DeepRows(self, self.data.complete_rows(Y))

    def observed_rows(self, Y: Tensor) -> DeepRows:
        """Rows with missing cells, NaN, as functions of their latent positions."""
        return DeepRows(self, self.data.observed_rows(Y))

    def prior_variance_share(self, X: Float[Tensor, "N Q"]) -> Float[Tensor, "N"]:
        """The posterior over the prior variance of all layers together, 0 to 1, [N]."""
        known = X.new_ones(len(X))
        for layer in self.hidden:
            known = known * (1 - layer.prior_variance_share(X))
            X = layer.predict(X)[0]
        return 1 - known * (1 - self.data.prior_variance_share(X))

    def metric(self, X: Float[Tensor, "N Q"]) -> Float[Tensor, "N Q Q"]:
        """Σ_d E[∂f_d ∂f_dᵀ] at points X [N, Q], [N, Q, Q], each layer's slopes at its mean."""
        points = [X]
        for layer in self.hidden:
            points.append(layer.predict(points[-1])[0])
        found = self.data.metric(points.pop())
        for layer in reversed(self.hidden):
            found = _pull_back(layer, points.pop(), found)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fitted state, for ``from_arrays``."""
        found = self.data.arrays()
        for number, layer in enumerate(self.hidden, start=1):
            prefix = _layer_prefix(number)
            found |= {f"{prefix}{name}": array for name, array in layer.arrays().items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        hidden: list[DataDecoder] = []
        while True:
            prefix = _layer_prefix(len(hidden) + 1)
            own = {
                name.removeprefix(prefix): arrays[name]
                for name in arrays
                if name.startswith(prefix)
            }
            if not own:
                return cls(tuple(hidden), DataDecoder.from_arrays(arrays, like))
            hidden.append(DataDecoder.from_arrays(own, like))


def _layer_prefix(number: int) -> str:
    """Prefix of the arrays of a hidden layer, from 1; the first as in files with a single one."""
    return "hidden." if number == 1 else f"hidden{number}."


def _pull_back(
    layer: DataDecoder, X: Float[Tensor, "N Q"], A: Float[Tensor, "N I I"]
) -> Float[Tensor, "N Q Q"]:
    """E[∂h A ∂hᵀ] of a layer at points X [N, Q], for A given at its mean, [N, Q, Q].

    With J = ∂k(x, Z)/∂x [Q, M], the slopes of h_i have mean J w_i and covariance
    cov_i = diag(v/ℓ²) − J R_i Jᵀ, R_i = T_i diag(s_i) T_iᵀ, so it is
    Σ_ij A_ij J w_i w_jᵀ Jᵀ + Σ_i A_ii cov_i.
    """
    square = layer.kernel.lengthscales.square()
    J = -layer.kernel(X, layer.Z)[:, None, :] * ((X[:, None, :] - layer.Z) / square).transpose(1, 2)
    slopes = J @ layer.weights  # [N, Q, I]
    own = A.diagonal(dim1=1, dim2=2)  # [N, I]
    R = (layer.basis * layer.shrinkage.T[:, None, :]) @ layer.basis.mT
    reduced = torch.einsum("ni,imk->nmk", own, R)
    prior = own.sum(1)[:, None, None] * torch.diag(layer.kernel.variance / square)
    return slopes @ A @ slopes.mT + prior - J @ reduced @ J.mT


@dataclass(frozen=True)
class DeepRows:
    """The likelihood of rows as a function of their latent positions.

    Attributes:
        decoder: the fitted decoder.
        hidden_rows: the rows as a function of their hidden positions.
    """

    decoder: DeepDecoder
    hidden_rows: CompleteRows | ObservedRows

    def expected_log_density(
        self, rows: Tensor, mean: Float[Tensor, "n Q"], variance: Float[Tensor, "n Q"]
    ) -> Float[Tensor, "n"]:
        """E log p(cells | h(x)) of ``rows`` for x ~ N(mean, diag variance), fixed draws, [n]."""
        X = self.decoder.latent_draws(mean, variance)
        hidden = self.decoder.last_hidden(X, self.decoder.unit_draws)
        found = self.hidden_rows.expected_log_density(rows.repeat(LATENT_DRAWS), *hidden)
        return found.reshape(LATENT_DRAWS, -1).mean(0)
