"""Likelihoods proposed for the columns of a table, from their names and cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from lvmcore.likelihoods.catalogue import (
    BY_COLUMN,
    GAUSSIAN,
    ColumnTerm,
    LikelihoodName,
    check_likelihoods,
    read_likelihoods,
)
from lvmcore.likelihoods.level_order import by_known_scale
from lvmcore.numerics.array_types import FloatArray

__all__ = ["column_terms", "propose_category", "propose_likelihood", "propose_likelihoods"]

_NUMBER = re.compile(r"\s*[<>≤≥=]*\s*(-?\d+(?:\.\d+)?)")

# Largest mean of cells that are modelled as counts: larger ones are close to continuous.
MOST_COUNT = 30.0
# Ratios of variance to mean below which counts vary less than Poisson counts, and above which more.
UNDERDISPERSED, OVERDISPERSED = 0.7, 1.5
# Ratio of zeros to those of a negative binomial above which counts are zero-inflated, and the least
# share of zeros.
EXCESS, LEAST_ZEROS = 1.5, 0.3
# Skewness above which positive numbers may be log-normal, and the share that their logarithms keep.
SKEWED, LESS_SKEWED = 2.0, 0.5
# Distance from the median, in sds by the median absolute deviation, of gross cells, and the largest
# share of them.
GROSS, NORMAL_DEVIATION, MOST_GROSS = 8.0, 1.4826, 0.1


def column_terms(text: str, X: FloatArray, names: Sequence[str]) -> tuple[ColumnTerm, ...] | None:
    """The likelihood of each column for a setting; None where all are Gaussian.

    Args:
        text: "gaussian", "by column", or a list.
        X: features, NaN where a cell is missing, [N, D].
        names: names of the features.

    Raises:
        ConfigError: the text is no list of likelihoods of so many features.
    """
    if text == GAUSSIAN:
        return None
    check_likelihoods(text, names)
    terms = propose_likelihoods(X, names) if text == BY_COLUMN else read_likelihoods(text)
    return None if all(term.name == "gaussian" for term in terms) else terms


def propose_likelihoods(X: FloatArray, names: Sequence[str]) -> tuple[ColumnTerm, ...]:
    """A likelihood for each column of a matrix.

    Consecutive features called "column = level" of 0 and 1 are a category.

    Args:
        X: features, NaN where a cell is missing, [N, D].
        names: names of the features.
    """
    terms: list[ColumnTerm] = []
    runs = groupby(range(len(names)), key=lambda d: _category(names[d]) or d)
    for key, run in runs:
        features = list(run)
        if isinstance(key, str) and _is_one_hot(X[:, features]):
            texts = [names[d][len(key) + 3 :] for d in features]
            terms.append(ColumnTerm(propose_category(texts)[0], len(features)))
        else:
            terms += [ColumnTerm(propose_likelihood(X[:, d])[0]) for d in features]
    return tuple(terms)


def _category(name: str) -> str | None:
    """The column of a feature called "column = level"; None for another name."""
    column, equals, _ = name.partition(" = ")
    return column if equals else None


def _is_one_hot(block: FloatArray) -> bool:
    known = ~np.isnan(block).any(axis=1)
    cells = block[known]
    binary = bool(np.isin(cells, (0.0, 1.0)).all())
    return block.shape[1] > 1 and binary and bool((cells.sum(axis=1) == 1).all())


def propose_category(levels: Sequence[str]) -> tuple[LikelihoodName, str]:
    """A likelihood for a category, and the reason.

    Levels are ordered if they are ranges such as 30-39, each begins with a number, and these
    increase; or if they are of a known scale such as low, medium and high. Plain numbers may be
    codes without an order.

    Args:
        levels: texts of the levels, in the order of their features.
    """
    begins = [_NUMBER.match(text) for text in levels]
    codes = all(re.fullmatch(r"-?\d+", text) for text in levels)
    if len(levels) > 2 and all(begins) and not codes:
        numbers = [float(found[1]) for found in begins if found is not None]
        if all(one < other for one, other in pairwise(numbers)):
            return "ordinal", f"its {len(levels)} levels are ranges in order"
    if by_known_scale(levels):
        return "ordinal", f"its levels have an order, from {levels[0]} to {levels[-1]}"
    return "categorical", f"its {len(levels)} levels have no known order"


def propose_likelihood(cells: NDArray[np.float64]) -> tuple[LikelihoodName, str]:
    """A likelihood for a column of numbers, and the reason.

    Args:
        cells: NaN where missing, [N].
    """
    known = cells[~np.isnan(cells)]
    if len(known) < 2 or np.ptp(known) == 0:
        return "gaussian", "too few different cells"
    values = np.unique(known)
    if len(values) == 2 and len(known) > 2:
        return "bernoulli", f"its cells are {values[0]:g} and {values[1]:g}"
    whole = bool(np.all(known == np.round(known)))
    if whole and known.min() >= 0 and known.mean() <= MOST_COUNT:
        return _propose_count(known)
    if known.min() > 0 and _skewness(known) > SKEWED:
        logs = np.log(known)
        if abs(_skewness(logs)) < LESS_SKEWED * _skewness(known):
            return "log_normal", "positive, and skewed less as logarithms"
    deviation = NORMAL_DEVIATION * np.median(np.abs(known - np.median(known)))
    far = int((np.abs(known - np.median(known)) > GROSS * deviation).sum()) if deviation else 0
    if 0 < far <= MOST_GROSS * len(known):
        return "student_t", f"{far:,} of its cells are far from the others"
    return "gaussian", "numbers without cells that are far off"


def _propose_count(known: NDArray[np.float64]) -> tuple[LikelihoodName, str]:
    mean, variance = known.mean(), known.var()
    if variance < UNDERDISPERSED * mean:
        return "gaussian", "whole numbers that vary less than Poisson counts"
    if variance <= OVERDISPERSED * mean:
        return "poisson", "counts that vary no more than Poisson counts"
    zeros, size = float((known == 0).mean()), mean**2 / (variance - mean)
    if zeros >= LEAST_ZEROS and zeros > EXCESS * (size / (size + mean)) ** size:
        return "zero_inflated", f"counts of which {zeros:.0%} are 0"
    return "negative_binomial", "counts that vary more than Poisson counts"


def _skewness(values: NDArray[np.float64]) -> float:
    away = values - values.mean()
    return float((away**3).mean() / max((away**2).mean() ** 1.5, 1e-300))
