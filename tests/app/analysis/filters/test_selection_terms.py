"""The terms of a selection, added, changed and removed as the chips and charts do."""

from __future__ import annotations

from app.analysis.filters import selection_terms as terms
from app.analysis.map.selections import Between, Combination, Not, OneOf, RowFilter, Selection
from tests.app.analysis.filters.selections import REGIONS

FIRST, SECOND = REGIONS
TALL = RowFilter("height", "at least", 2.0)
WIDE = Between("width", 1.0, 2.0)
TOWN = OneOf("town", ("Ulm",))


def both(*parts: Selection) -> Combination:
    return Combination("and", parts)


def test_terms_are_added_once_and_removed() -> None:
    assert terms.with_term(None, TALL) == TALL
    assert terms.with_term(TALL, WIDE) == both(TALL, WIDE)
    assert terms.with_term(both(TALL, WIDE), TALL) == both(TALL, WIDE)
    assert terms.with_term(Combination("or", (TALL, WIDE)), TOWN) == Combination(
        "or", (TALL, WIDE, TOWN)
    )
    assert terms.without_term(both(TALL, WIDE), 0) == WIDE
    assert terms.without_term(TALL, 0) is None
    assert terms.without_term(TALL, 3) == TALL


def test_a_group_in_parentheses_is_one_term() -> None:
    group = Combination("or", (TALL, WIDE))
    assert terms.terms_of(both(TOWN, group)) == (TOWN, group)
    assert terms.without_term(both(TOWN, group), 0) == group


def test_not_is_set_and_removed_again() -> None:
    negated = terms.with_toggled_negation(both(TALL, WIDE), 1)
    assert negated == both(TALL, Not(WIDE))
    assert terms.with_toggled_negation(negated, 1) == both(TALL, WIDE)
    assert terms.with_toggled_negation(TALL, 0) == Not(TALL)
    assert terms.with_toggled_negation(TALL, 1) == TALL


def test_the_operator_of_several_terms_is_chosen() -> None:
    assert terms.with_operator(both(TALL, WIDE), "or") == Combination("or", (TALL, WIDE))
    assert terms.with_operator(TALL, "or") == TALL
    assert terms.with_operator(None, "or") is None
    assert terms.operator_of(None) == "and"


def test_a_drawn_region_replaces_the_one_before_and_no_condition() -> None:
    assert terms.with_region(None, FIRST) == FIRST
    assert terms.with_region(FIRST, SECOND) == SECOND
    assert terms.with_region(TALL, FIRST) == both(TALL, FIRST)
    assert terms.with_region(both(FIRST, TALL), SECOND) == both(SECOND, TALL)
    assert terms.with_region(Not(FIRST), SECOND) == both(Not(FIRST), SECOND)
    union = Combination("or", (FIRST, TALL))
    assert terms.with_region(union, SECOND) == Combination("or", (FIRST, TALL, SECOND))


def test_a_chart_changes_its_own_term_and_keeps_not() -> None:
    other = Between("width", 3.0, 4.0)
    assert terms.with_column_term(None, "width", WIDE) == WIDE
    assert terms.with_column_term(both(TALL, WIDE), "width", other) == both(TALL, other)
    assert terms.with_column_term(both(TALL, Not(WIDE)), "width", other) == both(TALL, Not(other))
    assert terms.with_column_term(both(TALL, WIDE), "width", None) == TALL
    assert terms.with_column_term(TALL, "width", None) == TALL
    assert terms.with_column_term(TALL, "height", Between("height", 0.0, 1.0)) == both(
        TALL, Between("height", 0.0, 1.0)
    )


def test_the_only_region_of_a_selection_and_the_rest() -> None:
    assert terms.region_and_others(FIRST) == (FIRST, None)
    assert terms.region_and_others(both(TALL, FIRST, Not(WIDE))) == (FIRST, both(TALL, Not(WIDE)))
    for without in (None, TALL, Not(FIRST), both(FIRST, SECOND), Combination("or", (TALL, FIRST))):
        assert terms.region_and_others(without) is None
