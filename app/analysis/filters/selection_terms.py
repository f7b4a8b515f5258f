"""The terms of a selection: what AND or OR combines, each a chip on the page. Pure."""

from __future__ import annotations

from app.analysis.map.regions import Region
from app.analysis.map.selections import (
    Between,
    Combination,
    Not,
    OneOf,
    Operator,
    Selection,
)

__all__ = [
    "column_term",
    "combined",
    "operator_of",
    "region_and_others",
    "terms_of",
    "with_column_term",
    "with_operator",
    "with_region",
    "with_term",
    "with_toggled_negation",
    "without_term",
]

Terms = tuple[Selection, ...]


def terms_of(selection: Selection | None) -> Terms:
    """The terms of a selection; a condition or a group in parentheses is one."""
    if selection is None:
        return ()
    return selection.conditions if isinstance(selection, Combination) else (selection,)


def operator_of(selection: Selection | None) -> Operator:
    """How the terms are combined; "and" for fewer than two."""
    return selection.operator if isinstance(selection, Combination) else "and"


def combined(operator: Operator, terms: Terms) -> Selection | None:
    """The selection of some terms; None without any."""
    if len(terms) < 2:
        return terms[0] if terms else None
    return Combination(operator, terms)


def with_term(selection: Selection | None, term: Selection) -> Selection:
    """The selection with one more term, unless it has it already."""
    terms = terms_of(selection)
    if selection is None:
        return term
    return selection if term in terms else Combination(operator_of(selection), (*terms, term))


def without_term(selection: Selection | None, position: int) -> Selection | None:
    """The selection without the term at a position; unchanged where there is none."""
    terms = terms_of(selection)
    return combined(operator_of(selection), terms[:position] + terms[position + 1 :])


def with_toggled_negation(selection: Selection | None, position: int) -> Selection | None:
    """The selection with NOT before the term at a position, or without it."""
    terms = terms_of(selection)
    if position >= len(terms):
        return selection
    term = terms[position]
    changed = term.condition if isinstance(term, Not) else Not(term)
    return _replaced(selection, position, changed)


def with_operator(selection: Selection | None, operator: Operator) -> Selection | None:
    """The same terms, combined by another operator."""
    return combined(operator, terms_of(selection))


def with_region(selection: Selection | None, region: Region) -> Selection:
    """The selection with a region that was drawn on the map.

    It takes the place of the region that was drawn before. Conditions on columns, and regions with
    NOT, stay; terms that are combined by OR all stay.
    """
    if operator_of(selection) == "and":
        for position, term in enumerate(terms_of(selection)):
            if isinstance(term, Region):
                return _replaced(selection, position, region)
    return with_term(selection, region)


def region_and_others(selection: Selection | None) -> tuple[Region, Selection | None] | None:
    """The only region of a selection, and its other terms; None where AND does not join them."""
    terms = terms_of(selection)
    regions = [one for one in terms if isinstance(one, Region)]
    others = tuple(one for one in terms if not isinstance(one, Region))
    if len(regions) != 1 or (others and operator_of(selection) == "or"):
        return None
    return regions[0], combined("and", others)


def column_term(selection: Selection | None, column: str) -> int | None:
    """Position of the term that a chart of a column shows and changes; None without one.

    This is its first interval or set of values, with or without NOT.
    """
    for position, term in enumerate(terms_of(selection)):
        inner = term.condition if isinstance(term, Not) else term
        if isinstance(inner, Between | OneOf) and inner.column == column:
            return position
    return None


def with_column_term(
    selection: Selection | None, column: str, condition: Between | OneOf | None
) -> Selection | None:
    """The selection after a chart of a column has changed its condition.

    Args:
        selection: the selection before.
        column: the column of the chart.
        condition: its condition now; NOT of the one before is kept. None removes it.
    """
    position = column_term(selection, column)
    if position is None:
        return selection if condition is None else with_term(selection, condition)
    if condition is None:
        return without_term(selection, position)
    negated = isinstance(terms_of(selection)[position], Not)
    return _replaced(selection, position, Not(condition) if negated else condition)


def _replaced(selection: Selection | None, position: int, term: Selection) -> Selection:
    terms = terms_of(selection)
    changed = combined(operator_of(selection), (*terms[:position], term, *terms[position + 1 :]))
    return term if changed is None else changed
