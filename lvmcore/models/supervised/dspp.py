"""Deep sigma point processes to a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.regressor_classifier import Regressor
from lvmcore.deep.dspp import DSPP, build_dspp
from lvmcore.deep.dspp_objective import DSPPObjective, start_from_single_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.predictor import DeepGPPredictor
from lvmcore.deep.settings import HiddenDim, InducingCount, Layers, Validation
from lvmcore.gp.inducing_points import centroids
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, BatchSize, Device, Doc, LearningRate, MaxIter, Range, Seed

__all__ = ["DSPPRegressor"]

Sites = Annotated[
    int,
    Range(1, 100),
    Doc("Normal distributions that a prediction is a mixture of.", "sites"),
]
KLWeight = Annotated[
    float,
    Range(0.0, 10.0),
    Doc(
        "How much the divergences from the prior count in the fit: less trusts the rows more, and "
        "overfits a short table.",
        "weight of the prior",
    ),
    Advanced(),
]


class DSPPRegressor(DeepGPPredictor, Regressor):
    """A deep sigma point process to a number (Jankowiak, Pleiss and Gardner 2020).

    Layers as of ``DSVIDeepGPRegressor``, in which what leaves a hidden layer is one of S values
    μ(x) + ξ_s s(x) with learned sites ξ and weights ω, in the place of draws:

    Σ_n log Σ_s ω_s N(y_n | μ_s(x_n), s_s(x_n)² + σ²) − β Σ_l KL(q(v_l) ‖ N(0, I)).

    A prediction is that mixture, the same at every call. It is trained on the density itself, which
    asks for right intervals and not for a posterior: without a guard it ends far too sure of
    itself, so a tenth of the rows is set aside and decides which step is kept. The
    last layer begins as a single process that a few steps have fitted.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs, the last of them
            the layer to the target.
        n_parameters_: numbers that the optimiser moves.
        elbo_: the objective above for all rows, nats; no bound on the evidence, so it does not
            compare with that of another model.
    """

    key: ClassVar[str] = "dspp_regressor"
    title: ClassVar[str] = "Deep sigma point process (DSPP)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes whose prediction is a mixture, trained on its density: sharp "
        "on smooth targets of little noise, too sure where rows are few."
    )
    paper: ClassVar[str] = "Jankowiak et al. 2020"
    order: ClassVar[int] = 128

    _gp: DSPP
    _n_sites: int

    def __init__(
        self,
        *,
        n_layers: Layers = 1,
        n_inducing: InducingCount = 50,
        hidden_dim: HiddenDim = None,
        n_sites: Sites = 8,
        max_iter: MaxIter = 1000,
        kl_weight: KLWeight = 1.0,
        learning_rate: LearningRate = 0.01,
        batch_size: BatchSize = 2000,
        validation: Validation = 0.1,
        device: Device = "auto",
        random_state: Seed = 0,
    ) -> None:
        self.n_layers = n_layers
        self.n_inducing = n_inducing
        self.hidden_dim = hidden_dim
        self.n_sites = n_sites
        self.max_iter = max_iter
        self.kl_weight = kl_weight
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation = validation
        self.device = device
        self.random_state = random_state

    def _settings(self) -> DeepGPSettings:
        return DeepGPSettings(
            n_hidden=self.n_layers,
            width=self.hidden_dim,
            batch_size=self.batch_size,
            natural=False,
        )

    def _model(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> DSPP:
        assert isinstance(likelihood, GaussianNoise)
        Z = centroids(X, self.n_inducing, generator)
        model = build_dspp(self._settings(), X, Y, Z, likelihood, n_sites=self.n_sites)
        self._n_sites = self.n_sites
        start_from_single_gp(model, X, Y, generator, steps=self.max_iter)
        return model

    def _blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
    ) -> DSPP:
        assert isinstance(likelihood, GaussianNoise)
        of_values = replace(settings, natural=False)
        return build_dspp(of_values, X, Y, X, likelihood, n_sites=self._n_sites)

    def _objective(self, X: Tensor, Y: Tensor, generator: torch.Generator) -> DSPPObjective:
        return DSPPObjective(
            self._gp,
            X,
            Y,
            kl_weight=self.kl_weight,
            batch_size=self.batch_size,
            generator=generator,
        )

    def _weights(self) -> NDArray[np.float64]:
        return to_numpy(self._gp.log_weights.detach().exp())

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "sites": self._n_sites}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._n_sites = int(facts["sites"])
        super()._set_state(arrays, facts)
