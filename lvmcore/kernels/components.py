"""Trainable kernels of some columns, of which sums and products are made.

A component has no variance of its own: the summand that it belongs to has one. All positive
parameters are stored as logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.kernels.stationary import (
    matern12_correlation,
    matern32_correlation,
    matern52_correlation,
)

__all__ = [
    "NATIVE_COMPONENTS",
    "KernelComponent",
    "StationaryComponent",
    "common_batch",
    "scaled_exponent",
]


def common_batch(X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]) -> torch.Size:
    """The leading dimensions of a covariance of rows."""
    found: torch.Size = torch.broadcast_shapes(X.shape[:-2], X2.shape[:-2])  # type: ignore[no-untyped-call]
    return found


def scaled_exponent(
    X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"], scale: Float[Tensor, "H"]
) -> Float[Tensor, "... n N"]:
    """−d²/2, d² = Σ_h scale_h² (x_h − x'_h)², of rows [..., n, H] and [..., N, H], [..., n, N]."""
    centre = X2.mean(-2, keepdim=True)
    A, B = (X - centre) * scale, (X2 - centre) * scale
    square = A.square().sum(-1)[..., None] + B.square().sum(-1)[..., None, :]
    return (A @ B.mT - 0.5 * square).clamp_max(0.0)


class KernelComponent(nn.Module):
    """k(x, x') of some columns.

    Args:
        scales: what a unit of each standardised column is in the column's own units, [H].
        options: the options of the kernel's name in the expression.
    """

    name: ClassVar[str]

    def __init__(self, scales: Float[Tensor, "H"], options: Mapping[str, float]) -> None:
        super().__init__()
        self.options = dict(options)
        self.scales: Tensor
        self.register_buffer("scales", scales.clone(), persistent=False)

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        raise NotImplementedError

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]; 1 of a correlation."""
        return X.new_ones(X.shape[:-1])

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of its columns, [H]: the inverse squares of the distances over which it changes."""
        raise NotImplementedError

    def hyperparameters(self) -> dict[str, Tensor]:
        """Its parameters by name: [H] in the units of its columns, [] without a unit."""
        return {}

    @property
    def has_free_period(self) -> bool:
        """Whether it has a period that is fitted, of a single column."""
        return False

    def set_period(self, period: float) -> None:
        """Set the period, in units of the standardised column."""
        raise NotImplementedError

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies of each column that are fitted."""
        return 0

    def set_spectrum(self, periods: Sequence[Sequence[float]]) -> None:
        """Set frequencies of each column to those of periods, in units of the standardised one."""
        raise NotImplementedError


class StationaryComponent(KernelComponent):
    """κ(d), d² = Σ_h (x_h − x'_h)²/ℓ_h², with one lengthscale for each column."""

    correlation: ClassVar[Callable[[Tensor], Tensor]]

    def __init__(self, scales: Float[Tensor, "H"], options: Mapping[str, float]) -> None:
        super().__init__(scales, options)
        start = 0.5 * math.log(max(1, len(scales)))
        self.log_lengthscales = nn.Parameter(torch.full_like(scales, start))

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """κ(d) of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        exponent = scaled_exponent(X, X2, (-self.log_lengthscales).exp())
        return type(self).correlation(exponent)

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """1/ℓ², [H]."""
        return (-2 * self.log_lengthscales).exp()

    def hyperparameters(self) -> dict[str, Tensor]:
        """ℓ, [H]."""
        return {"lengthscale": self.log_lengthscales.exp() * self.scales}


class RBFComponent(StationaryComponent):
    """exp(−d²/2)."""

    name = "rbf"
    correlation = torch.exp


class Matern52Component(StationaryComponent):
    """The Matérn correlation of smoothness 5/2."""

    name = "matern52"
    correlation = matern52_correlation


class Matern32Component(StationaryComponent):
    """The Matérn correlation of smoothness 3/2."""

    name = "matern32"
    correlation = matern32_correlation


class Matern12Component(StationaryComponent):
    """exp(−d)."""

    name = "matern12"
    correlation = matern12_correlation


class LinearComponent(KernelComponent):
    """Σ_h a_h x_h x'_h, the a_h positive and 1 on average."""

    name = "linear"

    def __init__(self, scales: Float[Tensor, "H"], options: Mapping[str, float]) -> None:
        super().__init__(scales, options)
        self.logits = nn.Parameter(torch.zeros_like(scales))

    @property
    def weights(self) -> Float[Tensor, "H"]:
        """a, [H]."""
        return self.logits.softmax(0) * len(self.logits)

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        return (X * self.weights) @ X2.mT

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]."""
        return X.square() @ self.weights

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """a, [H]."""
        return self.weights

    def hyperparameters(self) -> dict[str, Tensor]:
        """√a, the sd of the slopes where v = 1, a unit of each column, [H]."""
        return {"slope sd": self.weights.sqrt() / self.scales}


class ConstantComponent(KernelComponent):
    """1."""

    name = "constant"

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        return X.new_ones(*common_batch(X, X2), X.shape[-2], X2.shape[-2])

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """0, [H]."""
        return torch.zeros_like(self.scales)


#: The components of this module by name.
NATIVE_COMPONENTS: Mapping[str, type[KernelComponent]] = {
    component.name: component
    for component in (
        RBFComponent,
        Matern52Component,
        Matern32Component,
        Matern12Component,
        LinearComponent,
        ConstantComponent,
    )
}
