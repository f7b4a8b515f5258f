"""The objective of a deep Gaussian process: its bound, of all rows or estimated from a batch.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.deep.deep_gp import DeepGP, FunctionDraw
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.output_layer import GaussianSites, ProjectedRows
from lvmcore.deep.posterior_updates import (
    DeepSample,
    PosteriorUpdate,
    StepRows,
    posterior_update,
)
from lvmcore.training.batches import Batches
from lvmcore.training.objective import Objective, Term
from lvmcore.training.schedule import Schedule

__all__ = ["CollapsedObjective", "DeepGPObjective", "deep_schedule"]

# Draws that a snapshot averages.
SNAPSHOT_DRAWS = 4
# Nats per row below the best bound that count as collapsed. Draws of the functions alone change the
# bound: with a noise of a thousandth of the target's variance, first steps differ by 30.
COLLAPSE = 50.0
# Least window of the convergence test where functions are drawn, in steps.
WINDOW = 100


class RowFitTerm(Term[DeepSample]):
    """Σ_n E log p(y_n | f(x_n)) of the rows.

    Args:
        model: the deep Gaussian process.
    """

    name = "data fit"

    def __init__(self, model: DeepGP) -> None:
        self.model = model

    def frozen_in_warm_up(self) -> Iterable[nn.Parameter]:
        """The noise; the whole last layer where it was initialised from a fitted one."""
        last = self.model.last
        if self.model.pretrained:
            return last.parameters()
        return [last.likelihood.log_noise] if isinstance(last.likelihood, GaussianNoise) else []

    def value(self, sample: DeepSample) -> Tensor:
        """The term, averaged over the draws, []."""
        return sample.data_fit[0]


class SubsetFitTerm(Term[DeepSample]):
    """Σ_m E log p(y_m | f(x_m)) of the subset that the inducing inputs are."""

    name = "subset fit"

    def value(self, sample: DeepSample) -> Tensor:
        """The term, averaged over the draws, []."""
        return sample.subset_fit[0]


class DeepGPObjective(Objective[DeepSample]):
    """Fit of the rows, fit of the subset where there is one, and −KL of each layer.

    One draw of the functions serves the likelihood and the KL terms. ``posterior_update`` says how
    q(v) of the last layer is updated; with all rows, a Gaussian likelihood and no hidden layers the
    bound is then the collapsed one. With a q-exponential prior or noise, q(v) uses the weights of
    prior and rows of the last step that used the row (lvmcore/qep/blocks.py); the bound is taken at
    that q(v) and holds for any weights.

    Args:
        model: initial model; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        n_samples: S, draws of a step; without hidden layers one is enough.
        batch_size: B.
        generator: draws the functions and the batches.
    """

    #: Rows at the last layer for each row of the table, under a draw.
    copies = 1

    def __init__(
        self,
        model: DeepGP,
        X: Tensor,
        Y: Tensor,
        *,
        n_samples: int,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        subset: list[Term[DeepSample]] = [] if model.targets is None else [SubsetFitTerm()]
        super().__init__([model], [RowFitTerm(model), *subset])
        self.model, self.X, self.Y, self.generator = model, X, Y, generator
        self.n_samples = n_samples if model.sampled else 1
        self.rows = model.remaining_rows(len(X))
        self.batches = Batches(len(self.rows), batch_size, generator)
        likelihood = model.last.likelihood
        # w of each row of a numeric target; None where all are 1.
        self.precision: Tensor | None = None
        if isinstance(likelihood, GaussianNoise):
            self.precision = likelihood.precision(X.new_ones(len(X)), Y.shape[1])

    @property
    def posterior_update(self) -> PosteriorUpdate:
        """The scheme by which q(v) of the last layer is updated."""
        return posterior_update(self.model, self.Y, self.precision, all_rows=self.batches.whole)

    def state(self) -> Iterable[Tensor]:
        """The last layer's sites, the order of the batches, and the weights of the rows."""
        q = self.model.last.q
        weights = () if self.precision is None else (self.precision,)
        return [
            *(q.buffers() if isinstance(q, GaussianSites) else ()),
            *self.batches.buffers(),
            *weights,
        ]

    def values(self, sample: DeepSample) -> dict[str, Tensor]:
        """The terms at a sample, by name: the fits, and those of the model's layers."""
        return super().values(sample) | self.model.kl_terms(sample.posterior)

    def batch_terms(self) -> dict[str, Tensor]:
        """Unbiased estimates of the terms from the next batch, by which q(v) is updated."""
        draw = self.model.draw(self.n_samples, self.generator)
        batch = self.rows[self.batches.next()]
        scale = len(self.rows) / max(1, len(batch))
        rows = self._project(draw, self.X[batch], self.Y[batch], scale, self.generator)
        step = StepRows(draw, batch, rows, self._subset_rows())
        return self.values(self.posterior_update.step(step))

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows, by ``draws`` times S draws of the functions; q(v) is not updated.

        Where q(v) is the optimum of each draw, it is computed from all rows here, whatever a step
        uses.
        """
        model, S = self.model, self.n_samples * draws if self.model.sampled else 1
        draw = model.draw(S, self.generator)
        X, Y = self.X[self.rows], self.Y[self.rows]
        seed = int(torch.randint(2**31 - 1, (1,), generator=self.generator))
        if model.posterior_per_draw:
            posterior = model.optimal_posterior(draw, X, Y, torch.Generator().manual_seed(seed))
        else:
            posterior = model.posterior(draw)
        fit, noise = self.X.new_zeros(()), torch.Generator().manual_seed(seed)  # as given_rows
        for some, targets in model.row_blocks(X, Y, S * self.copies):
            rows = self._project(draw, some, targets, 1.0, noise)
            fit = fit + model.last.expected_log_likelihood(draw.last, posterior, rows)[0]
        terms = {RowFitTerm.name: fit}
        subset = self._subset_rows()
        if subset is not None:
            terms[SubsetFitTerm.name] = model.last.expected_log_likelihood(
                draw.last, posterior, subset
            )[0]
        return terms | model.kl_terms(posterior)

    def _project(
        self, draw: FunctionDraw, X: Tensor, Y: Tensor, weight: float, generator: torch.Generator
    ) -> ProjectedRows:
        """Rows at the last layer, under a draw."""
        noise = self.model.row_noise(draw.samples, len(X), generator)
        return ProjectedRows.of_inputs(draw.last, self.model.inputs(draw, X, noise), Y, weight)

    def _subset_rows(self) -> ProjectedRows | None:
        """The subset's rows; None where inducing inputs are no rows."""
        targets = self.model.targets
        return None if targets is None else ProjectedRows.of_inducing_inputs(targets)

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.X)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Inputs of the last layer of some rows, averaged over 4 fixed draws, [n, D]."""
        model, shown = self.model, self.X[torch.as_tensor(rows)]
        n_hidden, generator = len(model.hidden), torch.Generator().manual_seed(0)
        samples = SNAPSHOT_DRAWS if n_hidden else 1
        draw, noise = model.draw(samples, generator), model.shared_noise(samples, generator)
        parts = torch.split(shown, model.block_size(draw.samples))
        if n_hidden:
            return torch.cat([model.hidden_mean(draw, noise, part, n_hidden) for part in parts])
        return torch.cat([model.inputs(draw, part, noise) for part in parts])

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the last layer's kernel."""
        del mean
        return {f"layer{len(self.model.hidden) + 1}": self.model.last.relevance}


class CollapsedObjective(DeepGPObjective):
    """The bound of a single Gaussian process at its optimal q(v), of all rows (Titsias 2009).

    The bound has no slope along q(v) there, so its gradient by the other parameters at the fixed
    q(v) is that of the collapsed bound, which a quasi-Newton method can follow.
    """

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows, with their gradient; q(v) is set to its optimum."""
        del draws
        assert self.batches.whole
        return self.batch_terms()


def deep_schedule(fit: DeepGPObjective, max_iter: int, learning_rate: float = 0.04) -> Schedule:
    """The schedule of such a fit, whose bound is an estimate even where a step uses all rows.

    Its convergence is by windows: the trend of the bound would ask for many more steps, which
    change the predictions little.
    """
    rows = max(1, len(fit.rows))
    schedule = Schedule.for_batches(
        max_iter, learning_rate, fit.Y.numel(), n_rows=rows, size=max(1, fit.batches.size)
    )
    if fit.model.sampled:
        schedule = replace(schedule, window=max(WINDOW, schedule.window), flat=0.1 * schedule.flat)
    return replace(schedule, collapse=COLLAPSE, epoch=0)
