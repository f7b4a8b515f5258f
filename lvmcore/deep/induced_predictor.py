"""Predictors with free inducing inputs in every layer.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.predictor import DeepGPPredictor
from lvmcore.gp.inducing_points import centroids

__all__ = ["InducedPredictor"]


class InducedPredictor(DeepGPPredictor):
    """A ``DeepGPPredictor`` with free inducing inputs: SVGP, DSVI, and their Q-EP versions."""

    inducing_inputs: str = "learned"
    #: Whether the last layer's q is optimal for each draw, if it has a closed form.
    each_draw: bool = False

    def _model(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> DeepGP:
        Z = centroids(X, self.n_inducing, generator)
        return self._at(self._settings(), X, Y, Z, likelihood)

    def _blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
    ) -> DeepGP:
        return self._at(settings, X, Y, X, likelihood)

    def _at(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        Z: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
    ) -> DeepGP:
        learned = self.inducing_inputs == "learned"
        each = self.each_draw
        return induced_deep_gp(settings, X, Y, Z, likelihood, learned=learned, each_draw=each)
