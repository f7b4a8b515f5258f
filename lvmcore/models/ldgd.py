"""LDGD: the latent discriminative generative decoder, a label-aware Gaussian process map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base import Capabilities, Problem, to_numpy
from lvmcore.errors import ConfigError
from lvmcore.gplvm import (
    LONG_TABLE,
    LONG_TABLE_STEPS,
    START_VARIANCE,
    DataTerm,
    GPLatentVariableModel,
    pca_start,
    snapshot_of,
    spread_points,
    standard_draws,
)
from lvmcore.layers import DataPath, LabelDecoder, LabelPath, LatentRows
from lvmcore.likelihoods import probit_mean, probit_variance
from lvmcore.parameters import (
    Advanced,
    Components,
    Device,
    Doc,
    Dtype,
    Inducing,
    LearningRate,
    MaxIter,
    Noise,
    Range,
    Seed,
)
from lvmcore.results import Snapshot
from lvmcore.training import Outcome, Schedule, train

__all__ = ["LDGD"]

FINAL_DRAWS = 8
LABEL_DRAWS = 64


class LDGD(ClassifierMixin, GPLatentVariableModel):
    """One latent space behind both the columns and the class labels.

    x_n ~ N(0, I) drives D regression Gaussian processes with Gaussian noise and C classification
    ones, P(y_nc = 1 | f) = Φ(f_c(x_n)), each path with its own RBF-ARD kernel and inducing inputs:

    ELBO = F(q(X)) + w · Σ_nc E log Φ(±f_c(x_n)) − KL(q(U^c) ‖ p) − KL(q(X) ‖ N(0, I)).

    F is the collapsed regression bound, so the regression path has no variational parameters.
    (Ziaei et al. 2024 sample x and keep q(U^r): the same model with a noisier, slower bound, and a
    noise of its own for each column.) The label term averages samples of x_n, then 20
    Gauss–Hermite nodes. A row without a label leaves the label term only, a missing cell F only;
    where cells are missing, no column's noise falls below half of the columns' average.

    New rows are inferred from their columns alone. P(class k) = E_{q(x)} Φ(m_k/√(1 + v_k)), divided
    by the sum over the classes.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` and ``labels`` hold α = 1/ℓ² of each path, [Q].
        inducing_inputs_: ``data`` and ``labels`` hold Z of each path, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "ldgd"
    title: ClassVar[str] = "LDGD"
    summary: ClassVar[str] = (
        "A curved map shaped by the columns and by a class label: to separate, explain and "
        "predict classes."
    )
    paper: ClassVar[str] = "Ziaei et al. 2024"
    order: ClassVar[int] = 0
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        missing_labels=True,
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
    )

    classes_: NDArray[Any]
    _label_decoder: LabelDecoder

    def __init__(
        self,
        *,
        n_components: Components = None,
        n_inducing: Inducing = 25,
        max_iter: MaxIter = 300,
        label_weight: Annotated[
            float,
            Range(0.0, 1000.0),
            Doc("How much the labels count; 1 is the model as published.", "weight of labels"),
            Advanced(),
        ] = 1.0,
        n_samples: Annotated[
            int,
            Range(1, 100),
            Doc("Draws of each row's position at every step, for the label term."),
            Advanced(),
        ] = 1,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.1,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.label_weight = label_weight
        self.n_samples = n_samples
        self.noise = noise
        self.learning_rate = learning_rate
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @classmethod
    def suggest(cls, *, n_rows: int, n_columns: int, n_classes: int = 0) -> dict[str, Any]:
        """More inducing inputs for longer tables and for many classes; fewer steps at the end."""
        del n_columns
        if n_rows > LONG_TABLE:
            return {"max_iter": LONG_TABLE_STEPS}
        return {"n_inducing": 50} if n_rows > 1000 or n_classes > 5 else {}

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> Outcome:
        X = pca_start(problem)
        M = self._inducing_count(len(X))
        fit = _Fit(
            rows=LatentRows(X, START_VARIANCE),
            data=DataPath(
                spread_points(X, M, problem.generator),
                self._start_noise(problem),
                pooled=problem.observed is not None,
            ),
            labels=LabelPath(spread_points(X, M, problem.generator), problem.n_classes),
            problem=problem,
            weight=self.label_weight,
            samples=self.n_samples,
        )
        cells = fit.columns.count + round(self.label_weight * fit.signs.numel())
        schedule = Schedule(self.max_iter, self.learning_rate, cells)
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
        self._decoder = fit.columns.decoder(fit.data, fit.rows)
        with torch.no_grad():
            self._label_decoder = fit.labels.decoder()
        self._keep_rows(fit.rows)
        self._codes = np.asarray(self._labels.codes)
        paths = {"data": fit.data, "labels": fit.labels}
        self.relevance_ = {name: to_numpy(p.kernel.relevance) for name, p in paths.items()}
        self.inducing_inputs_ = {name: to_numpy(p.Z) for name, p in paths.items()}
        return outcome

    # ---- labels --------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities of rows, normalised, [N, C]; the columns alone decide.

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        posterior = self.posterior(X)
        draws = to_numpy(standard_draws(LABEL_DRAWS, posterior.mean.shape[1], torch.zeros(())))
        total = np.zeros((len(posterior.mean), len(self.classes_)))
        for draw in draws:
            points = posterior.mean + np.sqrt(posterior.variance) * draw
            total += self.decode_labels(points).unnormalised
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y."""
        return float(ClassifierMixin.score(self, X, y))

    def _decode_labels(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            mean, variance = self._label_decoder.predict(X)
            p = probit_mean(mean, variance)
            return p / p.sum(1, keepdim=True), p, probit_variance(mean, variance)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of its rows' posteriors, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        found = np.flatnonzero(self.classes_ == label)
        if not len(found):
            known = ", ".join(str(known) for known in self.classes_)
            raise ConfigError(f"label={label!r} is no class of this model: it knows {known}.")
        rows = rng.choice(np.flatnonzero(self._codes == found[0]), size=n)
        mean, variance = self.embedding_.mean[rows], self.embedding_.variance[rows]
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(mean.shape))

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return {**arrays, **self._label_decoder.arrays(), "codes": self._codes}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._label_decoder = LabelDecoder.from_arrays(arrays, self._decoder.Z)
        self._codes = np.asarray(arrays["codes"])


class _Fit:
    """The objective: collapsed regression bound, label term, and the two divergences."""

    def __init__(
        self,
        *,
        rows: LatentRows,
        data: DataPath,
        labels: LabelPath,
        problem: Problem,
        weight: float,
        samples: int,
    ) -> None:
        self.rows, self.data, self.labels = rows, data, labels.to(problem.Y.device)
        self.columns, self.weight, self.samples = DataTerm(problem), weight, samples
        self.generator = problem.generator
        assert problem.classes is not None
        self.labelled = torch.nonzero(problem.classes >= 0)[:, 0].to(problem.Y.device)
        known = problem.classes[problem.classes >= 0]
        one_hot = torch.nn.functional.one_hot(known, problem.n_classes)
        self.signs = (2 * one_hot - 1).to(problem.Y)

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [*self.rows.parameters(), *self.data.parameters(), *self.labels.parameters()]

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [self.data.log_noise]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        bound = self.columns.bound(self.data, self.rows)
        X = self.rows.draw(draws * self.samples, self.labelled, self.generator)
        return {
            "data fit": bound,
            "label fit": self.weight * self.labels.expected_log_likelihood(X, self.signs),
            "KL of the map": -self.rows.kl(),
            "KL of the label functions": -self.labels.kl(),
        }

    def snapshot(self) -> Snapshot:
        relevance = {"data": self.data.kernel.relevance, "labels": self.labels.kernel.relevance}
        return snapshot_of(self.rows.mean, relevance, "labels")
