"""Parameter metadata, read from the annotations of a model's settings.

A model declares each parameter once, in its class body::

    n_inducing: Annotated[int, Range(2, 1000), Doc("…")] = 25

and the form of the dashboard, ``lvmcore fit --set n_inducing=50``, the validation and the
documentation use this declaration.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import numbers
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from lvmcore.errors import ConfigError

__all__ = [
    "Advanced",
    "Advised",
    "Doc",
    "Parameter",
    "Range",
    "Syntax",
    "check_settings",
    "is_array",
    "parameters_of",
    "parse_settings",
]

BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
Kind = Literal["int", "float", "bool", "choice", "str"]


@dataclass(frozen=True)
class Range:
    """Closed range of a number; ``log`` for a logarithmic scale on forms."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Doc:
    """Description of a parameter in one sentence, and its label on a form."""

    text: str
    label: str | None = None


@dataclass(frozen=True)
class Advanced:
    """Marks a parameter that is rarely changed: it is collapsed on a form."""


@dataclass(frozen=True)
class Syntax:
    """Syntax of a text.

    Attributes:
        function: "module:function" of a text and the names of the columns of the fit, None where
            they are not known. It raises a ConfigError for a text that is not allowed, and is
            imported where a value is checked.
        example: an allowed text.
        suggestions: short allowed texts, which a form offers.
    """

    function: str
    example: str
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advised:
    """A recommended setting for a table, in place of its default.

    Attributes:
        value: the setting.
        reason: of the recommendation, as a clause without a full stop; "" for the usual setting.
    """

    value: Any
    reason: str = ""


@dataclass(frozen=True)
class Parameter:
    """One constructor parameter of a model, as declared.

    Attributes:
        name: the constructor's argument.
        label: its name on a form.
        kind: its type; ``choice`` lists its values in ``choices``.
        default: the constructor's default.
        optional: True if None is allowed, for a value chosen from the data.
        low: smallest value (numbers only).
        high: largest value (numbers only).
        log: True for a logarithmic slider.
        choices: the allowed values of a ``choice``.
        doc: its description, one sentence.
        advanced: True if a form collapses it.
        array: True if an array is allowed in Python in place of one of the choices.
        word: a word that is allowed in place of a number or of a text with a syntax; None for none.
        syntax: of a text, ``Syntax.function``; None for any text.
        example: of such a text; "" for none.
        suggestions: short texts that a form offers beside any other.
    """

    name: str
    label: str
    kind: Kind
    default: Any
    optional: bool
    low: float | None
    high: float | None
    log: bool
    choices: tuple[str, ...]
    doc: str
    advanced: bool
    array: bool = False
    word: str | None = None
    syntax: str | None = None
    example: str = ""
    suggestions: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """Description of the allowed values."""
        if self.kind == "choice":
            text = "one of " + ", ".join(self.choices)
            text += " (in Python also an array)" if self.array else ""
        elif self.kind == "bool":
            text = "true or false"
        elif self.kind == "str":
            text = f"a text such as {self.example}" if self.example else "a text"
            text += "" if self.word is None else f", or {self.word}"
        else:
            text = "a whole number" if self.kind == "int" else "a number"
            if self.low is not None and self.high is not None:
                text += f" from {self.low:g} to {self.high:g}"
            text += "" if self.word is None else f", or {self.word}"
        return text + (", or none" if self.optional else "")

    def check(self, value: Any, columns: Sequence[str] | None = None) -> Any:
        """Return ``value`` if it is allowed.

        Args:
            value: the value.
            columns: names of the columns of the fit, if they are known.

        Raises:
            ConfigError: it is not; the message has the parameter, the value and the allowed values.
        """
        if value is None and self.optional:
            return None
        if self.array and is_array(value):
            return value
        if self.word is not None and isinstance(value, str) and value == self.word:
            return value
        ok = {
            "int": _is_int(value),
            "float": _is_number(value),
            "bool": isinstance(value, bool),
            "choice": isinstance(value, str) and value in self.choices,
            "str": isinstance(value, str),
        }[self.kind]
        if ok and self.low is not None and self.high is not None:
            ok = self.low <= value <= self.high
        if not ok:
            raise ConfigError(f"{self.name}={value!r} cannot be used: expected {self.expected}.")
        if self.syntax is not None:
            module, _, function = self.syntax.partition(":")
            getattr(importlib.import_module(module), function)(value, columns)
        return value

    def parse(self, text: str) -> Any:
        """Parse a value from ``text`` of a command line or a form.

        Raises:
            ConfigError: the text is no allowed value.
        """
        if self.optional and text.strip().lower() in ("none", ""):
            return None
        if self.word is not None and text.strip().lower() == self.word:
            return self.word
        value: Any = text
        try:
            if self.kind == "int":
                value = int(text)
            elif self.kind == "float":
                value = float(text)
        except ValueError:
            raise ConfigError(
                f"{self.name}={text!r} cannot be used: expected {self.expected}."
            ) from None
        if self.kind == "bool":
            value = BOOLEANS.get(text.strip().lower(), text)
        return self.check(value)


def is_array(value: Any) -> bool:
    """Whether a setting's value is an array, or a list to make one of."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def _is_int(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    return math.isfinite(value)


@functools.cache
def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The parameters of ``cls``, in the order of its constructor.

    A constructor that ``estimator_dataclass`` made has the annotations of the class bodies, any
    other one its own.

    Raises:
        TypeError: a parameter is declared without metadata (an error in the model).
    """
    init = cls.__init__  # type: ignore[misc]
    hints = get_type_hints(cls if hasattr(init, "__signature__") else init, include_extras=True)
    found = []
    for name, argument in inspect.signature(init).parameters.items():
        if name == "self":
            continue
        found.append(_parameter(name, hints[name], argument.default))
    return tuple(found)


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"parameter {name} is declared without Annotated metadata")
    annotation, *metadata = get_args(hint)
    options = [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        options = list(get_args(annotation))
    optional = type(None) in options
    plain = next(option for option in options if option is not type(None))
    choices: tuple[str, ...] = ()
    kinds: dict[Any, Kind] = {int: "int", float: "float", bool: "bool", str: "str"}
    if get_origin(plain) is Literal:
        choices = get_args(plain)
    literals = [option for option in options if get_origin(option) is Literal]
    word = get_args(literals[0])[0] if literals and not choices else None
    limits = next((item for item in metadata if isinstance(item, Range)), None)
    syntax = next((item for item in metadata if isinstance(item, Syntax)), None)
    doc = next(item for item in metadata if isinstance(item, Doc))
    return Parameter(
        name=name,
        label=doc.label or name.replace("_", " "),
        kind="choice" if choices else kinds[plain],
        default=default,
        optional=optional,
        low=None if limits is None else limits.low,
        high=None if limits is None else limits.high,
        log=limits is not None and limits.log,
        choices=choices,
        doc=doc.text,
        advanced=any(isinstance(item, Advanced) for item in metadata),
        array=any(get_origin(option) is np.ndarray for option in options),
        word=word,
        syntax=None if syntax is None else syntax.function,
        example="" if syntax is None else syntax.example,
        suggestions=() if syntax is None else syntax.suggestions,
    )


def check_settings(
    cls: type, settings: Mapping[str, Any], columns: Sequence[str] | None = None
) -> dict[str, Any]:
    """``settings`` with every name known and every value allowed.

    Args:
        cls: the model.
        settings: values by name.
        columns: names of the columns of the fit, if they are known.

    Raises:
        ConfigError: a name is unknown, or a value is not allowed.
    """
    known = {parameter.name: parameter for parameter in parameters_of(cls)}
    checked = {}
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(
                f"{cls.__name__} has no setting {name!r}. It has: {', '.join(known)}."
            )
        checked[name] = known[name].check(value, columns)
    return checked


def parse_settings(cls: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Settings from texts such as ``"n_inducing=50"``.

    Raises:
        ConfigError: a text is no assignment, a name is unknown, or a value is not allowed.
    """
    known = {parameter.name: parameter for parameter in parameters_of(cls)}
    parsed = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise ConfigError(f"{assignment!r} is no setting: expected name=value.")
        if name not in known:
            raise ConfigError(
                f"{cls.__name__} has no setting {name!r}. It has: {', '.join(known)}."
            )
        parsed[name] = known[name].parse(text)
    return parsed
