"""The likelihoods that columns may have, and their text form, readable without importing torch.

A text such as ``"gaussian*2, categorical(3), poisson"`` gives the columns of a table their
likelihoods in order. ``categorical(3)`` and ``ordinal(3)`` take three one-hot features, the others
one feature each; ``*2`` repeats. ``ordinal(low < mid < high)`` names the levels of the features,
from the lowest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import ConfigError, DataError
from lvmcore.likelihoods.order_text import check_order, read_order, split_entries, write_order

__all__ = [
    "BY_COLUMN",
    "GAUSSIAN",
    "LIKELIHOODS",
    "Cells",
    "ColumnTerm",
    "LikelihoodName",
    "LikelihoodType",
    "check_cells",
    "check_likelihoods",
    "column_likelihood",
    "read_column_likelihood",
    "read_likelihoods",
    "write_likelihoods",
]

LikelihoodName = Literal[
    "gaussian",
    "student_t",
    "log_normal",
    "beta",
    "bernoulli",
    "categorical",
    "ordinal",
    "poisson",
    "negative_binomial",
    "zero_inflated",
]
Cells = Literal["numbers", "positive", "shares", "binary", "counts", "one-hot"]
#: Texts that are not a list: all columns Gaussian, and a proposal for each column.
GAUSSIAN, BY_COLUMN = "gaussian", "by column"
# Features that a text may give a likelihood.
MOST_FEATURES = 100_000
_PATTERN = re.compile(
    r"([a-z_ -]+?)\s*(?:\((.*)\))?\s*(?:\*\s*(\d{1,6}))?", re.IGNORECASE | re.DOTALL
)
_NUMBER_OF_LEVELS = re.compile(r"\s*(\d{1,6})\s*")


@dataclass(frozen=True)
class LikelihoodType:
    """A likelihood of a column.

    Attributes:
        title: its name on pages.
        summary: the cells that it is for.
        cells: the values that it allows.
    """

    title: str
    summary: str
    cells: Cells

    @property
    def is_one_hot(self) -> bool:
        """Whether it takes several one-hot features."""
        return self.cells == "one-hot"


#: By name, in the order of menus.
LIKELIHOODS: Mapping[LikelihoodName, LikelihoodType] = {
    "gaussian": LikelihoodType("Gaussian", "numbers with symmetric errors", "numbers"),
    "student_t": LikelihoodType("Student-t", "numbers of which some are far off", "numbers"),
    "log_normal": LikelihoodType("log-normal", "positive numbers over several scales", "positive"),
    "beta": LikelihoodType("Beta", "shares between 0 and 1", "shares"),
    "bernoulli": LikelihoodType("Bernoulli", "two values, such as yes and no", "binary"),
    "categorical": LikelihoodType("categorical", "categories without an order", "one-hot"),
    "ordinal": LikelihoodType("ordinal", "categories with an order", "one-hot"),
    "poisson": LikelihoodType("Poisson", "counts", "counts"),
    "negative_binomial": LikelihoodType(
        "negative binomial", "counts that vary more than Poisson counts", "counts"
    ),
    "zero_inflated": LikelihoodType(
        "zero-inflated", "counts with more zeros than a negative binomial has", "counts"
    ),
}


@dataclass(frozen=True)
class ColumnTerm:
    """The likelihood of a column.

    Attributes:
        name: of the likelihood.
        n_features: features of the column: the levels of a category, else 1.
        levels: of an ordinal column whose order was set, from the lowest, in the order of its
            features; else ().
    """

    name: LikelihoodName
    n_features: int = 1
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text form."""
        if self.levels:
            return f"{self.name}({write_order(self.levels)})"
        one_hot = LIKELIHOODS[self.name].is_one_hot
        return f"{self.name}({self.n_features})" if one_hot else self.name


def read_likelihoods(text: str) -> tuple[ColumnTerm, ...]:
    """The likelihoods of a text, one entry a column.

    Raises:
        ConfigError: the text has an entry that is no likelihood; the message names it.
    """
    terms: list[ColumnTerm] = []
    for number, entry in enumerate(split_entries(text), 1):
        term, repeats = _read_entry(entry.strip(), number)
        if len(terms) + repeats > MOST_FEATURES:
            raise ConfigError(f"The likelihoods are of more than {MOST_FEATURES:,} columns.")
        terms += [term] * repeats
    return tuple(terms)


def _read_entry(entry: str, number: int) -> tuple[ColumnTerm, int]:
    """A likelihood, and how often it is repeated."""
    found = _PATTERN.fullmatch(entry)
    word = _word(found[1]) if found else entry
    name = next((known for known in get_args(LikelihoodName) if known == word), None)
    if found is None or name is None:
        near = difflib.get_close_matches(word, get_args(LikelihoodName), 1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigError(
            f"Likelihood {number}, {entry!r}, is unknown{meant}. Expected one of "
            f"{', '.join(get_args(LikelihoodName))}."
        )
    levels, repeats = found[2], int(found[3] or 1)
    if LIKELIHOODS[name].is_one_hot:
        if name == "ordinal" and levels is not None and "<" in levels:
            order = read_order(levels)
            return ColumnTerm(name, len(order), order), max(1, repeats)
        given = _NUMBER_OF_LEVELS.fullmatch(levels or "")
        if given is None or int(given[1]) < 2:
            raise ConfigError(
                f"Likelihood {number}, {entry!r}, needs its number of levels, at least 2: "
                f"{name}(3)."
            )
        return ColumnTerm(name, int(given[1])), max(1, repeats)
    if levels is not None:
        raise ConfigError(f"Likelihood {number}, {entry!r}: {name} takes no number of levels.")
    return ColumnTerm(name), max(1, repeats)


def _word(text: str) -> str:
    return re.sub(r"[ -]+", "_", text.strip().lower())


def read_column_likelihood(text: str) -> tuple[str, tuple[str, ...]]:
    """The name and the order of levels of the likelihood of one column, such as "poisson".

    The order is () without one; "ordinal(low < mid < high)" has one. The name may be unknown.

    Raises:
        ConfigError: the order cannot be read.
    """
    found = re.fullmatch(r"\s*ordinal\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
    return (_word(text), ()) if found is None else ("ordinal", read_order(found[1]))


def column_likelihood(text: str) -> str:
    """The likelihood of one column in its plain form, "ordinal(low < mid)" or "negative_binomial".

    Raises:
        ConfigError: an order of levels cannot be read.
    """
    name, order = read_column_likelihood(text)
    return f"{name}({write_order(order)})" if order else name


def write_likelihoods(terms: Iterable[ColumnTerm]) -> str:
    """The text of likelihoods, repeated ones joined."""
    runs = [(term, len(list(run))) for term, run in groupby(terms)]
    return ", ".join(f"{term}*{count}" if count > 1 else str(term) for term, count in runs)


def check_likelihoods(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of a setting, and that it suits the features of a table.

    Args:
        text: "gaussian" for all columns, "by column" for a proposal for each, or a list.
        columns: names of the features; None where they are not known.

    Raises:
        ConfigError: an entry is no likelihood, there are too many or too few, or an order of levels
            is not that of the features.
    """
    if text in (GAUSSIAN, BY_COLUMN):
        return
    terms = read_likelihoods(text)
    if columns is not None:
        _check_orders(terms, columns)
    wanted = sum(term.n_features for term in terms)
    if columns is not None and wanted != len(columns):
        raise ConfigError(
            f"The likelihoods {text!r} are of {wanted:,} features, but the table has "
            f"{len(columns):,}. Give one for each column, or 'by column' to have them proposed."
        )


def _check_orders(terms: Sequence[ColumnTerm], names: Sequence[str]) -> None:
    """Check that the orders of levels are those of the features "column = level"."""
    begin = 0
    for term in terms:
        if term.levels and begin < len(names):
            column = _column_of(names[begin], term.levels)
            levels = _first_levels(column, names[begin:])
            if not levels:
                raise ConfigError(
                    f"Feature {names[begin]!r} cannot have the likelihood {term}: it is no level "
                    "of a column. Expected features named 'column = level'."
                )
            check_order(column, term.levels, levels)
            if tuple(levels) != term.levels:
                raise ConfigError(
                    f"The likelihood {term} of column {column!r} has another order than its "
                    f"features: {write_order(levels)}. Set the order where the features are made "
                    f"(Data page, --likelihood, Table.dataset), or put the features in it."
                )
        begin += term.n_features


def _first_levels(column: str, features: Sequence[str]) -> list[str]:
    """The levels of the first features, as far as they are of a column."""
    start = f"{column} = "
    own = takewhile(lambda feature: feature.startswith(start), features)
    return [feature[len(start) :] for feature in own]


def _column_of(feature: str, levels: Sequence[str]) -> str:
    """The column of a feature "column = level"; both may have an equals sign."""
    parts = feature.split(" = ")
    splits = [(" = ".join(parts[:n]), " = ".join(parts[n:])) for n in range(1, len(parts))]
    known = [column for column, level in splits if level in levels]
    return known[0] if known else parts[0]


def check_cells(terms: Sequence[ColumnTerm], X: NDArray[np.float64], names: Sequence[str]) -> None:
    """Check that the cells of columns suit their likelihoods.

    Args:
        terms: a likelihood for each column.
        X: features, NaN where a cell is missing, [N, D].
        names: names of the features.

    Raises:
        DataError: a cell does not; the message names its row and column, and what to do.
    """
    begin = 0
    for term in terms:
        block = X[:, begin : begin + term.n_features]
        bad = _unsuited(LIKELIHOODS[term.name].cells, block)
        if bad is not None:
            row, column = bad
            raise DataError(
                f"Column {names[begin + column]!r} cannot have the likelihood {term.name}: row "
                f"{row + 1} has {block[row, column]:g}. Expected "
                f"{_EXPECTED[LIKELIHOODS[term.name].cells]}. Choose another likelihood for the "
                "column, or correct the cell."
            )
        begin += term.n_features


_EXPECTED: Mapping[Cells, str] = {
    "numbers": "numbers",
    "positive": "numbers above 0",
    "shares": "numbers above 0 and below 1",
    "binary": "two different values",
    "counts": "whole numbers, none below 0",
    "one-hot": "one feature of each row to be 1 and the others 0",
}


def _unsuited(cells: Cells, block: NDArray[np.float64]) -> tuple[int, int] | None:
    """Row and column of the first cell that is not allowed; None where all are."""
    known = ~np.isnan(block)
    allowed = np.ones_like(known)
    if cells == "positive":
        allowed = block > 0
    elif cells == "shares":
        allowed = (block > 0) & (block < 1)
    elif cells == "binary":
        values = np.unique(block[known])
        allowed = np.isin(block, values[[0, -1]]) if len(values) else allowed
    elif cells == "counts":
        allowed = (block >= 0) & (block == np.round(block))
    elif cells == "one-hot":
        whole = known.all(axis=1, keepdims=True) & (np.nansum(block, axis=1, keepdims=True) == 1)
        whole |= ~known.any(axis=1, keepdims=True)
        allowed = ((block == 0) | (block == 1)) & whole
    row, column = np.nonzero(known & ~allowed)
    return (int(row[0]), int(column[0])) if len(row) else None
