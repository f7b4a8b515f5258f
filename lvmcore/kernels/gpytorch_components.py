"""Trainable kernels of some columns that gpytorch has and this package has not.

gpytorch is imported where a kernel of it is made. The parameters are stored as gpytorch stores
them: through its constraints, not as logarithms.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.kernels.components import KernelComponent, common_batch, scaled_exponent

__all__ = [
    "GPYTORCH_COMPONENTS",
    "GPyTorchComponent",
    "SpectralMixtureComponent",
    "gpytorch_kernels",
]

#: Initial frequency without a likely period, and initial s, in cycles of a standardised column: a
#: wave of twenty sd, and one that agrees with itself over about three.
SLOWEST, BANDWIDTH = 0.05, 0.05


def gpytorch_kernels() -> Any:
    """The module gpytorch.kernels, whose import uses a deprecated function of torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import gpytorch.kernels

    return gpytorch.kernels


class GPyTorchComponent(KernelComponent):
    """A kernel of gpytorch.

    Args:
        scales: as of ``KernelComponent``, [H].
        options: likewise.
    """

    def __init__(self, scales: Float[Tensor, "H"], options: Mapping[str, float]) -> None:
        super().__init__(scales, options)
        self.kernel = self._made(len(scales)).to(scales)

    def _made(self, n_columns: int) -> Any:
        """The kernel of gpytorch for so many columns."""
        raise NotImplementedError

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        batch = common_batch(X, X2)
        X, X2 = X.expand(*batch, *X.shape[-2:]), X2.expand(*batch, *X2.shape[-2:])
        found: Tensor = self.kernel(X, X2).to_dense()
        return found

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """1/ℓ², [H]."""
        found: Tensor = self.kernel.lengthscale[0] ** -2
        return found.expand_as(self.scales)


class _PeriodicComponent(GPyTorchComponent):
    """A kernel with a period, which is given or fitted."""

    def __init__(self, scales: Float[Tensor, "H"], options: Mapping[str, float]) -> None:
        super().__init__(scales, options)
        if "period" in options:
            self.set_period(options["period"] / float(scales.mean()))
            self.kernel.raw_period_length.requires_grad = False

    @property
    def has_free_period(self) -> bool:
        """Whether it has a period that is fitted, of a single column."""
        return "period" not in self.options and len(self.scales) == 1

    def set_period(self, period: float) -> None:
        """Set the period, in units of the standardised column."""
        self.kernel.initialize(period_length=period)

    @property
    def period(self) -> Float[Tensor, "..."]:
        """The period, in units of the standardised columns."""
        found: Tensor = self.kernel.period_length
        return found

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """(2π/period)², [H]."""
        found = (2 * torch.pi / self.period.reshape(-1)) ** 2
        return found.expand_as(self.scales)


class PeriodicComponent(_PeriodicComponent):
    """exp(−2 Σ_h sin²(π (x_h − x'_h)/p_h)/λ_h), the parameters those of gpytorch's kernel.

    With the angles φ_h = 2π x_h/p_h the exponent is Σ_h (cos φ_h cos φ'_h + sin φ_h sin φ'_h −
    1)/λ_h, a matrix product, which takes a fraction of the time of the sines of all pairs.
    """

    name = "periodic"

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        inverse = 1 / self.kernel.lengthscale.reshape(-1)
        weights = torch.cat([inverse, inverse])
        exponent: Tensor = (self._circle(X) * weights) @ self._circle(X2).mT - inverse.sum()
        return exponent.clamp_max(0.0).exp()

    def _circle(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n 2*H"]:
        """Cosines and sines of φ, [..., n, 2H]."""
        phase = 2 * torch.pi * X / self.period.reshape(-1)
        return torch.cat([phase.cos(), phase.sin()], -1)

    def hyperparameters(self) -> dict[str, Tensor]:
        """The periods [H], and √λ, which is small where the shape within a period is rough."""
        root = self.kernel.lengthscale.reshape(-1).sqrt()
        several = {f"relative lengthscale {h + 1}": one for h, one in enumerate(root)}
        named = several if len(root) > 1 else {"relative lengthscale": root[0]}
        return {"period": self.period.reshape(-1) * self.scales, **named}

    def _made(self, n_columns: int) -> Any:
        return gpytorch_kernels().PeriodicKernel(ard_num_dims=n_columns)


class CosineComponent(_PeriodicComponent):
    """cos(2π ‖x − x'‖/p)."""

    name = "cosine"

    def _made(self, n_columns: int) -> Any:
        del n_columns
        return gpytorch_kernels().CosineKernel()

    def set_period(self, period: float) -> None:
        """Set the period; that of gpytorch is the distance to the opposite phase."""
        super().set_period(0.5 * period)

    @property
    def period(self) -> Float[Tensor, "..."]:
        """The period, in units of the standardised columns."""
        return 2 * super().period

    def hyperparameters(self) -> dict[str, Tensor]:
        """The period, [1]."""
        return {"period": self.period.reshape(-1) * self.scales}


class SpectralMixtureComponent(GPyTorchComponent):
    """Π_h Σ_i w_i exp(−2π² s_ih² τ_h²) cos(2π μ_ih τ_h)/Σ_i w_i, τ = x − x'.

    The spectral mixture of Wilson and Adams (2013), as gpytorch has it: the product over columns of
    sums over the n frequencies, with the same weights for all columns; divided by its value at 0.
    """

    name = "spectral_mixture"

    def _made(self, n_columns: int) -> Any:
        found = gpytorch_kernels().SpectralMixtureKernel(
            num_mixtures=self.n_frequencies, ard_num_dims=n_columns
        )
        # Different frequencies: equal ones would have equal gradients.
        means = torch.linspace(SLOWEST, 1.0, self.n_frequencies)[:, None, None]
        found.initialize(mixture_means=means.expand(-1, 1, n_columns), mixture_scales=BANDWIDTH)
        return found

    @property
    def n_frequencies(self) -> int:
        """n."""
        return int(self.options.get("n", 4))

    def set_spectrum(self, periods: Sequence[Sequence[float]]) -> None:
        """Set the μ of each column to those of its periods; further ones to slow changes."""
        means = (SLOWEST * (1 + torch.arange(self.n_frequencies)))[:, None, None]
        means = means.to(self.scales).repeat(1, 1, len(periods))
        for h, found in enumerate(periods):
            for i, period in enumerate(found[: self.n_frequencies]):
                means[i, 0, h] = 1 / period
        self.kernel.initialize(mixture_means=means)

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        return super().forward(X, X2) / self.at_zero

    @property
    def at_zero(self) -> Float[Tensor, ""]:
        """gpytorch's kernel at distance 0, (Σ_i w_i)^H, []."""
        found: Tensor = self.kernel.mixture_weights.sum() ** len(self.scales)
        return found

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """−∂²k/∂τ_h² at τ = 0, [H]: (2π)² Σ_i w_i (μ_ih² + s_ih²)/Σ_i w_i."""
        kernel = self.kernel
        squares = (kernel.mixture_means**2 + kernel.mixture_scales**2)[:, 0]
        weights = kernel.mixture_weights / kernel.mixture_weights.sum()
        found: Tensor = (2 * torch.pi) ** 2 * weights @ squares
        return found

    def hyperparameters(self) -> dict[str, Tensor]:
        """The period of the frequency with the largest weight, [H]."""
        strongest = int(self.kernel.mixture_weights.argmax())
        return {"period": self.scales / self.kernel.mixture_means[strongest, 0]}


class RationalQuadraticComponent(GPyTorchComponent):
    """(1 + d²/(2 a))^−a, d² = Σ_h (x_h − x'_h)²/ℓ_h², the parameters those of gpytorch's kernel."""

    name = "rational_quadratic"

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        a: Tensor = self.kernel.alpha.reshape(())
        exponent = scaled_exponent(X, X2, 1 / self.kernel.lengthscale[0])
        return (-a * torch.log1p(-exponent / a)).exp()

    def _made(self, n_columns: int) -> Any:
        return gpytorch_kernels().RQKernel(ard_num_dims=n_columns)

    def hyperparameters(self) -> dict[str, Tensor]:
        """ℓ [H], and a, small where distances of very different lengths matter."""
        lengthscale = self.kernel.lengthscale.reshape(-1) * self.scales
        return {"lengthscale": lengthscale, "a": self.kernel.alpha.reshape(())}


class PiecewisePolynomialComponent(GPyTorchComponent):
    """A polynomial in d that is 0 from d = 1 on, d² = Σ_h (x_h − x'_h)²/ℓ_h²."""

    name = "piecewise_polynomial"

    def _made(self, n_columns: int) -> Any:
        found = gpytorch_kernels().PiecewisePolynomialKernel(
            q=int(self.options.get("smoothness", 2)), ard_num_dims=n_columns
        )
        # Rows of so many standardised columns are about √(2H) apart.
        found.initialize(lengthscale=2 * (2 * n_columns) ** 0.5)
        return found

    def hyperparameters(self) -> dict[str, Tensor]:
        """ℓ, the distances from which on it is 0, [H]."""
        return {"lengthscale": self.kernel.lengthscale.reshape(-1) * self.scales}


class PolynomialComponent(GPyTorchComponent):
    """(Σ_h x_h x'_h + c)^degree."""

    name = "polynomial"

    def _made(self, n_columns: int) -> Any:
        del n_columns
        found = gpytorch_kernels().PolynomialKernel(power=int(self.options.get("degree", 2)))
        found.initialize(offset=1.0)
        return found

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]."""
        found: Tensor = self.kernel(X, diag=True)
        return found

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """1/c, [H]."""
        found: Tensor = 1 / self.kernel.offset.reshape(-1)
        return found.expand_as(self.scales)

    def hyperparameters(self) -> dict[str, Tensor]:
        """c, of the standardised columns, []."""
        return {"offset": self.kernel.offset.reshape(())}


#: The components of this module by name.
GPYTORCH_COMPONENTS: Mapping[str, type[KernelComponent]] = {
    component.name: component
    for component in (
        PeriodicComponent,
        CosineComponent,
        SpectralMixtureComponent,
        RationalQuadraticComponent,
        PolynomialComponent,
        PiecewisePolynomialComponent,
    )
}
