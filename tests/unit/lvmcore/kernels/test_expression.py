"""Kernel expressions: the canonical text, what it means, and messages for what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvmcore.errors import ConfigError
from lvmcore.kernels.expression import (
    KernelExpression,
    KernelProduct,
    KernelSum,
    KernelTerm,
    kernel_terms,
    parse_kernel,
)

OPTIONS = {"rbf": (), "linear": (), "periodic": ("period", "phase")}


def parse(text: str) -> KernelExpression:
    return parse_kernel(text, OPTIONS)


RBF, LINEAR = KernelTerm("rbf"), KernelTerm("linear", ("a b", 'c"d'), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rbf", RBF),
        (" ( rbf ) ", RBF),
        ("rbf()", RBF),
        ("rbf + linear", KernelSum((RBF, KernelTerm("linear")))),
        ('linear(\'a b\', "c""d")', LINEAR),
        ("periodic(x, phase=-.5, period=1e2)", None),
        (
            "rbf + rbf * linear",
            KernelSum((RBF, KernelProduct((RBF, KernelTerm("linear"))))),
        ),
        (
            "(rbf + linear) * rbf",
            KernelProduct((KernelSum((RBF, KernelTerm("linear"))), RBF)),
        ),
        ("rbf + (rbf + rbf)", KernelSum((RBF, RBF, RBF))),
        ("(rbf * rbf) * rbf", KernelProduct((RBF, RBF, RBF))),
    ],
)
def test_a_text_is_read_by_precedence_and_brackets(
    text: str, expected: KernelExpression | None
) -> None:
    found = parse(text)
    if expected is None:
        expected = KernelTerm("periodic", ("x",), (("period", 100.0), ("phase", -0.5)))
    assert found == expected


TERMS = st.builds(
    KernelTerm,
    st.sampled_from(["rbf", "linear"]),
    st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=3).map(tuple),
) | st.builds(
    lambda columns, period: KernelTerm("periodic", columns, (("period", period),)),
    st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=2).map(tuple),
    st.sampled_from([0.5, 12.0, 365.25, 1e-5]),
)


def sums(parts: st.SearchStrategy[KernelExpression]) -> st.SearchStrategy[KernelExpression]:
    several = st.lists(parts, min_size=2, max_size=3)

    def flat(kind: type[KernelSum] | type[KernelProduct], found: list[KernelExpression]) -> object:
        nested = [one.parts if isinstance(one, kind) else (one,) for one in found]
        return kind(tuple(part for one in nested for part in one))

    return several.map(lambda found: flat(KernelSum, found)) | several.map(
        lambda found: flat(KernelProduct, found)
    )  # type: ignore[return-value]


@given(st.recursive(TERMS, sums, max_leaves=8))
def test_the_canonical_text_of_an_expression_is_read_as_it(expression: KernelExpression) -> None:
    text = str(expression)
    assert parse(text) == expression
    assert str(parse(text)) == text
    assert len(list(kernel_terms(expression))) >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("rbf +", "ends too early: expected a kernel"),
        ("rbf linear", r"character 5: expected \+ or \*"),
        ("rfb", r"'rfb' is no kernel \(did you mean rbf\?\)"),
        ("RBF", r"'RBF' is no kernel \(did you mean rbf\?\)"),
        ("rbf(", "expected a column"),
        ("rbf(a, a)", "character 8: the column 'a' is given twice"),
        ("rbf(a b)", "character 7: expected a comma or a closing bracket here"),
        ("rbf(a", "ends too early: expected a comma or a closing bracket"),
        ("periodic(period=x)", "character 17: expected a number"),
        ("periodic(period=1e999)", "the number is too large"),
        ("periodic(perod=1)", r"no option 'perod' \(it has: period, phase\)"),
        ("periodic(period=1, period=2)", "'period' is given twice"),
        ("rbf(period=1)", r"no option 'period' \(it has: none\)"),
        ("rbf)", r"character 4: expected \+ or \*"),
        ("(rbf", r"ends too early: expected \)"),
        ('rbf("a', 'the quote " is not closed'),
        ("__import__('os')", "'__import__' is no kernel"),
        ("rbf.__class__", r"character 4: expected \+ or \*"),
        ("(" * 11 + "rbf", "nested more than 10 deep"),
        (" + ".join(["rbf"] * 21), "at most 20 kernels"),
        ("2 * rbf", "character 1: expected a kernel"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


@given(st.text(max_size=30))
def test_any_other_text_is_a_setting_error(text: str) -> None:
    try:
        found = parse(text)
    except ConfigError:
        return
    assert parse(str(found)) == found
