"""Predictors whose inducing inputs are their own in every layer.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_paths import DeepGP
from lvmcore.deep_predictor import DeepGPPredictor
from lvmcore.deep_starts import DeepSettings
from lvmcore.deep_variational import induced_deep_gp
from lvmcore.subsets import centroids

__all__ = ["InducedPredictor"]


class InducedPredictor(DeepGPPredictor):
    """A ``DeepGPPredictor`` whose inducing inputs are its own: SVGP, DSVI and their Q-EP twins."""

    inducing_inputs: str = "learned"
    #: Whether the last layer's q is that of each draw, where it has a closed form.
    each_draw: bool = False

    def _model(
        self, X: Tensor, Y: Tensor, likelihood: Gaussian | Classes, generator: torch.Generator
    ) -> DeepGP:
        Z = centroids(X, self.n_inducing, generator)
        return self._at(self._settings(), X, Y, Z, likelihood)

    def _blank(
        self, settings: DeepSettings, X: Tensor, Y: Tensor, likelihood: Gaussian | Classes
    ) -> DeepGP:
        return self._at(settings, X, Y, X, likelihood)

    def _at(
        self,
        settings: DeepSettings,
        X: Tensor,
        Y: Tensor,
        Z: Tensor,
        likelihood: Gaussian | Classes,
    ) -> DeepGP:
        learned = self.inducing_inputs == "learned"
        each = self.each_draw
        return induced_deep_gp(settings, X, Y, Z, likelihood, learned=learned, each_draw=each)
