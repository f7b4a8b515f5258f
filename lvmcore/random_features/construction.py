"""The parts that a fit of a random-feature model begins with, by the model's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.advice import WIDE_TABLE
from lvmcore.base.fit_problem import FitProblem
from lvmcore.errors import ConfigError
from lvmcore.gp.imputation_intervals import ConditionedRows
from lvmcore.gp.paths import LatentRows
from lvmcore.kernels.catalogue import check_spectral_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import (
    ExpressionKernel,
    dimensions_kernel,
    kernel_arrays,
    kernel_from_arrays,
)
from lvmcore.persistence import with_prefix
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.count_decoder import CountKind
from lvmcore.random_features.count_terms import (
    LARGE_COUNTS,
    LargeCountTerm,
    LogisticTerm,
    PoissonTerm,
)
from lvmcore.random_features.gaussian_term import FeatureTerm, GaussianTerm
from lvmcore.random_features.kernel_spectrum import KernelSpectrum
from lvmcore.random_features.minibatch_objective import MinibatchRandomFeatureObjective
from lvmcore.random_features.mixture_spectrum import MixtureSpectrum
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.random_features.sampled_spectrum import SampledSpectrum
from lvmcore.random_features.spectrum import SpectralDensity, Spectrum
from lvmcore.random_features.variational_weights import VariationalWeightTerm
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule

__all__ = [
    "BATCH",
    "MOST_AT_ONCE",
    "check_further_fits",
    "column_term",
    "fitted_spectrum",
    "have_one_scale",
    "initial_objective",
    "initial_spectrum",
    "refit",
    "spectral_kernel",
    "spectrum_arrays",
    "spectrum_from_arrays",
    "standardised_counts",
]

# Rows of a step where there are more than so many.
BATCH, MOST_AT_ONCE = 4000, 10_000
# Rows of a step for each feature, at least: half of them give the weights of all.
ROWS_PER_FEATURE = 4
# Columns share a scale where none spreads so many times as much as the median one.
MOST_SPREAD = 10.0


def have_one_scale(measured: Standardiser) -> bool:
    """Whether the columns seem to be of one unit: many, and of much the same spread."""
    sd = measured.scale[~measured.constant]
    return len(sd) > WIDE_TABLE and bool(sd.max() < MOST_SPREAD * np.median(sd))


def standardised_counts(problem: FitProblem, *, binary: bool) -> FitProblem:
    """The problem with log(1 + count), or 0 and 1, standardised: what a map of counts starts by."""
    Y, observed = problem.Y, problem.observed
    Y = Y if binary else torch.log1p(Y)
    known = torch.ones_like(Y) if observed is None else observed.to(Y)
    Y = Y - (Y * known).sum(0) / known.sum(0)
    sd = ((Y.square() * known).sum(0) / known.sum(0)).sqrt().clamp_min(1e-12)
    return replace(problem, table=InMemoryRows(Y / sd * known, observed))


def spectral_kernel(text: str, Q: int) -> KernelExpression | None:
    """The expression of the setting ``kernel`` over Q dimensions; None for a learned spectrum.

    Raises:
        ConfigError: it is no expression, acts on other dimensions than the map has, or its
            spectrum is not closed.
    """
    if text == "learned":
        return None
    check_spectral_kernel(text)
    return dimensions_kernel(text, Q)


def initial_spectrum(
    problem: FitProblem,
    form: Literal["free", "mixture", "moment"],
    *,
    kernel: KernelExpression | None = None,
    n_features: int,
    n_mixture: int,
    frozen: bool,
    like: Tensor | None = None,
) -> Spectrum:
    """The spectrum of half as many points as features.

    A spectrum that is learned has ``form``, ``n_mixture`` and ``frozen``.

    Args:
        problem: what is fitted.
        form: each point with a Gaussian of its own (free), drawn from a mixture, or from one
            Gaussian with the mixture's moments.
        kernel: the kernel whose spectrum it is; None for a learned one.
        n_features: R.
        n_mixture: components of the mixture at most.
        frozen: whether the draws from the mixture stay.
        like: dtype and device; by default those of the table.

    Raises:
        ConfigError: the kernel has more summands than there are points.
    """
    L, like = n_features // 2, problem.table.like if like is None else like
    if kernel is not None:
        return KernelSpectrum(kernel, L, problem.n_components, like, problem.generator)
    K = min(n_mixture, L)
    if form == "free":
        return SampledSpectrum(L, problem.n_components, K, like, problem.generator)
    return MixtureSpectrum(form, frozen, L, problem.n_components, K, like, problem.generator)


def fitted_spectrum(
    spectrum: Spectrum, variance: Tensor
) -> tuple[SpectralDensity, CompositeKernel | None]:
    """The density of a spectrum, and the given kernel, None for a learned spectrum.

    Args:
        spectrum: at its final parameters.
        variance: of the kernel, [].
    """
    kernel = spectrum.kernel(variance) if isinstance(spectrum, KernelSpectrum) else None
    return spectrum.density(), kernel


def spectrum_arrays(
    density: SpectralDensity, kernel: CompositeKernel | None
) -> dict[str, NDArray[Any]]:
    """A spectral density and a given kernel as arrays, for ``spectrum_from_arrays``."""
    own = {} if kernel is None else kernel_arrays(ExpressionKernel.of(kernel), "kernel.")
    return own | {f"spectral.{name}": part for name, part in density.arrays().items()}


def spectrum_from_arrays(
    arrays: Mapping[str, NDArray[Any]], like: Tensor
) -> tuple[SpectralDensity, CompositeKernel | None]:
    """The spectral density and the given kernel of a file, in the dtype of ``like``."""
    kernel = None
    if "kernel.expression" in arrays:
        found = kernel_from_arrays(arrays, "kernel.", like)
        kernel = found.composite if isinstance(found, ExpressionKernel) else None
    return SpectralDensity(**with_prefix(arrays, "spectral.")), kernel


def check_further_fits(settings: Mapping[str, Any], n_fits: int) -> None:
    """Refuse an ensemble of fits that cannot draw their spectra anew.

    Raises:
        ConfigError: naming the setting, or the number of fits.
    """
    needed = {
        "kernel": "learned",
        "spectral": "free",
        "column_likelihood": "gaussian",
        "weights": "marginal",
    }
    for name, wanted in needed.items():
        given = settings[name]
        if given != wanted:
            raise ConfigError(
                f"{name}={given!r} cannot be used: further fits draw a free spectrum of Gaussian "
                f"columns or counts anew, with marginal weights. Fit with {name}={wanted!r}."
            )
    if n_fits < 1:
        raise ConfigError(f"n_fits={n_fits!r} cannot be used: expected 1 or more.")


def column_term(
    problem: FitProblem,
    likelihood: Literal["gaussian"] | CountKind,
    *,
    n_features: int,
    shared_noise: bool,
    n_trials: int | None,
    names: Sequence[str],
    weights: Literal["marginal", "variational"] = "marginal",
) -> FeatureTerm:
    """The term of the columns under a likelihood.

    Args:
        problem: what is fitted.
        likelihood: of the columns.
        n_features: R.
        shared_noise: one noise for all columns (Gaussian).
        n_trials: of the binomial; None for each column's largest count.
        names: of the columns that vary, [D].
        weights: integrated out, or with a learned Gaussian.

    Raises:
        ConfigError: a count is more than the trials.
    """
    if weights == "variational":
        term = column_term(
            problem,
            likelihood,
            n_features=n_features,
            shared_noise=shared_noise,
            n_trials=n_trials,
            names=names,
        )
        width = 2 * (n_features // 2) + bool(term.offset)
        return VariationalWeightTerm(problem, term, width)
    if likelihood == "gaussian":
        return GaussianTerm(problem, n_features=n_features, shared=shared_noise)
    if likelihood == "poisson":
        return PoissonTerm(problem, n_features)
    if likelihood == "negative_binomial" and _mean(problem) > LARGE_COUNTS:
        return LargeCountTerm(problem, n_features)
    if likelihood != "binomial":
        return LogisticTerm(problem, n_features, likelihood)
    most = problem.Y.amax(0)
    return LogisticTerm(problem, n_features, "binomial", _trials(most, n_trials, names))


def refit(
    fit: RandomFeatureObjective, problem: FitProblem, steps: int, *, learning_rate: float
) -> ConditionedRows:
    """The rows of a fit of numbers after further steps with other cells.

    Args:
        fit: at its final parameters, which are not changed.
        problem: with the other cells.
        steps: number of steps, in which the rate falls.
        learning_rate: at the first.
    """
    on = fit.with_problem(problem)
    train(on, Schedule.cooling_only(steps, learning_rate, on.columns.count), None)
    mean, variance = on.rows.mean.detach(), on.rows.variance.detach()
    return ConditionedRows(on.decoder(), mean.double(), variance.double())


def _trials(most: Tensor, n_trials: int | None, names: Sequence[str]) -> Tensor:
    """Trials of each column, [D], given its largest count."""
    if n_trials is None:
        return most
    if n_trials < float(most.max()):
        column = int(most.argmax())
        raise ConfigError(
            f"n_trials={n_trials} cannot be used: column {names[column]} holds a count of "
            f"{float(most.max()):g}. Choose at least that."
        )
    return torch.full_like(most, float(n_trials))


def _mean(problem: FitProblem) -> float:
    """Mean of the observed cells."""
    Y, observed = problem.Y, problem.observed
    return float(Y.mean() if observed is None else Y.sum() / observed.sum())


def initial_objective(
    rows: LatentRows,
    spectrum: Spectrum,
    columns: FeatureTerm,
    generator: torch.Generator,
    *,
    n_features: int,
    batch_size: int | None,
    plain: bool,
    note: Callable[[str], None],
) -> RandomFeatureObjective:
    """The bound, by all rows in every step or by some of them.

    Args:
        rows: q(X) at the start.
        spectrum: q(W) at the start.
        columns: the term of the columns.
        generator: of the draws.
        n_features: R.
        batch_size: rows of a step; None for all, or ``BATCH`` of more than ``MOST_AT_ONCE``.
        plain: one noise for all columns, and a diagonal covariance of the rows.
        note: takes a note where the rows cannot be taken some at a time.
    """
    N = len(rows.mean)
    size = max(batch_size or BATCH, ROWS_PER_FEATURE * n_features)
    if size >= N or (batch_size is None and N <= MOST_AT_ONCE):
        return RandomFeatureObjective(rows, spectrum, columns, generator)
    if plain and isinstance(columns, GaussianTerm) and columns.observed is None:
        return MinibatchRandomFeatureObjective(rows, spectrum, columns, generator, size)
    note(
        f"Each step takes all {N:,} rows: only complete tables of numbers, with one noise for "
        "all columns, a diagonal covariance and marginal weights, go some rows at a time."
    )
    return RandomFeatureObjective(rows, spectrum, columns, generator)
