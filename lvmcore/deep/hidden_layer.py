"""A hidden layer of a deep Gaussian process: its kernel, and q of its values at inducing inputs.

The inducing inputs Z are a parameter, or draws of the previous layer at a subset of the rows; then
they differ between draws, and all tensors have a leading dimension S. With C Cᵀ = K(Z) and whitened
values v = C⁻¹(f(Z) − mean(Z)), a row with k = k(Z, x) has, given v, the mean mean(x) + kᵀC⁻ᵀv and
the variance k(x, x) − kᵀK⁻¹k. Rows are treated as independent given v, so one draw of v serves any
number of rows, and no covariance between rows is computed. The quadratic forms kᵀGk
(`whitened_moments`) dominate the time of a step: one matrix product forwards and one backwards.

Notation: lvmcore/README.md; H inputs and D outputs of a layer, B rows.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.layer_kernel import (
    JITTER,
    CompositeLayerKernel,
    LayerKernel,
    StationaryLayerKernel,
    whitened_moments,
)
from lvmcore.gp.paths import LARGEST_VARIANCE
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.stationary import StationaryName
from lvmcore.numerics.gaussians import kl_whitened
from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.qep.blocks import block_kl


class InducingValues(nn.Module):
    """q(v_d) = N(mean_d, factor_d factor_dᵀ) of the whitened values of each unit d.

    The values depend on the inducing inputs: with V = factor factorᵀ and the variance v_d of a
    unit, q(f_d(Z)) = N(mean(Z) + √v_d C m, v_d C V Cᵀ). factor_d = diag(s_d)(I + B_d), B_d strictly
    lower triangular, so that an optimiser step changes a narrow covariance in proportion to its
    size.

    Args:
        mean: initial means, [D, M].
        variance: initial variance of every value.
        exponent: q of the prior, one q-exponential block of all D M values; 2 for N(0, I).
    """

    def __init__(self, mean: Float[Tensor, "D M"], variance: float, exponent: float = 2.0) -> None:
        super().__init__()
        self.exponent = exponent
        D, M = mean.shape
        self.mean = nn.Parameter(mean.detach().clone(memory_format=torch.contiguous_format))
        self.log_scale = nn.Parameter(mean.new_full((D, M), 0.5 * math.log(variance)))
        self.lower = nn.Parameter(mean.new_zeros(D, M, M))

    @property
    def unused_entries(self) -> int:
        """Number of entries of B on and above its diagonal, which have no effect."""
        D, M = self.mean.shape
        return D * M * (M + 1) // 2

    @property
    def factor(self) -> Float[Tensor, "D M M"]:
        """Lower-triangular root of the covariances, [D, M, M]."""
        scale = self.log_scale.exp()
        # diag(s)(I + B)
        return scale[:, :, None] * self.lower.tril(-1) + scale.diag_embed()

    @torch.no_grad()
    def set_unit(
        self, unit: int, mean: Float[Tensor, "M"], covariance: Float[Tensor, "M M"]
    ) -> None:
        """Set q of a unit to N(mean, covariance)."""
        factor = cholesky_batch(covariance[None], "The covariance of a unit's values")[0]
        scale = factor.diagonal()
        self.mean[unit], self.log_scale[unit] = mean, scale.log()
        self.lower[unit] = (factor / scale[:, None]).tril(-1)  # diag(s)(I + B)

    def draw(self, noise: Float[Tensor, "S D M"]) -> Float[Tensor, "S M D"]:
        """mean + factor noise, [S, M, D], of noise [S, D, M]."""
        spread = (self.factor @ noise.permute(1, 2, 0)).permute(2, 0, 1)
        return (self.mean + spread).mT

    def kl(self) -> Float[Tensor, ""]:
        """KL(q(v) ‖ p(v)), independent of Z, or an upper bound for an exponent below 2, []."""
        mean, factor = self.mean, self.factor
        square = mean.square().sum() + factor.square().sum()  # E ‖v‖²
        return block_kl(kl_whitened(mean, factor), square, mean.numel(), self.exponent)

    def natural_parameters(self) -> tuple[Float[Tensor, "D M M"], Float[Tensor, "D M"]]:
        """Precision [D, M, M] and precision times mean [D, M]."""
        factor = self.factor
        eye = torch.eye(factor.shape[-1]).to(factor)
        inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
        precision = inverse.mT @ inverse  # (factor factorᵀ)⁻¹
        return precision, (precision @ self.mean[:, :, None])[:, :, 0]


class KernelLayer(nn.Module):
    """A kernel, and a linear mean or none.

    A stationary kernel has one lengthscale per input, initially √H, at which the similarity of rows
    of unit variance does not depend on the number of columns.

    Args:
        n_inputs: H.
        like: dtype and device.
        variance: initial v of a stationary kernel.
        linear: W of the mean function x ↦ x W, [H, D], fixed; None for no mean.
        kernel: name of a stationary kernel (``StationaryLayerKernel``), or any other kernel.

    Attributes:
        kernel: the name; ``rbf`` for any other kernel.
        composite: any other kernel; None for a stationary one.
        mixed: whether exponentials and products of rows are in single precision.
    """

    mixed: bool = False
    linear: Tensor | None
    composite: CompositeKernel | None
    kernel: StationaryName

    def __init__(
        self,
        n_inputs: int,
        like: Tensor,
        *,
        variance: float = 1.0,
        linear: Tensor | None = None,
        kernel: StationaryName | CompositeKernel = "rbf",
    ) -> None:
        super().__init__()
        self.n_inputs = n_inputs
        self.register_buffer("linear", linear)
        if isinstance(kernel, CompositeKernel):
            self.composite, self.kernel = kernel, "rbf"
            return
        self.composite, self.kernel = None, kernel
        self.log_lengthscales = nn.Parameter(like.new_full((n_inputs,), 0.5 * math.log(n_inputs)))
        self.log_variance = nn.Parameter(like.new_tensor(math.log(variance)))

    @property
    def like(self) -> Tensor:
        """A parameter of the kernel, for its dtype and device."""
        if self.composite is not None:
            return self.composite.summands[0].log_variance
        return self.log_variance

    @property
    def variance(self) -> Tensor:
        """v, at most ``LARGEST_VARIANCE``: [], or [D] in hidden layers; of a sum, that of v_i."""
        if self._has_summands:
            assert self.composite is not None
            return torch.stack([summand.variance for summand in self.composite.summands]).sum()
        limit = math.log(LARGEST_VARIANCE)
        return (limit - nn.functional.softplus(limit - self.log_variance)).exp()

    @property
    def _has_summands(self) -> bool:
        """Whether the variances are those of the summands of a kernel."""
        return self.composite is not None

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α_h = 1/ℓ_h², [H]."""
        if self.composite is not None:
            return self.composite.relevance
        return (-2 * self.log_lengthscales).exp()

    def mean(self, X: Float[Tensor, "*S B H"]) -> Float[Tensor, "*S B D"] | None:
        """The mean function at rows X [..., B, H], [..., B, D]; None where it is zero."""
        return None if self.linear is None else X @ self.linear

    def kernel_at(self, Z: Float[Tensor, "*S M H"]) -> LayerKernel:
        """The layer's kernel at inducing inputs Z, [..., M, H]."""
        if self.composite is not None:
            return CompositeLayerKernel.from_inputs(
                self.composite, Z, self.mean(Z), mixed=self.mixed
            )
        return StationaryLayerKernel.from_inputs(
            self._kernel_variance,
            self.log_lengthscales.exp(),
            Z,
            self.mean(Z),
            self.kernel,
            mixed=self.mixed,
        )

    @property
    def _kernel_variance(self) -> Float[Tensor, ""]:
        """v of a stationary kernel, []."""
        return self.variance


class HiddenLayer(KernelLayer):
    """D Gaussian processes and the noise of the layer's output.

    f_d = mean_d + √v_d g_d with g_d of a shared kernel of unit variance: a unit that does not
    improve the fit shrinks to its linear mean without divergence, independently of the other units.
    With one variance for all units, a single useful unit would pay for the noise of the others. Of
    a sum of kernels the first summand's variance is fixed, as the v_d are free.

    Args:
        n_inputs: H.
        values: q at the inducing inputs.
        variance: initial v_d.
        noise: initial σ_l².
        linear: see ``KernelLayer``.
        kernel: see ``KernelLayer``.
    """

    def __init__(
        self,
        n_inputs: int,
        values: InducingValues,
        *,
        variance: float = 1.0,
        noise: float = 1e-5,
        linear: Tensor | None = None,
        kernel: StationaryName | CompositeKernel = "rbf",
    ) -> None:
        super().__init__(n_inputs, values.mean, linear=linear, kernel=kernel)
        if self.composite is not None:
            self.composite.summands[0].log_variance.requires_grad = False
        self.q = values
        self.log_variance = nn.Parameter(values.mean.new_full((self.width,), math.log(variance)))
        self.log_noise = nn.Parameter(values.mean.new_tensor(math.log(noise)))

    @property
    def width(self) -> int:
        """D."""
        return len(self.q.mean)

    @property
    def noise(self) -> Float[Tensor, ""]:
        """σ_l², []."""
        return self.log_noise.exp() + JITTER[self.log_noise.dtype]

    @property
    def _has_summands(self) -> bool:
        """False: the variances are those of the units."""
        return False

    @property
    def _kernel_variance(self) -> Float[Tensor, ""]:
        """1, []."""
        return torch.ones_like(self.log_noise)

    def draw(self, noise: Float[Tensor, "S D M"]) -> Float[Tensor, "S M D"]:
        """√v_d times the whitened values of unit d, [S, M, D], of noise [S, D, M]."""
        return self.variance.sqrt() * self.q.draw(noise)

    def conditional_moments(
        self,
        layer_kernel: LayerKernel,
        v: Float[Tensor, "S M D"],
        X: Float[Tensor, "... B H"],
    ) -> tuple[Float[Tensor, "S B D"], Float[Tensor, "... B D"]]:
        """Means and variances of f(x), [S, B, D] each, given the values v [S, M, D]."""
        # kᵀC⁻ᵀv and kᵀK⁻¹k
        product, explained = whitened_moments(layer_kernel, layer_kernel.cross(X), v.mT)
        mean, variance = (
            product.mT,
            self.variance * (layer_kernel.diagonal(X) - explained).clamp_min(0).mT,
        )
        offset = self.mean(X)
        return mean if offset is None else mean + offset, variance
