"""Deep sigma point processes for regression and classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, LearningRate, MaxIter
from lvmcore.deep.dspp import DSPP, build_dspp
from lvmcore.deep.dspp_objective import DSPPObjective, start_from_single_gp
from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.settings import HiddenDim, InducingCountOrAuto, KernelOfLayers, Layers, Validation
from lvmcore.deep.warm_start import start_first_layer
from lvmcore.gp.inducing_points import centroids
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range

__all__ = ["DSPPClassifier", "DSPPRegressor"]

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


class _FittedDSPP(FittedDeepGP[DSPP]):
    """A fitted deep sigma point process: its predictions weight the sites."""

    def weights(self) -> FloatArray:
        return to_numpy(self.gp.log_weights.detach().exp())

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super().state()
        return arrays, {**facts, "sites": self.gp.n_sites}


class _DSPPMethod(DeepGPMethod[DSPP]):
    """Fit with learned sites instead of draws, initialised as a single Gaussian process."""

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DSPP:
        Z = centroids(X, options.n_inducing, generator)
        settings = replace(options.initial, natural=False)
        gp = build_dspp(settings, X, Y, Z, likelihood, n_sites=options.given["n_sites"])
        start_first_layer(gp.to(X), options.first)
        start_from_single_gp(gp, X, Y, generator, steps=options.max_iter, settings=settings)
        return gp

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> DSPP:
        del options
        of_values = replace(settings, natural=False)
        return build_dspp(of_values, X, Y, X, likelihood, n_sites=int(facts["sites"]))

    def function(self, gp: DSPP) -> FittedDeepGP[DSPP]:
        return _FittedDSPP(gp)

    def objective(
        self,
        gp: DSPP,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DSPPObjective:
        return DSPPObjective(
            gp,
            X,
            Y,
            kl_weight=options.given["kl_weight"],
            batch_size=options.batch_size,
            generator=generator,
        )


@estimator_dataclass
class _DSPP:
    """Shared settings and fit method."""

    method: ClassVar[FitMethod] = _DSPPMethod()

    n_layers: Layers = 1
    n_inducing: InducingCountOrAuto = None
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "rbf"
    n_sites: Sites = 8
    max_iter: MaxIter = 1000
    kl_weight: KLWeight = 1.0
    learning_rate: LearningRate = 0.01
    batch_size: BatchSize = 2000
    validation: Validation = 0.1


@estimator_dataclass
class DSPPRegressor(_DSPP, Regressor):
    """Deep sigma point process regression (Jankowiak, Pleiss and Gardner 2020).

    Layers are as in ``DSVIDeepGPRegressor``, but instead of draws the output of a hidden layer is
    one of S values μ(x) + ξ_s s(x) with learned sites ξ and weights ω:

    Σ_n log Σ_s ω_s N(y_n | μ_s(x_n), s_s(x_n)² + σ²) − β Σ_l KL(q(v_l) ‖ N(0, I)).

    A prediction is that mixture, deterministically. The objective is the predictive density, which
    fits intervals and not a posterior: without early stopping it is strongly overconfident, so a
    tenth of the rows is held out and determines which step is kept. The last layer is initialised
    by a single process fitted in a few steps.

    ``kernel`` is that of all layers. One that names columns is that of the first layer, and the
    further layers, whose inputs are hidden units, have the RBF kernel. Hidden layers then have one
    unit more than columns unless ``hidden_dim`` is given, which starts at the exact process with
    that kernel on at most 1000 rows.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs; the last is the
            layer to the target.
        n_parameters_: number of optimised parameters.
        elbo_: the objective above for all rows, nats; not a bound on the evidence, so not
            comparable with that of another model.
    """

    key: ClassVar[str] = "dspp_regressor"
    title: ClassVar[str] = "Deep sigma point process (DSPP)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes whose prediction is a mixture, trained on its density: sharp "
        "on smooth targets of little noise, with too narrow intervals where rows are few."
    )
    paper: ClassVar[str] = "Jankowiak et al. 2020"
    order: ClassVar[int] = 128


@estimator_dataclass
class DSPPClassifier(_DSPP, Classifier):
    """Deep sigma point process classification.

    Layers, sites and weights are as in ``DSPPRegressor`` (Jankowiak, Pleiss and Gardner 2020), with
    the probability of the class c_n in place of the density:

    Σ_n log Σ_s ω_s P(c_n | μ_s(x_n), s_s(x_n)²) − β Σ_l KL(q(v_l) ‖ N(0, I)).

    For two classes P = Φ(±μ/√(1 + s²)), with one function; for more the mean softmax of independent
    normal functions, over 128 quasi-random draws that are the same for all rows, in the fit and in
    predictions. A prediction is that mixture, deterministically. A tenth of the rows is held out
    and determines which step is kept. The last layer is initialised by a single process of the
    classes.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        n_parameters_: number of optimised parameters.
        elbo_: the objective above for all rows, nats; not a bound on the evidence, so not
            comparable with that of another model.
    """

    key: ClassVar[str] = "dspp_classifier"
    title: ClassVar[str] = "Deep sigma point process (DSPP)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes to classes whose prediction is a mixture, trained on its "
        "log probability of the classes."
    )
    paper: ClassVar[str] = "Jankowiak et al. 2020"
    order: ClassVar[int] = 129
