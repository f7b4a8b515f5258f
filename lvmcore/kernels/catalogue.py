"""The kernels that an expression may name, readable without importing torch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lvmcore.errors import ConfigError
from lvmcore.kernels.expression import (
    KernelExpression,
    KernelTerm,
    kernel_terms,
    parse_kernel,
)

__all__ = [
    "KERNEL_TYPES",
    "KernelOption",
    "KernelType",
    "check_feature_kernel",
    "check_kernel",
    "check_kernel_columns",
    "check_map_kernel",
    "check_spectral_kernel",
    "read_kernel",
]


@dataclass(frozen=True)
class KernelOption:
    """A number that a kernel may be given.

    Attributes:
        summary: what it is.
        low: smallest value.
        high: largest value.
        whole: whether it is a whole number.
    """

    summary: str
    low: float
    high: float
    whole: bool = False

    @property
    def expected(self) -> str:
        """Description of the allowed values."""
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def allows(self, value: float) -> bool:
        """Whether the value is allowed."""
        return self.low <= value <= self.high and (not self.whole or value == int(value))


@dataclass(frozen=True)
class KernelType:
    """A kernel.

    Attributes:
        title: its name on pages.
        summary: the functions that it describes.
        options: its options by name.
        most_columns: columns that it acts on at most; None for any number.
        closed_spectrum: whether frequencies can be drawn from its spectrum.
    """

    title: str
    summary: str
    options: Mapping[str, KernelOption] = field(default_factory=dict)
    most_columns: int | None = None
    closed_spectrum: bool = True

    @property
    def one_column(self) -> bool:
        """Whether it acts on one column alone."""
        return self.most_columns == 1


_DIMENSION = re.compile(r"z[1-9]\d*", re.ASCII)
_PERIOD = KernelOption("the period, in the units of the column", 1e-12, 1e12)

#: By the name in an expression, in the order of menus.
KERNEL_TYPES: Mapping[str, KernelType] = {
    "rbf": KernelType("RBF", "infinitely smooth functions"),
    "matern52": KernelType("Matérn-5/2", "twice differentiable functions"),
    "matern32": KernelType("Matérn-3/2", "once differentiable functions, with sharp bends"),
    "matern12": KernelType("Matérn-1/2", "rough functions, which are continuous alone"),
    "linear": KernelType(
        "linear", "straight lines and planes through the columns' means", closed_spectrum=False
    ),
    "constant": KernelType("constant", "an offset"),
    "periodic": KernelType("periodic", "functions that repeat", {"period": _PERIOD}),
    "cosine": KernelType("cosine", "a sine wave", {"period": _PERIOD}, most_columns=1),
    "spectral_mixture": KernelType(
        "spectral mixture",
        "functions of several fitted frequencies",
        {"n": KernelOption("the number of frequencies of a column", 1, 10, whole=True)},
        most_columns=3,
    ),
    "rational_quadratic": KernelType(
        "rational quadratic", "smooth functions that bend over short and long distances"
    ),
    "polynomial": KernelType(
        "polynomial",
        "polynomials",
        {"degree": KernelOption("the degree", 2, 6, whole=True)},
        closed_spectrum=False,
    ),
    "piecewise_polynomial": KernelType(
        "piecewise polynomial",
        "smooth functions whose distant values are independent",
        {"smoothness": KernelOption("how often they are differentiable", 0, 3, whole=True)},
        closed_spectrum=False,
    ),
}


def read_kernel(text: str) -> KernelExpression:
    """The expression of a text, with kernels of ``KERNEL_TYPES``.

    Raises:
        ConfigError: the text is no expression, or an option has a value that is not allowed.
    """
    options = {name: tuple(kernel.options) for name, kernel in KERNEL_TYPES.items()}
    expression = parse_kernel(text, options)
    for term in kernel_terms(expression):
        for name, value in term.options:
            option = KERNEL_TYPES[term.name].options[name]
            if not option.allows(value):
                raise ConfigError(
                    f"{name}={value:g} of the kernel {term.name} cannot be used: expected "
                    f"{option.expected}."
                )
    return expression


def check_kernel(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of an expression, and that a table has the columns that it names.

    Args:
        text: the text.
        columns: names of the columns; None where they are not known.

    Raises:
        ConfigError: as of ``read_kernel`` and ``check_kernel_columns``.
    """
    expression = read_kernel(text)
    if columns is not None:
        check_kernel_columns(expression, columns)


def check_feature_kernel(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of an expression for features of a network, which have no names.

    Args:
        text: the text.
        columns: names of the columns of the table, which are not used.

    Raises:
        ConfigError: as of ``read_kernel``, or it acts on one column.
    """
    del columns
    for term in kernel_terms(read_kernel(text)):
        if term.columns or KERNEL_TYPES[term.name].most_columns is not None:
            raise ConfigError(
                f"The kernel {text!r} has {term}, of a column, but it acts on the features of the "
                "network, which have no names: leave the columns out, as in linear + rbf."
            )


def check_map_kernel(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of an expression over the dimensions z1, z2, … of a map.

    Args:
        text: the text.
        columns: names of the columns of the table, which are not used.

    Raises:
        ConfigError: as of ``read_kernel``, or it names something else than dimensions.
    """
    del columns
    for term in kernel_terms(read_kernel(text)):
        for name in term.columns:
            if not _DIMENSION.fullmatch(name):
                raise ConfigError(
                    f"The kernel {text!r} names {name!r}, but it acts on the dimensions of the "
                    f"map, which are z1, z2 and so on: write {term.name}(z1), or leave the name "
                    "out for all dimensions."
                )


def check_spectral_kernel(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of an expression over a map's dimensions whose spectrum is closed.

    Args:
        text: the text.
        columns: names of the columns of the table, which are not used.

    Raises:
        ConfigError: as of ``check_map_kernel``, or a kernel has no spectrum to draw from.
    """
    check_map_kernel(text, columns)
    for term in kernel_terms(read_kernel(text)):
        if not KERNEL_TYPES[term.name].closed_spectrum:
            possible = ", ".join(
                name for name, kernel in KERNEL_TYPES.items() if kernel.closed_spectrum
            )
            raise ConfigError(
                f"The kernel {text!r} has {term.name}, whose spectrum has no closed form that "
                f"random features could be drawn from. Possible are {possible}, their sums and "
                "products, and learned."
            )


def check_kernel_columns(expression: KernelExpression, columns: Sequence[str]) -> None:
    """Check that a table has the columns that an expression names.

    Args:
        expression: the expression.
        columns: names of the columns.

    Raises:
        ConfigError: it has not; the message names the most similar column.
    """
    for term in kernel_terms(expression):
        most = KERNEL_TYPES[term.name].most_columns
        if most is not None and len(term.columns or columns) > most:
            named = "one column: name it" if most == 1 else f"at most {most} columns: name them"
            raise ConfigError(
                f"The kernel {term.name} acts on {named}, as in "
                f"{KernelTerm(term.name, tuple(columns[:1]))}."
            )
        for name in term.columns:
            if name in columns:
                continue
            near = difflib.get_close_matches(name, columns, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(
                f"The kernel {str(expression)!r} names the column {name!r}, which is none of the "
                f"columns of the fit{meant}."
            )
