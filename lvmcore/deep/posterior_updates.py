"""Update schemes of q(v), the last layer's inducing values, in a step of a deep GP.

One class per scheme, each with one method, ``step``: it updates q(v) by the rows of a step and
returns the sample at which the step's terms are evaluated. ``posterior_update`` chooses one.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP, FunctionDraw
from lvmcore.deep.importance_weighted.importance_rows import ImportanceRows
from lvmcore.deep.output_layer import (
    GaussianSites,
    InducingPosterior,
    OutputLayer,
    ProjectedRows,
    leave_one_out_means,
)

__all__ = ["DeepSample", "PosteriorUpdate", "StepRows", "posterior_update"]

#: Σ_n E log p(y_n | f(x_n)) [], and the moments of f that it was computed from.
Fit = tuple[Tensor, ...]


@dataclass(frozen=True)
class StepRows:
    """The rows of a step under a draw of the functions.

    Attributes:
        draw: of the hidden layers' functions.
        batch: row numbers, [B].
        rows: those rows at the last layer.
        subset: the subset's own rows at the last layer; None where inducing inputs are no rows.
    """

    draw: FunctionDraw
    batch: Tensor
    rows: ProjectedRows
    subset: ProjectedRows | None


@dataclass(frozen=True)
class DeepSample:
    """A draw of the functions, and q(v) of the last layer under it.

    Attributes:
        last: the last layer.
        draw: of the hidden layers' functions.
        posterior: q(v).
        rows: rows of the likelihood.
        subset: the subset's own rows; None where inducing inputs are no rows.
    """

    last: OutputLayer
    draw: FunctionDraw
    posterior: InducingPosterior
    rows: ProjectedRows
    subset: ProjectedRows | None

    @cached_property
    def data_fit(self) -> Fit:
        """Of the rows."""
        return self.last.expected_log_likelihood(self.draw.last, self.posterior, self.rows)

    @cached_property
    def subset_fit(self) -> Fit:
        """Of the subset's own rows."""
        assert self.subset is not None
        return self.last.expected_log_likelihood(self.draw.last, self.posterior, self.subset)


class PosteriorUpdate(ABC):
    """An update scheme of q(v).

    Args:
        model: the deep Gaussian process.
        Y: targets of all rows, [N, P].
        precision: w of each row of a numeric target, updated in place, [N]; None where all are 1.
    """

    def __init__(self, model: DeepGP, Y: Tensor, precision: Tensor | None) -> None:
        self.model, self.last, self.Y, self.precision = model, model.last, Y, precision

    @abstractmethod
    def step(self, step: StepRows) -> DeepSample:
        """Update q(v) by the rows of a step; returns the sample for the step's terms."""

    @property
    def sites(self) -> GaussianSites:
        """q(v), where it is kept as sites."""
        assert isinstance(self.last.q, GaussianSites)
        return self.last.q

    def weighted(self, step: StepRows) -> ProjectedRows:
        """The rows with their current weights."""
        if isinstance(step.rows, ImportanceRows):
            return step.rows.at_posterior(
                self.last, step.draw.last, self.model.posterior(step.draw)
            )
        if self.precision is None:
            return step.rows
        return replace(step.rows, precision=self.precision[step.batch])

    def sample(self, step: StepRows, posterior: InducingPosterior) -> DeepSample:
        """The sample at a q(v), by which the weights of prior and rows are then updated."""
        found = DeepSample(self.last, step.draw, posterior, step.rows, step.subset)
        self._update_weights(step, posterior, *found.data_fit[1:])
        return found

    @torch.no_grad()
    def _update_weights(
        self, step: StepRows, posterior: InducingPosterior, mean: Tensor, variance: Tensor
    ) -> None:
        """Weights of a q-exponential prior and of the rows' noise, at the current q(v)."""
        last = self.last
        if isinstance(last.q, GaussianSites) and last.q.exponent < 2:
            last.q.prior.copy_(last.prior_weight(posterior).mean())
        if self.precision is not None:
            found = last.row_precision(self.Y[step.batch], mean, variance, shared=True)
            assert found is not None
            self.precision[step.batch] = found


class OptimisedPosterior(PosteriorUpdate):
    """q(v) that is optimised by Adam or fixed: no update."""

    def step(self, step: StepRows) -> DeepSample:
        """The sample at the current q(v)."""
        return self.sample(step, self.model.posterior(step.draw))


class OptimumOfEachDraw(PosteriorUpdate):
    """q(v) in closed form, given all rows under each draw; the sites follow the average."""

    def step(self, step: StepRows) -> DeepSample:
        """The sample at the optimum of each draw."""
        model, last, rows, prior = self.model, self.last, self.weighted(step), None
        if last.uses_weights and len(model.hidden):
            rows, prior = self._weights_of_each_draw(step.draw, rows)
        sums = last.gaussian_sums(step.draw.last, rows)
        self.sites.update(*sums)
        return self.sample(step, model.posterior(step.draw, sums, prior))

    @torch.no_grad()
    def _weights_of_each_draw(
        self, draw: FunctionDraw, rows: ProjectedRows
    ) -> tuple[ProjectedRows, Tensor]:
        """Rows and prior weighted under each draw's own q(v), from the weights of the last step.

        The rows of a draw are not those of the last step's draws: with its weights q(v) would lag
        behind and the bound would oscillate.
        """
        last = self.last
        before = self.model.posterior(draw, last.gaussian_sums(draw.last, rows))
        return last.weighted_rows(draw.last, before, rows), last.prior_weight(before)


class OptimumOfOtherDraws(PosteriorUpdate):
    """q(v) in closed form, given all rows under the other draws; the sites follow the average.

    With a single draw, or nothing hidden, q(v) is that of the sites.
    """

    def step(self, step: StepRows) -> DeepSample:
        """The sample at the optimum of the other draws."""
        sums = self.last.gaussian_sums(step.draw.last, self.weighted(step))
        self.sites.update(*sums)
        per_draw = sums[0].dim() > 3 and step.draw.samples > 1
        others = leave_one_out_means(sums) if per_draw else None
        return self.sample(step, self.model.posterior(step.draw, others))


class BatchNaturalGradient(PosteriorUpdate):
    """q(v) of a Gaussian likelihood by natural-gradient steps over batches."""

    def step(self, step: StepRows) -> DeepSample:
        """The sample before the update by the batch."""
        found = self.sample(step, self.model.posterior(step.draw))
        self.sites.update(*self.last.gaussian_sums(step.draw.last, self.weighted(step)))
        return found


class LabelNaturalGradient(PosteriorUpdate):
    """q(v) of classes by natural-gradient steps, from the likelihood's slope and curvature."""

    def step(self, step: StepRows) -> DeepSample:
        """The sample before the update by the rows and by the subset."""
        found = self.sample(step, self.model.posterior(step.draw))
        if torch.is_grad_enabled():
            parts = [(step.rows, found.data_fit)]
            if step.subset is not None:
                parts.append((step.subset, found.subset_fit))
            sums = [self.last.label_sums(step.draw.last, rows, *fit) for rows, fit in parts]
            self.sites.update(*(torch.stack(part).sum(0) for part in zip(*sums, strict=True)))
        return found


def posterior_update(
    model: DeepGP, Y: Tensor, precision: Tensor | None, *, all_rows: bool
) -> PosteriorUpdate:
    """The update scheme of a model.

    Args:
        model: the deep Gaussian process.
        Y: targets of all rows, [N, P].
        precision: w of each row of a numeric target, [N]; None where all are 1.
        all_rows: whether a step uses every row.
    """
    q = model.last.q
    scheme: type[PosteriorUpdate]
    if not isinstance(q, GaussianSites) or q.step == 0:
        scheme = OptimisedPosterior
    elif not model.last.closed_form:
        scheme = LabelNaturalGradient
    elif not all_rows:
        scheme = BatchNaturalGradient
    else:
        scheme = OptimumOfEachDraw if model.posterior_per_draw else OptimumOfOtherDraws
    return scheme(model, Y, precision)
