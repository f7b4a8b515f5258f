"""Queries: what is written is read back, what is wrong is told, nothing of it runs."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.filters.query_parser import LONGEST_QUERY, ColumnKind, parse_query
from app.analysis.filters.query_text import query_text
from app.analysis.map.selections import (
    Between,
    Combination,
    Not,
    OneOf,
    RowFilter,
    Selection,
    regions_of,
)
from lvmcore.errors import ConfigError
from tests.app.analysis.filters.selections import COLUMNS, REGIONS, selections

KINDS: dict[str, ColumnKind] = {
    "petal length (cm)": "number",
    "height": "number",
    "species": "text",
    "day": "date",
}


@given(selections)
def test_a_query_is_read_back_as_it_was_written(selection: Selection) -> None:
    assert parse_query(query_text(selection), COLUMNS, regions_of(selection)) == selection
    assert parse_query(query_text(selection, REGIONS), COLUMNS, REGIONS) == selection


@given(st.text(max_size=60) | st.text("()\"'`\\and or not 19-.e<>=!,", max_size=40))
def test_any_text_is_a_query_or_a_sentence(text: str) -> None:
    try:
        found = parse_query(text, KINDS, REGIONS)
    except ConfigError as error:
        problem = str(error)
        found = None
    else:
        problem = "Character 1 of the query: none."
    assert re.fullmatch(r"Character \d+ of the query: .+\.", problem, re.DOTALL)
    assert parse_query(query_text(found, REGIONS), KINDS, REGIONS) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '"petal length (cm)" between 1.2 and 3 and species in ("setosa", virginica) '
            "and not region 1",
            Combination(
                "and",
                (
                    Between("petal length (cm)", 1.2, 3.0),
                    OneOf("species", ("setosa", "virginica")),
                    Not(REGIONS[0]),
                ),
            ),
        ),
        ("  ", None),
        ("height >= 2", RowFilter("height", "at least", 2.0)),
        ("height==-1e3", RowFilter("height", "equal to", -1000.0)),
        ("species = 0123", RowFilter("species", "is", "0123")),
        ("species != 'it\\'s'", Not(RowFilter("species", "is", "it's"))),
        ("species IS NOT Missing", Not(RowFilter("species", "missing"))),
        ("species in (a, missing)", OneOf("species", ("a", None))),
        ("`petal length (cm)` > 1", RowFilter("petal length (cm)", "more than", 1.0)),
        ("row contains 11", RowFilter(None, "contains", "11")),
        ("day < 2020-01-05", RowFilter("day", "less than", datetime(2020, 1, 5))),
        (
            "day between 2020-01-05 and 2020-01-06 12:30",
            Between("day", datetime(2020, 1, 5), datetime(2020, 1, 6, 12, 30)),
        ),
        (
            "height > 1 or height < 0 and species = a",
            Combination(
                "or",
                (
                    RowFilter("height", "more than", 1.0),
                    Combination(
                        "and",
                        (RowFilter("height", "less than", 0.0), RowFilter("species", "is", "a")),
                    ),
                ),
            ),
        ),
    ],
)
def test_what_a_query_means(text: str, expected: Selection | None) -> None:
    assert parse_query(text, KINDS, REGIONS) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("height >= ", "Character 10 of the query: expected a number, the query ends."),
        ("heigt > 3", "there is no column “heigt”; did you mean height."),
        ("species > 3", "Character 9 of the query: expected “=”"),
        ("day > 3", "expected a date such as 2024-05-31, got “3”."),
        ("day > 2020-13-40", "expected a date such as 2024-05-31, got “2020-13-40”."),
        ("region 3", "Character 8 of the query: there is no region 3; regions 1 to 2 are drawn."),
        ('species = "abc', 'expected a closing ".'),
        ("height ; drop", "Character 8 of the query: ';' has no meaning here."),
        ("height = 1 species = a", "expected “and”, “or” or the end, got “species”."),
        ("species in (a", "expected “)”, the query ends."),
        ("species not a", "expected “contains”, “in”, got “a”."),
        ("species = missing", "expected a text in quotes, got “missing”."),
        ("species = '\\ud800'", "a surrogate is no character."),
        ("(" * 500 + "height > 1", "more than 30 levels"),
        ("not " * 500 + "height > 1", "more than 30 levels"),
        (" or ".join(["height>1"] * 201), "more than 200 conditions"),
        ("__import__('os').system('true')", "Character 17 of the query: '.' has no meaning here."),
        ("__import__ = 'os'", "there is no column “__import__”"),
        ("height > 1" + " " * LONGEST_QUERY, "The query has 5,010 characters"),
    ],
)
def test_what_is_wrong_with_a_query_is_told(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_query(text, KINDS, REGIONS)
    assert problem in str(caught.value)


def test_without_a_region_none_can_be_named() -> None:
    with pytest.raises(ConfigError, match="there is no region 1; no region is drawn"):
        parse_query("region 1", KINDS)
