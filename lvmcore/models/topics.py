"""Topics: latent Dirichlet allocation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import Capabilities, LatentVariableModel, Problem
from lvmcore.checks import to_numpy
from lvmcore.parameters import Advanced, Components, Device, Doc, Dtype, Range, Seed
from lvmcore.results import Posterior
from lvmcore.standardise import Standardiser
from lvmcore.training import Outcome, report_last

__all__ = ["LatentDirichletAllocation"]

FloatArray = NDArray[np.float64]

# A row's place is settled when no concentration changes by more than this share of their sum.
SETTLED = 1e-9
MOST_ROUNDS = 2000
# The library looks whether it has converged every so many steps.
STEPS_BETWEEN_LOOKS = 5
# Added to what is divided by, as by the library.
TINY = np.finfo(np.float64).eps


class LatentDirichletAllocation(LatentVariableModel):
    """Latent Dirichlet allocation: each row a mixture of topics, each topic a profile of counts.

    θ_n ~ Dirichlet(α), β_k ~ Dirichlet(η), and each of row n's counts falls into column d with
    probability Σ_k θ_nk β_kd (Blei, Ng and Jordan 2003). scikit-learn's
    ``LatentDirichletAllocation`` finds q(β_k) = Dirichlet(λ_k) by variational steps over the whole
    table. A row's place, one of the fit or a new one, is q(θ_n) = Dirichlet(γ_n) at its optimum
    for these topics: the position is its mean, the row's topic proportions, which add up to 1, and
    the variance is that of each proportion. The topics with the largest share of all counts come
    first, so the map shows the two leading ones; of two topics alone the map is a line.

    A point of the map is read as proportions: what is below 0 counts as 0, and their sum as 1. It
    decodes to a row of the mean total T of the fit's rows, whose counts are Poisson of mean and
    noise variance T Σ_k θ_k E β_kd, as Blei, Ng and Jordan take a row's total to be Poisson. Totals
    of real rows spread further, so there is no density to compare with other models' and ``elbo_``
    is NaN; the library's bound, of the counts given the totals, is told with the last step.

    The library reports no steps, so a callback cannot stop it.

    Attributes:
        relevance_: ``data`` holds each topic's share of all counts, [Q].
        topics_: E β of the columns that vary, each row adding up to 1, [Q, D].
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
        sampling=True, uncertainty=True, steps=False, cells="counts"
    )

    row_total_: float

    def __init__(
        self,
        *,
        n_components: Components = None,
        max_iter: Annotated[
            int, Range(1, 100_000), Doc("Most steps of the fit.", "steps at most")
        ] = 200,
        tol: Annotated[
            float,
            Range(1e-6, 10.0, log=True),
            Doc("Stop when five steps lower the perplexity by less than this.", "tolerance"),
            Advanced(),
        ] = 0.01,
        topic_prior: Annotated[
            float | None,
            Range(1e-3, 100.0, log=True),
            Doc(
                "Concentration of a row's topics: below 1 few topics a row; auto is 1 over their "
                "number.",
                "topics a row",
            ),
            Advanced(),
        ] = None,
        column_prior: Annotated[
            float | None,
            Range(1e-3, 100.0, log=True),
            Doc(
                "Concentration of a topic's columns: below 1 few columns a topic; auto is 1 over "
                "the number of topics.",
                "columns a topic",
            ),
            Advanced(),
        ] = None,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.topic_prior = topic_prior
        self.column_prior = column_prior
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @property
    def topics_(self) -> FloatArray:
        """E β of the columns that vary, each row adding up to 1, [Q, D]."""
        return to_numpy(self._topics)

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured.unscaled()

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> Outcome:
        from sklearn.decomposition import LatentDirichletAllocation as Library

        began = time.perf_counter()
        counts = to_numpy(problem.Y)
        library = Library(
            problem.n_components,
            doc_topic_prior=self.topic_prior,
            topic_word_prior=self.column_prior,
            learning_method="batch",
            max_iter=self.max_iter,
            evaluate_every=STEPS_BETWEEN_LOOKS,
            perp_tol=self.tol,
            random_state=problem.generator.initial_seed(),
        ).fit(counts)
        self._note_empty(counts)
        self.row_total_ = float(counts.sum(axis=1).mean())
        self._take_topics(library.components_, float(library.doc_topic_prior_))
        shares = self._shares(problem.Y)
        order = np.argsort(-shares, kind="stable")
        self._take_topics(library.components_[order], self._prior)
        mean, variance = self._posterior(problem.Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {"data": shares[order]}
        self.inducing_inputs_ = {}
        steps = (int(library.n_iter_), self.max_iter)
        bound = {"bound given the totals": float(library.score(counts))}
        converged = steps[0] < steps[1]
        return report_last(problem.callback, began, steps, bound, converged=converged)

    def _note_empty(self, counts: FloatArray) -> None:
        empty = int((counts.sum(axis=1) == 0).sum())
        if empty:
            rows = "1 row holds" if empty == 1 else f"{empty:,} rows hold"
            self._note(f"{rows} no count in a column that varies: equal shares, the prior.")

    def _shares(self, Y: Tensor) -> FloatArray:
        """Each topic's share of all counts, [Q]."""
        weights = Y.sum(1).double()
        return to_numpy(weights @ self._posterior(Y)[0].double() / weights.sum())

    def _take_topics(self, concentration: FloatArray, prior: float) -> None:
        """Take over λ [Q, D] and α."""
        self._concentration, self._prior = concentration, prior
        found = torch.as_tensor(concentration, device=self._torch_device())
        total = found.sum(1, keepdim=True)
        self._topics = (found / total).to(getattr(torch, self.dtype))
        self._weights = (found.digamma() - total.digamma()).exp()

    # ---- inference and decoding ----------------------------------------------------------------

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        gamma = self._concentrations(Y.double())
        total = gamma.sum(1, keepdim=True)
        mean = gamma / total
        return mean.to(Y), (mean * (1 - mean) / (total + 1)).to(Y)

    def _concentrations(self, Y: Tensor) -> Tensor:
        """γ of rows of counts, each at its own optimum, [N, Q].

        γ_nk = α + Σ_d y_nd φ_ndk with φ_ndk ∝ exp(E log θ_nk + E log β_kd), over and over.
        """
        weights = self._weights
        gamma = Y.new_ones(len(Y), len(weights))
        moving = torch.arange(len(Y), device=Y.device)
        for _ in range(MOST_ROUNDS):
            before = gamma[moving]
            share = (before.digamma() - before.sum(1, keepdim=True).digamma()).exp()
            expected = share @ weights + TINY
            after = self._prior + share * ((Y[moving] / expected) @ weights.T)
            gamma[moving] = after
            change = (after - before).abs().amax(1)
            moving = moving[change > SETTLED * after.sum(1)]
            if not len(moving):
                break
        return gamma

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
            self._require_labels()
        return rng.dirichlet(np.full(len(self._topics), self._prior), n)

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean = to_numpy(self._decode(self._to_tensor(latent))[0])
        return self._standardiser.inverse(rng.poisson(mean).astype(np.float64))

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        facts = {"prior": self._prior, "row_total": self.row_total_}
        return {"concentration": self._concentration}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self.row_total_ = float(facts["row_total"])
        self._take_topics(np.asarray(arrays["concentration"]), float(facts["prior"]))


def _proportions(X: Tensor) -> tuple[Tensor, Tensor]:
    """Points [N, Q] as topic proportions, and the sums [N, 1] that they were divided by.

    Equal shares where nothing is above 0.
    """
    inside = X.clamp_min(0)
    total = inside.sum(1, keepdim=True)
    nothing = total <= 0
    total = torch.where(nothing, 1.0, total)
    return torch.where(nothing, 1 / X.shape[1], inside / total), total
