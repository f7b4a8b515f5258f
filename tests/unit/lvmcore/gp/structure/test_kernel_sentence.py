"""A fitted kernel in words."""

import pytest
import torch

from lvmcore.gp.structure.kernel_sentence import kernel_sentence, summand_phrases
from lvmcore.kernels.catalogue import KERNEL_TYPES, read_kernel
from lvmcore.kernels.composite import CompositeKernel


def made(text: str, columns: tuple[str, ...], scale: float = 10.0) -> CompositeKernel:
    scales = torch.full((len(columns),), scale, dtype=torch.float64)
    return CompositeKernel(read_kernel(text), columns, scales)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("rbf", ["a smooth function of month that changes over 10.0"]),
        ("linear(month) + constant", ["a linear trend in month", "an offset"]),
        (
            "rbf(month) * periodic(month, period=12)",
            ["a period of 12.0 in month whose shape changes over 10.0 in month"],
        ),
        (
            "periodic(month, period=4) * rbf",
            ["a period of 4.00 in month whose shape changes slowly, over 10.0 in month"],
        ),
        (
            "linear * periodic(month, period=12)",
            ["a period of 12.0 in month whose size changes linearly with month"],
        ),
        (
            "linear * matern32",
            [
                "a function with bends (Matérn-3/2) of month that changes over 10.0 and whose size "
                "changes linearly with month"
            ],
        ),
        ("cosine(period=1500)", ["a sine wave of period 1,500 in month"]),
        ("polynomial(degree=3)", ["a polynomial of degree 3 in month"]),
        (
            "linear * (rbf + constant)",
            [
                "the product of a linear trend in month and (a smooth function of month that "
                "changes over 10.0 plus an offset)"
            ],
        ),
    ],
)
def test_kernels_of_one_column(text: str, phrases: list[str]) -> None:
    found = made(text, ("month",))
    assert list(summand_phrases(found)) == phrases
    sentence = kernel_sentence(found)
    assert sentence == f"The kernel that was found: {', plus '.join(phrases)}, plus noise."


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("periodic(month, period=12)", "a period of 12.0 months in month"),
        ("cosine(month, period=12)", "a sine wave of period 12.0 months in month"),
        ("rbf(month)", "a smooth function of month that changes over 10.0 months"),
        ("rbf(size)", "a smooth function of size that changes over 10.0"),
        (
            "rbf(month) * periodic(month, period=4)",
            "a period of 4.00 months in month whose shape changes slowly, over 10.0 months in "
            "month",
        ),
        ("rbf", "a smooth function of month and size"),
    ],
)
def test_periods_and_lengthscales_have_the_units_of_dates(text: str, phrase: str) -> None:
    found = made(text, ("month", "size"))
    assert summand_phrases(found, {"month": "months"}) == (phrase,)
    assert phrase in kernel_sentence(found, {"month": "months"})


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("rbf", "a smooth function of all 4 columns"),
        ("linear", "a linear function of all 4 columns"),
        ("matern12(a, b)", "a rough function (Matérn-1/2) of a and b"),
        ("periodic(a, b)", "periods in a and b"),
        (
            "rational_quadratic(a) * rbf(b, c, d)",
            "a smooth function of b, c and d whose shape changes over 6.93 in a",
        ),
        (
            "rbf(a) * matern32",
            "a smooth function of a that changes over 10.0 and whose shape "
            "changes with all 4 columns",
        ),
    ],
)
def test_kernels_of_several_columns(text: str, phrase: str) -> None:
    assert summand_phrases(made(text, ("a", "b", "c", "d"))) == (phrase,)


def test_a_column_whose_name_is_a_number_is_called_a_column() -> None:
    assert "function of column 1 that" in summand_phrases(made("rbf", ("1",)))[0]


def test_small_and_large_numbers_are_readable() -> None:
    for scale, shown in {1e-5: "1e-05", 0.012: "0.0120", 123.4: "123", 4e7: "4e+07"}.items():
        assert summand_phrases(made("rbf", ("t",), scale))[0].endswith(f"changes over {shown}")


@pytest.mark.parametrize("name", KERNEL_TYPES)
def test_every_kernel_has_words_alone_as_a_factor_and_of_several_columns(name: str) -> None:
    texts = [name, f"rbf * {name}", f"periodic * {name}", f"rbf + {name} * (linear + {name})"]
    cases: list[tuple[str, tuple[str, ...]]] = [(text, ("month",)) for text in texts]
    if not KERNEL_TYPES[name].one_column:
        cases += [(text, ("a", "b")) for text in texts[:2]]
    for text, columns in cases:
        for phrase in summand_phrases(made(text, columns)):
            assert any(column in phrase for column in columns) or phrase == "an offset"
