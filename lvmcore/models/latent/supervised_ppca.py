"""Supervised probabilistic PCA."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import helmert
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.classical.supervised_ppca import (
    GroupedLinearGaussian,
    fit_grouped_linear_gaussian,
)
from lvmcore.geometry import constant_metric
from lvmcore.gp.label_predictions import draw_of_class
from lvmcore.gp.point_estimates.class_scores import largest_probability
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import sobol_draws
from lvmcore.parameters import Advanced, Doc
from lvmcore.results import FitStep, Posterior
from lvmcore.training.outcome import FitOutcome

__all__ = ["SupervisedPPCA"]

# Most steps, and tolerance of the likelihood in nats per cell; draws of a position.
MOST_STEPS, TOLERANCE, DRAWS = 1000, 1e-7, 64


@estimator_dataclass
class SupervisedPPCA(ClassifierMixin, LatentVariableModel):
    """Supervised probabilistic PCA: a linear map of the columns and of the class labels.

    y = W_y x + μ_y + ε_y and t = W_t x + μ_t + ε_t, x ~ N(0, I), ε_y ~ N(0, σ_y² I) and ε_t ~ N(0,
    σ_t² I), t the label (Yu, Yu, Tresp, Kriegel and Wu 2006). t is one-hot, written in the C − 1
    orthonormal axes along which it varies: the C columns add up to 1, so that their joint density
    would have no bound as σ_t → 0. Expectation maximisation raises the exact likelihood of the
    observed cells and labels at every step. With Λ = I + W_yᵀW_y/σ_y² + W_tᵀW_t/σ_t² a row's
    posterior is N(Λ⁻¹(W_yᵀ(y − μ_y)/σ_y² + W_tᵀ(t − μ_t)/σ_t²), Λ⁻¹). With ``noise="shared"``, σ_y
    = σ_t, it is probabilistic PCA of columns and labels.

    A missing cell drops its column, a missing label the term of t. New rows are placed by y alone.
    Class probabilities: t = W_t x + μ_t + ε_t is the score of the classes, and a class has the
    probability that its score is the largest, averaged over the posterior of x. The most probable
    class is that of the largest mean but where that average matters.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` and ``labels`` hold ‖w_q‖² of each path, [Q].
        noise_variance_: σ_y², standardised units.
        label_noise_variance_: σ_t².
    """

    key: ClassVar[str] = "sppca"
    title: ClassVar[str] = "Supervised probabilistic PCA (SPPCA)"
    summary: ClassVar[str] = (
        "A linear map with uncertainty, of columns and a class label, at once; labels may miss."
    )
    paper: ClassVar[str] = "Yu et al. 2006"
    order: ClassVar[int] = 9
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        missing_labels=True,
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
    )

    classes_: NDArray[Any] = fitted()
    noise_variance_: float = fitted()
    label_noise_variance_: float = fitted()
    _columns: GroupedLinearGaussian = fitted()
    _targets: GroupedLinearGaussian = fitted()
    _codes: NDArray[np.int64] = fitted()
    _shares: NDArray[np.float64] = fitted()

    noise: Annotated[
        Literal["separate", "shared"],
        Doc("Noise variance of columns and labels: one each, or one for both.", "noise"),
        Advanced(),
    ] = "separate"
    n_components: Components = None

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        Y, labels = problem.Y.double(), problem.labels[0]
        known = labels.codes[labels.codes >= 0]
        shares = np.bincount(known, minlength=len(labels.classes)) / len(known)
        T = _contrasts(labels.codes, shares, Y)
        labelled = torch.as_tensor(labels.codes >= 0, device=Y.device)
        observed = torch.ones_like(Y, dtype=torch.bool)
        if problem.observed is not None:
            observed = problem.observed
        D = Y.shape[1]
        V = torch.cat([Y, T], 1)
        seen = torch.cat([observed, labelled[:, None].expand_as(T)], 1)
        groups = torch.zeros(V.shape[1], dtype=torch.long, device=V.device)
        if self.noise == "separate":
            groups[D:] = 1
        history = list[FitStep]()
        model, converged = fit_grouped_linear_gaussian(
            V,
            seen,
            groups,
            problem.n_components,
            max_iter=MOST_STEPS,
            tolerance=TOLERANCE,
            callback=_reporter(problem, history),
        )
        self._store(model, D, labels.codes, shares)
        rows = model.infer(V, seen)
        variance = rows.covariance.diagonal(dim1=1, dim2=2)
        self.embedding_ = Posterior(to_numpy(rows.mean), to_numpy(variance))
        self.relevance_ = _relevance(model, D)
        self.inducing_inputs_ = {}
        return FitOutcome(float(rows.log_density.sum()), tuple(history), converged)

    def _store(
        self,
        model: GroupedLinearGaussian,
        D: int,
        codes: NDArray[np.int64],
        shares: NDArray[np.float64],
    ) -> None:
        self._columns, self._targets = model.among(slice(None, D)), model.among(slice(D, None))
        self._codes, self._shares = np.asarray(codes), np.asarray(shares)
        self.noise_variance_ = float(self._columns.noise[0])
        self.label_noise_variance_ = float(self._targets.noise[0])

    # ---- predictions ---------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, from their columns alone, [N, C].

        Raises:
            DataError: the rows do not fit the model (columns or infinite cells).
        """
        found = self.posterior(X)
        mean, sd = (torch.as_tensor(part) for part in (found.mean, np.sqrt(found.variance)))
        draws = sobol_draws(DRAWS, mean.shape[1], mean)
        total = torch.zeros(len(mean), len(self.classes_), dtype=torch.float64)
        for draw in draws:
            total += self._probabilities(mean + sd * draw)
        return to_numpy(total / total.sum(1, keepdim=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y."""
        return float(ClassifierMixin.score(self, X, y))

    def _probabilities(self, X: Tensor) -> Tensor:
        """Class probabilities at positions X [n, Q], on the CPU, [n, C]."""
        W, offset, noise = (
            part.detach().cpu()
            for part in (self._targets.weights, self._targets.offset, self._targets.noise[0])
        )
        contrasts = X.cpu().double() @ W.T + offset
        scores = torch.as_tensor(self._shares) + contrasts @ torch.as_tensor(
            helmert(len(self._shares))
        )
        return largest_probability(scores, noise)

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        del column  # there is only one
        p = self._probabilities(X)
        return p, p, torch.zeros_like(p)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        Y = Y.double()
        observed = ~torch.isnan(Y)
        rows = self._columns.infer(torch.where(observed, Y, 0.0), observed)
        return rows.mean, rows.covariance.diagonal(dim1=1, dim2=2)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X.double() @ self._columns.weights.T + self._columns.offset
        noise = self._columns.noise.expand_as(mean)
        return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._columns.weights, X.double())

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Exact moments: W mean + μ, and Var y_d = w_dᵀ covariance w_d + σ_y²."""
        Y = Y.double()
        observed, W = ~torch.isnan(Y), self._columns.weights
        rows = self._columns.infer(torch.where(observed, Y, 0.0), observed)
        mean, _, noise = self._decode(rows.mean)
        return mean, torch.einsum("dq,nqr,dr->nd", W, rows.covariance, W) + noise, noise

    def _log_density(self, Y: Tensor) -> Tensor:
        """log N(y | μ_y, W_y W_yᵀ + σ_y² I) of the observed cells."""
        Y = Y.double()
        observed = ~torch.isnan(Y)
        return self._columns.infer(torch.where(observed, Y, 0.0), observed).log_density

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """From the prior, or for a label from the mixture of the posteriors of its rows, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        return draw_of_class(self.embedding_, self._codes, self.classes_, n, label, rng)

    # ---- saving --------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        parts = {"columns": self._columns, "targets": self._targets}
        arrays = {
            f"{name}.{field}": to_numpy(getattr(part, field))
            for name, part in parts.items()
            for field in _FIELDS
        }
        return arrays | {"codes": self._codes, "shares": self._shares}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        like = self._to_tensor(np.zeros(1)).double()
        both = [
            torch.cat([torch.as_tensor(arrays[f"{name}.{field}"].copy()) for name in _PARTS]).to(
                like
            )
            for field in _FIELDS
        ]
        D = len(arrays["columns.offset"])
        self._store(GroupedLinearGaussian(*both), D, arrays["codes"], arrays["shares"])


_PARTS, _FIELDS = ("columns", "targets"), ("weights", "offset", "noise")


def _contrasts(codes: NDArray[np.int64], shares: NDArray[np.float64], like: Tensor) -> Tensor:
    """One-hot labels less the class shares, along C − 1 axes; 0 without a label, [N, C − 1]."""
    hot = np.eye(len(shares))[codes.clip(0)] - shares
    hot[codes < 0] = 0
    return torch.as_tensor(hot @ helmert(len(shares)).T).to(like)


def _reporter(problem: FitProblem, history: list[FitStep]) -> Callable[[int, float], bool]:
    """The callback of the steps, which adds them to the history."""
    began = time.perf_counter()

    def report(iteration: int, reached: float) -> bool:
        seconds, terms = time.perf_counter() - began, {"log likelihood": reached}
        history.append(FitStep(iteration + 1, MOST_STEPS, seconds, reached, terms))
        return problem.callback is not None and bool(problem.callback(history[-1]))

    return report


def _relevance(model: GroupedLinearGaussian, D: int) -> dict[str, FloatArray]:
    """‖w_q‖² of the columns and of the labels, [Q] each."""
    square = model.weights.square()
    return {"data": to_numpy(square[:D].sum(0)), "labels": to_numpy(square[D:].sum(0))}
