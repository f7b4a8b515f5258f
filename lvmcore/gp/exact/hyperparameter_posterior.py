"""The uncertainty of a Gaussian process's parameters in its predictions.

The log posterior of the parameters θ (logarithms and other unconstrained forms) has its optimum at
θ̂ and there the negative Hessian H = Σ_i λ_i u_i u_iᵀ. Along each u_i the posterior is integrated by
the Gauss-Hermite rule of three points, θ̂ and θ̂ ± √3 u_i/√λ_i, whose weights are multiplied by the
ratio of the posterior to its Gaussian approximation, as in the importance weights of Rue, Martino
and Chopin (2009, section 5). The directions are independent in that approximation, so that with
E_i the mean along direction i

Var y = v(θ̂) Π_i E_i[v]/v(θ̂) + Σ_i E_i[(m − m(θ̂))²],

m and v the mean and variance of y given θ. The mean of the prediction stays m(θ̂), about which this
variance is.

Notation: lvmcore/README.md; P parameters.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.gp.exact_regression import ExactGP, GPPosterior, MarginalLikelihood

__all__ = ["HyperparameterDraws", "IntegratedPosterior", "hyperparameter_draws", "is_affordable"]

# Most numbers of the factors that a prediction holds, 8 bytes each.
MOST_NUMBERS = 40_000_000
# Sd of a wide prior of each parameter about its optimum, for directions that the rows leave open.
WIDE_SD = 3.0
# Step of the differences of the gradient that give H.
STEP = 1e-3
# The Gauss-Hermite rule of three points: distance of the outer two, in sds, and their weight.
DISTANCE, OUTER_WEIGHT = math.sqrt(3.0), 1 / 6


@dataclass(frozen=True)
class HyperparameterDraws:
    """Points of the posterior of the parameters: two along each direction.

    Attributes:
        points: θ, the two of a direction one after the other, [K, P], K = 2P.
        weights: of the points; those of a direction and of θ̂ add up to 1, [K].
    """

    points: Float[Tensor, "K P"]
    weights: Float[Tensor, "K"]


def is_affordable(gp: ExactGP, n_rows: int) -> bool:
    """Whether the factors of all points fit the memory of a prediction."""
    return 2 * len(_parameters(gp)) * n_rows**2 <= MOST_NUMBERS


def _parameters(gp: ExactGP) -> Tensor:
    """θ, [P]."""
    return torch.cat([p.detach().reshape(-1) for p in gp.parameters() if p.requires_grad])


@torch.no_grad()
def _assign(gp: ExactGP, theta: Tensor) -> None:
    begin = 0
    for parameter in gp.parameters():
        if parameter.requires_grad:
            end = begin + parameter.numel()
            parameter.copy_(theta[begin:end].reshape(parameter.shape))
            begin = end


def _value(fit: MarginalLikelihood, theta: Tensor) -> float:
    """log p(y, θ); −∞ where A has no factor."""
    _assign(fit.gp, theta)
    try:
        with torch.no_grad():
            return float(sum(fit.terms().values()))
    except NumericalError:
        return -math.inf


def _gradient(fit: MarginalLikelihood, theta: Tensor) -> Tensor:
    """∂ log p(y, θ)/∂θ, [P]."""
    _assign(fit.gp, theta)
    parameters = [p for p in fit.gp.parameters() if p.requires_grad]
    with torch.enable_grad():
        total = torch.stack(list(fit.terms().values())).sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True)
    return torch.cat(
        [
            torch.zeros_like(p).reshape(-1) if slope is None else slope.reshape(-1)
            for p, slope in zip(parameters, found, strict=True)
        ]
    )


def hyperparameter_draws(fit: MarginalLikelihood) -> HyperparameterDraws | None:
    """The points about the optimum of a fit; None where A has no factor there.

    Args:
        fit: at its optimum, which it keeps.
    """
    centre = _parameters(fit.gp)
    try:
        slopes = [
            (_gradient(fit, centre + step) - _gradient(fit, centre - step)) / (2 * STEP)
            for step in STEP * torch.eye(len(centre)).to(centre)
        ]
        best = _value(fit, centre)
        hessian = torch.stack(slopes)
        curvature, directions = torch.linalg.eigh(-0.5 * (hessian + hessian.T))
        sds = (curvature.clamp_min(0) + WIDE_SD**-2).rsqrt()
        steps = (DISTANCE * directions * sds).T.repeat_interleave(2, dim=0)
        steps[1::2] *= -1
        values = [_value(fit, centre + step) for step in steps]
    except NumericalError:
        return None
    finally:
        _assign(fit.gp, centre)
    fall = torch.tensor(values).to(centre) - best - 0.5 * steps.square().sum(1) / WIDE_SD**2
    # Where the fit stopped short of the optimum a point may be higher; none counts more than it.
    ratio = (fall.clamp_max(0) + 0.5 * DISTANCE**2).exp()
    outer = OUTER_WEIGHT * ratio.reshape(-1, 2)
    weights = outer / (outer.sum(1, keepdim=True) + 1 - 2 * OUTER_WEIGHT)
    return HyperparameterDraws(centre + steps, weights.reshape(-1))


class IntegratedPosterior:
    """f and y given the rows of a fit, with the uncertainty of the parameters.

    Args:
        centre: the posterior at θ̂.
        draws: the points.
        known: known variances of the noise of the rows, beside σ², [N]; None for none.

    Attributes:
        centre: the posterior at θ̂.
        others: weights and posteriors of the points; one of weight 0 has that at θ̂.
    """

    def __init__(
        self, centre: GPPosterior, draws: HyperparameterDraws, known: Tensor | None = None
    ) -> None:
        self.centre = centre
        self.others = [
            (float(weight), _conditioned(centre, theta, known) if weight > 0 else centre)
            for weight, theta in zip(draws.weights, draws.points, strict=True)
        ]

    def moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of y at rows, σ² included, [n, 1] each."""
        mean, variance = self.centre.moments(X)
        ratio, spread = torch.ones_like(variance), torch.zeros_like(variance)
        for pair in zip(self.others[::2], self.others[1::2], strict=True):
            change = torch.zeros_like(variance)
            for weight, other in pair:
                m, v = other.moments(X)
                change += weight * (v / variance - 1)
                spread += weight * (m - mean).square()
            ratio *= 1 + change
        return mean, ratio * variance + spread


def _conditioned(centre: GPPosterior, theta: Tensor, known: Tensor | None) -> GPPosterior:
    """The posterior given θ."""
    gp = copy.deepcopy(centre.gp)
    _assign(gp, theta)
    return GPPosterior(gp, centre.X, centre.Y, known)
