"""Factor analysis, as scikit-learn computes it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.geometry import constant_metric
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.results import FitStep, Posterior
from lvmcore.training.outcome import FitOutcome


@estimator_dataclass
class FactorAnalysis(LatentVariableModel):
    """Factor analysis by maximum likelihood: y = W x + ε, x ~ N(0, I), ε ~ N(0, diag ψ).

    Unlike in probabilistic PCA every column has its own noise variance, so the map explains the
    covariance between columns instead of most of the variance. scikit-learn's ``FactorAnalysis``
    does the fit, on the standardised columns. With M = I + Wᵀ diag(ψ)⁻¹ W a row's posterior has
    mean M⁻¹ Wᵀ diag(ψ)⁻¹ y; its reported variance is the diagonal of M⁻¹ (Bishop 2006, section
    12.2.4).

    The library reports its steps only after the fit, so a callback cannot stop it.

    Attributes:
        relevance_: ``data`` holds the squared loadings ‖w_q‖² of each factor, [Q].
        noise_variance_: ψ of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "factor_analysis"
    title: ClassVar[str] = "Factor analysis"
    summary: ClassVar[str] = (
        "A linear map of what columns share, each with a noise of its own: for scores and "
        "questionnaires."
    )
    paper: ClassVar[str] = "Spearman 1904; Rubin and Thayer 1982"
    order: ClassVar[int] = 40
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, bound=True, steps=False
    )

    n_components: Components = 2
    max_iter: Annotated[int, Range(1, 100_000), Doc("Most steps of the fit.", "steps at most")] = (
        1000
    )
    tol: Annotated[
        float,
        Range(1e-8, 10.0, log=True),
        Doc("Stop when a step gains fewer nats than this.", "tolerance"),
        Advanced(),
    ] = 0.01

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """ψ of the columns that vary, standardised units, [D]."""
        return to_numpy(self._noise)

    def _fit(self, problem: FitProblem) -> FitOutcome:
        from sklearn.decomposition import FactorAnalysis as Library
        from sklearn.exceptions import ConvergenceWarning

        began = time.perf_counter()
        library = Library(
            problem.n_components,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=problem.generator.initial_seed(),
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            library.fit(to_numpy(problem.Y))
        self._weights = self._to_tensor(library.components_.T)
        self._noise = self._to_tensor(library.noise_variance_)
        mean, variance = self._posterior(problem.Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {"data": np.square(library.components_).sum(axis=1)}
        self.inducing_inputs_ = {}
        history = self._report_history(problem, library.loglike_, time.perf_counter() - began)
        bound = float(self._log_density(problem.Y).sum())
        return FitOutcome(bound, history, converged=not caught)

    def _report_history(
        self, problem: FitProblem, likelihoods: list[float], seconds: float
    ) -> tuple[FitStep, ...]:
        """The history of the steps, reported to the callback after the fit."""
        steps = tuple(
            FitStep(i, self.max_iter, seconds, float(value), {"log likelihood": float(value)})
            for i, value in enumerate(likelihoods, start=1)
        )
        if problem.callback is not None:
            for step in steps:
                problem.callback(step)
        return steps

    def _precision(self) -> tuple[Tensor, Tensor]:
        """diag(ψ)⁻¹ W, [D, Q], and the Cholesky factor of M, [Q, Q], both in float64."""
        W, noise = self._weights.double(), self._noise.double()
        scaled = W / noise[:, None]
        eye = torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
        return scaled, torch.linalg.cholesky(eye + W.T @ scaled)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        scaled, L = self._precision()
        mean = torch.cholesky_solve(scaled.T @ Y.double().T, L).T
        variance = torch.cholesky_inverse(L).diagonal().expand_as(mean)
        return mean.to(Y), variance.to(Y)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X @ self._weights.T
        noise = self._noise.expand_as(mean)
        return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._weights, X)

    def _log_density(self, Y: Tensor) -> Tensor:
        """log N(y | 0, W Wᵀ + diag ψ), by the Woodbury identity."""
        scaled, L = self._precision()
        rows, noise = Y.double(), self._noise.double()
        explained = torch.linalg.solve_triangular(L, scaled.T @ rows.T, upper=False)
        square = (rows.square() / noise).sum(1) - explained.square().sum(0)
        log_det = noise.log().sum() + 2 * L.diagonal().log().sum()
        density: Tensor = -0.5 * (len(noise) * math.log(2 * math.pi) + log_det + square)
        return density

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"weights": to_numpy(self._weights), "noise": to_numpy(self._noise)}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        self._weights = self._to_tensor(arrays["weights"])
        self._noise = self._to_tensor(arrays["noise"])
