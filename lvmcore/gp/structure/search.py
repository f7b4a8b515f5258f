"""Greedy search of a kernel: from the best stationary one by summands, factors and exchanges.

The score is log p(y | X) − ½ P log N − F log N of N rows, P free parameters and F periods among
them: the Bayesian information criterion (Schwarz 1978), in which a period counts three times, as
its posterior has the width N^−3/2 (Djurić 1996). The steps are those of Duvenaud and others 2013,
in the order in which a series has them; only periods that the periodogram shows are tried. The
variance of a linear trend of a series costs one nat (Akaike 1974) instead of ½ log N: without it
a forecast returns to the mean of the rows, and few rows show a slow trend clearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.gp.exact_regression import (
    ExactGP,
    GPPosterior,
    MarginalLikelihood,
    direct_schedule,
    drawn_rows,
)
from lvmcore.gp.structure.extensions import (
    Extension,
    factors_of,
    series_column,
    series_extensions,
    summands_of,
    table_extensions,
    trend_extension,
)
from lvmcore.kernels.components import LinearComponent, StationaryComponent
from lvmcore.kernels.composite import CompositeKernel, Summand
from lvmcore.kernels.expression import KernelExpression, KernelTerm
from lvmcore.kernels.gpytorch_components import RationalQuadraticComponent
from lvmcore.kernels.periodogram import likely_periods
from lvmcore.numerics.conversion import to_numpy
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule

__all__ = ["KernelSearch", "free_parameters"]

#: Rows of the search at most, its steps, and the least gain of a step, nats.
SEARCH_ROWS, MOST_STEPS, LEAST_GAIN = 300, 4, 1.0
#: What the variance of a trend of a series costs, nats.
TREND_COST = 1.0
#: Steps of the search after a trend was added.
STEPS_AFTER_TREND = 2
# Steps of a first fit of an extension at most, and those of its window.
FIRST_STEPS, FIRST_WINDOW = 40, 4
# Likely periods of the first step, and initial variance of a further summand.
PERIODS, START_VARIANCE = 3, 0.2


def free_parameters(gp: ExactGP) -> int:
    """Number of free parameters: the weights of a linear kernel have one fewer than columns."""
    trained = sum(p.numel() for p in gp.parameters() if p.requires_grad)
    return trained - sum(isinstance(part, LinearComponent) for part in gp.modules())


@dataclass(frozen=True)
class _Found:
    """A fitted process and its score, nats."""

    score: float
    gp: ExactGP


class KernelSearch:
    """The search of a kernel for some rows.

    Args:
        X: inputs, standardised, [N, H].
        Y: targets, standardised, [N, 1].
        make: the kernel of an expression, at its initial parameters.
        max_iter: steps of each fit at most.
        known: known variances of the noise of the rows, [N]; None for none.
    """

    def __init__(
        self,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N 1"],
        make: Callable[[KernelExpression], CompositeKernel],
        max_iter: int,
        known: Float[Tensor, "N"] | None = None,
    ) -> None:
        self.X, self.Y, self.known = X, Y, known
        few = drawn_rows(len(X), SEARCH_ROWS)
        self.few_X, self.few_Y = X[few], Y[few]
        self.few_known = None if known is None else known[few]
        self.make, self.max_iter = make, max_iter
        self.series = series_column(to_numpy(X))

    def extend(self, gp: ExactGP) -> ExactGP:
        """The process of the highest score that steps from a fitted one lead to.

        Each step is decided by at most ``SEARCH_ROWS`` rows, and the result is kept if it also has
        the higher score of all rows.

        Args:
            gp: with a stationary kernel, fitted to all rows; the result if nothing gains.
        """
        with suppress(NumericalError):
            return self._extended_while_gaining(gp)
        return gp  # whose neighbours have a covariance that is singular up to rounding

    def _extended_while_gaining(self, gp: ExactGP) -> ExactGP:
        best = self._climbed(self._fitted(self._copy(gp), polish=True), MOST_STEPS)
        trend = self._with_trend(best)
        if trend is not None:
            best = self._climbed(trend, STEPS_AFTER_TREND)
        if best.gp.kernel.expression == gp.kernel.expression:
            return gp
        if len(self.few_X) < len(self.X):
            best = self._fitted(best.gp, polish=True, whole=True)
            if best.score < self._score(gp, self.X, self.Y, self.known) + LEAST_GAIN:
                return gp
        return best.gp

    def _climbed(self, best: _Found, steps: int) -> _Found:
        """The process that so many steps at most lead to, each of which gains a nat."""
        for _ in range(steps):
            found = max(self._tried(best.gp), key=lambda one: one.score, default=best)
            if found.score < best.score + LEAST_GAIN:
                break
            best = self._fitted(found.gp, polish=True)
        return best

    def _with_trend(self, best: _Found) -> _Found | None:
        """The process with a trend beside its summands, if a series has the higher score with it.

        A trend need not gain a nat beyond its cost: a forecast without one is the greater risk.
        """
        if self.series is None or self._has_trend(best.gp):
            return None
        found = None
        with suppress(NumericalError):
            trend = trend_extension(best.gp.kernel.expression, best.gp.kernel.columns[self.series])
            found = self._fitted(self._extended(best.gp, trend), polish=True)
        return found if found is not None and found.score > best.score else None

    def _tried(self, gp: ExactGP) -> Iterator[_Found]:
        """The extensions of a process, each fitted from its starts."""
        for extension in self._extensions(gp):
            periods = self._periods(gp) if extension.period else [None]
            for period in periods:
                for start in self._starts(gp, extension, period):
                    with suppress(NumericalError):
                        yield self._fitted(start)

    def _extensions(self, gp: ExactGP) -> Iterator[Extension]:
        expression, names = gp.kernel.expression, gp.kernel.columns
        if self.series is not None:
            yield from series_extensions(expression, names[self.series])
        if self.X.shape[1] > 1:
            strength = (self.few_X.T @ self.few_Y)[:, 0].abs()
            yield from table_extensions(expression, names[int(strength.argmax())])

    def _periods(self, gp: ExactGP) -> list[float | None]:
        """Likely periods of the target; of what a kernel with a period leaves, the likeliest."""
        assert self.series is not None
        x, rest, count = to_numpy(self.X[:, self.series]), self.Y, PERIODS
        if gp.kernel.columns_of_free_periods():
            posterior = GPPosterior(gp, self.few_X, self.few_Y, self.few_known)
            x, count = to_numpy(self.few_X[:, self.series]), 1
            rest = self.few_Y - posterior.moments(self.few_X)[0]
        return [*likely_periods(x, to_numpy(rest[:, 0]), count)]

    def _starts(self, gp: ExactGP, extension: Extension, period: float | None) -> Iterator[ExactGP]:
        """Processes from which an extension is fitted: from a fitted one, or from none.

        A first period has both: a fitted kernel without one follows each wave by itself. As a
        factor of such a kernel it has no effect, so that it starts from none.
        """
        first = extension.period and not gp.kernel.columns_of_free_periods()
        if not first or extension.origins[-1] is None:
            warm = self._extended(gp, extension)
            if period is not None:
                number = len(warm.kernel.columns_of_free_periods()) - 1
                warm.kernel.set_free_period(number, period)
            yield warm
        if first and period is not None:
            cold = ExactGP(self.make(extension.expression), self.X)
            cold.kernel.set_free_period(0, period)
            yield cold

    @torch.no_grad()
    def _extended(self, gp: ExactGP, extension: Extension) -> ExactGP:
        """A process at the parameters of a fitted one where both have them."""
        found = ExactGP(self.make(extension.expression), self.X)
        found.log_noise.copy_(gp.log_noise)
        for summand, origin in zip(found.kernel.summands, extension.origins, strict=True):
            if origin is None:
                summand.log_variance.fill_(math.log(START_VARIANCE))
            else:
                _copy_summand(gp.kernel.summands[origin], summand)
        return found

    def _copy(self, gp: ExactGP) -> ExactGP:
        found = ExactGP(self.make(gp.kernel.expression), self.X)
        found.load_state_dict(gp.state_dict())
        return found

    def _fitted(self, gp: ExactGP, *, polish: bool = False, whole: bool = False) -> _Found:
        """Fit a process in place, shortly or to convergence, to few rows or to all."""
        few = (self.few_X, self.few_Y, self.few_known)
        X, Y, known = (self.X, self.Y, self.known) if whole else few
        steps = min(self.max_iter, FIRST_STEPS)
        schedule = (
            direct_schedule(self.max_iter, len(X))
            if polish
            else Schedule(
                steps, 0.1, len(X), finishes=True, direct=True, optimum_window=FIRST_WINDOW
            )
        )
        train(MarginalLikelihood(gp, X, Y, known=known), schedule, None)
        return _Found(self._score(gp, X, Y, known), gp)

    @torch.no_grad()
    def _score(self, gp: ExactGP, X: Tensor, Y: Tensor, known: Tensor | None = None) -> float:
        """log p(y | X) − ½ P log N − F log N, less for a trend."""
        terms = MarginalLikelihood(gp, X, Y, known=known).terms()
        bound = float(torch.stack(list(terms.values())).sum())
        periods, log_n = len(gp.kernel.columns_of_free_periods()), math.log(len(X))
        score = bound - (0.5 * free_parameters(gp) + periods) * log_n
        if self._has_trend(gp):
            score += max(0.0, 0.5 * log_n - TREND_COST)
        return score if np.isfinite(score) else -math.inf

    def _has_trend(self, gp: ExactGP) -> bool:
        """Whether a summand is linear in the column along which the rows are a series."""
        if self.series is None:
            return False
        trend = KernelTerm("linear", (gp.kernel.columns[self.series],))
        return trend in summands_of(gp.kernel.expression)


def _copy_summand(fitted: Summand, summand: Summand) -> None:
    """Copy the variance, the factors that both have, and lengthscales of those exchanged."""
    summand.log_variance.copy_(fitted.log_variance)
    sources = dict(zip(map(str, factors_of(fitted.expression)), fitted.factors, strict=True))
    for text, target in zip(map(str, factors_of(summand.expression)), summand.factors, strict=True):
        if text in sources:
            target.load_state_dict(sources[text].state_dict())
            continue
        for source in sources.values():
            _copy_lengthscales(
                getattr(source, "component", None), getattr(target, "component", None)
            )


def _copy_lengthscales(source: object, target: object) -> None:
    """Copy the lengthscales of a kernel of a distance to another one."""
    if isinstance(source, StationaryComponent):
        lengthscales = source.log_lengthscales.exp()
    elif isinstance(source, RationalQuadraticComponent):
        lengthscales = source.kernel.lengthscale.reshape(-1)
    else:
        return
    if isinstance(target, StationaryComponent):
        target.log_lengthscales.copy_(lengthscales.log())
    elif isinstance(target, RationalQuadraticComponent):
        target.kernel.initialize(lengthscale=lengthscales)
