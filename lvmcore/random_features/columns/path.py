"""The path from random features to columns with likelihoods of their own.

Each function is g_f(x) = φ(x)ᵀh_f with the features φ of spectral points w_l and weights
h_f ~ N(0, I). The bound has q(H) q(W) q(X), a product (Gal and Turner 2015 for Gaussian columns):

E log p(Y | X, W, H) − KL(q(H) ‖ p) − KL of the spectrum − KL(q(X) ‖ N(0, I)).

A step has one draw of W that all rows share; q(H) follows by natural gradients, whose running means
so average over the draws of W too. The fitted model has one draw of W, as that of
``RandomFeatureObjective``, and q(H) follows it: q(H | W) fits better than the q(H) of all draws.

Notation: lvmcore/README.md; R features, F functions.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from lvmcore.gp.columns.likelihood_path import LikelihoodPath
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.random_features.columns.decoder import FeatureColumnDecoder
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.spectrum import Spectrum
from lvmcore.training.objective import KLTerm

__all__ = ["FeatureColumnPath"]


class FeatureColumnPath(LikelihoodPath):
    """F functions of random features, and the likelihoods of the columns.

    The scales of the likelihoods stand for the scale of the features, which is 1.

    Args:
        spectrum: q of the spectral points (float64).
        likelihood: of all columns, at its initial parameters.
    """

    def __init__(self, spectrum: Spectrum, likelihood: MixedLikelihood) -> None:
        super().__init__()
        self.spectrum, self.likelihood = spectrum, likelihood
        self._fixed = False
        with torch.no_grad():
            self._features = self._at(spectrum.points())
        like = self._features.points
        self.start_weights(likelihood.n_functions, self._features.width, like)

    def _at(self, points: Tensor) -> RandomFourierFeatures:
        """φ of spectral points [L, Q]."""
        amplitudes = self.spectrum.amplitudes()
        scale = points.new_ones(()) if amplitudes is None else amplitudes
        return RandomFourierFeatures(points, scale)

    def project(self, X: Tensor) -> Tensor:
        """φ of points X [n, Q] at the current spectral points, [R, n]."""
        return self._features(X).T

    def values(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g_f at points of features a [R, n], each [n, F]."""
        mean, variance = self.weighted(a)
        return mean, variance.clamp_min(1e-12)

    def expected_log_likelihood(
        self, X: Tensor, Y: Tensor, observed: Tensor | None, scale: float
    ) -> Tensor:
        """See ``LikelihoodPath.expected_log_likelihood``, at a new draw of the spectral points."""
        spectrum = self.spectrum
        self._features = self._at(spectrum.points() if self._fixed else spectrum.draw())
        return super().expected_log_likelihood(X, Y, observed, scale)

    @property
    def n_basis(self) -> int:
        """R."""
        return self.shift.shape[1]

    @property
    def relevance(self) -> Tensor:
        """α of the spectrum, see ``Spectrum.relevance``, [Q]."""
        return self.spectrum.relevance()

    def divergences(self) -> list[KLTerm]:
        """Those of the weights and of the spectrum."""
        return [*super().divergences(), KLTerm("KL of the spectrum", [self.spectrum])]

    def begin_step(self) -> None:
        """Update the factors of the spectrum's q with a closed-form optimum."""
        self.spectrum.update()

    def tensors(self) -> Iterable[Tensor]:
        """Those of the spectrum."""
        return self.spectrum.tensors()

    def fix_features(self) -> bool:
        """Fix the spectral points at those of the fitted model."""
        self._fixed = True
        return True

    @torch.no_grad()
    def column_decoder(self) -> FeatureColumnDecoder:
        """The fitted path, at the spectral points of the fitted model."""
        features = self._at(self.spectrum.points())
        features = features.to(features.points)
        q = self.fitted_weights(features.points)
        return FeatureColumnDecoder(features, q.mean, q.basis, q.spread, q.likelihood)
