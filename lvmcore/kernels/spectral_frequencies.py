"""Frequencies of stationary kernels with closed spectra, differentiable in the hyperparameters.

By Bochner's theorem k(τ) = v E cos(wᵀτ), w from the kernel's normalised spectrum, so
Σ_l a_l² cos(w_lᵀτ) approximates it. The frequencies w_l are functions of the hyperparameters and of
a base sample that is drawn once:

- rbf: ε/ℓ, ε ~ N(0, I); matern ν: ε/(ℓ √g), g ~ χ²(2ν)/(2ν), a multivariate t distribution;
- rational_quadratic: ε √u/ℓ, u ~ Gamma(a, a), with the gradient of its quantile in a;
- cosine: ±2π/p; constant: 0;
- periodic: 2πj/p with the weights e^{−z} I_j(z), z = 1/λ, of the Fourier series, and
  spectral_mixture: 2π(±μ_i + s_i ε) with the weights w_i: j and i are drawn from a fixed
  distribution, and the a_l² are importance weights, so that they have gradients.

The spectrum of a product is that of the sum of independent frequencies; a sum of kernels has some
frequencies for each summand, whose a_l² add up to its share of the variance. As cos is even, w and
−w are one feature: the first symmetric coordinate of the base sample is positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from scipy import special, stats
from scipy.stats import qmc
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.errors import ConfigError
from lvmcore.kernels.components import StationaryComponent
from lvmcore.kernels.composite import CompositeKernel, Summand, TermOfColumns
from lvmcore.kernels.gpytorch_components import (
    PeriodicComponent,
    RationalQuadraticComponent,
    SpectralMixtureComponent,
)
from lvmcore.numerics.array_types import FloatArray

__all__ = ["HARMONICS", "SpectralFrequencies", "harmonic_weights"]

#: Number of terms of the Fourier series of a periodic kernel: harmonics 0 to 15.
HARMONICS = 16
# Points of the trapezoidal rule for the series' coefficients.
_ANGLES = 256
# Degrees of freedom of the t distribution that is the spectrum of a Matérn kernel, 2ν.
_DEGREES = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}
# Relative step of the derivative of a gamma quantile in its shape.
_STEP = 1e-4
# Least squared amplitude, at which its root still has a gradient.
_LEAST = 1e-12


@dataclass(frozen=True)
class _Coordinate:
    """A coordinate of a base sample.

    Attributes:
        symmetric: whether the spectrum is even in it: a sign, or u about ½.
        chances: of its levels in the proposal; none for uniform numbers u from 0 to 1.
    """

    symmetric: bool
    chances: tuple[float, ...] = ()


_NORMAL, _MIXING = _Coordinate(True), _Coordinate(False)
_SIGN = _Coordinate(True, (0.5, 0.5))
_TOTAL = sum(1 / (1 + j) for j in range(HARMONICS))
_HARMONIC = _Coordinate(False, tuple(1 / (1 + j) / _TOTAL for j in range(HARMONICS)))


def _coordinates(term: TermOfColumns) -> list[_Coordinate]:
    """The coordinates of a frequency of a component."""
    name, H = term.term.name, len(term.names)
    if name == "rbf" or (name in _DEGREES and H == 1):
        return [_NORMAL] * H
    if name in _DEGREES or name == "rational_quadratic":
        return [*[_NORMAL] * H, _MIXING]
    if name == "cosine":
        return [_SIGN]
    if name == "periodic":
        return [_SIGN, _HARMONIC] * H
    if name == "spectral_mixture":
        n = term.component.n_frequencies
        return [_SIGN, _Coordinate(False, (1 / n,) * n), _NORMAL] * H
    assert name == "constant", name
    return []


class SpectralFrequencies(nn.Module):
    """Frequencies and amplitudes of a kernel at its current hyperparameters.

    Args:
        kernel: the kernel, all components of which have closed spectra.
        n_points: the number of frequencies; there are fewer where all that exist are fewer.
        rng: draws the base samples.

    Raises:
        ConfigError: there are fewer frequencies than summands.
    """

    def __init__(self, kernel: CompositeKernel, n_points: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.kernel = kernel
        products = _products(kernel)
        if len(products) > n_points:
            raise ConfigError(
                f"The kernel {str(kernel.expression)!r} has {len(products)} summands, for which "
                f"n_features={2 * n_points} is too few: set at least {2 * len(products)}."
            )
        sizes = _allocation([one.n_distinct for one in products], n_points)
        self.samples = [
            _BaseSample.of(product, size, rng)
            for product, size in zip(products, sizes, strict=True)
        ]

    @property
    def n_points(self) -> int:
        """L."""
        return sum(len(one.base) for one in self.samples)

    @property
    def base_samples(self) -> list[Tensor]:
        """The base samples and their proposal probabilities."""
        return [part for one in self.samples for part in (one.base, one.proposal)]

    def points(self) -> Float64[Tensor, "L Q"]:
        """w, [L, Q]."""
        return torch.cat([one.points() for one in self.samples])

    def amplitudes(self) -> Float64[Tensor, "L"]:
        """a, relative to equal ones: with mean square 1, [L]."""
        weights = torch.cat([one.weights() for one in self.samples])
        return (weights * (len(weights) / weights.sum())).clamp_min(_LEAST).sqrt()


@dataclass(frozen=True)
class _Product:
    """A product of components, a summand of the expanded kernel.

    Attributes:
        summands: whose variances multiply it.
        terms: its components.
    """

    summands: tuple[Summand, ...]
    terms: tuple[TermOfColumns, ...]

    @property
    def coordinates(self) -> list[_Coordinate]:
        """The coordinates of its base sample."""
        return [one for term in self.terms for one in _coordinates(term)]

    @property
    def levels(self) -> list[int]:
        """The number of values of each coordinate, 0 for any; 1 of the first symmetric sign."""
        levels = [len(one.chances) for one in self.coordinates]
        first = self.first_symmetric
        if first is not None and levels[first]:
            levels[first] = 1
        return levels

    @property
    def first_symmetric(self) -> int | None:
        """The position of the coordinate that is positive."""
        return next((i for i, one in enumerate(self.coordinates) if one.symmetric), None)

    @property
    def n_distinct(self) -> float:
        """How many different frequencies there are."""
        return math.prod(math.inf if n == 0 else n for n in self.levels)

    def grid(self) -> FloatArray:
        """All levels of the coordinates, [L, C]."""
        levels = self.levels
        places = np.indices(levels).reshape(len(levels), math.prod(levels)).T.astype(float)
        first = self.first_symmetric
        if first is not None:
            places[:, first] = 1
        return places

    def sampled(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Levels and uniform numbers of a sample, [L, C], and proposal probabilities, [L]."""
        places, proposal = _uniform(n, self.levels, rng), np.ones(n)
        first = self.first_symmetric
        if first is not None:
            places[:, first] = 0.5 * (1 + places[:, first])
        for i, one in enumerate(self.coordinates):
            if one.chances:
                chances = np.array(one.chances)
                level = np.searchsorted(chances.cumsum()[:-1], places[:, i], side="right")
                places[:, i] = level
                proposal *= chances[level]
        return places, proposal


@dataclass(frozen=True)
class _BaseSample:
    """The base sample of a product's frequencies.

    Attributes:
        product: the product.
        base: the sample, as ``_frequencies`` takes it, [L, C].
        proposal: probabilities of its levels, [L]; 1 where they are all there are.
    """

    product: _Product
    base: Tensor
    proposal: Tensor

    @classmethod
    def of(cls, product: _Product, n: int, rng: np.random.Generator) -> _BaseSample:
        """A sample of n frequencies, or all that exist."""
        if product.n_distinct <= n:
            places = product.grid()
            proposal = np.ones(len(places))
        else:
            places, proposal = product.sampled(n, rng)
        parts, at = [], 0
        for term in product.terms:
            size = len(_coordinates(term))
            parts.append(_transformed(term, places[:, at : at + size]))
            at += size
        device = product.terms[0].at.device
        base = torch.as_tensor(np.concatenate(parts, axis=1), device=device)
        return cls(product, base, torch.as_tensor(proposal, device=device))

    def _of_terms(self) -> list[tuple[TermOfColumns, Tensor]]:
        """The components, each with its part of the sample."""
        terms = self.product.terms
        sizes = [len(_coordinates(term)) for term in terms]
        return list(zip(terms, torch.split(self.base, sizes, 1), strict=True))

    def points(self) -> Float64[Tensor, "L Q"]:
        """w, [L, Q]: the sum of the components' frequencies."""
        total = self.base.new_zeros(len(self.base), self.product.terms[0].n_columns)
        for term, base in self._of_terms():
            if base.shape[1]:
                total = total.index_add(1, term.at, _frequencies(term, base))
        return total

    def weights(self) -> Float64[Tensor, "L"]:
        """a² of this product, whose sum is its variance, [L]."""
        weights = 1 / self.proposal
        for term, base in self._of_terms():
            weights = weights * _probabilities(term, base)
        log_variance = torch.stack([one.log_variance for one in self.product.summands]).sum()
        return log_variance.exp() * weights / weights.sum()


def _products(kernel: CompositeKernel) -> list[_Product]:
    """The summands of a kernel, with sums in brackets multiplied out."""
    found = []
    for summand in kernel.summands:
        combined = [_Product((summand,), ())]
        for factor in summand.factors:
            if isinstance(factor, TermOfColumns):
                options = [_Product((), (factor,))]
            else:
                assert isinstance(factor, CompositeKernel)
                options = _products(factor)
            combined = [
                _Product(one.summands + more.summands, one.terms + more.terms)
                for one in combined
                for more in options
            ]
        found += combined
    return found


def _allocation(most: list[float], total: int) -> list[int]:
    """Numbers of frequencies, equal but for summands that have fewer."""
    sizes, left = [0] * len(most), total
    order = sorted(range(len(most)), key=lambda i: most[i])
    for place, i in enumerate(order):
        sizes[i] = int(min(most[i], left // (len(most) - place)))
        left -= sizes[i]
    return sizes


def _uniform(n: int, levels: list[int], rng: np.random.Generator) -> FloatArray:
    """Quasi-random numbers from 0 to 1, [n, C]: the midpoints where one coordinate varies."""
    varying = [i for i, count in enumerate(levels) if count != 1]
    found = np.full((n, len(levels)), 0.5)
    if len(varying) == 1:
        found[:, varying[0]] = (np.arange(n) + 0.5) / n
    else:
        sobol = qmc.Sobol(len(varying), seed=rng).random_base2(math.ceil(math.log2(max(n, 2))))
        found[:, varying] = sobol[:n]
    # The outermost frequencies of a heavy tail stay finite
    return found.clip(1 / (8 * n), 1 - 1 / (8 * n))


def _transformed(term: TermOfColumns, places: FloatArray) -> FloatArray:
    """Levels and uniform numbers of a component as ``_frequencies`` takes them, [L, C]."""
    found, degrees = places.copy(), _DEGREES.get(term.term.name)
    for i, one in enumerate(_coordinates(term)):
        if one == _SIGN:
            found[:, i] = 2 * places[:, i] - 1
        elif one == _NORMAL and degrees is not None and len(term.names) == 1:
            found[:, i] = stats.t.ppf(places[:, i], degrees)
        elif one == _NORMAL:
            found[:, i] = stats.norm.ppf(places[:, i])
        elif one == _MIXING and degrees is not None:
            found[:, i] = np.sqrt(degrees / stats.chi2.ppf(places[:, i], degrees))
    return found


def _frequencies(term: TermOfColumns, base: Tensor) -> Float64[Tensor, "L H"]:
    """Frequencies of a component, [L, H]."""
    component = term.component
    if isinstance(component, StationaryComponent):
        H = len(term.names)
        scaled = base[:, :H] * (-component.log_lengthscales).exp()
        return scaled * base[:, H:] if base.shape[1] > H else scaled
    if isinstance(component, RationalQuadraticComponent):
        a = component.kernel.alpha.reshape(())
        u: Tensor = _GammaQuantile.apply(a, base[:, -1])  # type: ignore[no-untyped-call]
        root = (u / a).clamp_min(1e-30).sqrt()
        found: Tensor = base[:, :-1] * root[:, None] / component.kernel.lengthscale[0]
        return found
    if isinstance(component, PeriodicComponent):
        return 2 * math.pi * base[:, 0::2] * base[:, 1::2] / component.period.reshape(-1)
    if isinstance(component, SpectralMixtureComponent):
        chosen = base[:, 1::3].long()
        means = component.kernel.mixture_means[:, 0].gather(0, chosen)
        sds = component.kernel.mixture_scales[:, 0].gather(0, chosen)
        found = 2 * math.pi * (base[:, 0::3] * means + sds * base[:, 2::3])
        return found
    period: Tensor = component.period  # type: ignore[assignment]  # of a cosine
    return 2 * math.pi * base / period.reshape(-1)


def _probabilities(term: TermOfColumns, base: Tensor) -> Float64[Tensor, "L"]:
    """Probabilities of a component's levels, of which signs are no part, [L]."""
    component = term.component
    if isinstance(component, PeriodicComponent):
        weights = harmonic_weights(1 / component.kernel.lengthscale.reshape(-1))
        return weights.T.gather(0, base[:, 1::2].long()).prod(1)
    if isinstance(component, SpectralMixtureComponent):
        own: Tensor = component.kernel.mixture_weights
        return (own / own.sum())[base[:, 1::3].long()].prod(1)
    return base.new_ones(len(base))


def harmonic_weights(z: Float64[Tensor, "H"]) -> Float64[Tensor, "H J"]:
    """Weights of cos(jθ), j = 0 to 15, in e^{z (cos θ − 1)}: e^{−z} I_0(z), 2e^{−z} I_j(z), [H, J].

    By the trapezoidal rule, which converges exponentially for periodic functions.
    """
    angle = 2 * math.pi / _ANGLES * torch.arange(_ANGLES, dtype=z.dtype, device=z.device)
    values = (z[:, None] * (angle.cos() - 1)).exp()
    order = torch.arange(HARMONICS, dtype=z.dtype, device=z.device)
    found = values @ (angle[:, None] * order).cos() / _ANGLES
    twice = torch.full_like(order, 2.0).index_fill(0, torch.zeros_like(order[:1]).long(), 1.0)
    return (found * twice).clamp_min(0.0)


class _GammaQuantile(torch.autograd.Function):
    """The quantiles g of Gamma(a, 1) at probabilities u; ∂g/∂a is a central difference."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, u: Tensor) -> Tensor:
        shape, at = float(a), u.detach().cpu().numpy()
        ahead, behind = (special.gammaincinv(shape * math.exp(s), at) for s in (_STEP, -_STEP))
        ctx.save_for_backward(torch.as_tensor((ahead - behind) / (2 * _STEP * shape)).to(u))
        return torch.as_tensor(special.gammaincinv(shape, at)).to(u)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return (slope * cotangent).sum(), None
