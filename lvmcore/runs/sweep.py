"""Sweeps: fits over a grid of settings, one run per combination."""

from __future__ import annotations

import itertools
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lvmcore.errors import ConfigError
from lvmcore.parameters import Parameter, parameters_of

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["MOST_FITS", "new_sweep", "sweep_grid", "swept_settings", "values_of"]

#: Largest number of fits of a sweep.
MOST_FITS = 60

_RANGE = re.compile(r"\s*(-?\d+)\s*(?:\.\.|…|to)\s*(-?\d+)\s*")


def new_sweep() -> str:
    """An id for a sweep."""
    return secrets.token_hex(16)


def values_of(parameter: Parameter, text: str) -> list[Any]:
    """The distinct values in a text such as ``"2, 5, 10"`` or ``"0..4"``, in its order.

    Args:
        parameter: the setting.
        text: values separated by commas; two whole numbers separated by two dots are a range,
            both ends included.

    Raises:
        ConfigError: a value is not allowed, there are too many, or there is none.
    """
    found: list[Any] = []
    for part in text.split(","):
        span = _RANGE.fullmatch(part) if parameter.kind == "int" else None
        if span is not None:
            low, high = int(span[1]), int(span[2])
            if high - low >= MOST_FITS:
                raise ConfigError(
                    f"{parameter.name}: {part.strip()} are {high - low + 1:,} values, and a sweep "
                    f"is {MOST_FITS} fits at most. Name the values between commas."
                )
            found += [parameter.check(value) for value in range(low, high + 1)]
        elif part.strip():
            found.append(parameter.parse(part.strip()))
    if not found:
        raise ConfigError(f"{parameter.name}: no value is named. Name some between commas.")
    return list(dict.fromkeys(found))


def sweep_grid(
    model: type[LatentVariableModel],
    settings: Mapping[str, Any],
    axes: Mapping[str, Sequence[Any]],
) -> list[dict[str, Any]]:
    """The settings of each fit of a sweep: every combination, the first setting varying slowest.

    Args:
        model: class of the model.
        settings: settings common to all fits.
        axes: values of each swept setting.

    Raises:
        ConfigError: nothing is swept, there are too many fits, or the model has no such
            setting.
    """
    fits = math.prod(len(values) for values in axes.values())
    if not axes or fits < 2:
        raise ConfigError(
            "A sweep needs at least two fits: choose a setting, and name several values for it."
        )
    if fits > MOST_FITS:
        sizes = " × ".join(f"{len(values)} of {name}" for name, values in axes.items())
        raise ConfigError(
            f"That is {fits:,} fits ({sizes}), and a sweep is {MOST_FITS} at most: name fewer "
            "values, or sweep fewer settings at once."
        )
    known = {parameter.name for parameter in parameters_of(model)}
    for name in axes:
        if name not in known:
            raise ConfigError(f"{model.__name__} has no setting {name!r} to sweep.")
    return [
        {**settings, **dict(zip(axes, values, strict=True))}
        for values in itertools.product(*axes.values())
    ]


def swept_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The settings that differ among fits, with their values in order of appearance."""
    names = dict.fromkeys(name for one in settings for name in one)
    found = {}
    for name in names:
        values = list(dict.fromkeys(one.get(name) for one in settings))
        if len(values) > 1:
            found[name] = values
    return found
