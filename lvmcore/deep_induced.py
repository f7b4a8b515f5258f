"""Predictors whose inducing inputs are their own in every layer.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_paths import DeepGP
from lvmcore.deep_predictor import DeepGPPredictor
from lvmcore.deep_single import fit_induced, start_from
from lvmcore.deep_starts import DeepSettings
from lvmcore.deep_variational import induced_deep_gp
from lvmcore.subsets import centroids

__all__ = ["InducedPredictor"]


class InducedPredictor(DeepGPPredictor):
    """A ``DeepGPPredictor`` whose inducing inputs are its own: SVGP, DSVI and their Q-EP twins."""

    inducing_inputs: str = "learned"
    #: Whether the last layer's q is that of each draw, where it has a closed form.
    each_draw: bool = False
    #: Whether layers begin as a single Gaussian process, fitted by some steps of its own.
    single_first: bool = False

    def _model(
        self, X: Tensor, Y: Tensor, likelihood: Gaussian | Classes, generator: torch.Generator
    ) -> DeepGP:
        Z = centroids(X, self.n_inducing, generator)
        settings, learned = self._settings(), self.inducing_inputs == "learned"
        if not (self.single_first and settings.n_hidden):
            return self._at(settings, X, Y, Z, likelihood)
        single = fit_induced(
            settings, X, Y, Z, likelihood, generator, steps=self.max_iter, learned=learned
        )
        model = self._at(settings, X, Y, single.Z[0].detach(), likelihood)
        start_from(model, single.last)
        return model

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
