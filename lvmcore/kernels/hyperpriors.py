"""Priors of the parameters of a kernel and of the noise, read from text.

``lengthscale: log_normal(0, 1), period(month): normal(12, 1), noise: half_cauchy(0.1)`` gives each
lengthscale, the period of the column month, and the noise a prior::

    priors = prior, {",", prior}
    prior  = PARAMETER, ["(", COLUMN, ")"], ":", DISTRIBUTION, "(", NUMBER, {",", NUMBER}, ")"

A parameter of a named column is in the units of the column, one of all columns in sds of each; the
sds of summands and of the noise are in sds of the target. The densities are those of
gpytorch.priors, which is imported where they are computed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lvmcore.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from lvmcore.kernels.composite import CompositeKernel

__all__ = ["DISTRIBUTIONS", "PARAMETERS", "HyperPrior", "check_priors", "log_prior", "read_priors"]


@dataclass(frozen=True)
class Distribution:
    """A distribution of a parameter.

    Attributes:
        arguments: names of its numbers.
        positive: which of them must be above 0.
        gpytorch: name of its class in gpytorch.priors.
    """

    arguments: tuple[str, ...]
    positive: tuple[bool, ...]
    gpytorch: str


#: By name, in the order of messages.
DISTRIBUTIONS: Mapping[str, Distribution] = {
    "gamma": Distribution(("shape", "rate"), (True, True), "GammaPrior"),
    "log_normal": Distribution(("mean of the log", "sd"), (False, True), "LogNormalPrior"),
    "normal": Distribution(("mean", "sd"), (False, True), "NormalPrior"),
    "half_normal": Distribution(("scale",), (True,), "HalfNormalPrior"),
    "half_cauchy": Distribution(("scale",), (True,), "HalfCauchyPrior"),
}
#: Parameters with a prior: of columns, then of the target.
PARAMETERS = ("lengthscale", "period", "sd", "noise")
_OF_COLUMNS = PARAMETERS[:2]
_EXAMPLE = "lengthscale: log_normal(0, 1)"
_PRIOR = re.compile(
    r"""\s*(?P<parameter>\w+)\s*
        (?:\(\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<column>[^()":]+?))\s*\)\s*)?
        :\s*(?P<distribution>\w+)\s*\((?P<numbers>[^()]*)\)\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class HyperPrior:
    """A prior.

    Attributes:
        parameter: one of ``PARAMETERS``.
        column: its column; None for all.
        distribution: one of ``DISTRIBUTIONS``.
        arguments: its numbers.
    """

    parameter: str
    column: str | None
    distribution: str
    arguments: tuple[float, ...]


def read_priors(text: str) -> tuple[HyperPrior, ...]:
    """The priors of a text; none of an empty one.

    Raises:
        ConfigError: it is no list of priors; the message says where.
    """
    found, at = [], 0
    while text[at:].strip():
        matched = _PRIOR.match(text, at)
        if matched is None:
            raise ConfigError(
                f"The priors {text!r} cannot be read from {text[at:].strip()!r} on: expected one "
                f"such as {_EXAMPLE}, or several with commas between them."
            )
        found.append(_prior(matched))
        at = matched.end()
        if text[at : at + 1] not in ("", ","):
            raise ConfigError(
                f"The priors {text!r} cannot be read from {text[at:]!r} on: expected a comma."
            )
        at += 1
    return tuple(found)


def _prior(matched: re.Match[str]) -> HyperPrior:
    parameter, name = matched["parameter"], matched["distribution"]
    if parameter not in PARAMETERS:
        raise ConfigError(_unknown("parameter", parameter, PARAMETERS))
    if name not in DISTRIBUTIONS:
        raise ConfigError(_unknown("distribution", name, tuple(DISTRIBUTIONS)))
    quoted = matched["quoted"]
    column = matched["column"] if quoted is None else quoted.replace('""', '"')
    if column is not None and parameter not in _OF_COLUMNS:
        raise ConfigError(
            f"The prior of {parameter!r} has no column: write {parameter}: {name}(…)."
        )
    kind = DISTRIBUTIONS[name]
    texts = [one for one in matched["numbers"].split(",") if one.strip()]
    wanted = f"{name}({', '.join(kind.arguments)})"
    try:
        numbers = tuple(map(float, texts))
    except ValueError:
        raise ConfigError(f"The prior {matched[0].strip()!r} needs numbers: {wanted}.") from None
    if len(numbers) != len(kind.arguments):
        raise ConfigError(
            f"The prior {matched[0].strip()!r} has {len(numbers)} numbers: expected {wanted}."
        )
    for value, positive, argument in zip(numbers, kind.positive, kind.arguments, strict=True):
        if (positive and not value > 0) or not abs(value) < 1e300:
            raise ConfigError(
                f"The prior {matched[0].strip()!r} has {argument} {value:g}: expected a number"
                f"{' above 0' if positive else ''}."
            )
    return HyperPrior(parameter, column, name, numbers)


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"The priors name the {what} {name!r}, which is unknown{meant}: {', '.join(known)}."


def check_priors(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of priors, and that a table has the columns that it names.

    Args:
        text: the text.
        columns: names of the columns; None where they are not known.

    Raises:
        ConfigError: as of ``read_priors``, or a column is unknown.
    """
    for prior in read_priors(text):
        if columns is not None and prior.column is not None and prior.column not in columns:
            near = difflib.get_close_matches(prior.column, columns, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(
                f"The prior of {prior.parameter} names the column {prior.column!r}, which is none "
                f"of the columns of the fit{meant}."
            )


def log_prior(priors: Sequence[HyperPrior], kernel: CompositeKernel, noise: Tensor) -> Tensor:
    """Σ log p(θ) over the parameters that have a prior, nats, [].

    Args:
        priors: of the parameters; one that a kernel does not have adds nothing.
        kernel: the kernel.
        noise: σ², of the standardised target.
    """
    total = noise.new_zeros(())
    for prior in priors:
        density = _density(prior)
        for value in _values(prior, kernel, noise):
            total = total + density.log_prob(value.double()).sum().to(total)
    return total


def _density(prior: HyperPrior) -> Any:
    from lvmcore.kernels.gpytorch_components import gpytorch_kernels

    gpytorch_kernels()  # whose first import warns
    import gpytorch.priors

    return getattr(gpytorch.priors, DISTRIBUTIONS[prior.distribution].gpytorch)(*prior.arguments)


def _values(prior: HyperPrior, kernel: CompositeKernel, noise: Tensor) -> list[Tensor]:
    if prior.parameter == "noise":
        return [noise.sqrt()]
    if prior.parameter == "sd":
        return [summand.variance.sqrt() for summand in kernel.summands]
    found = []
    for column, value, scale in kernel.parameters_of_columns(prior.parameter):
        if prior.column is None:
            found.append(value / scale)
        elif prior.column == column:
            found.append(value)
    return found
