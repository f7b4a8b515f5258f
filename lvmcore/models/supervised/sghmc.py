"""Deep Gaussian processes by stochastic gradient Hamiltonian Monte Carlo (SGHMC)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.capabilities import Capabilities
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.predictor import FitMethod, FittedFunction, Predictor, SupervisedFitProblem
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, Dtype, LearningRate
from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.sampled_deep_gp import SampledDeepGP, sampled_deep_gp
from lvmcore.deep.settings import (
    HiddenDim,
    InducingCountOrAuto,
    InducingInputs,
    KernelOfLayers,
    Layers,
)
from lvmcore.deep.sghmc_chain import DeepChain
from lvmcore.deep.warm_start import (
    fit_induced,
    initialise_from_single_gp,
    start_first_layer,
)
from lvmcore.gp.inducing_points import centroids
from lvmcore.mcmc.chains import MAX_R_HAT
from lvmcore.mcmc.diagnostics import ChainDiagnostics
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.training.outcome import FitOutcome

__all__ = ["SGHMCDeepGPClassifier", "SGHMCDeepGPRegressor"]


class _FittedSampledDeepGP(FittedDeepGP[SampledDeepGP]):
    """Functions sampled by a chain, and the diagnostics of the chain."""

    diagnostics: dict[str, ChainDiagnostics]

    @property
    def n_parameters(self) -> int:
        moved = sum(parameter.numel() for parameter in self.gp.hyperparameters())
        return moved + self.gp.kept[0].numel()

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super().state()
        own = {name: array for name, array in arrays.items() if ".q." not in name}
        own["diagnostics"] = np.array(list(self.diagnostics.values())).reshape(-1, 2)
        return own, {**facts, "quantities": list(self.diagnostics)}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super().load(arrays, facts)
        found = zip(facts["quantities"], arrays["diagnostics"], strict=True)
        self.diagnostics = {name: ChainDiagnostics(*map(float, values)) for name, values in found}


class _SGHMCMethod(DeepGPMethod[SampledDeepGP]):
    """A chain over the whitened values, started at the sparse Gaussian process of SVGP."""

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        given, generator = model.settings_, problem.generator
        options = DeepGPOptions.from_settings(given, model._standardiser)
        function = self.begin(model, options, problem)
        assert isinstance(function, _FittedSampledDeepGP)
        chain = DeepChain(
            function.gp,
            problem.X,
            problem.Y,
            max_iter=options.max_iter,
            n_kept=options.given["n_draws"],
            step_size=options.given["step_size"],
            learning_rate=options.learning_rate,
            batch_size=options.batch_size,
            generator=generator,
        )
        outcome = chain.run(problem.callback, problem.checkpoint)
        function.kept = DeepGPDraws.from_model(function.gp, len(function.gp.kept), generator)
        function.diagnostics = chain.diagnoses
        _note_diagnoses(model, chain)
        return outcome

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> SampledDeepGP:
        learned = options.given["inducing_inputs"] == "learned"
        Z = centroids(X, options.n_inducing, generator)
        single = fit_induced(
            X,
            Y,
            Z,
            likelihood,
            options.batch_size,
            generator,
            steps=options.max_iter,
            learned=learned,
            settings=options.initial,
        )
        at = single.Z[0].detach()
        gp = sampled_deep_gp(options.initial, X, Y, at, likelihood, learned=learned).to(X)
        start_first_layer(gp, options.first)
        if options.first is None:
            initialise_from_single_gp(gp, single.last)
        if gp.pretrained:
            mean = single.posterior(single.draw(1, generator)).mean.detach()
            gp.kept[0, -len(mean) :] = mean
        return gp

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> SampledDeepGP:
        del facts
        learned = options.given["inducing_inputs"] == "learned"
        return sampled_deep_gp(settings, X, Y, X, likelihood, learned=learned)

    def function(self, gp: SampledDeepGP) -> FittedDeepGP[SampledDeepGP]:
        return _FittedSampledDeepGP(gp)


def _note_diagnoses(model: Predictor, chain: DeepChain) -> None:
    """Add a note if a chain was stopped early or has not converged."""
    r_hats = {name: one.r_hat for name, one in chain.diagnoses.items()}
    apart = {name: r_hat for name, r_hat in r_hats.items() if r_hat > MAX_R_HAT}
    if chain.cut_short:
        model._note(
            "Stopped before a draw was kept: what there is is where the chain stood, one draw, "
            "so intervals are too narrow."
        )
    elif apart:
        worst = max(apart, key=lambda name: apart[name])
        model._note(
            f"The first and second half of the chain do not agree: R-hat is above {MAX_R_HAT} "
            f"for {len(apart)} of {len(r_hats)} quantities, the most for the {worst} "
            f"({apart[worst]:.2f}). Give it more steps, and take intervals with care."
        )
    elif all(math.isnan(r_hat) for r_hat in r_hats.values()):
        model._note("Too few steps to tell whether the chain has settled: give it at least 20.")


@estimator_dataclass
class _SGHMC:
    """Shared settings and fit method, and the diagnostics of the chain."""

    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, chains=True, gpu=True)

    method: ClassVar[FitMethod] = _SGHMCMethod()

    _function: FittedFunction = fitted()

    n_layers: Layers = 2
    n_inducing: InducingCountOrAuto = None
    hidden_dim: HiddenDim = None
    kernel: KernelOfLayers = "rbf"
    max_iter: Annotated[
        int,
        Range(1, 100_000),
        Doc("Steps of the chain; the first 60 % warm up and are forgotten.", "steps"),
    ] = 4000
    n_draws: Annotated[
        int,
        Range(1, 1000),
        Doc("Draws that are kept, at most; a prediction averages them."),
        Advanced(),
    ] = 100
    inducing_inputs: InducingInputs = "learned"
    step_size: Annotated[
        float,
        Range(1e-3, 1.0, log=True),
        Doc("How far a step of the chain goes; 1 is about the width of what it draws from."),
        Advanced(),
    ] = 0.3
    learning_rate: LearningRate = 0.01
    batch_size: BatchSize = 2000

    @property
    def diagnostics_(self) -> dict[str, ChainDiagnostics]:
        """R̂ and effective sample size of the chain's quantities, by name."""
        check_is_fitted(self)
        assert isinstance(self._function, _FittedSampledDeepGP)
        return self._function.diagnostics


@estimator_dataclass
class SGHMCDeepGPRegressor(_SGHMC, Regressor):
    """Deep Gaussian process regression with functions sampled by SGHMC (Havasi and others 2018).

    Layers are as in ``DSVIDeepGPRegressor``. Their whitened values u at the inducing inputs are
    sampled from

    π(u) ∝ N(u | 0, I) exp Σ_n E[log N(y_n | f(x_n), σ²) | u],

    without a Gaussian approximation. During the warm-up, 60 % of ``max_iter``, kernels, noises and
    inducing inputs are optimised by gradient steps on the log joint of the data and recent draws;
    then they are fixed, and evenly spaced draws are kept. If no hidden layer is narrower than the
    table, the chain starts at the sparse Gaussian process of 500 steps of SVGP. A prediction is a
    mixture of normal distributions, one per draw.

    There is no bound: ``elbo_`` is NaN, and the curve is the estimated log likelihood of each
    step's draw. It shows the convergence of the chain, not the quality of the model.

    ``kernel`` is that of all layers. One that names columns is that of the first layer, and the
    further layers, whose inputs are hidden units, have the RBF kernel. Hidden layers then have one
    unit more than columns unless ``hidden_dim`` is given, which starts at the exact process with
    that kernel on at most 1000 rows.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs; the last is the
            layer to the target.
        diagnostics_: R̂ of the first and second half of the chain and the effective sample size, of
            the predictions of four rows and of Σ u², by name.
        n_parameters_: number of sampled values and optimised parameters.
    """

    key: ClassVar[str] = "sghmc_regressor"
    title: ClassVar[str] = "Deep GP (SGHMC)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes to a number, drawn by a Markov chain: slow, for small tables."
    )
    paper: ClassVar[str] = "Havasi, Hernández-Lobato and Murillo-Fuentes 2018"
    order: ClassVar[int] = 125

    dtype: Dtype = "float64"


@estimator_dataclass
class SGHMCDeepGPClassifier(_SGHMC, Classifier):
    """Deep Gaussian process classification with functions sampled by SGHMC.

    As ``SGHMCDeepGPRegressor`` (Havasi and others 2018), with the expected log likelihood of the
    classes, the probit for two and the softmax for more:

    π(u) ∝ N(u | 0, I) exp Σ_n E[log p(c_n | f(x_n)) | u].

    The chain starts at the sparse Gaussian process of the classes of 500 steps of SVGP. A
    prediction averages the probabilities of the classes over the draws.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs.
        diagnostics_: R̂ of the first and second half of the chain and the effective sample size, by
            name: of Σ u² and, at four rows, of the function of the first class, or of the second of
            two.
        n_parameters_: number of sampled values and optimised parameters.
    """

    key: ClassVar[str] = "sghmc_classifier"
    title: ClassVar[str] = "Deep GP (SGHMC)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes to classes, drawn by a Markov chain: slow, for small tables."
    )
    paper: ClassVar[str] = "Havasi, Hernández-Lobato and Murillo-Fuentes 2018"
    order: ClassVar[int] = 126

    dtype: Dtype = "float64"
