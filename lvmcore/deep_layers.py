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
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.layers import LARGEST_VARIANCE
from lvmcore.linalg import cholesky_batch
from lvmcore.variational import kl_whitened

__all__ = [
    "HiddenLayer",
    "KernelLayer",
    "Layout",
    "Values",
    "row_moments",
    "standard_normal",
]

# Relative to the kernel's variance, on the diagonal of K(Z).
JITTER = {torch.float64: 1e-7, torch.float32: 1e-4}
_KUU = "The kernel matrix of a layer's inducing inputs"


def standard_normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent draws from N(0, 1), in the dtype and on the device of ``like``."""
    drawn = torch.randn(shape, generator=generator, dtype=like.dtype, device=generator.device)
    return drawn.to(like)


@dataclass(frozen=True)
class Layout:
    """A layer's kernel at its inducing inputs, which differ from draw to draw or not.

    Attributes:
        centre: what is taken off inputs before they are multiplied, [..., 1, H].
        lengthscales: ℓ, [H].
        features: of Z, so that log k(z, x) = features(z)ᵀ features(x), [..., M, H + 2].
        variance: v = k(x, x), [].
        C: lower factor of K(Z), [..., M, M].
        inverse: C⁻¹, [..., M, M].
        offset: mean(Z), [..., M, D]; None where the mean is zero.
    """

    centre: Tensor
    lengthscales: Tensor
    features: Tensor
    variance: Tensor
    C: Tensor
    inverse: Tensor
    offset: Tensor | None = None

    @classmethod
    def of(
        cls, variance: Tensor, lengthscales: Tensor, Z: Tensor, offset: Tensor | None = None
    ) -> Layout:
        """v exp(−½ Σ_h (z_h − x_h)²/ℓ_h²) at inducing inputs Z, [..., M, H].

        Raises:
            NumericalError: K(Z) could not be factorised.
        """
        centre = Z.detach().mean(-2, keepdim=True)
        rows = _features(Z, centre, lengthscales)
        # The row's features with log v in the place that meets the other's 1.
        features = torch.cat(
            [rows[..., :-2], rows[..., -1:] + variance.log(), rows[..., -2:-1]], -1
        )
        eye = torch.eye(Z.shape[-2]).to(Z)
        K = (features @ rows.mT).exp() + JITTER[Z.dtype] * variance * eye
        C = cholesky_batch(K.reshape(-1, *K.shape[-2:]), _KUU).reshape(K.shape)
        inverse = torch.linalg.solve_triangular(C, eye, upper=False)
        return cls(centre, lengthscales, features, variance, C, inverse, offset)

    def cross(self, X: Tensor) -> Tensor:
        """k(Z, x) of rows X [..., B, H], [..., M, B]."""
        rows = _features(X, self.centre, self.lengthscales)
        return (self.features @ rows.mT).exp_()

    @property
    def precision(self) -> Tensor:
        """K⁻¹, [..., M, M]."""
        return self.inverse.mT @ self.inverse

    def values(self, v: Tensor) -> Tensor:
        """f(Z) = mean(Z) + C v, [S, M, D], of whitened values v [S, M, D]."""
        f = self.C @ v
        return f if self.offset is None else f + self.offset


def row_moments(k: Tensor, weights: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """weights k [..., P, B] and kᵀ G_g k [..., g, B] of each row.

    Args:
        k: [M, B], or for each draw [S, M, B].
        weights: [P, M] or [S, P, M].
        G: symmetric, [g, M, M] or [S, g, M, M].
    """
    mean, square = _RowMoments.apply(k, weights, G)  # type: ignore[no-untyped-call]
    return mean, square


class _RowMoments(torch.autograd.Function):
    """With T = G k: d kᵀGk/dk = 2 T, so that the gradient by k costs no further product with G."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, weights: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        T = G.flatten(-3, -2) @ k
        T = T.reshape(*T.shape[:-2], *G.shape[-3:-1], T.shape[-1])
        ctx.save_for_backward(k, weights, G, T)
        return weights @ k, (T * k.unsqueeze(-3)).sum(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, weights, G, T = ctx.saved_tensors
        by_row = by_square.unsqueeze(-2)
        by_G = (k.unsqueeze(-3) * by_row).flatten(-3, -2) @ k.mT
        by_G = by_G.reshape(*by_G.shape[:-2], *G.shape[-3:])
        by_weights = by_mean @ k.mT
        by_k = _to_shape(weights.mT @ by_mean, k)
        if G.shape[-3] == 1 and T.shape[:-3] == k.shape[:-2]:
            by_k = by_k.addcmul_(T.squeeze(-3), by_row.squeeze(-3), value=2)
        else:
            by_k = by_k + _to_shape((2 * T * by_row).sum(-3), k)
        return by_k, _to_shape(by_weights, weights), _to_shape(by_G, G)


def _to_shape(gradient: Tensor, like: Tensor) -> Tensor:
    """Summed over the draws that the argument was shared by."""
    return gradient if gradient.shape == like.shape else gradient.sum_to_size(like.shape)


def _features(X: Tensor, centre: Tensor, lengthscales: Tensor) -> Tensor:
    """(x/ℓ, 1, −½‖x/ℓ‖²) of centred rows, [..., B, H + 2]."""
    scaled = (X - centre) / lengthscales
    half = -0.5 * scaled.square().sum(-1, keepdim=True)
    return torch.cat([scaled, torch.ones_like(half), half], -1)


class Values(nn.Module):
    """q(v_d) = N(mean_d, factor_d factor_dᵀ) of the whitened values of each unit d.

    What the values themselves are follows the inducing inputs: with V of this factor and a unit's
    variance v_d, q(f_d(Z)) = N(mean(Z) + √v_d C m, v_d C V Cᵀ).
    factor_d = diag(s_d)(I + B_d), B_d strictly lower triangular, so that a step of the optimiser
    changes a narrow covariance by a share of itself.

    Args:
        mean: to start from, [D, M].
        variance: to start from, of every value.
    """

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__()
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
        """Σ_d KL(q(v_d) ‖ N(0, I)), whatever Z is, []."""
        return kl_whitened(self.mean, self.factor)

    def naturals(self) -> tuple[Tensor, Tensor]:
        """Precision [D, M, M] and precision times mean [D, M]."""
        factor = self.factor
        eye = torch.eye(factor.shape[-1]).to(factor)
        inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
        precision = inverse.mT @ inverse
        return precision, (precision @ self.mean[:, :, None])[:, :, 0]


class KernelLayer(nn.Module):
    """An RBF kernel with one lengthscale an input, and a linear mean or none.

    Args:
        n_inputs: H; the lengthscales start at √H, at which rows of unit variance are about as
            alike in many columns as in one.
        like: dtype and device.
        variance: v to start from.
        linear: W of the mean function x ↦ x W, [H, D], which stays as it is; None for no mean.
    """

    linear: Tensor | None

    def __init__(
        self, n_inputs: int, like: Tensor, *, variance: float = 1.0, linear: Tensor | None = None
    ) -> None:
        super().__init__()
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
        return Layout.of(self.variance, self.log_lengthscales.exp(), Z, self.mean(Z))


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
    """

    def __init__(
        self,
        n_inputs: int,
        values: Values,
        *,
        variance: float = 1.0,
        noise: float = 1e-5,
        linear: Tensor | None = None,
    ) -> None:
        super().__init__(n_inputs, values.mean, linear=linear)
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
        return Layout.of(one, self.log_lengthscales.exp(), Z, self.mean(Z))

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
