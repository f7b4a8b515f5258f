"""A fitted kernel in one sentence of plain English, with its parameters in units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lvmcore.gp.structure.extensions import factors_of
from lvmcore.kernels.composite import CompositeKernel, Summand
from lvmcore.kernels.expression import (
    KernelExpression,
    KernelSum,
    KernelTerm,
    kernel_terms,
)

__all__ = ["kernel_sentence", "summand_phrases"]

#: Columns that are named; of more their number is given.
MOST_NAMED = 3
#: Periods over which the shape of a wave changes slowly, at least.
SLOW_PERIODS = 2.0
_SMOOTH = {
    "rbf": "a smooth function",
    "matern52": "a smooth function (Matérn-5/2)",
    "matern32": "a function with bends (Matérn-3/2)",
    "matern12": "a rough function (Matérn-1/2)",
    "rational_quadratic": "a smooth function (rational quadratic)",
    "piecewise_polynomial": "a smooth function (piecewise polynomial)",
}
_WAVES = {"periodic": "a period", "cosine": "a sine wave of period"}
# The order in which the factors of a product are named: the first one is what the others change.
_ORDER = [*_WAVES, "spectral_mixture", *_SMOOTH, "polynomial", "linear", "constant"]


def kernel_sentence(kernel: CompositeKernel) -> str:
    """The kernel that was found, in a sentence that begins with these words.

    Args:
        kernel: fitted.
    """
    return f"The kernel that was found: {', plus '.join(summand_phrases(kernel))}, plus noise."


def summand_phrases(kernel: CompositeKernel) -> tuple[str, ...]:
    """A phrase for each summand, such as "a period of 12.0 in month".

    Args:
        kernel: fitted.
    """
    return tuple(_phrase(summand, kernel.columns) for summand in kernel.summands)


def _phrase(summand: Summand, columns: Sequence[str]) -> str:
    """A summand in words."""
    own = {
        term: {one.name: one.value for one in values} if _is_single(term, columns) else {}
        for term, values in summand.terms()
    }
    factors = factors_of(summand.expression)
    terms = [factor for factor in factors if isinstance(factor, KernelTerm)]
    if len(terms) < len(factors):
        return "the product of " + " and ".join(_bracket(one, own, columns) for one in factors)
    first, *rest = sorted(terms, key=lambda term: _ORDER.index(term.name))
    period = own[first].get("period")
    changes = " and ".join(_change(term, own[term], columns, period) for term in rest)
    base = _base(first, own[first], columns)
    link = " and whose " if " that " in base else " whose "
    return base + (link + changes if changes else "")


def _is_single(term: KernelTerm, columns: Sequence[str]) -> bool:
    """Whether a kernel acts on one column, so that its parameters can be named."""
    return len(term.columns or columns) == 1


def _base(term: KernelTerm, own: Mapping[str, float], columns: Sequence[str]) -> str:
    """A kernel in words."""
    where, name = _columns_text(term, columns), term.name
    if name == "constant":
        return "an offset"
    if name == "linear":
        return f"a linear {'trend in' if own else 'function of'} {where}"
    if name == "polynomial":
        return f"a polynomial of degree {dict(term.options).get('degree', 2):g} in {where}"
    if name == "spectral_mixture":
        frequencies = f"a mixture of {dict(term.options).get('n', 4):g} frequencies in {where}"
        strongest = f", the strongest of period {_number(own['period'])}" if own else ""
        return frequencies + strongest
    if name in _WAVES:
        if not own:
            return f"periods in {where}"
        link = "of " if name == "periodic" else ""
        return f"{_WAVES[name]} {link}{_number(own['period'])} in {where}"
    far = f" that changes over {_number(own['lengthscale'])}" if own else ""
    return f"{_SMOOTH[name]} of {where}{far}"


def _change(
    term: KernelTerm, own: Mapping[str, float], columns: Sequence[str], period: float | None
) -> str:
    """What a further factor does to the first one, after "whose"."""
    where = _columns_text(term, columns)
    if term.name == "linear":
        return f"size changes linearly with {where}"
    if term.name == "constant":
        return "size is free"
    if term.name == "polynomial":
        return f"size follows a polynomial in {where}"
    if term.name in _WAVES:
        return (
            f"shape repeats after {_number(own['period'])} in {where}"
            if own
            else (f"shape repeats in {where}")
        )
    if not own or "lengthscale" not in own:
        return f"shape changes with {where}"
    slow = period is not None and own["lengthscale"] > SLOW_PERIODS * period
    pace, far = "slowly, " if slow else "", _number(own["lengthscale"])
    return f"shape changes {pace}over {far} in {where}"


def _bracket(
    part: KernelExpression, own: Mapping[KernelTerm, Mapping[str, float]], columns: Sequence[str]
) -> str:
    """A factor of a product with brackets."""
    if isinstance(part, KernelTerm):
        return _base(part, own[part], columns)
    assert isinstance(part, KernelSum)
    inner = [
        " times ".join(_base(term, own[term], columns) for term in kernel_terms(one))
        for one in part.parts
    ]
    return f"({' plus '.join(inner)})"


def _columns_text(term: KernelTerm, columns: Sequence[str]) -> str:
    """The columns of a kernel."""
    given = term.columns or tuple(columns)
    names = [f"column {name}" if name.isdigit() else name for name in given]
    if len(names) > MOST_NAMED:
        return f"all {len(names)} columns" if not term.columns else f"{len(names)} columns"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _number(value: float) -> str:
    """Three digits."""
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")
