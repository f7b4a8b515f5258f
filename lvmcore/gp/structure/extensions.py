"""Kernel expressions a step from another one: a summand or factor more, less, or exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lvmcore.kernels.expression import (
    KernelExpression,
    KernelProduct,
    KernelSum,
    KernelTerm,
    kernel_terms,
)
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "Extension",
    "factors_of",
    "series_column",
    "series_extensions",
    "summands_of",
    "table_extensions",
    "trend_extension",
]

#: Names of the kernels of a distance between rows: one in a product is enough.
STATIONARY = ("rbf", "matern52", "matern32", "matern12", "rational_quadratic")
#: Kernels for which one of a distance is exchanged.
EXCHANGED = ("rbf", "matern32", "matern12", "rational_quadratic")
# Most deviation of a distance between neighbours from a multiple of the usual one, as a share of
# it, and least share of the places that have a row. Months have 28 to 31 days.
UNEVEN, FILLED = 0.12, 0.5
FEWEST_VALUES = 12


@dataclass(frozen=True)
class Extension:
    """An expression, and what its summands have in common with the one that it extends.

    Attributes:
        expression: the extended expression.
        origins: for each of its summands the position of the summand that it comes from, whose
            factors are its first ones; None of a new one.
        period: whether it has a further period.
    """

    expression: KernelExpression
    origins: tuple[int | None, ...]
    period: bool


def summands_of(expression: KernelExpression) -> tuple[KernelExpression, ...]:
    """The summands of an expression; itself if it is no sum."""
    return expression.parts if isinstance(expression, KernelSum) else (expression,)


def factors_of(expression: KernelExpression) -> tuple[KernelExpression, ...]:
    """The factors of a summand; itself if it is no product."""
    return expression.parts if isinstance(expression, KernelProduct) else (expression,)


def series_column(X: FloatArray) -> int | None:
    """Position of the column along which the rows are a series; None if there is none.

    It is the only column of a table, or the first whose values all differ and are evenly spaced,
    gaps aside, as those of a time are.

    Args:
        X: rows, [N, H].
    """
    for h, column in enumerate(X.T):
        values = np.unique(column)
        if len(values) >= FEWEST_VALUES and (X.shape[1] == 1 or _is_even(values, len(X))):
            return h
    return None


def _is_even(values: FloatArray, n_rows: int) -> bool:
    """Whether sorted different values are one a row and evenly spaced, gaps aside."""
    steps = np.diff(values) / np.median(np.diff(values))
    near = np.abs(steps - np.round(steps)).max() <= UNEVEN and steps.min() > 0.5
    return bool(len(values) == n_rows and near and len(steps) >= FILLED * steps.sum())


def table_extensions(expression: KernelExpression, column: str) -> Iterator[Extension]:
    """Further summands that are linear: of all columns, and of one.

    Args:
        expression: to extend.
        column: the column with the strongest linear effect.
    """
    linear = [term for term in kernel_terms(expression) if term.name == "linear"]
    if not linear:
        yield _with_summand(expression, KernelTerm("linear"))
        yield _with_summand(expression, KernelTerm("linear", (column,)))


def trend_extension(expression: KernelExpression, column: str) -> Extension:
    """A further summand that is linear in a column."""
    return _with_summand(expression, KernelTerm("linear", (column,)))


def series_extensions(expression: KernelExpression, column: str) -> Iterator[Extension]:
    """Further summands and factors of a column, and exchanged kernels of a distance.

    Args:
        expression: to extend.
        column: the column along which the rows are a series.
    """
    linear, rbf, periodic = (KernelTerm(name, (column,)) for name in ("linear", "rbf", "periodic"))
    parts = summands_of(expression)
    for term in (linear, rbf, periodic):
        if term not in parts:
            yield _with_summand(expression, term)
    for i, part in enumerate(parts):
        names = {term.name for term in kernel_terms(part)}
        for term in (linear, periodic, rbf):
            if term.name not in (STATIONARY if names & {*STATIONARY} else ()) and (
                term.name not in names
            ):
                yield _with_part(parts, i, _product((*factors_of(part), term)), term == periodic)
    if not any(term.name == "periodic" for term in kernel_terms(expression)):
        yield Extension(periodic, (None,), period=True)
    if len(parts) > 1 or isinstance(parts[0], KernelProduct):
        yield from _exchanges(parts)
        yield from _reductions(parts)


def _exchanges(parts: Sequence[KernelExpression]) -> Iterator[Extension]:
    """Expressions with another kernel of a distance in a summand."""
    for i, part in enumerate(parts):
        factors = factors_of(part)
        for k, factor in enumerate(factors):
            if not isinstance(factor, KernelTerm) or factor.name not in STATIONARY:
                continue
            for name in EXCHANGED:
                if name != factor.name:
                    other = (*factors[:k], replace(factor, name=name), *factors[k + 1 :])
                    yield _with_part(parts, i, _product(other), period=False)


def _reductions(parts: Sequence[KernelExpression]) -> Iterator[Extension]:
    """Expressions without a summand or a factor."""
    for i, part in enumerate(parts):
        rest = (*parts[:i], *parts[i + 1 :])
        if rest:
            whole = KernelSum(rest) if len(rest) > 1 else rest[0]
            origins = tuple(k for k in range(len(parts)) if k != i)
            yield Extension(whole, origins, period=False)
        factors = factors_of(part)
        for k in range(len(factors) if len(factors) > 1 else 0):
            yield _with_part(parts, i, _product((*factors[:k], *factors[k + 1 :])), period=False)


def _with_summand(expression: KernelExpression, term: KernelTerm) -> Extension:
    parts = summands_of(expression)
    origins = (*range(len(parts)), None)
    return Extension(KernelSum((*parts, term)), origins, term.name == "periodic")


def _with_part(
    parts: Sequence[KernelExpression], at: int, part: KernelExpression, period: bool
) -> Extension:
    """The expression with another summand in the place of one."""
    found = (*parts[:at], part, *parts[at + 1 :])
    whole = KernelSum(found) if len(found) > 1 else part
    return Extension(whole, tuple(range(len(found))), period)


def _product(factors: Sequence[KernelExpression]) -> KernelExpression:
    return KernelProduct(tuple(factors)) if len(factors) > 1 else factors[0]
