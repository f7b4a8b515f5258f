"""The form of a model's parameters, from their metadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.formatting import markdown
from app.state.widgets import set_default_value, widget_key
from app.views.fit.kernel_builder import KernelBuilder
from lvmcore.parameters import Parameter

__all__ = ["AUTO", "COMMON_PARAMETERS", "defaults", "parameter_form", "parameter_widget"]

#: Text of an empty field of an optional parameter: the model chooses from the data.
AUTO = "auto"
#: Entries of a menu of texts: one opens a field for any other, one the components of a kernel.
_ANOTHER, _BUILT = "another, typed", "built from components"
#: Start of the syntax of kernel expressions.
_KERNELS = "lvmcore.kernels.catalogue:"
#: Parameters of every model, drawn after its own.
COMMON_PARAMETERS = ("device", "random_state")

_COLUMNS = 4


def defaults(parameters: Sequence[Parameter], suggested: Mapping[str, Any]) -> dict[str, Any]:
    """Initial value of each field: the suggestion for the table, else the default."""
    return {
        parameter.name: suggested.get(parameter.name, parameter.default) for parameter in parameters
    }


def parameter_form(
    parameters: Sequence[Parameter],
    suggested: Mapping[str, Any],
    key: Callable[[str], str],
    choices: Mapping[str, Sequence[str]] | None = None,
    kernels: KernelBuilder | None = None,
) -> dict[str, Any]:
    """Draw the fields of a model's parameters: basic ones, device and seed; folded, advanced ones.

    Args:
        parameters: the declared parameters of the model.
        suggested: suggested settings for the table, by name.
        key: gives the widget key of a parameter.
        choices: options of a choice by parameter, for example the devices of this machine; other
            choices have their declared options.
        kernels: fields of kernels that are built from components; None offers none.

    Returns:
        The value of every parameter; None for one that the model chooses.
    """
    initial = defaults(parameters, suggested)
    common = [p for name in COMMON_PARAMETERS for p in parameters if p.name == name]
    basic = [p for p in parameters if not p.advanced and p.name not in COMMON_PARAMETERS]
    advanced = [p for p in parameters if p.advanced and p.name not in COMMON_PARAMETERS]
    values: dict[str, Any] = {}
    options = choices or {}
    _grid([*basic, *common], initial, key, options, values, kernels)
    if advanced:
        with st.expander("Advanced settings", key=key("advanced settings")):
            _grid(advanced, initial, key, options, values, kernels)
    return {parameter.name: values[parameter.name] for parameter in parameters}


def _grid(
    parameters: Sequence[Parameter],
    initial: Mapping[str, Any],
    key: Callable[[str], str],
    choices: Mapping[str, Sequence[str]],
    values: dict[str, Any],
    kernels: KernelBuilder | None,
) -> None:
    for first in range(0, len(parameters), _COLUMNS):
        row = parameters[first : first + _COLUMNS]
        for column, parameter in zip(st.columns(_COLUMNS), row, strict=False):
            with column:
                values[parameter.name] = parameter_widget(
                    parameter,
                    initial[parameter.name],
                    key(parameter.name),
                    choices.get(parameter.name, parameter.choices),
                    builds=kernels is not None,
                )
        for parameter in row:
            if kernels is not None and values[parameter.name] == _BUILT:
                own = partial(widget_key, key(parameter.name))
                Q = values.get("n_components", initial.get("n_components"))
                n_dimensions = Q if isinstance(Q, int) else None
                builder = kernels.of_syntax(parameter.syntax, n_dimensions)
                values[parameter.name] = builder.expression(initial[parameter.name], own)


def parameter_widget(
    parameter: Parameter, value: Any, key: str, choices: Sequence[str] = (), *, builds: bool = False
) -> Any:
    """Draw the field of one parameter.

    Args:
        parameter: its metadata.
        value: initial value of the field.
        key: widget key.
        choices: options of a choice, or of a text that has no others here.
        builds: whether a kernel may be built from components, which the caller draws.

    Returns:
        The value of the field; None for an empty field of an optional parameter.
    """
    label = markdown(parameter.label[:1].upper() + parameter.label[1:])
    text = markdown(parameter.doc)
    if parameter.kind == "bool" and not parameter.optional:
        set_default_value(key, bool(value))
        return st.checkbox(label, key=key, help=text, persist_state="session")
    if choices or parameter.kind == "bool":
        return _choice(parameter, value, key, label, text, choices)
    if parameter.suggestions:
        more = (_BUILT,) if builds and (parameter.syntax or "").startswith(_KERNELS) else ()
        return _suggested_text(parameter, value, key, label, text, more)
    if parameter.kind == "str":
        set_default_value(key, value)
        typed = st.text_input(
            label,
            key=key,
            help=text,
            placeholder=AUTO if parameter.optional else parameter.example or None,
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
    set_default_value(key, value if value in options else options[0])
    return st.selectbox(
        label,
        options,
        format_func=lambda option: {None: AUTO, True: "yes", False: "no"}.get(option, str(option)),
        key=key,
        help=text,
        persist_state="session",
    )


def _suggested_text(
    parameter: Parameter, value: str, key: str, label: str, text: str, more: Sequence[str]
) -> str:
    """A menu of short texts and further entries, whose last opens a field for any other."""
    options = [*parameter.suggestions, *more, _ANOTHER]
    is_suggested = value in parameter.suggestions
    set_default_value(key, value if is_suggested else _ANOTHER)
    chosen: str = st.selectbox(
        label,
        options,
        key=key,
        help=text,
        persist_state="session",
    )
    if chosen != _ANOTHER:
        return chosen
    set_default_value(f"{key}:typed", "" if is_suggested else value)
    typed: str = st.text_input(
        f"{label}, typed",
        key=f"{key}:typed",
        help=text,
        placeholder=parameter.example,
        persist_state="session",
    )
    return typed


def _number_or_word(
    parameter: Parameter, word: str, value: Any, key: str, label: str, text: str
) -> float | str | None:
    """A field for a number, and a checkbox for a word instead of it."""
    set_default_value(f"{key}:{word}", value == word)
    use_word = st.checkbox(
        f"{label}: {word}",
        key=f"{key}:{word}",
        help=text,
        persist_state="session",
    )
    number: float | None
    if parameter.kind == "int":
        initial = None if value == word else value
        number = _number(parameter, initial, key, label, text, disabled=use_word)
    else:
        options = (value, parameter.default, parameter.high)
        initial = next(option for option in options if option not in (word, None))
        number = _slider(parameter, initial, key, label, text, disabled=use_word)
    return word if use_word else number


def _slider(
    parameter: Parameter, value: float, key: str, label: str, text: str, *, disabled: bool
) -> float:
    assert parameter.low is not None
    assert parameter.high is not None
    set_default_value(key, float(value))
    number: float = st.slider(
        label,
        float(parameter.low),
        float(parameter.high),
        step=10 ** math.floor(math.log10(parameter.high - parameter.low)) / 20,
        key=key,
        help=text,
        disabled=disabled,
        persist_state="session",
    )
    return number


def _number(
    parameter: Parameter, value: Any, key: str, label: str, text: str, *, disabled: bool = False
) -> int | float | None:
    whole = parameter.kind == "int"
    cast: Callable[[Any], int | float] = int if whole else float
    initial = None if value is None else cast(value)
    set_default_value(key, initial)
    form = "%d" if whole else "%g"
    # The overloads of Streamlit require bounds of the same type, int or float.
    options: dict[str, Any] = {
        "min_value": None if parameter.low is None else cast(parameter.low),
        "max_value": None if parameter.high is None else cast(parameter.high),
        "value": None,  # of a field that is emptied; the first one is set above
        "step": 1 if whole else abs(initial or 0.1) / 10,
        "format": form,
        "placeholder": AUTO if parameter.optional else _shown(form, initial),
    }
    entered: int | float | None = st.number_input(
        label, key=key, help=text, persist_state="session", disabled=disabled, **options
    )
    return initial if entered is None and not parameter.optional else entered


def _shown(form: str, number: float | None) -> str | None:
    """A number as its field shows it."""
    return None if number is None else form % number
