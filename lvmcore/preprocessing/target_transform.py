"""Monotone transforms of a numeric target: the logarithm, and the Yeo-Johnson family.

Each maps the targets that it allows onto all real numbers, so that a Gaussian of the transformed
target is a distribution of the target whose density integrates to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from lvmcore.numerics.array_types import FloatArray

__all__ = ["IDENTITY", "TargetTransform", "TransformName"]

TransformName = Literal["none", "log", "yeo-johnson"]
#: Exponents of the Yeo-Johnson family for which it maps onto all real numbers.
LEAST_EXPONENT, MOST_EXPONENT = 0.0, 2.0
#: Quantile of the sizes of a target that is the unit of its Yeo-Johnson transform.
UNIT_QUANTILE = 0.1
# Nodes of the Gauss-Hermite rule of the moments; largest argument of an exponential.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(96)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LARGEST_LOG = 700.0


@dataclass(frozen=True)
class TargetTransform:
    """t of z = t(y), increasing in y.

    ``log`` is log y of y > 0. ``yeo-johnson`` is, with u = y / s (Yeo and Johnson 2000),

        t(y) = ((1 + u)^λ − 1)/λ for u ≥ 0,   −((1 − u)^{2 − λ} − 1)/(2 − λ) for u < 0,

    and log(1 + u) or −log(1 − u) where the exponent is 0. It is linear for λ = 1. For targets above
    their unit s it is near the Box-Cox transform of the exponent λ.

    Attributes:
        name: the family.
        exponent: λ, 0 to 2.
        unit: s, in units of the target.
    """

    name: TransformName = "none"
    exponent: float = 1.0
    unit: float = 1.0

    @classmethod
    def yeo_johnson(cls, exponent: float, y: FloatArray) -> Self:
        """The Yeo-Johnson transform whose unit is the 10 % quantile of the sizes of y [N]."""
        sizes = np.abs(y[y != 0])
        unit = float(np.quantile(sizes, UNIT_QUANTILE)) if len(sizes) else 1.0
        return cls("yeo-johnson", float(exponent), unit)

    @property
    def is_identity(self) -> bool:
        """Whether z = y."""
        return self.name == "none"

    @property
    def scale_phrase(self) -> str:
        """The scale of z in words, for "on …"; "" of the target's own."""
        if self.name == "yeo-johnson":
            return f"the Yeo-Johnson scale (λ {self.exponent:.2g})"
        return "the log scale" if self.name == "log" else ""

    def allows(self, y: FloatArray) -> bool:
        """Whether the targets y [N] have a transform."""
        return self.name != "log" or bool((y > 0).all())

    def forward(self, y: FloatArray) -> FloatArray:
        """z, [...]; −inf of a target that the logarithm does not allow."""
        if self.is_identity:
            return y
        if self.name == "log":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(np.maximum(y, 0.0)))
        u = y / self.unit
        return np.where(
            u >= 0, _power(u.clip(0), self.exponent), -_power((-u).clip(0), 2 - self.exponent)
        )

    def inverse(self, z: FloatArray) -> FloatArray:
        """y, [...], at most about 1e304."""
        if self.is_identity:
            return z
        if self.name == "log":
            return np.asarray(np.exp(np.minimum(z, _LARGEST_LOG)))
        return self.unit * np.where(
            z >= 0,
            _power_inverse(z.clip(0), self.exponent),
            -_power_inverse((-z).clip(0), 2 - self.exponent),
        )

    def log_derivative(self, y: FloatArray) -> FloatArray:
        """log t'(y), [...]; −inf of a target that the logarithm does not allow."""
        if self.is_identity:
            return np.zeros_like(y)
        if self.name == "log":
            with np.errstate(divide="ignore"):
                return np.where(y > 0, -np.log(np.where(y > 0, y, 1.0)), -np.inf)
        u = y / self.unit
        slope = (self.exponent - 1) * np.sign(u) * np.log1p(np.abs(u))
        return np.asarray(slope - np.log(self.unit))

    def normal_moments(self, mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of y for z ~ N(mean, sd²), [...] each.

        In closed form for the logarithm, by Gauss-Hermite quadrature for Yeo-Johnson.
        """
        if self.is_identity:
            return mean, np.square(sd)
        if self.name == "log":
            square = np.square(sd)
            first = np.exp(np.minimum(mean + 0.5 * square, _LARGEST_LOG / 3))
            return first, np.square(first) * np.expm1(np.minimum(square, _LARGEST_LOG / 6))
        values = self.inverse(mean[..., None] + sd[..., None] * _NODES)
        values = np.clip(values, -1e150, 1e150)
        first = values @ _WEIGHTS
        return first, np.square(values - first[..., None]) @ _WEIGHTS

    def facts(self) -> dict[str, Any]:
        """JSON-serialisable state, for ``from_facts``."""
        return {"name": self.name, "exponent": self.exponent, "unit": self.unit}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any] | None) -> Self:
        """The transform of ``facts``; that of none for None.

        Raises:
            ValueError: there is no such transform.
        """
        if facts is None:
            return cls()
        found = cls(facts["name"], float(facts["exponent"]), float(facts["unit"]))
        allowed = LEAST_EXPONENT <= found.exponent <= MOST_EXPONENT and found.unit > 0
        if found.name not in get_args(TransformName) or not allowed:
            raise ValueError(f"no transform of a target: {facts!r}")
        return found


#: z = y.
IDENTITY = TargetTransform()


def _power(u: FloatArray, exponent: float) -> FloatArray:
    """((1 + u)^λ − 1)/λ of u ≥ 0, or its limit log(1 + u)."""
    if abs(exponent) < 1e-12:
        return np.asarray(np.log1p(u))
    return np.asarray(np.expm1(exponent * np.log1p(u)) / exponent)


def _power_inverse(z: FloatArray, exponent: float) -> FloatArray:
    """(1 + λz)^{1/λ} − 1 of z ≥ 0, or its limit e^z − 1."""
    logs = z if abs(exponent) < 1e-12 else np.log1p(exponent * z) / exponent
    return np.asarray(np.expm1(np.minimum(logs, _LARGEST_LOG)))
