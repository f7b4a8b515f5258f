"""Lists of likelihoods as text, the checks of cells, and the proposals."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvmcore.errors import ConfigError, DataError
from lvmcore.likelihoods.catalogue import (
    LIKELIHOODS,
    ColumnTerm,
    check_cells,
    check_likelihoods,
    read_likelihoods,
    write_likelihoods,
)
from lvmcore.likelihoods.proposals import column_terms, propose_likelihood, propose_likelihoods

NAMES = sorted(LIKELIHOODS)
TERMS = st.sampled_from(NAMES).flatmap(
    lambda name: st.builds(
        ColumnTerm,
        st.just(name),
        st.integers(2, 40) if LIKELIHOODS[name].is_one_hot else st.just(1),
    )
)


@given(st.lists(TERMS, min_size=1, max_size=12))
def test_text_and_back(terms: list[ColumnTerm]) -> None:
    text = write_likelihoods(terms)
    assert read_likelihoods(text) == tuple(terms)
    assert write_likelihoods(read_likelihoods(text)) == text


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert read_likelihoods(text)


def test_words_with_spaces_hyphens_and_capitals() -> None:
    assert read_likelihoods("Student-t, negative binomial*2") == (
        ColumnTerm("student_t"),
        *[ColumnTerm("negative_binomial")] * 2,
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gaussan", "did you mean 'gaussian'"),
        ("gaussian, categorical", "categorical(3)"),
        ("categorical(1)", "at least 2"),
        ("poisson(3)", "no number of levels"),
        ("", "Expected one of"),
        ("gaussian*999999", "more than"),
    ],
)
def test_mistakes_are_named(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part.replace("(", r"\(").replace(")", r"\)")):
        read_likelihoods(text)


def test_a_list_suits_the_number_of_features() -> None:
    check_likelihoods("gaussian", ["a", "b"])
    check_likelihoods("by column", ["a", "b"])
    check_likelihoods("categorical(2), poisson", ["a = x", "a = y", "b"])
    with pytest.raises(ConfigError, match="of 3 features, but the table has 2"):
        check_likelihoods("gaussian*3", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "cells", "part"),
    [
        ("poisson", [[1.0], [-1.0]], "row 2 has -1. Expected whole numbers"),
        ("negative_binomial", [[1.5], [2.0]], "row 1 has 1.5"),
        ("beta", [[0.5], [1.0]], "above 0 and below 1"),
        ("log_normal", [[0.0], [1.0]], "numbers above 0"),
        ("bernoulli", [[0.0], [1.0], [2.0]], "row 2 has 1. Expected two different values"),
        ("categorical(2)", [[1.0, 0.0], [1.0, 1.0]], "one feature of each row"),
        ("ordinal(2)", [[1.0, 0.0], [np.nan, 1.0]], "one feature of each row"),
    ],
)
def test_cells_that_do_not_suit_their_likelihood(
    text: str, cells: list[list[float]], part: str
) -> None:
    terms = read_likelihoods(text)
    with pytest.raises(DataError, match=part):
        check_cells(terms, np.array(cells), ["visits", "further"])
    check_cells(terms, np.full((2, len(cells[0])), np.nan), ["visits", "further"])


def test_proposals_by_cells() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    cells = {
        "gaussian": rng.normal(size=n),
        "bernoulli": rng.integers(0, 2, n).astype(float),
        "poisson": rng.poisson(4.0, n).astype(float),
        "negative_binomial": rng.negative_binomial(1, 0.2, n).astype(float),
        "zero_inflated": np.where(rng.random(n) < 0.7, 0, rng.poisson(9.0, n)).astype(float),
        "log_normal": rng.lognormal(0, 1.5, n),
        "student_t": np.where(rng.random(n) < 0.01, 60.0, rng.normal(size=n)),
    }
    found = {name: propose_likelihood(values)[0] for name, values in cells.items()}
    assert found == {name: name for name in cells}
    assert propose_likelihood(np.array([1.0, 2.0, 3.0] * 9))[0] == "gaussian"
    assert propose_likelihood(np.full(9, np.nan))[0] == "gaussian"
    assert propose_likelihood(rng.normal(40, 5, n).round())[0] == "gaussian"


def test_one_hot_features_are_proposed_as_a_category() -> None:
    X = np.array([[1, 0, 0, 2.5], [0, 1, 0, 3.5], [np.nan, np.nan, np.nan, 1.0]])
    names = ["colour = red", "colour = blue", "colour = grey", "size"]
    assert propose_likelihoods(X, names) == (ColumnTerm("categorical", 3), ColumnTerm("gaussian"))
    assert column_terms("gaussian", X, names) is None
    assert column_terms("by column", X[:, 3:], names[3:]) is None
    terms = column_terms("by column", X, names)
    assert terms is not None
    assert write_likelihoods(terms) == "categorical(3), gaussian"
