"""Deep Gaussian processes to a number whose functions are drawn, by SGHMC."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import SupervisedFitProblem
from lvmcore.base.regressor_classifier import Regressor
from lvmcore.base.validation import Capabilities
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.predictor import DeepGPPredictor, likelihood_of
from lvmcore.deep.sampled_deep_gp import SampledDeepGP, sampled_deep_gp
from lvmcore.deep.settings import HiddenDim, InducingCount, InducingInputs, Layers
from lvmcore.deep.sghmc_chain import DeepChain
from lvmcore.deep.warm_start import fit_induced, initialise_from_single_gp
from lvmcore.gp.inducing_points import centroids
from lvmcore.mcmc.chains import MAX_R_HAT
from lvmcore.mcmc.diagnostics import ChainDiagnostics
from lvmcore.parameters import Advanced, BatchSize, Device, Doc, LearningRate, Range, Seed
from lvmcore.training.loop import FitOutcome

__all__ = ["SGHMCDeepGPRegressor"]


class SGHMCDeepGPRegressor(DeepGPPredictor, Regressor):
    """A deep Gaussian process to a number, its functions drawn by SGHMC (Havasi and others 2018).

    Layers as in ``DSVIDeepGPRegressor``. The whitened values u of all of them at their inducing
    inputs are drawn from

    π(u) ∝ N(u | 0, I) exp Σ_n E[log N(y_n | f(x_n), σ²) | u],

    which no Gaussian q has to stand for. Kernels, noises and inducing inputs climb the log joint of
    the data and recent draws while the chain warms up, 60 % of ``max_iter``; then they stay, and
    evenly spaced draws are kept. Where no hidden layer is narrower than the table, it begins as the
    sparse Gaussian process that SVGP finds in 500 steps. A prediction is a mixture of normal
    distributions, one a draw.

    There is no bound: ``elbo_`` is NaN, and the curve is the estimated log likelihood of each
    step's draw. It says whether the chain has settled, not how good the model is.

    Attributes:
        relevance_: ``layer1``, ``layer2``, … hold α = 1/ℓ² of each layer's inputs, the last of them
            the layer to the target.
        diagnostics_: R̂ of the first and second half of the chain and the effective sample size, of
            the predictions of four rows and of Σ u², by name.
        n_parameters_: numbers that are drawn, and those that the optimiser moves.
    """

    key: ClassVar[str] = "sghmc_regressor"
    title: ClassVar[str] = "Deep GP (SGHMC)"
    summary: ClassVar[str] = (
        "Layers of Gaussian processes to a number, drawn by a Markov chain: slow, for small tables."
    )
    paper: ClassVar[str] = "Havasi, Hernández-Lobato and Murillo-Fuentes 2018"
    order: ClassVar[int] = 125
    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, chains=True)

    diagnostics_: dict[str, ChainDiagnostics]
    _gp: SampledDeepGP

    def __init__(
        self,
        *,
        n_layers: Layers = 2,
        n_inducing: InducingCount = 50,
        hidden_dim: HiddenDim = None,
        max_iter: Annotated[
            int,
            Range(1, 100_000),
            Doc("Steps of the chain; the first 60 % warm up and are forgotten.", "steps"),
        ] = 4000,
        n_draws: Annotated[
            int,
            Range(1, 1000),
            Doc("Draws that are kept, at most; a prediction averages them."),
            Advanced(),
        ] = 100,
        inducing_inputs: InducingInputs = "learned",
        step_size: Annotated[
            float,
            Range(1e-3, 1.0, log=True),
            Doc("How far a step of the chain goes; 1 is about the width of what it draws from."),
            Advanced(),
        ] = 0.3,
        learning_rate: LearningRate = 0.01,
        batch_size: BatchSize = 2000,
        device: Device = "auto",
        random_state: Seed = 0,
    ) -> None:
        self.n_layers = n_layers
        self.n_inducing = n_inducing
        self.hidden_dim = hidden_dim
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.inducing_inputs = inducing_inputs
        self.step_size = step_size
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: SupervisedFitProblem) -> FitOutcome:
        X, Y, generator = problem.X, problem.Y, problem.generator
        self._gp = self._model(X, Y, likelihood_of(self.task, Y.shape[1], X), generator)
        self._note_few()
        chain = DeepChain(
            self._gp,
            X,
            Y,
            max_iter=self.max_iter,
            n_kept=self.n_draws,
            step_size=self.step_size,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            generator=generator,
        )
        outcome = chain.run(problem.callback, problem.checkpoint)
        self._kept = DeepGPDraws.from_model(self._gp, len(self._gp.kept), generator)
        self.diagnostics_ = chain.diagnoses
        self._measure_layers()
        self._note_diagnoses(cut_short=chain.cut_short)
        return outcome

    def _model(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        generator: torch.Generator,
    ) -> SampledDeepGP:
        learned = self.inducing_inputs == "learned"
        Z = centroids(X, self.n_inducing, generator)
        single = fit_induced(
            X, Y, Z, self.batch_size, generator, steps=self.max_iter, learned=learned
        )
        model = self._blank(self._settings(), X, Y, likelihood, Z=single.Z[0].detach())
        initialise_from_single_gp(model, single.last)
        if model.pretrained:
            mean = single.posterior(single.draw(1, generator)).mean.detach()
            model.kept[0, -len(mean) :] = mean
        return model

    def _blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        Z: Tensor | None = None,
    ) -> SampledDeepGP:
        assert isinstance(likelihood, GaussianNoise)
        learned = self.inducing_inputs == "learned"
        at = X if Z is None else Z
        return sampled_deep_gp(settings, X, Y, at, likelihood, learned=learned).to(X)

    def _measure_layers(self) -> None:
        super()._measure_layers()
        moved = sum(parameter.numel() for parameter in self._gp.hyperparameters())
        self.n_parameters_ = moved + self._gp.kept[0].numel()

    def _note_diagnoses(self, *, cut_short: bool) -> None:
        told = {name: one.r_hat for name, one in self.diagnostics_.items()}
        apart = {name: r_hat for name, r_hat in told.items() if r_hat > MAX_R_HAT}
        if cut_short:
            self._note(
                "Stopped before a draw was kept: what there is is where the chain stood, one draw, "
                "so intervals are too narrow."
            )
        elif apart:
            worst = max(apart, key=lambda name: apart[name])
            self._note(
                f"The first and second half of the chain do not agree: R-hat is above {MAX_R_HAT} "
                f"for {len(apart)} of {len(told)} quantities, the most for the {worst} "
                f"({apart[worst]:.2f}). Give it more steps, and take intervals with care."
            )
        elif all(math.isnan(r_hat) for r_hat in told.values()):
            self._note("Too few steps to tell whether the chain has settled: give it at least 20.")

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        own = {name: array for name, array in arrays.items() if ".q." not in name}
        own["diagnostics"] = np.array(list(self.diagnostics_.values())).reshape(-1, 2)
        return own, {**facts, "quantities": list(self.diagnostics_)}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        found = zip(facts["quantities"], arrays["diagnostics"], strict=True)
        self.diagnostics_ = {name: ChainDiagnostics(*map(float, told)) for name, told in found}
