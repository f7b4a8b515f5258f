"""Kernels of an expression over the dimensions of a map, with expectations over fixed draws.

No closed form is needed: an expectation under q(x) = N(μ, diag S) is the mean over the points
x_s = μ + √S ∘ ε_s, for fixed quasi-random ε_s of N(0, I) that all rows share. With mean ε εᵀ = I
and the negative of every draw among them, the mean is exact for polynomials up to third order: for
a linear kernel, all psi statistics are exact; for others, where q(x) is narrow beside the distances
over which the kernel changes, the error is of fourth order in √S.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES, check_map_kernel, read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelExpression, KernelTerm, kernel_terms
from lvmcore.kernels.gpytorch_components import RationalQuadraticComponent
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import matched_draws

__all__ = [
    "LARGEST_VARIANCE",
    "ExpressionKernel",
    "MapKernel",
    "dimensions_kernel",
    "fixed_draws",
    "kernel_arrays",
    "kernel_from_arrays",
    "map_kernel",
    "map_kernel_module",
]

#: Bound of the variance of a kernel of a map.
LARGEST_VARIANCE = 100.0
# Draws of q(x) for a map of few dimensions; of more, at least three a dimension.
DRAWS = 32
# Initial period of a kernel along a dimension, whose rows are about four sd apart at most.
START_PERIOD = 4.0
# Step of the derivatives of a kernel, which are differences.
STEP = 1e-4
# Kernels whose functions have no derivative.
_ROUGH = (KernelTerm("matern12"), KernelTerm("piecewise_polynomial", (), (("smoothness", 0.0),)))


def n_draws(Q: int) -> int:
    """The number of draws for Q dimensions, a power of two."""
    return max(DRAWS, 1 << math.ceil(math.log2(3 * Q)))


@lru_cache(maxsize=8)
def fixed_draws(n: int, Q: int, device: torch.device) -> Float64[Tensor, "{n} {Q}"]:
    """ε of N(0, I), [n, Q]; the same at every call."""
    return matched_draws(n, Q, torch.zeros((), dtype=torch.float64, device=device))


@dataclass(frozen=True)
class ExpressionKernel:
    """c k(x, x') of an expression over the latent dimensions z1, z2, …, computed in float64.

    c is 1 for small variances, and bounds the sum v of the variances of the summands:
    c v = L − softplus(L − v) on the scale of logarithms, L that of ``LARGEST_VARIANCE``.

    Attributes:
        composite: k.
        draws: ε, at which expectations are computed, [S, Q].
    """

    composite: CompositeKernel
    draws: Float64[Tensor, "S Q"]

    @classmethod
    def of(cls, composite: CompositeKernel, draws: int | None = None) -> ExpressionKernel:
        """The kernel of a module with the usual draws, or another number of them."""
        Q = len(composite.columns)
        n = n_draws(Q) if draws is None else draws
        device = composite.summands[0].log_variance.device
        return cls(composite, fixed_draws(n, Q, device))

    @property
    def expression(self) -> KernelExpression:
        """The expression."""
        return self.composite.expression

    @property
    def _log_variances(self) -> tuple[Tensor, Tensor]:
        """log v, and its bounded value."""
        own = torch.stack([summand.log_variance for summand in self.composite.summands])
        total, limit = own.logsumexp(0), math.log(LARGEST_VARIANCE)
        return total, limit - torch.nn.functional.softplus(limit - total)

    @property
    def variance(self) -> Float64[Tensor, ""]:
        """c v: k(x, x) of a sum of correlations; of others, the scale of k(x, x)."""
        return self._log_variances[1].exp()

    @property
    def factor(self) -> Float64[Tensor, ""]:
        """c, []."""
        total, bounded = self._log_variances
        return (bounded - total).exp()

    def __call__(self, X: Float[Tensor, "N Q"], X2: Float[Tensor, "N2 Q"]) -> Float[Tensor, "N N2"]:
        """Covariances between rows of X [N, Q] and X2 [N2, Q], [N, N2]."""
        return (self.factor * self.composite.forward(X.double(), X2.double())).to(X)

    def diagonal(self, X: Float[Tensor, "*N Q"]) -> Float[Tensor, "*N"]:
        """k(x, x) of each row of X [..., Q], [...]."""
        return (self.factor * self.composite.diagonal(X.double())).to(X)

    @property
    def relevance(self) -> Float64[Tensor, "Q"]:
        """α_q, as of ``CompositeKernel.relevance``: of an RBF kernel 1/ℓ_q², [Q]."""
        return self.composite.relevance

    @property
    def lengthscales(self) -> Float64[Tensor, "Q"]:
        """1/√α_q, the distance over which the kernel changes along each dimension, [Q]."""
        return self.relevance.clamp_min(1e-12).rsqrt()

    def detached(self) -> ExpressionKernel:
        """A copy without gradients."""
        return ExpressionKernel(copy.deepcopy(self.composite).requires_grad_(False), self.draws)

    @property
    def is_smooth(self) -> bool:
        """Whether its functions have derivatives."""
        own = (KernelTerm(one.name, (), one.options) for one in kernel_terms(self.expression))
        return not any(one in _ROUGH for one in own)

    # ---- expectations --------------------------------------------------------------------------

    def positions(
        self, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"]
    ) -> Float64[Tensor, "N S Q"]:
        """The points x_s of each q(x) = N(mean, diag variance), [N, S, Q]."""
        return mean.double()[:, None] + variance.double().sqrt()[:, None] * self.draws

    def rows(
        self,
        mean: Float[Tensor, "N Q"],
        variance: Float[Tensor, "N Q"],
        Z: Float[Tensor, "M Q"],
    ) -> tuple[Float64[Tensor, "N S M"], Float64[Tensor, "N"]]:
        """k(x_s, Z) of the points of each row, [N, S, M], and E k(x, x), [N]."""
        X = self.positions(mean, variance)
        N, S, Q = X.shape
        K = self(X.reshape(N * S, Q), Z.double())
        return K.reshape(N, S, len(Z)), self.diagonal(X).mean(1)

    # ---- derivatives ---------------------------------------------------------------------------

    def slopes(self, X: Float[Tensor, "N Q"], Z: Float[Tensor, "M Q"]) -> Float64[Tensor, "N Q M"]:
        """∂k(x, Z)/∂x at points X [N, Q], [N, Q, M], as differences; itself differentiable."""
        X, Z, steps = X.double(), Z.double(), _steps(X.shape[1], X)
        ahead, behind = (
            self((X[:, None] + sign * steps).reshape(-1, X.shape[1]), Z) for sign in (1.0, -1.0)
        )
        return ((ahead - behind) / (2 * STEP)).reshape(*X.shape, len(Z))

    def slope_covariance(self, X: Float[Tensor, "N Q"]) -> Float64[Tensor, "N Q Q"]:
        """∂²k(x, x')/∂x ∂x' at x' = x: the prior covariance of a function's slopes, [N, Q, Q].

        0 for a kernel whose functions have no derivative.
        """
        N, Q = X.shape
        if not self.is_smooth:
            return X.new_zeros(N, Q, Q, dtype=torch.float64)
        steps = _steps(Q, X)
        # Points of one row in a batch: all of its own, ahead and behind.
        around = X.double()[:, None] + torch.cat([steps, -steps])
        K = self.factor * self.composite.forward(around, around)
        same = K[:, :Q, :Q] + K[:, Q:, Q:]
        across = K[:, :Q, Q:] + K[:, Q:, :Q]
        return (same - across) / (4 * STEP**2)


def _steps(Q: int, like: Tensor) -> Float64[Tensor, "{Q} {Q}"]:
    """A step along each dimension, [Q, Q]."""
    return STEP * torch.eye(Q, dtype=torch.float64, device=like.device)


#: The kernel of a Gaussian process over the latent space.
MapKernel = RBF | ExpressionKernel


def map_kernel(text: str, Q: int) -> KernelExpression | None:
    """The expression of the setting ``kernel`` over Q dimensions; None for the RBF kernel of all.

    Raises:
        ConfigError: as of ``dimensions_kernel``.
    """
    expression = dimensions_kernel(text, Q)
    return None if expression == KernelTerm("rbf") else expression


def dimensions_kernel(text: str, Q: int) -> KernelExpression:
    """The expression of a text over the dimensions z1, … of a map of Q dimensions.

    Raises:
        ConfigError: it is no expression, or acts on other dimensions than the map has.
    """
    check_map_kernel(text)
    expression = read_kernel(text)
    have = "one dimension, z1" if Q == 1 else f"{Q} dimensions, z1 to z{Q}"
    for term in kernel_terms(expression):
        most = KERNEL_TYPES[term.name].most_columns
        if most is not None and len(term.columns or range(Q)) > most:
            count = "one dimension" if most == 1 else f"at most {most} dimensions"
            raise ConfigError(
                f"The kernel {term.name} acts on {count}, and the map has {Q}: name them, as in "
                f"{term.name}(z1), or set n_components."
            )
        for name in term.columns:
            if int(name[1:]) > Q:
                raise ConfigError(
                    f"The kernel {text!r} names {name}, but the map has {have}. Name another "
                    "dimension, or raise n_components."
                )
    return expression


def map_kernel_module(expression: KernelExpression, like: Float[Tensor, "M Q"]) -> CompositeKernel:
    """The trainable kernel of an expression over the dimensions of ``like``, at its start.

    Lengthscales start at √Q as those of the RBF kernel do, periods at four sd of the prior.
    """
    Q = like.shape[1]
    names = [f"z{q + 1}" for q in range(Q)]
    scales = torch.ones(Q, dtype=torch.float64)
    composite = CompositeKernel(expression, names, scales)
    for term, component in composite.components():
        options = dict(term.options)
        if term.name in ("periodic", "cosine") and "period" not in options:
            component.set_period(START_PERIOD)
        if isinstance(component, RationalQuadraticComponent):
            component.kernel.initialize(lengthscale=len(component.scales) ** 0.5)
    return composite.to(like.device)


def kernel_arrays(kernel: MapKernel, prefix: str) -> dict[str, NDArray[Any]]:
    """Arrays of a kernel for ``kernel_from_arrays``, under names that begin with ``prefix``."""
    if isinstance(kernel, RBF):
        return {
            f"{prefix}variance": _float64(kernel.variance),
            f"{prefix}lengthscales": _float64(kernel.lengthscales),
        }
    text = np.frombuffer(str(kernel.expression).encode(), dtype=np.uint8)
    state = kernel.composite.state_dict()
    found = {f"{prefix}kernel.{name}": _float64(value) for name, value in state.items()}
    return {
        f"{prefix}expression": text,
        f"{prefix}dimensions": np.array([len(kernel.composite.columns)]),
        **found,
    }


def kernel_from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str, like: Tensor) -> MapKernel:
    """Rebuild a kernel from ``kernel_arrays``, on the device of ``like``; an RBF in its dtype."""
    if f"{prefix}expression" not in arrays:
        variance, lengthscales = (
            torch.as_tensor(arrays[prefix + name].copy()).to(like)
            for name in ("variance", "lengthscales")
        )
        return RBF(variance.reshape(()), lengthscales)  # in a file it is [1]
    text = bytes(arrays[f"{prefix}expression"]).decode()
    Q = int(arrays[f"{prefix}dimensions"][0])
    composite = map_kernel_module(read_kernel(text), like.new_zeros(1, Q))
    own = composite.state_dict()
    composite.load_state_dict(
        {
            name: torch.as_tensor(arrays[f"{prefix}kernel.{name}"].copy()).reshape(value.shape)
            for name, value in own.items()
        }
    )
    return ExpressionKernel.of(composite.requires_grad_(False))


def _float64(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(to_numpy(tensor), dtype=np.float64)
