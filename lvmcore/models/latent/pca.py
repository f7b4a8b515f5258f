"""Principal component analysis: PCA and probabilistic PCA."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.classical.probabilistic_pca import LinearGaussian, LinearPosterior, fit_linear_gaussian
from lvmcore.geometry import constant_metric
from lvmcore.numerics.conversion import to_numpy
from lvmcore.results import FitStep, Posterior
from lvmcore.training.outcome import FitOutcome, report_once

__all__ = ["PCA", "PrincipalComponents", "ProbabilisticPCA"]

# Smallest noise variance, so that Q = D has a density.
NOISE_FLOOR = 1e-10
# Fit with missing cells: maximum steps, and tolerance of the likelihood in nats per cell.
MOST_STEPS, TOLERANCE = 1000, 1e-7


@estimator_dataclass
class PrincipalComponents(LatentVariableModel):
    """Shared base class: eigendecomposition of the standardised data's covariance."""

    def _eigen(self, problem: FitProblem) -> tuple[Tensor, Tensor]:
        """Eigenvalues [D] (descending) and the first Q or more eigenvectors of YᵀY/N, signs fixed.

        For a table with fewer rows than columns they come from the singular values of Y, as all but
        N eigenvalues are 0: the D × D matrix of thousands of columns would take minutes.
        """
        Y, (N, D) = problem.Y, problem.Y.shape
        if problem.n_components <= N < D:
            _, singular, transposed = torch.linalg.svd(Y, full_matrices=False)
            values = torch.cat([singular.square() / N, singular.new_zeros(D - N)])
            vectors = transposed.T
        else:
            values, vectors = torch.linalg.eigh(Y.T @ Y / N)
            values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
        largest = vectors.abs().argmax(0)
        signs = torch.sign(vectors[largest, torch.arange(vectors.shape[1], device=Y.device)])
        return values, vectors * signs

    def _finish(self, problem: FitProblem, objective: float, began: float) -> FitOutcome:
        self._store_map(problem.Y)
        return report_once(problem.callback, began, objective)

    def _store_map(self, Y: Tensor) -> None:
        mean, variance = self._posterior(Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.inducing_inputs_ = {}


@estimator_dataclass
class PCA(PrincipalComponents):
    """Principal component analysis: the linear map with the largest explained variance.

    With the standardised data's covariance S = U Λ Uᵀ, a row y maps to x = U_Qᵀ y and back by
    ŷ = U_Q x. Each column's mean squared residual is its noise variance in ``decode``. There is no
    density over the latent space, so no bound: ``elbo_`` is NaN and positions have variance 0.

    Attributes:
        relevance_: ``data`` holds the variance of each component, [Q].
    """

    key: ClassVar[str] = "pca"
    title: ClassVar[str] = "PCA"
    summary: ClassVar[str] = "A first look at any table: the linear map that keeps most variance."
    paper: ClassVar[str] = "Pearson 1901; Hotelling 1933"
    order: ClassVar[int] = 30
    capabilities: ClassVar[Capabilities] = Capabilities()

    def _fit(self, problem: FitProblem) -> FitOutcome:
        began = time.perf_counter()
        values, vectors = self._eigen(problem)
        Q = problem.n_components
        self._weights = vectors[:, :Q].contiguous()  # the memory layout of a file
        residual = problem.Y - problem.Y @ self._weights @ self._weights.T
        self._noise = residual.square().mean(0)
        self.relevance_ = {"data": to_numpy(values[:Q])}
        return self._finish(problem, math.nan, began)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean = Y @ self._weights
        return mean, torch.zeros_like(mean)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X @ self._weights.T
        noise = self._noise.expand_as(mean)
        return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._weights, X)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"weights": to_numpy(self._weights), "noise": to_numpy(self._noise)}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        self._weights = self._to_tensor(arrays["weights"])
        self._noise = self._to_tensor(arrays["noise"])


@estimator_dataclass
class ProbabilisticPCA(PrincipalComponents):
    """Probabilistic PCA: y = W x + μ + ε, x ~ N(0, I), ε ~ N(0, σ² I).

    With S = U Λ Uᵀ the maximum-likelihood solution is μ = 0 (of standardised columns),
    σ² = mean of the discarded eigenvalues and W = U_Q (Λ_Q − σ² I)^½ (Tipping and Bishop 1999,
    eqs. 7 and 8); the log likelihood is −N/2 (D log 2π + log|C| + tr C⁻¹S) with C = W Wᵀ + σ² I.
    As WᵀW + σ² I is diagonal, = K, a row's posterior is: mean K⁻¹ Wᵀ(y − μ), variance σ² K⁻¹.

    With missing cells, the likelihood of the observed ones is maximised by expectation
    maximisation instead, including μ. The posterior of a row with missing cells has a full
    covariance: ``posterior`` returns its diagonal, and ``impute`` uses all of it.

    Attributes:
        relevance_: ``data`` holds ‖w_q‖², the variance that each dimension explains, [Q].
        noise_variance_: σ², standardised units.
    """

    key: ClassVar[str] = "ppca"
    title: ClassVar[str] = "Probabilistic PCA"
    summary: ClassVar[str] = (
        "A linear map with uncertainty, at once: for small tables, or as the baseline to beat."
    )
    paper: ClassVar[str] = "Tipping and Bishop 1999"
    order: ClassVar[int] = 20
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )

    noise_variance_: float = fitted()
    _linear: LinearGaussian = fitted()

    def _fit(self, problem: FitProblem) -> FitOutcome:
        if problem.observed is not None:
            return self._fit_observed(problem, problem.observed)
        began = time.perf_counter()
        values, vectors = self._eigen(problem)
        (N, D), Q = problem.Y.shape, problem.n_components
        noise = float(values[Q:].mean()) if Q < D else 0.0
        noise = max(noise, NOISE_FLOOR * float(values.mean()))
        kept = values[:Q].clamp_min(noise)
        self._store_components(
            vectors[:, :Q] * (kept - noise).sqrt(), torch.zeros_like(values), noise, kept
        )
        self.relevance_ = {"data": to_numpy(kept - noise)}
        log_det = float(kept.log().sum()) + (D - Q) * math.log(noise)
        trace = float((values[:Q] / kept).sum()) + float(values[Q:].sum()) / noise
        objective = -0.5 * N * (D * math.log(2 * math.pi) + log_det + trace)
        return self._finish(problem, objective, began)

    def _fit_observed(self, problem: FitProblem, observed: Tensor) -> FitOutcome:
        began = time.perf_counter()
        history: list[FitStep] = []

        def report(iteration: int, reached: float) -> bool:
            seconds, terms = time.perf_counter() - began, {"log likelihood": reached}
            history.append(FitStep(iteration + 1, MOST_STEPS, seconds, reached, terms))
            return problem.callback is not None and bool(problem.callback(history[-1]))

        linear, converged = fit_linear_gaussian(
            problem.Y,
            observed,
            problem.n_components,
            max_iter=MOST_STEPS,
            tolerance=TOLERANCE,
            callback=report,
        )
        weights = linear.weights.to(problem.Y)
        noise = float(linear.noise)
        kept = weights.square().sum(0) + noise
        self._store_components(weights, linear.offset.to(problem.Y), noise, kept)
        self.relevance_ = {"data": to_numpy(kept - noise)}
        Y = torch.where(observed, problem.Y, torch.nan)
        self._store_map(Y)
        return FitOutcome(float(self._log_density(Y).double().sum()), tuple(history), converged)

    def _store_components(
        self, weights: Tensor, offset: Tensor, noise: float, kept: Tensor
    ) -> None:
        self._linear = LinearGaussian(weights, offset, torch.tensor(noise).to(weights))
        self._kept = kept
        self.noise_variance_ = noise

    def _infer(self, Y: Tensor) -> LinearPosterior:
        observed = ~torch.isnan(Y)
        return self._linear.infer(torch.where(observed, Y, 0.0), observed)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean = (Y - self._linear.offset) @ self._linear.weights / self._kept
        variance = (self.noise_variance_ / self._kept).expand_as(mean).clone()
        gaps = torch.isnan(Y).any(1)
        if bool(gaps.any()):
            rows = self._infer(Y[gaps])
            mean[gaps], variance[gaps] = rows.mean, rows.covariance.diagonal(dim1=1, dim2=2)
        return mean, variance

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X @ self._linear.weights.T + self._linear.offset
        noise = torch.full_like(mean, self.noise_variance_)
        return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._linear.weights, X)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Exact moments: W mean + μ, and Var y_d = w_dᵀ covariance w_d + σ²."""
        rows, W = self._infer(Y), self._linear.weights
        mean, _, noise = self._decode(rows.mean)
        D, Q = W.shape
        outer = (W[:, :, None] * W[:, None, :]).reshape(D, Q * Q)
        return mean, rows.covariance.reshape(-1, Q * Q) @ outer.T + noise, noise

    def _log_density(self, Y: Tensor) -> Tensor:
        """log N(y | μ, W Wᵀ + σ² I) of the observed cells."""
        D, Q = self._linear.weights.shape
        sigma2 = self.noise_variance_
        away = Y - self._linear.offset
        projected = away @ self._linear.weights
        square = (away.square().sum(1) - (projected.square() / self._kept).sum(1)) / sigma2
        log_det = self._kept.log().sum() + (D - Q) * math.log(sigma2)
        density = -0.5 * (D * math.log(2 * math.pi) + log_det + square)
        gaps = torch.isnan(Y).any(1)
        if bool(gaps.any()):
            density[gaps] = self._infer(Y[gaps]).log_density
        return density

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            "weights": to_numpy(self._linear.weights),
            "offset": to_numpy(self._linear.offset),
            "kept": to_numpy(self._kept),
        }
        return arrays, {"noise_variance": self.noise_variance_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        weights = self._to_tensor(arrays["weights"])
        # Files of versions without missing cells have no offset: it was 0.
        offset = self._to_tensor(arrays.get("offset", np.zeros(len(weights))))
        self._store_components(
            weights, offset, float(facts["noise_variance"]), self._to_tensor(arrays["kept"])
        )
