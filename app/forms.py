"""Parameter metadata → widgets: the form of any model, from what its constructor declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from app.words import markdown
from lvmcore.parameters import Parameter

__all__ = ["AUTO", "PLACE_LAST", "defaults", "parameter_form", "parameter_widget"]

#: What an empty field of an optional parameter stands for: the model decides from the data.
AUTO = "auto"
#: Every model has these; they stand together, after its own.
PLACE_LAST = ("device", "random_state")

_COLUMNS = 3


def defaults(parameters: Sequence[Parameter], suggested: Mapping[str, Any]) -> dict[str, Any]:
    """What each field starts with: the model's suggestion for this table, else its default."""
    return {
        parameter.name: suggested.get(parameter.name, parameter.default) for parameter in parameters
    }


def parameter_form(
    parameters: Sequence[Parameter],
    suggested: Mapping[str, Any],
    key: Callable[[str], str],
    choices: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Draw the fields of a model's parameters: the basic ones, then device and seed, then the rest.

    Args:
        parameters: as the model declares them.
        suggested: settings that suit the table, by name.
        key: gives a parameter's widget key.
        choices: for a choice, the values to offer here (a device that this machine lacks is left
            out); others offer all that are declared.

    Returns:
        The value of every parameter, None where it is left to the model.
    """
    start = defaults(parameters, suggested)
    last = [p for name in PLACE_LAST for p in parameters if p.name == name]
    basic = [p for p in parameters if not p.advanced and p.name not in PLACE_LAST]
    advanced = [p for p in parameters if p.advanced and p.name not in PLACE_LAST]
    values: dict[str, Any] = {}
    offered = choices or {}
    _grid([*basic, *last], start, key, offered, values)
    if advanced:
        with st.expander("Advanced settings"):
            _grid(advanced, start, key, offered, values)
    return {parameter.name: values[parameter.name] for parameter in parameters}


def _grid(
    parameters: Sequence[Parameter],
    start: Mapping[str, Any],
    key: Callable[[str], str],
    choices: Mapping[str, Sequence[str]],
    values: dict[str, Any],
) -> None:
    for first in range(0, len(parameters), _COLUMNS):
        row = parameters[first : first + _COLUMNS]
        for place, parameter in zip(st.columns(_COLUMNS), row, strict=False):
            with place:
                values[parameter.name] = parameter_widget(
                    parameter,
                    start[parameter.name],
                    key(parameter.name),
                    choices.get(parameter.name, parameter.choices),
                )


def parameter_widget(
    parameter: Parameter, value: Any, key: str, choices: Sequence[str] = ()
) -> Any:
    """Draw the field of one parameter.

    Args:
        parameter: its metadata.
        value: what the field starts with.
        key: of the widget.
        choices: the values that a choice offers.

    Returns:
        The field's value; None where it is empty, which only an optional parameter can be.
    """
    label = markdown(parameter.label[:1].upper() + parameter.label[1:])
    text = markdown(parameter.doc)
    if parameter.kind == "bool" and not parameter.optional:
        return st.checkbox(label, value=bool(value), key=key, help=text, persist_state="session")
    if parameter.kind in ("bool", "choice"):
        return _choice(parameter, value, key, label, text, choices)
    if parameter.kind == "str":
        typed = st.text_input(
            label,
            value=value,
            key=key,
            help=text,
            placeholder=AUTO if parameter.optional else None,
            persist_state="session",
        )
        return None if parameter.optional and not typed else typed
    if parameter.word is not None:
        return _number_or_word(parameter, parameter.word, value, key, label, text)
    return _number(parameter, value, key, label, text)


def _choice(
    parameter: Parameter, value: Any, key: str, label: str, text: str, choices: Sequence[str]
) -> Any:
    options: list[Any] = [True, False] if parameter.kind == "bool" else list(choices)
    if parameter.optional:
        options.insert(0, None)
    return st.selectbox(
        label,
        options,
        index=options.index(value) if value in options else 0,
        format_func=lambda option: {None: AUTO, True: "yes", False: "no"}.get(option, str(option)),
        key=key,
        help=text,
        persist_state="session",
    )


def _number_or_word(
    parameter: Parameter, word: str, value: Any, key: str, label: str, text: str
) -> float | str:
    """A slider over the range, and a box to tick for the word in its place."""
    said = st.checkbox(
        f"{label}: {word}",
        value=value == word,
        key=f"{key}:{word}",
        help=f"Ticked: {word}, whatever number the slider shows.",
        persist_state="session",
    )
    assert parameter.low is not None
    assert parameter.high is not None
    start = next(v for v in (value, parameter.default, parameter.high) if v != word)
    number: float = st.slider(
        label,
        float(parameter.low),
        float(parameter.high),
        float(start),
        step=10 ** math.floor(math.log10(parameter.high - parameter.low)) / 20,
        key=key,
        help=text,
        disabled=said,
        persist_state="session",
    )
    return word if said else number


def _number(
    parameter: Parameter, value: Any, key: str, label: str, text: str
) -> int | float | None:
    whole = parameter.kind == "int"
    cast: Callable[[Any], int | float] = int if whole else float
    start = None if value is None else cast(value)
    # Streamlit's overloads want the bounds and the value to be known as all int or all float.
    options: dict[str, Any] = {
        "min_value": None if parameter.low is None else cast(parameter.low),
        "max_value": None if parameter.high is None else cast(parameter.high),
        "value": start,
        "step": 1 if whole else abs(start or 0.1) / 10,
        "format": "%d" if whole else "%g",
        "placeholder": AUTO if parameter.optional else None,
    }
    entered: int | float | None = st.number_input(
        label, key=key, help=text, persist_state="session", **options
    )
    return start if entered is None and not parameter.optional else entered
