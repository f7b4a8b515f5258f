"""Features of rows and points whose products are the exponents of psi1 and psi2, with gradients.

A feature is a row of a matrix, so that the products with many rows or points on one side and few
features on the other run at the speed of square ones. Exponents are of base 2, whose exponentials
take a third of the time of those of base e.

With the order k = 1 for psi1 and 2 for psi2, w = 1/(k S + ℓ²), μ the mean less a common centre and
p a centred point (psi1) or the midpoint of two (psi2), the exponent of base e is
k w μ · p − ½ k w · p² + k log v − ½ Σ_q log(1 + k S/ℓ²) − ½ k Σ_q w μ² − ¼ d², d² the scaled
squared distance of the two points.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float64
from torch import Tensor

from lvmcore.kernels.psi_exponents import pair_index, pairs

__all__ = ["LOG2_E", "PointFeatures", "RowFeatures"]

#: An exponent of base e times this is that of base 2.
LOG2_E = 1 / math.log(2)


@lru_cache(maxsize=4)
def _orders(device: torch.device) -> Float64[Tensor, "2 1 1"]:
    """k of psi1 and of psi2."""
    return torch.tensor([1.0, 2.0], dtype=torch.float64, device=device).reshape(2, 1, 1)


class RowFeatures:
    """Features of rows for psi1 and psi2.

    Args:
        mean: means of q(X), [N, Q].
        variance: S, [N, Q].
        centre: subtracted from the means, [Q].
        square: ℓ², [Q].
        amplitude: v, [].

    Attributes:
        left: k w μ, −½ k w and the constant, each times log₂ e, and 1; [2, 2Q+2, N].
    """

    def __init__(
        self,
        mean: Float64[Tensor, "N Q"],
        variance: Float64[Tensor, "N Q"],
        centre: Float64[Tensor, "Q"],
        square: Float64[Tensor, "Q"],
        amplitude: Float64[Tensor, ""],
    ) -> None:
        N, Q = mean.shape
        order = _orders(mean.device)
        self.square, self.amplitude = square[:, None], amplitude
        self.mu = torch.sub(mean.T, centre[:, None], out=mean.new_empty(Q, N))
        self.spread = torch.mul(variance.T, order, out=mean.new_empty(2, Q, N))
        self.w = (self.spread + self.square).reciprocal_()
        self.left = left = mean.new_empty(2, 2 * Q + 2, N)
        slope = torch.mul(self.w, self.mu).mul_(order * LOG2_E)
        left[:, :Q] = slope
        torch.mul(self.w, (-0.5 * LOG2_E) * order, out=left[:, Q : 2 * Q])
        # log₂ of Π_q (1 + k S/ℓ²)⁻¹, less k Σ_q w μ².
        constant = (self.w * self.square).log2_().sub_(slope.mul_(self.mu)).sum(1)
        torch.add(order[:, 0] * amplitude.log2(), constant, alpha=0.5, out=left[:, 2 * Q])
        left[:, 2 * Q + 1] = 1

    def gradients(
        self, gradient: Float64[Tensor, "2 F N"]
    ) -> tuple[
        Float64[Tensor, "N Q"], Float64[Tensor, "N Q"], Float64[Tensor, "Q"], Float64[Tensor, ""]
    ]:
        """Gradients by the mean, S, ℓ² and v.

        Args:
            gradient: that by the first 2Q + 1 features of base e, before they are scaled by log₂ e.
        """
        Q = len(self.mu)
        by_slope, by_w = gradient[:, :Q], gradient[:, Q : 2 * Q]
        by_constant = gradient[:, 2 * Q : 2 * Q + 1]
        order, mu, w = _orders(self.mu.device), self.mu, self.w
        half = 0.5 * by_constant
        by_mu = torch.addcmul(by_slope, by_constant, mu, value=-1)
        # k w times the gradient by w, divided by k; w depends on S and ℓ² by −w² d(k S + ℓ²).
        scaled = order * w
        pull = torch.addcmul(by_mu, half, mu).mul_(mu).sub_(by_w, alpha=0.5).mul_(scaled)
        # 1/ℓ² − w = k S w/ℓ², without the cancellation of the difference for large ℓ.
        d_square = torch.bmm(self.spread * w, half.mT).sum(0) / self.square
        d_square = d_square[:, 0] - (w * pull).sum((0, 2))
        d_variance = pull.add_(half).mul_(scaled).sum(0).neg_()
        d_mean = by_mu.mul_(scaled).sum(0)
        d_amplitude = (order * by_constant).sum() / self.amplitude
        return d_mean.T, d_variance.T, d_square, d_amplitude


class PointFeatures:
    """Features of the inducing inputs for psi1 and of the midpoints of their pairs for psi2.

    Args:
        Z: inducing inputs, [M, Q].
        square: ℓ², [Q].

    Attributes:
        centre: of the inducing inputs, [Q].
        first: p, p² and 1 of the points, [2Q+1, M].
        second: p, p², 1 and −¼ d² log₂ e of the pairs m ≤ m', [2Q+2, P].
        distance: d² of the pairs, [P].
    """

    def __init__(self, Z: Float64[Tensor, "M Q"], square: Float64[Tensor, "Q"]) -> None:
        M, Q = Z.shape
        i, j = pairs(M, Z.device)
        self.square = square
        self.centre = Z.mean(0)
        self.first = Z.new_empty(2 * Q + 1, M)
        self.z = torch.sub(Z.T, self.centre[:, None], out=self.first[:Q])
        torch.square(self.z, out=self.first[Q : 2 * Q])
        self.first[2 * Q] = 1
        one, other = self.z.index_select(1, i), self.z.index_select(1, j)
        self.distance = square.reciprocal() @ (one - other).square_()
        self.second = Z.new_empty(2 * Q + 2, len(i))
        self.middle = torch.add(one, other, out=self.second[:Q]).mul_(0.5)
        torch.square(self.middle, out=self.second[Q : 2 * Q])
        self.second[2 * Q] = 1
        torch.mul(self.distance, -0.25 * LOG2_E, out=self.second[2 * Q + 1])

    def gradients(
        self,
        by_first: Float64[Tensor, "F1 M"],
        by_second: Float64[Tensor, "F2 P"],
        by_distance: Float64[Tensor, "P"],
    ) -> tuple[Float64[Tensor, "M Q"], Float64[Tensor, "Q"]]:
        """Gradients by Z and ℓ².

        Args:
            by_first: gradient by the first 2Q features of the points.
            by_second: gradient by the first 2Q features of the pairs.
            by_distance: gradient by d².
        """
        Q, M = self.z.shape
        packed = by_second.new_empty(Q + 1, len(by_distance))
        torch.addcmul(by_second[:Q], self.middle, by_second[Q : 2 * Q], value=2, out=packed[:Q])
        packed[Q] = by_distance
        full = packed.index_select(1, pair_index(M, packed.device).reshape(-1)).view(Q + 1, M, M)
        d_z = torch.addcmul(by_first[:Q], self.z, by_first[Q : 2 * Q], value=2)
        # A point is half of the midpoint in its pairs, and all of it in the pair with itself.
        by_middle, by_pair = full[:Q], full[Q]
        d_z.add_(by_middle.sum(2).add_(by_middle.diagonal(dim1=1, dim2=2)), alpha=0.5)
        pull = (by_pair.sum(0) * self.z).sub_(self.z @ by_pair)
        d_square = (self.z * pull).sum(1).neg_() / self.square.square()
        return d_z.add_(pull / self.square[:, None], alpha=2).T, d_square
