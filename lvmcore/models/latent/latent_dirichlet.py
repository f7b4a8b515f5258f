"""Latent Dirichlet allocation: topics of a table of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.base.validation import require_labels
from lvmcore.classical.latent_dirichlet import TopicPosterior
from lvmcore.devices import storage_type
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import Posterior, Snapshot
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.snapshots import snapshot_of
from lvmcore.training.sweep_history import SweepHistory

__all__ = ["LatentDirichletAllocation"]


# Tolerance of a row's inference: largest change of a concentration over their sum; most rounds.
TOLERANCE, MOST_ROUNDS = 1e-9, 2000
# In a step of the fit the rows take a few rounds from their last positions: full inference with
# early topics would lead them to poor optima.
STEP_TOLERANCE, STEP_ROUNDS = 1e-5, 5
# Shape of the gamma draws, of mean 1, that initialise the topics.
START_SHAPE = 100.0


@estimator_dataclass
class LatentDirichletAllocation(LatentVariableModel):
    """Latent Dirichlet allocation: rows are mixtures of topics, topics are profiles of counts.

    θ_n ~ Dirichlet(α), β_k ~ Dirichlet(η), and each of row n's counts falls into column d with
    probability Σ_k θ_nk β_kd (Blei, Ng and Jordan 2003). The fit finds q(β_k) = Dirichlet(λ_k) by
    variational steps over the whole table. They are those of scikit-learn's model of this name, but
    batched over rows and started at the previous γ, which is faster and reports each step. For any
    row, q(θ_n) = Dirichlet(γ_n) is at its optimum for these topics: the position is its mean, the
    topic proportions of sum 1, and the variance is that of each proportion. The topics are sorted
    by their share of all counts, so the map shows the two largest; with only two topics it is a
    line.

    A latent point is converted to proportions: negative values are set to 0 and the sum is scaled
    to 1. It decodes to a row with the mean total T of the fit's rows, whose counts are Poisson with
    mean and noise variance T Σ_k θ_k E β_kd, as Blei, Ng and Jordan take a row's total to be
    Poisson. Totals of real rows are overdispersed, so there is no density to compare with other
    models and ``elbo_`` is NaN: the bound in the terms of each step is of the counts given totals.

    Attributes:
        relevance_: ``data`` holds each topic's share of all counts, [Q].
        topics_: E β of the columns that vary, each row with sum 1, [Q, D].
        row_total_: T, over the columns that vary.
    """

    key: ClassVar[str] = "topics"
    title: ClassVar[str] = "Topics (latent Dirichlet)"
    summary: ClassVar[str] = (
        "Rows of counts as mixtures of topics, for words, species or genes: the shares add up to 1."
    )
    paper: ClassVar[str] = "Blei, Ng and Jordan 2003"
    order: ClassVar[int] = 44
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, cells="counts"
    )

    row_total_: float = fitted()

    n_components: Components = None
    max_iter: Annotated[int, Range(1, 100_000), Doc("Most steps of the fit.", "steps at most")] = (
        1000
    )
    tol: Annotated[
        float,
        Range(1e-10, 1.0, log=True),
        Doc("Stop when a step gains fewer nats a count than this.", "tolerance"),
        Advanced(),
    ] = 1e-6
    topic_prior: Annotated[
        float | None,
        Range(1e-3, 100.0, log=True),
        Doc(
            "Concentration of a row's topics: below 1 few topics a row; auto is 1 over their "
            "number.",
            "topics a row",
        ),
        Advanced(),
    ] = None
    column_prior: Annotated[
        float | None,
        Range(1e-3, 100.0, log=True),
        Doc(
            "Concentration of a topic's columns: below 1 few columns a topic; auto is 1 over "
            "the number of topics.",
            "columns a topic",
        ),
        Advanced(),
    ] = None

    @property
    def topics_(self) -> FloatArray:
        """E β of the columns that vary, each row with sum 1, [Q, D]."""
        return to_numpy(self._topics)

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured.unscaled()

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        Y = problem.Y.double()
        self._note_empty(to_numpy(Y))
        self.row_total_ = float(Y.sum(1).mean())
        course = SweepHistory(problem.callback, self.max_iter)
        topics = self._start(problem)
        gamma, before, converged = None, -math.inf, False
        for _ in range(self.max_iter):
            gamma = topics.infer(Y, gamma, rounds=STEP_ROUNDS, settled=STEP_TOLERANCE)
            reached = topics.bound(Y, gamma)
            converged = reached - before < self.tol * float(Y.sum())
            stopped = course.report(
                math.nan,
                {"bound given the totals": reached},
                partial(_snapshot, Y, gamma),
                ends=converged,
            )
            if stopped or converged:
                break
            topics, before = topics.update_topics(Y, gamma), reached
        self._store_topics(topics)
        order = np.argsort(-_shares(Y, self._concentrations(Y)), kind="stable")
        self._store_topics(replace(topics, concentration=topics.concentration[order.copy()]))
        mean, variance = self._posterior(problem.Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {"data": _shares(Y, self._concentrations(Y))}
        self.inducing_inputs_ = {}
        return FitOutcome(math.nan, tuple(course.steps), converged=converged)

    def _start(self, problem: FitProblem) -> TopicPosterior:
        Q, rng = problem.n_components, np.random.default_rng(problem.generator.initial_seed())
        drawn = rng.gamma(START_SHAPE, 1 / START_SHAPE, (Q, problem.Y.shape[1]))
        alpha, eta = (
            1 / Q if given is None else float(given)
            for given in (self.topic_prior, self.column_prior)
        )
        return TopicPosterior(torch.as_tensor(drawn).to(problem.Y.device), alpha, eta)

    def _note_empty(self, counts: FloatArray) -> None:
        empty = int((counts.sum(axis=1) == 0).sum())
        if empty:
            rows = "1 row holds" if empty == 1 else f"{empty:,} rows hold"
            self._note(f"{rows} no count in a column that varies: equal shares, the prior.")

    def _store_topics(self, topics: TopicPosterior) -> None:
        self._found, self._topics = topics, topics.mean.to(storage_type(self.dtype))

    # ---- inference and decoding ----------------------------------------------------------------

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        gamma = self._concentrations(Y.double())
        total = gamma.sum(1, keepdim=True)
        mean = gamma / total
        return mean.to(Y), (mean * (1 - mean) / (total + 1)).to(Y)

    def _concentrations(self, Y: Tensor) -> Tensor:
        """γ of rows of counts, independent of their γ in the fit, [N, Q]."""
        return self._found.infer(Y, rounds=MOST_ROUNDS, settled=TOLERANCE)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.row_total_ * _proportions(X)[0] @ self._topics
        return mean, mean, mean

    def _metric(self, X: Tensor) -> Tensor:
        """With B = E β/sd, θ and s = Σ x: (T/s)² (I − 1θᵀ) B Bᵀ (I − θ1ᵀ)."""
        varying = ~self._measured.constant
        B = self._topics / self._to_tensor(self._measured.scale[varying])
        theta, total = _proportions(X)
        away = torch.eye(len(B)).to(X) - theta[:, None, :]
        slopes = self.row_total_ / total[:, :, None] * away * (X > 0)[:, :, None]
        return slopes @ (B @ B.T) @ slopes.transpose(1, 2)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """From the prior, Dirichlet(α), [n, Q]."""
        if label is not None:
            require_labels(self)
        return rng.dirichlet(np.full(len(self._topics), self._found.topic_prior), n)

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean = to_numpy(self._decode(self._to_tensor(latent))[0])
        return self._standardiser.inverse_transform(rng.poisson(mean).astype(np.float64))

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        found = self._found
        facts = {
            "topic_prior": found.topic_prior,
            "column_prior": found.column_prior,
            "row_total": self.row_total_,
        }
        return {"concentration": to_numpy(found.concentration)}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.row_total_ = float(facts["row_total"])
        found = torch.as_tensor(arrays["concentration"].copy(), device=self._device)
        self._store_topics(
            TopicPosterior(found, float(facts["topic_prior"]), float(facts["column_prior"]))
        )


def _shares(Y: Tensor, gamma: Tensor) -> FloatArray:
    """Each topic's share of all counts, [Q]."""
    weights = Y.sum(1)
    return to_numpy(weights @ (gamma / gamma.sum(1, keepdim=True)) / weights.sum())


def _snapshot(Y: Tensor, gamma: Tensor) -> Snapshot:
    mean = gamma / gamma.sum(1, keepdim=True)
    return snapshot_of(mean, {"data": torch.as_tensor(_shares(Y, gamma))})


def _proportions(X: Tensor) -> tuple[Tensor, Tensor]:
    """Points [N, Q] as topic proportions, and the normalising sums, [N, 1].

    A point without positive values has equal proportions.
    """
    inside = X.clamp_min(0)
    total = inside.sum(1, keepdim=True)
    nothing = total <= 0
    total = torch.where(nothing, 1.0, total)
    return torch.where(nothing, 1 / X.shape[1], inside / total), total
