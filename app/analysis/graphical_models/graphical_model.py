"""Graphical models in plate notation: variables, arrows between them, and plates. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = [
    "GraphicalModel",
    "Kind",
    "Plate",
    "Symbol",
    "Variable",
    "function",
    "latent",
    "observed",
    "parameter",
    "parse_symbol",
]

Kind = Literal["observed", "latent", "parameter", "function"]

_ARROW = " → "


class Symbol(NamedTuple):
    """A symbol with its subscript and superscript, each empty if there is none."""

    base: str
    below: str
    above: str

    @property
    def latex(self) -> str:
        """The symbol as LaTeX."""
        base = self.base if len(self.base) == 1 else rf"\mathrm{{{self.base}}}"
        below = f"_{{{self.below}}}" if self.below else ""
        return base + below + (f"^{{{self.above}}}" if self.above else "")


def parse_symbol(text: str) -> Symbol:
    """The parts of a symbol in the form ``base_subscript^superscript``."""
    rest, _, above = text.partition("^")
    base, _, below = rest.partition("_")
    return Symbol(base, below, above)


@dataclass(frozen=True)
class Variable:
    """A variable of a graphical model.

    Attributes:
        symbol: its symbol as ``base_subscript^superscript``, also its name in arrows and plates.
        at: column and row of the drawing.
        kind: observed, latent (unobserved, with a prior), a parameter (one value is learned), or a
            function of the variables that lead to it.
        meaning: what it is, in a few words.
    """

    symbol: str
    at: tuple[float, float]
    kind: Kind
    meaning: str


def observed(symbol: str, column: float, row: float, meaning: str) -> Variable:
    """An observed variable."""
    return Variable(symbol, (column, row), "observed", meaning)


def latent(symbol: str, column: float, row: float, meaning: str) -> Variable:
    """An unobserved variable with a prior."""
    return Variable(symbol, (column, row), "latent", meaning)


def parameter(symbol: str, column: float, row: float, meaning: str) -> Variable:
    """A parameter, of which one value is learned or given."""
    return Variable(symbol, (column, row), "parameter", meaning)


def function(symbol: str, column: float, row: float, meaning: str) -> Variable:
    """A function of the variables that lead to it."""
    return Variable(symbol, (column, row), "function", meaning)


@dataclass(frozen=True)
class Plate:
    """A plate: what it contains is repeated.

    Attributes:
        label: what it is repeated over.
        contents: symbols of its variables, with spaces between them.
    """

    label: str
    contents: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of its variables."""
        return tuple(self.contents.split())


@dataclass(frozen=True)
class GraphicalModel:
    """A graphical model.

    Attributes:
        title: name of the family of models.
        variables: its variables.
        arrows: chains of symbols such as ``"x_n → f_nd → y_nd"``.
        plates: its plates, outer ones first.
        inference: chains of arrows of the inference, which are dashed.
    """

    title: str
    variables: tuple[Variable, ...]
    arrows: tuple[str, ...]
    plates: tuple[Plate, ...]
    inference: tuple[str, ...] = ()

    def __getitem__(self, symbol: str) -> Variable:
        """The variable with a symbol."""
        return next(one for one in self.variables if one.symbol == symbol)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs of symbols, one for each arrow of the model."""
        return tuple(_pairs(self.arrows))

    @property
    def inference_edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs of symbols, one for each arrow of the inference."""
        return tuple(_pairs(self.inference))

    @property
    def description(self) -> str:
        """The drawing in words, for those who do not see it."""
        parts = [f"{one.symbol} ({one.kind})" for one in self.variables]
        sentences = [f"Graphical model: {self.title}", f"Variables {', '.join(parts)}"]
        sentences.append(f"Arrows {', '.join(f'{a} to {b}' for a, b in self.edges)}")
        if self.inference:
            dashed = ", ".join(f"{a} to {b}" for a, b in self.inference_edges)
            sentences.append(f"Inference {dashed}")
        sentences += [f"Repeated over {one.label}: {', '.join(one.symbols)}" for one in self.plates]
        return ". ".join(sentences) + "."


def _pairs(chains: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for chain in chains:
        symbols = chain.split(_ARROW)
        yield from itertools.pairwise(symbols)
