"""A hidden layer of a deep Gaussian process: its kernel, and q of its values at inducing inputs.

The inducing inputs Z are a parameter, or the rows of a subset as the layer before drew them; then
they differ from draw to draw, and everything here has a leading dimension S. With C Cᵀ = K(Z) and
whitened values v = C⁻¹(f(Z) − mean(Z)), a row has k = k(Z, x) and, given v, the mean
mean(x) + kᵀC⁻ᵀv and the variance k(x, x) − kᵀK⁻¹k: rows are independent given v, so one draw of v
serves any number of rows, and no covariance among rows is ever made. A step's time is that of the
quadratic forms kᵀGk (`row_moments`): one product of matrices forwards and one backwards.

Notation: lvmcore/README.md; H inputs and D outputs of a layer, B rows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lvmcore.deep_layout import JITTER, KernelName, Layout, row_moments
from lvmcore.layers import LARGEST_VARIANCE
from lvmcore.qexponential_blocks import divergence
from lvmcore.variational import kl_whitened

__all__ = [
    "HiddenLayer",
    "KernelLayer",
    "Values",
    "standard_normal",
]


def standard_normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent draws from N(0, 1), in the dtype and on the device of ``like``."""
    drawn = torch.randn(shape, generator=generator, dtype=like.dtype, device=generator.device)
    return drawn.to(like)


class Values(nn.Module):
    """q(v_d) = N(mean_d, factor_d factor_dᵀ) of the whitened values of each unit d.

    What the values themselves are follows the inducing inputs: with V of this factor and a unit's
    variance v_d, q(f_d(Z)) = N(mean(Z) + √v_d C m, v_d C V Cᵀ).
    factor_d = diag(s_d)(I + B_d), B_d strictly lower triangular, so that a step of the optimiser
    changes a narrow covariance by a share of itself.

    Args:
        mean: to start from, [D, M].
        variance: to start from, of every value.
        exponent: q of the prior, one q-exponential block of all D M values; 2 for N(0, I).
    """

    def __init__(self, mean: Tensor, variance: float, exponent: float = 2.0) -> None:
        super().__init__()
        self.exponent = exponent
        D, M = mean.shape
        self.mean = nn.Parameter(mean.detach().clone(memory_format=torch.contiguous_format))
        self.log_scale = nn.Parameter(mean.new_full((D, M), 0.5 * math.log(variance)))
        self.lower = nn.Parameter(mean.new_zeros(D, M, M))

    @property
    def idle(self) -> int:
        """Numbers of B on and above its diagonal, which say nothing."""
        D, M = self.mean.shape
        return D * M * (M + 1) // 2

    @property
    def factor(self) -> Tensor:
        """[D, M, M]."""
        scale = self.log_scale.exp()
        return scale[:, :, None] * self.lower.tril(-1) + scale.diag_embed()

    def draw(self, noise: Tensor) -> Tensor:
        """mean + factor noise, [S, M, D], of noise [S, D, M]."""
        spread = (self.factor @ noise.permute(1, 2, 0)).permute(2, 0, 1)
        return (self.mean + spread).mT

    def kl(self) -> Tensor:
        """KL(q(v) ‖ p(v)), whatever Z is, or what bounds it for an exponent below 2, []."""
        mean, factor = self.mean, self.factor
        square = mean.square().sum() + factor.square().sum()
        return divergence(kl_whitened(mean, factor), square, mean.numel(), self.exponent)

    def naturals(self) -> tuple[Tensor, Tensor]:
        """Precision [D, M, M] and precision times mean [D, M]."""
        factor = self.factor
        eye = torch.eye(factor.shape[-1]).to(factor)
        inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
        precision = inverse.mT @ inverse
        return precision, (precision @ self.mean[:, :, None])[:, :, 0]


class KernelLayer(nn.Module):
    """A kernel with one lengthscale an input, and a linear mean or none.

    Args:
        n_inputs: H; the lengthscales start at √H, at which rows of unit variance are about as
            alike in many columns as in one.
        like: dtype and device.
        variance: v to start from.
        linear: W of the mean function x ↦ x W, [H, D], which stays as it is; None for no mean.
        kernel: see ``Layout``.
    """

    linear: Tensor | None

    def __init__(
        self,
        n_inputs: int,
        like: Tensor,
        *,
        variance: float = 1.0,
        linear: Tensor | None = None,
        kernel: KernelName = "rbf",
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.log_lengthscales = nn.Parameter(like.new_full((n_inputs,), 0.5 * math.log(n_inputs)))
        self.log_variance = nn.Parameter(like.new_tensor(math.log(variance)))
        self.register_buffer("linear", linear)

    @property
    def variance(self) -> Tensor:
        """v, which approaches ``LARGEST_VARIANCE`` and no further: [], or [D] in hidden layers."""
        limit = math.log(LARGEST_VARIANCE)
        return (limit - nn.functional.softplus(limit - self.log_variance)).exp()

    @property
    def relevance(self) -> Tensor:
        """α_h = 1/ℓ_h², [H]."""
        return (-2 * self.log_lengthscales).exp()

    def mean(self, X: Tensor) -> Tensor | None:
        """The mean function at rows X [..., B, H], [..., B, D]; None where it is zero."""
        return None if self.linear is None else X @ self.linear

    def at(self, Z: Tensor) -> Layout:
        """The layer at inducing inputs Z, [..., M, H]."""
        return Layout.of(self.variance, self.log_lengthscales.exp(), Z, self.mean(Z), self.kernel)


class HiddenLayer(KernelLayer):
    """D Gaussian processes, and the noise that what leaves the layer carries.

    f_d = mean_d + √v_d g_d with g_d of one kernel of unit variance: a unit that does not help the
    fit shrinks to its linear mean alone, at no divergence, whatever the others do. With one
    variance for all, a single useful unit would have to pay for the noise of the rest.

    Args:
        n_inputs: H.
        values: q at the inducing inputs.
        variance: v_d to start from.
        noise: σ_l² to start from.
        linear: see ``KernelLayer``.
        kernel: see ``Layout``.
    """

    def __init__(
        self,
        n_inputs: int,
        values: Values,
        *,
        variance: float = 1.0,
        noise: float = 1e-5,
        linear: Tensor | None = None,
        kernel: KernelName = "rbf",
    ) -> None:
        super().__init__(n_inputs, values.mean, linear=linear, kernel=kernel)
        self.q = values
        self.log_variance = nn.Parameter(values.mean.new_full((self.width,), math.log(variance)))
        self.log_noise = nn.Parameter(values.mean.new_tensor(math.log(noise)))

    @property
    def width(self) -> int:
        """D."""
        return len(self.q.mean)

    @property
    def noise(self) -> Tensor:
        """σ_l², []."""
        return self.log_noise.exp() + JITTER[self.log_noise.dtype]

    def at(self, Z: Tensor) -> Layout:
        """The layer's kernel of unit variance at inducing inputs Z, [..., M, H]."""
        one = torch.ones_like(self.log_noise)
        return Layout.of(one, self.log_lengthscales.exp(), Z, self.mean(Z), self.kernel)

    def draw(self, noise: Tensor) -> Tensor:
        """√v_d times the whitened values of unit d, [S, M, D], of noise [S, D, M]."""
        return self.variance.sqrt() * self.q.draw(noise)

    def rows(self, layout: Layout, v: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of f(x), [S, B, D] each, given the values v [S, M, D]."""
        weights = v.mT @ layout.inverse
        beyond, explained = row_moments(layout.cross(X), weights, layout.precision.unsqueeze(-3))
        mean, left = beyond.mT, self.variance * (layout.variance - explained).clamp_min(0).mT
        offset = self.mean(X)
        return mean if offset is None else mean + offset, left
