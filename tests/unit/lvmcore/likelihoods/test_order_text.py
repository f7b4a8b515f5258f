"""The order of levels as text, and its check against the levels of a column."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvmcore.errors import ConfigError
from lvmcore.likelihoods.catalogue import (
    ColumnTerm,
    check_likelihoods,
    column_likelihood,
    read_likelihoods,
    write_likelihoods,
)
from lvmcore.likelihoods.order_text import check_order, read_order, split_entries, write_order

LEVELS = st.lists(st.text(max_size=8), min_size=2, max_size=6, unique=True).map(tuple)
ORDINAL = LEVELS.map(lambda levels: ColumnTerm("ordinal", len(levels), levels))


@given(LEVELS)
def test_text_and_back(levels: tuple[str, ...]) -> None:
    assert read_order(write_order(levels)) == levels


@given(st.lists(st.one_of(ORDINAL, st.just(ColumnTerm("poisson"))), min_size=1, max_size=4))
def test_orders_in_a_list_and_back(terms: list[ColumnTerm]) -> None:
    assert read_likelihoods(write_likelihoods(terms)) == tuple(terms)


@given(st.text(alphabet='ab<>"\\,() ', max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        levels = read_order(text)
        assert len(set(levels)) == len(levels) >= 2
    assert ",".join(split_entries(text)) == text


def test_plain_levels_and_quoted_ones() -> None:
    assert read_order("low<mid <  very high") == ("low", "mid", "very high")
    assert read_order('"<30" < 30-39 < ">= 40"') == ("<30", "30-39", ">= 40")
    assert write_order(["<30", "30-39", "a, b"]) == '"<30" < 30-39 < "a, b"'
    assert column_likelihood(" Ordinal( low <high ) ") == "ordinal(low < high)"
    assert column_likelihood("Negative-binomial") == "negative_binomial"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("low < low", "'low' twice"),
        ("low < < high", "cannot be read"),
        ("low <", "cannot be read"),
        ("low", "one level"),
        ('"a\\x" < b', "cannot be read"),
    ],
)
def test_orders_that_are_refused(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        read_order(text)


def test_a_missing_and_an_unknown_level_are_named_with_the_column() -> None:
    check_order("size", ("low", "mid", "high"), ["high", "low", "mid"])
    with pytest.raises(ConfigError, match=r"column 'size' lacks 'mid'.*low < mid < high"):
        check_order("size", ("low", "high"), ["low", "mid", "high"])
    with pytest.raises(ConfigError, match="column 'size' names 'huge'"):
        check_order("size", ("low", "mid", "huge"), ["low", "mid", "high"])


def test_the_order_of_a_setting_is_that_of_the_features() -> None:
    names = ["x", "a = b = low", "a = b = high", "y"]
    check_likelihoods("gaussian, ordinal(low < high), poisson", names)
    for text, part in [
        ("gaussian, ordinal(high < low), poisson", "another order than its features: low < high"),
        ("gaussian, ordinal(low < mid < high), poisson", "column 'a = b' names 'mid'"),
        ("ordinal(low < high), gaussian, poisson", "Feature 'x' cannot"),
        ("gaussian, ordinal(low < high)", "are of 3 features, but the table has 4"),
    ]:
        with pytest.raises(ConfigError, match=part):
            check_likelihoods(text, names)
