"""Base class of the fitted paths to columns with likelihoods of their own.

Notation: lvmcore/README.md; F functions, of which a category has one for each level.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.quasi_random import antithetic_draws

__all__ = ["MOMENT_DRAWS", "LikelihoodDecoder"]

# Draws of a position over which a likelihood of a row is averaged, and those of its moments.
PLACING_DRAWS, MOMENT_DRAWS = 8, 32
# Rows × functions × inducing inputs of a block; bounds memory, does not change results.
CELLS_AT_A_TIME = 1 << 22


class LikelihoodDecoder(ABC):
    """Predictions of columns at latent points, from functions that are Gaussian there.

    Attributes:
        weights: means of the functions' weights, [M, F].
        likelihood: of the columns.
    """

    weights: Tensor
    likelihood: MixedLikelihood

    # ---- functions -----------------------------------------------------------------------------

    @abstractmethod
    def functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g at points X [n, Q], [n, F] each."""

    @abstractmethod
    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Mean of the ratio of Var g_f(x) to its prior variance over the functions, [N]."""

    @property
    @abstractmethod
    def n_basis(self) -> int:
        """Number of features of a point."""

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Mean noise variance of standardised cells, [D]."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name, for a file."""

    # ---- predictions at points -----------------------------------------------------------------

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of cells at points X [N, Q], [N, D] each.

        Of a category the means are the probabilities of its levels.
        """
        return self._in_blocks(lambda some: self.likelihood.moments(*self.functions(some)), X)

    def draw(self, X: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows drawn at points X [n, Q], in the data's units, [n, D]."""
        return self.likelihood.draw(*self.functions(X), rng)

    def metric(self, X: Tensor) -> Tensor:
        """J(x)ᵀ J(x) of the mean of the standardised cells, [N, Q, Q]; differentiable.

        The slopes J of the mean are those of the predictive mean; the uncertainty of the functions
        adds to it where it changes the mean alone.
        """
        with torch.enable_grad():
            at = X if X.requires_grad else X.detach().requires_grad_()
            mean = self.decode(at)[0]
            # Jᵀu is linear in u, so its derivatives by u are the columns of J.
            u = torch.zeros_like(mean, requires_grad=True)
            (product,) = torch.autograd.grad(mean, at, u, create_graph=True)
            columns = [
                torch.autograd.grad(product[:, q].sum(), u, create_graph=True)[0]
                for q in range(X.shape[1])
            ]
            J = torch.stack(columns, 2)
            G = J.mT @ J
        return G if X.requires_grad else G.detach()

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """Σ_d log E p(y_nd | f_d(x_sn)) of the cells that are not NaN, standardised, [S, N].

        Args:
            Y: standardised rows, [N, D].
            X: points, [S, N, Q].
        """
        observed = ~torch.isnan(Y)
        cells = torch.where(observed, Y, 0.0)
        units = self.likelihood.log_units(observed)
        found = [
            self.likelihood.log_predictive(cells, observed, *self.functions(some)) + units
            for some in X
        ]
        return torch.stack(found)

    # ---- predictions under q(x) ----------------------------------------------------------------

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``decode`` for x ~ N(mean, diag variance), by quasi-random draws, [N, D] each."""
        draws = antithetic_draws(MOMENT_DRAWS, mean.shape[1], mean)
        first = second = noise = mean.new_zeros(len(mean), len(self.likelihood.mean))
        for draw in draws:
            centre, spread, own = self.decode(mean + variance.sqrt() * draw)
            first, noise = first + centre / len(draws), noise + own / len(draws)
            second = second + (spread + centre.square()) / len(draws)
        return first, torch.maximum(second - first.square(), noise), noise

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return PLACING_DRAWS * (self.n_basis + 8 * self.weights.shape[1])

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return self.complete_row_size

    def reconstruct(self, X: Tensor) -> Tensor:
        """Inputs of the decoded rows at points X [N, Q], [N, D]."""
        return self.likelihood.inputs(self.decode(X)[0])

    def distance_features(self, Y: Tensor) -> Tensor:
        """The inputs of rows."""
        return self.likelihood.inputs(Y)

    def complete_rows(self, Y: Tensor) -> RowLikelihood:
        """Likelihood of complete rows Y [B, D] as a function of their positions."""
        return RowLikelihood(self, Y, None)

    def observed_rows(self, Y: Tensor) -> RowLikelihood:
        """Likelihood of rows Y [B, D], NaN where missing, as a function of their positions."""
        observed = ~torch.isnan(Y)
        return RowLikelihood(self, torch.where(observed, Y, 0.0), observed)

    def _in_blocks(
        self, function: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], X: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = max(1, CELLS_AT_A_TIME // (32 * self.weights.shape[1]))
        parts = [function(some) for some in torch.split(X, rows)]
        first, spread, noise = (torch.cat(part) for part in zip(*parts, strict=True))
        return first, spread, noise


@dataclass(frozen=True)
class RowLikelihood:
    """Likelihood of rows as a function of their positions.

    Attributes:
        decoder: the fitted path.
        Y: standardised rows, 0 where a cell is missing, [B, D].
        observed: True where a cell is observed, [B, D]; None where every one is.
    """

    decoder: LikelihoodDecoder
    Y: Tensor
    observed: Tensor | None

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(observed cells | f(x)) of ``rows`` for x ~ N(mean, diag variance), [n].

        An average over fixed draws of x of a bound of the expectation over f.
        """
        draws = antithetic_draws(PLACING_DRAWS, mean.shape[1], mean)
        X = mean + variance.sqrt() * draws[:, None]
        g, spread = self.decoder.functions(X.reshape(-1, mean.shape[1]))
        Y = self.Y[rows].repeat(len(draws), 1)
        observed = None if self.observed is None else self.observed[rows].repeat(len(draws), 1)
        found = self.decoder.likelihood.smooth_bound(Y, observed, g, spread)
        return found.reshape(len(draws), -1).mean(0)
