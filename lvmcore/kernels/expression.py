"""Kernel expressions: sums and products of named kernels of columns, read from text.

``rbf + periodic(month) * matern52`` is a sum of an RBF kernel of all columns, and of a product of a
periodic one of the column month with a Matérn-5/2 of all columns. The text is parsed here, never
evaluated as Python::

    sum     = product, {"+", product}
    product = factor, {"*", factor}
    factor  = NAME, ["(", [argument, {",", argument}], ")"]  |  "(", sum, ")"
    argument = COLUMN  |  "'", any column name, "'"  |  OPTION, "=", NUMBER

A column whose name is no word is quoted, '"' or "'", and a quote inside is doubled.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lvmcore.errors import ConfigError

__all__ = [
    "KernelExpression",
    "KernelProduct",
    "KernelSum",
    "KernelTerm",
    "kernel_terms",
    "parse_kernel",
]

# Most parts of an expression, and deepest nesting: far beyond what a table can tell apart.
MOST_TERMS, DEEPEST = 20, 10
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class KernelTerm:
    """A named kernel of some columns.

    Attributes:
        name: of the kernel.
        columns: names of the columns it acts on; empty for all.
        options: numbers by name, such as a degree.
    """

    name: str
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        """The canonical text."""
        arguments = [_column_text(column) for column in self.columns]
        arguments += [f"{name}={value:.12g}" for name, value in self.options]
        return f"{self.name}({', '.join(arguments)})" if arguments else self.name


@dataclass(frozen=True)
class KernelSum:
    """k(x, x') = Σ_i k_i(x, x').

    Attributes:
        parts: at least two, none of them a sum.
    """

    parts: tuple[KernelExpression, ...]

    def __str__(self) -> str:
        """The canonical text."""
        return " + ".join(map(str, self.parts))


@dataclass(frozen=True)
class KernelProduct:
    """k(x, x') = Π_i k_i(x, x').

    Attributes:
        parts: at least two, none of them a product.
    """

    parts: tuple[KernelExpression, ...]

    def __str__(self) -> str:
        """The canonical text."""
        texts = (f"({part})" if isinstance(part, KernelSum) else str(part) for part in self.parts)
        return " * ".join(texts)


KernelExpression = KernelTerm | KernelSum | KernelProduct


def kernel_terms(expression: KernelExpression) -> Iterator[KernelTerm]:
    """The named kernels of an expression, in the order of the text."""
    if isinstance(expression, KernelTerm):
        yield expression
    else:
        for part in expression.parts:
            yield from kernel_terms(part)


def parse_kernel(text: str, options: Mapping[str, Sequence[str]]) -> KernelExpression:
    """The expression of a text; ``str`` of it is the canonical text.

    Args:
        text: the expression.
        options: names of the options of each kernel, by the kernel's name.

    Raises:
        ConfigError: the text is no expression, or a kernel or an option is unknown; the message
            says where.
    """
    return _Parser(text, options).expression()


def _column_text(column: str) -> str:
    """A column's name as in an expression."""
    return column if _WORD.fullmatch(column) else '"' + column.replace('"', '""') + '"'


class _Parser:
    """A parser by recursive descent.

    Args:
        text: as of ``parse_kernel``.
        options: likewise.
    """

    def __init__(self, text: str, options: Mapping[str, Sequence[str]]) -> None:
        self.text, self.options = text, options
        self.at = self.terms = self.depth = 0

    def expression(self) -> KernelExpression:
        """The whole text."""
        if not self.text.strip():
            raise ConfigError(f"The kernel is empty. Known kernels: {', '.join(self.options)}.")
        found = self._sum()
        if self.at < len(self.text):
            raise self._error("expected + or * here")
        return found

    def _sum(self) -> KernelExpression:
        parts = list(self._parts("+", self._product, KernelSum))
        return parts[0] if len(parts) == 1 else KernelSum(tuple(parts))

    def _product(self) -> KernelExpression:
        parts = list(self._parts("*", self._factor, KernelProduct))
        return parts[0] if len(parts) == 1 else KernelProduct(tuple(parts))

    def _parts(
        self,
        mark: str,
        part: Callable[[], KernelExpression],
        same: type[KernelSum] | type[KernelProduct],
    ) -> Iterator[KernelExpression]:
        """The parts between marks; those of a part of the same kind in its place."""
        while True:
            found = part()
            yield from found.parts if isinstance(found, same) else (found,)
            if not self._take(mark):
                return

    def _factor(self) -> KernelExpression:
        if self._take("("):
            self.depth += 1
            if self.depth > DEEPEST:
                raise self._error(f"brackets are nested more than {DEEPEST} deep")
            found = self._sum()
            self._expect(")")
            self.depth -= 1
            return found
        return self._term()

    def _term(self) -> KernelTerm:
        start = self._skip()
        name = self._word()
        if name is None:
            raise self._error("expected a kernel here")
        if name not in self.options:
            self.at = start
            raise self._error(f"{name!r} is no kernel{_similar(name, self.options)}")
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise self._error(f"an expression has at most {MOST_TERMS} kernels")
        columns, options = self._arguments(name) if self._take("(") else ([], {})
        return KernelTerm(name, tuple(columns), tuple(sorted(options.items())))

    def _arguments(self, name: str) -> tuple[list[str], dict[str, float]]:
        """The columns and options of a kernel, after the opening bracket."""
        columns: list[str] = []
        options: dict[str, float] = {}
        if self._take(")"):
            return columns, options
        while True:
            start = self._skip()
            quoted = self._quoted()
            word = self._word() if quoted is None else None
            if word is not None and self._take("="):
                if word not in self.options[name]:
                    self.at = start
                    known = ", ".join(self.options[name]) or "none"
                    raise self._error(f"{name} has no option {word!r} (it has: {known})")
                if word in options:
                    self.at = start
                    raise self._error(f"{word!r} is given twice")
                options[word] = self._number()
            else:
                column = word if quoted is None else quoted
                if column is None:
                    raise self._error("expected a column here")
                if column in columns:
                    self.at = start
                    raise self._error(f"the column {column!r} is given twice")
                columns.append(column)
            if self._take(")"):
                return columns, options
            if not self._take(","):
                raise self._error("expected a comma or a closing bracket here")

    def _skip(self) -> int:
        """The position after spaces."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def _take(self, mark: str) -> bool:
        """Whether a mark comes next, which is then passed."""
        if self.text[self._skip() : self.at + 1] != mark:
            return False
        self.at += 1
        self._skip()
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"expected {mark} here")

    def _word(self) -> str | None:
        found = _WORD.match(self.text, self._skip())
        if found is None:
            return None
        self.at = found.end()
        self._skip()
        return found.group()

    def _number(self) -> float:
        found = _NUMBER.match(self.text, self._skip())
        if found is None:
            raise self._error("expected a number here")
        value = float(found.group())
        if not math.isfinite(value):
            raise self._error("the number is too large")
        self.at = found.end()
        return value

    def _quoted(self) -> str | None:
        """A quoted column name, None where no quote comes next."""
        quote = self.text[self._skip() : self.at + 1]
        if quote not in ("'", '"') or not quote:
            return None
        start, end = self.at, self.at + 1
        while True:
            end = self.text.find(quote, end)
            if end < 0:
                raise self._error(f"the quote {quote} is not closed")
            if self.text[end + 1 : end + 2] != quote:
                break
            end += 2
        self.at = end + 1
        return self.text[start + 1 : end].replace(2 * quote, quote)

    def _error(self, what: str) -> ConfigError:
        """An error at the current position."""
        if self.at >= len(self.text):
            return ConfigError(f"The kernel {self.text!r} ends too early: {what}.")
        return ConfigError(
            f"The kernel {self.text!r} cannot be read at character {self.at + 1}: {what}."
        )


def _similar(name: str, known: Mapping[str, Sequence[str]]) -> str:
    """The kernel that a wrong name may mean, and the known ones."""
    near = difflib.get_close_matches(name.lower(), known, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{meant}. Known kernels: {', '.join(known)}"
