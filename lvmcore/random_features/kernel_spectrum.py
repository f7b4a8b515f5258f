"""Spectrum of a given kernel, whose hyperparameters are learned."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import map_kernel_module
from lvmcore.kernels.spectral_frequencies import SpectralFrequencies
from lvmcore.numerics.conversion import to_numpy
from lvmcore.random_features.spectrum import SpectralDensity, Spectrum

__all__ = ["KernelSpectrum"]


class KernelSpectrum(Spectrum):
    """Spectral points of a kernel expression, functions of its hyperparameters.

    The points are a quasi-random sample of the kernel's spectrum from base samples that are drawn
    once (``SpectralFrequencies``), so the features are those of a finite model whose kernel is
    φ(x)ᵀφ(x'), and the objective is a bound on its evidence. The hyperparameters are point
    estimates, without a divergence.

    Args:
        expression: of the kernel, over the dimensions z1, z2, ….
        n_points: L; fewer where the kernel has fewer frequencies.
        n_dimensions: Q.
        like: a tensor of the dtype and on the device to use.
        generator: of the base samples.

    Raises:
        ConfigError: there are fewer points than summands.
    """

    def __init__(
        self,
        expression: KernelExpression,
        n_points: int,
        n_dimensions: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.like = like
        kernel = map_kernel_module(expression, like.new_zeros(1, n_dimensions))
        seed = int(torch.randint(2**31, (1,), generator=generator))
        self.frequencies = SpectralFrequencies(kernel, n_points, np.random.default_rng(seed))

    def draw(self) -> Tensor:
        """See ``Spectrum.draw``: the same points in every step, at the current hyperparameters."""
        return self.frequencies.points().to(self.like)

    def fresh(self) -> Tensor:
        """See ``Spectrum.fresh``: the points of the model, which has no others."""
        return self.draw()

    def points(self) -> Tensor:
        """See ``Spectrum.points``."""
        return self.draw()

    def amplitudes(self) -> Tensor:
        """See ``Spectrum.amplitudes``."""
        return self.frequencies.amplitudes().to(self.like)

    def kl(self) -> Tensor:
        """0: nothing has a posterior."""
        return torch.zeros((), dtype=torch.float64, device=self.like.device)

    def update(self) -> None:
        """Nothing has a closed form."""

    @torch.no_grad()
    def relevance(self) -> Tensor:
        """α of the kernel, 1/ℓ_q² of a stationary one, [Q]; spectra of rough ones have no w²."""
        return self.frequencies.kernel.relevance.to(self.like)

    @torch.no_grad()
    def density(self) -> SpectralDensity:
        """The points with their amplitudes; there is no mixture."""
        points, amplitudes = self.frequencies.points(), self.frequencies.amplitudes()
        L, Q = points.shape
        none = np.zeros((0, Q))
        return SpectralDensity(
            to_numpy(points),
            none[:, 0],
            none,
            np.zeros((0, Q, Q)),
            np.zeros((L, 0)),
            to_numpy(amplitudes),
        )

    @torch.no_grad()
    def kernel(self, variance: Tensor) -> CompositeKernel:
        """The kernel at the current hyperparameters, its summands' variances adding up to one."""
        found = deepcopy(self.frequencies.kernel).requires_grad_(False)
        logs = torch.stack([summand.log_variance for summand in found.summands])
        change = variance.double().log() - logs.logsumexp(0)
        for summand in found.summands:
            summand.log_variance.add_(change)
        return found

    def tensors(self) -> Iterable[Tensor]:
        """See ``Spectrum.tensors``: the base samples."""
        return self.frequencies.base_samples
