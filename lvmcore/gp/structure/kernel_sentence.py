"""A fitted kernel in one sentence of plain English, with its parameters in units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Columns:
    """The columns of a kernel.

    Attributes:
        names: their names, H of them.
        units: units in the plural, by name, where they are known.
    """

    names: Sequence[str]
    units: Mapping[str, str]

    def of(self, term: KernelTerm) -> tuple[str, ...]:
        """Names of the columns that a kernel acts on."""
        return term.columns or tuple(self.names)

    def amount(self, value: float, term: KernelTerm) -> str:
        """A period or lengthscale of a kernel of one column, with its unit."""
        unit = self.units.get(self.of(term)[0], "")
        return f"{_number(value)} {unit}".rstrip()


def kernel_sentence(kernel: CompositeKernel, units: Mapping[str, str] | None = None) -> str:
    """The kernel that was found, in a sentence that begins with these words.

    Args:
        kernel: fitted.
        units: units of columns in the plural, by name; None where none is known.
    """
    phrases = ", plus ".join(summand_phrases(kernel, units))
    return f"The kernel that was found: {phrases}, plus noise."


def summand_phrases(
    kernel: CompositeKernel, units: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """A phrase for each summand, such as "a period of 12.0 months in date".

    Args:
        kernel: fitted.
        units: units of columns in the plural, by name; None where none is known.
    """
    columns = _Columns(kernel.columns, units or {})
    return tuple(_phrase(summand, columns) for summand in kernel.summands)


def _phrase(summand: Summand, columns: _Columns) -> str:
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


def _is_single(term: KernelTerm, columns: _Columns) -> bool:
    """Whether a kernel acts on one column, so that its parameters can be named."""
    return len(columns.of(term)) == 1


def _base(term: KernelTerm, own: Mapping[str, float], columns: _Columns) -> str:
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
        strongest = (
            f", the strongest of period {columns.amount(own['period'], term)}" if own else ""
        )
        return frequencies + strongest
    if name in _WAVES:
        if not own:
            return f"periods in {where}"
        link = "of " if name == "periodic" else ""
        return f"{_WAVES[name]} {link}{columns.amount(own['period'], term)} in {where}"
    far = f" that changes over {columns.amount(own['lengthscale'], term)}" if own else ""
    return f"{_SMOOTH[name]} of {where}{far}"


def _change(
    term: KernelTerm, own: Mapping[str, float], columns: _Columns, period: float | None
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
            f"shape repeats after {columns.amount(own['period'], term)} in {where}"
            if own
            else (f"shape repeats in {where}")
        )
    if not own or "lengthscale" not in own:
        return f"shape changes with {where}"
    slow = period is not None and own["lengthscale"] > SLOW_PERIODS * period
    pace, far = "slowly, " if slow else "", columns.amount(own["lengthscale"], term)
    return f"shape changes {pace}over {far} in {where}"


def _bracket(
    part: KernelExpression, own: Mapping[KernelTerm, Mapping[str, float]], columns: _Columns
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


def _columns_text(term: KernelTerm, columns: _Columns) -> str:
    """The columns of a kernel."""
    given = columns.of(term)
    names = [f"column {name}" if name.isdigit() else name for name in given]
    if len(names) > MOST_NAMED:
        return f"all {len(names)} columns" if not term.columns else f"{len(names)} columns"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _number(value: float) -> str:
    """Three digits."""
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")
