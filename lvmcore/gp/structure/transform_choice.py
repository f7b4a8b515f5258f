"""Choice of a transform of the target by the marginal likelihood with its Jacobian.

A Gaussian process of z = t(y), warped (Snelson, Rasmussen and Ghahramani 2004), has

log p(y | X) = log N(z | 0, K + σ²I) + Σ_n log t'(y_n),

so that transforms are compared on the target's own scale, by the rows of the fit alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.gp.exact_regression import (
    ExactGP,
    GPPosterior,
    MarginalLikelihood,
    direct_schedule,
)
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.target_column import NumberTarget
from lvmcore.preprocessing.target_transform import (
    IDENTITY,
    LEAST_EXPONENT,
    MOST_EXPONENT,
    TargetTransform,
    TransformName,
)
from lvmcore.training.loop import train

__all__ = ["TransformChoice", "TransformedFit", "candidate_transforms"]

#: Least gain of a transform, nats, beside ½ log N for the exponent of one that has it.
LEAST_GAIN = 2.0
#: Different values of a target for which a transform is considered, at least.
FEWEST_VALUES = 20
# Rounds of exponent and kernel, least change of the exponent, and steps of the fits of a kernel.
_ROUNDS, _CHANGE, _STEPS = 5, 0.02, 60


def candidate_transforms(setting: str, y: FloatArray) -> tuple[TransformName, ...]:
    """The transforms that a setting allows for a target [N], that of none first if it is one.

    Args:
        setting: a transform, or "auto" for all that the target allows.
        y: the target.
    """
    if setting != "auto":
        return (setting,)  # type: ignore[return-value] # the setting has been checked
    if len(np.unique(y)) < FEWEST_VALUES:
        return ("none",)
    logs: tuple[TransformName, ...] = ("log",) if y.min() > 0 else ()
    return ("none", *logs, "yeo-johnson")


@dataclass(frozen=True)
class TransformedFit:
    """A process fitted to a transform of the target.

    Attributes:
        score: log p(y | X) of the standardised target less ½ log N for an exponent, nats.
        gp: the process.
        target: the transform, and the moments by which z is standardised.
    """

    score: float
    gp: ExactGP
    target: NumberTarget


class TransformChoice:
    """The choice among transforms under a kernel.

    Args:
        X: inputs, standardised, [N, H].
        y: the target, [N].
        names: the transforms to choose from.
        max_iter: steps of each fit at most.
    """

    def __init__(
        self, X: Tensor, y: FloatArray, names: Sequence[TransformName], max_iter: int
    ) -> None:
        self.X, self.y, self.names = X, y, names
        self.steps = min(max_iter, _STEPS)

    def best(self, gp: ExactGP) -> TransformedFit:
        """The transform of the highest score, and the kernel of a process fitted anew to it.

        That of none, with the process as it is given, is left where another one gains two nats.

        Args:
            gp: a process with the kernel, from whose parameters each fit starts; not changed.

        Raises:
            NumericalError: no covariance matrix could be factorised.
        """
        found = list(self._fits(gp))
        if not found:
            raise NumericalError("No transform of the target could be fitted: choose none.")
        usual = next((one for one in found if one.target.transformed.is_identity), None)
        best = max(found, key=lambda one: one.score)
        if usual is not None and best.score < usual.score + LEAST_GAIN:
            return TransformedFit(usual.score, gp, usual.target)
        return best

    def _fits(self, gp: ExactGP) -> Iterator[TransformedFit]:
        for name in self.names:
            with suppress(NumericalError):
                own = copy.deepcopy(gp)
                if name == "yeo-johnson":
                    yield self._with_exponent(own)
                else:
                    yield self._fitted(own, TargetTransform(name) if name == "log" else IDENTITY)

    def _fitted(self, gp: ExactGP, transformed: TargetTransform) -> TransformedFit:
        """Fit a process to a transform, in place."""
        target = NumberTarget.fit(self.y, transformed)
        fit = MarginalLikelihood(gp, self.X, self._standardised(target))
        value = train(fit, direct_schedule(self.steps, len(self.y)), None).objective
        return TransformedFit(value + target.log_jacobian(self.y), gp, target)

    def _with_exponent(self, gp: ExactGP) -> TransformedFit:
        """Fit a process and the exponent of its transform, in turns."""
        exponent, best = 1.0, None
        for _ in range(_ROUNDS):
            last, exponent = exponent, self._likeliest_exponent(gp, exponent)
            fit = self._fitted(gp, TargetTransform.yeo_johnson(exponent, self.y))
            if best is None or fit.score > best.score:
                best = TransformedFit(fit.score, copy.deepcopy(gp), fit.target)
            if abs(exponent - last) < _CHANGE:
                break
        assert best is not None
        penalty = 0.5 * math.log(len(self.y))
        return TransformedFit(best.score - penalty, best.gp, best.target)

    def _likeliest_exponent(self, gp: ExactGP, last: float) -> float:
        """The exponent of the highest likelihood under a given covariance, to two digits."""
        factor = GPPosterior(gp, self.X, self._standardised(NumberTarget.fit(self.y))).factor

        def loss(exponent: float) -> float:
            target = NumberTarget.fit(self.y, TargetTransform.yeo_johnson(exponent, self.y))
            half = torch.linalg.solve_triangular(factor, self._standardised(target), upper=False)
            return 0.5 * float(half.square().sum()) - target.log_jacobian(self.y)

        bounds = (LEAST_EXPONENT, MOST_EXPONENT)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 5e-3})
        return round(float(found.x), 2) if found.fun <= loss(last) else last

    def _standardised(self, target: NumberTarget) -> Tensor:
        return torch.as_tensor(target.transform(self.y)[:, None]).to(self.X)
