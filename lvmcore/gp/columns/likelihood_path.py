"""Base class of the paths to columns with likelihoods of their own.

Each function is g_f(x) = a(x)ᵀv_f, up to what an approximation leaves out, with features a of a
latent point that all share and weights v_f ~ N(0, I). A subclass defines the features: of inducing
inputs (``ColumnPath``), or of a spectrum.

Notation: lvmcore/README.md; F functions, of which a category has one for each level.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.columns.likelihood_decoder import LikelihoodDecoder
from lvmcore.gp.minibatch.natural_gradients import NaturalGradientWeights
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.training.objective import KLTerm

__all__ = ["FittedWeights", "LikelihoodPath"]


@dataclass(frozen=True)
class FittedWeights:
    """q(V) with covariances that are diagonal in one basis, and the likelihoods of the columns.

    Attributes:
        mean: of the weights, [M, F].
        basis: eigenvectors of the mean covariance, [M, M].
        spread: diagonals of the covariances in the basis, [M, F].
        likelihood: of the columns.
    """

    mean: Tensor
    basis: Tensor
    spread: Tensor
    likelihood: MixedLikelihood


class LikelihoodPath(NaturalGradientWeights, ABC):
    """F functions of shared features, and the likelihoods of the columns."""

    likelihood: MixedLikelihood

    @abstractmethod
    def project(self, X: Tensor) -> Tensor:
        """a of points X [n, Q], [M, n]."""

    @abstractmethod
    def values(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g_f at points of features a [M, n], each [n, F]."""

    @property
    @abstractmethod
    def n_basis(self) -> int:
        """Number of features that the length of a natural-gradient step goes by."""

    @property
    @abstractmethod
    def relevance(self) -> Tensor:
        """α of the functions, [Q]."""

    @abstractmethod
    def column_decoder(self) -> LikelihoodDecoder:
        """The fitted path."""

    # ---- what paths with parameters of further kinds add ---------------------------------------

    @property
    def inducing_inputs(self) -> dict[str, Tensor]:
        """Inducing inputs by path; by default there are none."""
        return {}

    def divergences(self) -> list[KLTerm]:
        """The KL terms of the bound."""
        return [KLTerm("KL of the column functions", [self])]

    def begin_step(self) -> None:
        """Update what has an optimum in closed form, before the terms of a step."""

    def tensors(self) -> Iterable[Tensor]:
        """Tensors that ``begin_step`` changes in place; parameters and buffers are not among them.

        They are saved and restored as these are.
        """
        return ()

    def fix_features(self) -> bool:
        """Fix the features at those of the fitted model; whether q(V) has to follow."""
        return False

    # ---- bound ---------------------------------------------------------------------------------

    def expected_log_likelihood(
        self, X: Tensor, Y: Tensor, observed: Tensor | None, scale: float
    ) -> Tensor:
        """scale · Σ_nd E log p(y_nd | f_d(x_n)) over the observed cells, mean over the samples, [].

        Args:
            X: samples of the rows' positions, [S, n, Q].
            Y: standardised rows, 0 where a cell is missing, [n, D].
            observed: True where a cell is observed, [n, D]; None where every one is.
            scale: N/n.
        """
        draws = len(X)
        a = self.project(X.reshape(-1, X.shape[-1]))
        mean, variance = self.values(a)
        mask = None if observed is None else observed.repeat(draws, 1)
        cells = self.likelihood.expected_log(Y.repeat(draws, 1), mask, mean, variance)
        total = scale / draws * cells.sum()
        self.keep(total, mean, variance, a)
        return total

    @torch.no_grad()
    def fitted_weights(self, like: Tensor) -> FittedWeights:
        """q(V) and the likelihoods, in the dtype and on the device of ``like``."""
        mean, R = self.moments()
        covariances = R.mT @ R
        _, vectors = torch.linalg.eigh(covariances.mean(0))
        diagonal = ((vectors.mT @ covariances) * vectors.mT).sum(-1).T
        text, arrays = self.likelihood.text, self.likelihood.arrays()
        likelihood = MixedLikelihood.from_arrays(text, arrays, like)
        return FittedWeights(mean.T.clone(), vectors.to(like), diagonal.to(like), likelihood)
