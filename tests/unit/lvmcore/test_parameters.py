"""Parameter metadata: read, checked and parsed."""

from typing import Annotated, Any, Literal

import numpy as np
import pytest

from lvmcore.errors import ConfigError
from lvmcore.parameters import (
    Advanced,
    Doc,
    Parameter,
    Range,
    Syntax,
    check_settings,
    parameters_of,
    parse_settings,
)


class Example:
    def __init__(
        self,
        *,
        size: Annotated[int | None, Range(1, 10), Doc("How many.", "how many")] = None,
        rate: Annotated[float, Range(0.1, 2.0, log=True), Doc("How fast."), Advanced()] = 0.5,
        way: Annotated[Literal["up", "down"], Doc("Which way.")] = "up",
        quick: Annotated[bool, Doc("Whether to hurry.")] = False,
        motto: Annotated[str, Doc("What to say.")] = "",
        power: Annotated[float | Literal["learn"], Range(0.5, 2.0), Doc("How sharp.")] = 1.5,
    ) -> None:
        pass


class Bare:
    def __init__(self, *, size: int = 3) -> None:
        pass


def named(name: str) -> Parameter:
    return next(p for p in parameters_of(Example) if p.name == name)


def test_everything_declared_is_read() -> None:
    names = ["size", "rate", "way", "quick", "motto", "power"]
    assert [p.name for p in parameters_of(Example)] == names
    assert named("size") == Parameter(
        name="size",
        label="how many",
        kind="int",
        default=None,
        optional=True,
        low=1,
        high=10,
        log=False,
        choices=(),
        doc="How many.",
        advanced=False,
    )
    rate = named("rate")
    assert (rate.kind, rate.low, rate.high, rate.log, rate.advanced, rate.label) == (
        "float",
        0.1,
        2.0,
        True,
        True,
        "rate",
    )
    assert (named("way").kind, named("way").choices) == ("choice", ("up", "down"))
    assert (named("quick").kind, named("motto").kind) == ("bool", "str")
    power = named("power")
    assert (power.kind, power.word, power.choices, power.low) == ("float", "learn", (), 0.5)


def test_a_parameter_without_metadata_is_a_fault_of_the_model() -> None:
    with pytest.raises(TypeError, match="size is declared without"):
        parameters_of(Bare)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", None),
        ("size", 1),
        ("size", np.int64(10)),
        ("rate", 0.1),
        ("rate", np.float64(2.0)),
        ("rate", 1),
        ("way", "down"),
        ("quick", True),
        ("motto", "x"),
        ("power", 0.5),
        ("power", "learn"),
    ],
)
def test_allowed_values_pass_unchanged(name: str, value: Any) -> None:
    assert named(name).check(value) is value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("size", 0, "a whole number from 1 to 10, or none"),
        ("size", 11, "a whole number from 1 to 10"),
        ("size", 2.0, "a whole number"),
        ("size", True, "a whole number"),
        ("size", "2", "a whole number"),
        ("rate", 0.05, "a number from 0.1 to 2"),
        ("rate", None, "a number from 0.1 to 2"),
        ("rate", float("nan"), "a number"),
        ("rate", float("inf"), "a number"),
        ("rate", True, "a number"),
        ("way", "left", "one of up, down"),
        ("way", 1, "one of up, down"),
        ("quick", 1, "true or false"),
        ("motto", 3, "a text"),
        ("power", 3.0, "a number from 0.5 to 2, or learn"),
        ("power", "guess", "a number from 0.5 to 2, or learn"),
    ],
)
def test_refusals_name_setting_value_and_range(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_settings(Example, {name: value})
    assert f"{name}={value!r} cannot be used" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size=3", 3),
        ("size=none", None),
        ("size=", None),
        ("rate=1e0", 1.0),
        ("rate=1", 1.0),
        ("way=down", "down"),
        ("quick=Yes", True),
        ("quick=0", False),
        (" motto =a=b", "a=b"),
        ("power=0.7", 0.7),
        ("power= Learn", "learn"),
    ],
)
def test_texts_are_parsed(text: str, value: Any) -> None:
    (parsed,) = parse_settings(Example, [text]).values()
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size", "'size' is no setting: expected name=value"),
        ("sise=3", "Example has no setting 'sise'. It has: size, rate"),
        ("size=3.5", "size='3.5' cannot be used: expected a whole number from 1 to 10, or none"),
        ("size=99", "size=99 cannot be used"),
        ("rate=fast", "rate='fast' cannot be used: expected a number from 0.1 to 2"),
        ("rate=none", "rate='none' cannot be used"),
        ("rate=nan", "rate=nan cannot be used"),
        ("power=guess", "power='guess' cannot be used: expected a number from 0.5 to 2, or learn"),
        ("way=left", "way='left' cannot be used: expected one of up, down"),
        ("quick=maybe", "quick='maybe' cannot be used: expected true or false"),
    ],
)
def test_texts_that_cannot_be_parsed_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(Example, [text])
    assert message in str(caught.value)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="no setting 'sise'"):
        check_settings(Example, {"sise": 3})


def shouted(text: str, columns: list[str] | None) -> None:
    """The syntax of the test below: capitals, and names of columns where they are known."""
    if text != text.upper():
        raise ConfigError(f"{text!r} is too quiet")
    if columns is not None and text not in columns:
        raise ConfigError(f"{text!r} is no column")


class Spoken:
    def __init__(
        self,
        *,
        shout: Annotated[
            str | Literal["auto"], Syntax(f"{__name__}:shouted", "HEY"), Doc("What to shout.")
        ] = "auto",
    ) -> None:
        pass


def test_a_text_with_a_syntax_is_checked_by_its_function() -> None:
    shout = parameters_of(Spoken)[0]
    assert (shout.kind, shout.word, shout.example) == ("str", "auto", "HEY")
    assert shout.expected == "a text such as HEY, or auto"
    assert shout.parse("HO") == "HO"
    assert shout.parse(" Auto ") == "auto"
    assert shout.check("auto", ["HEY"]) == "auto"
    for value, message in ((3, "a text such as HEY"), ("ho", "'ho' is too quiet")):
        with pytest.raises(ConfigError, match=message):
            shout.check(value)
    assert check_settings(Spoken, {"shout": "HEY"}, ["HEY"]) == {"shout": "HEY"}
    with pytest.raises(ConfigError, match="'HO' is no column"):
        check_settings(Spoken, {"shout": "HO"}, ["HEY"])
