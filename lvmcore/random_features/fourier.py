"""Random Fourier features of a stationary kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["RandomFourierFeatures"]


@dataclass(frozen=True)
class RandomFourierFeatures:
    """φ(x) = s √(2/R) [sin(w_1ᵀx), …, cos(w_1ᵀx), …], R features of R/2 spectral points.

    φ(x)ᵀφ(x') = (2s²/R) Σ_l cos(w_lᵀ(x − x')) estimates the kernel s² k(x − x') whose spectral
    density the points w_l are drawn from (Rahimi and Recht 2007), with an error of R^−½. An offset
    adds a constant feature, whose weight is the level of a column. With a scale of its own for each
    point, s_l, the estimate is (2/R) Σ_l s_l² cos(w_lᵀ(x − x')).

    Attributes:
        points: w, the spectral points, [R/2, Q].
        scale: s, [], or s_l, [R/2].
        offset: the last feature; 0 for none.
    """

    points: Tensor
    scale: Tensor
    offset: float = 0.0

    def __call__(self, X: Tensor) -> Tensor:
        """φ at X [..., Q], [..., R], or [..., R + 1] with an offset."""
        angle = X @ self.points.T
        size = self.scale / len(self.points) ** 0.5
        found = [size * angle.sin(), size * angle.cos()]
        if self.offset:
            found.append(torch.full_like(angle[..., :1], self.offset))
        return torch.cat(found, -1)

    def slopes(self, X: Tensor) -> Tensor:
        """∂φ/∂x at X [N, Q], [N, Q, R] or [N, Q, R + 1]."""
        angle = (X @ self.points.T)[:, None, :]
        scaled = self.scale / len(self.points) ** 0.5 * self.points.T
        found = [scaled * angle.cos(), -scaled * angle.sin()]
        if self.offset:
            found.append(torch.zeros_like(found[0][..., :1]))
        return torch.cat(found, -1)

    @property
    def width(self) -> int:
        """Number of features."""
        return 2 * len(self.points) + bool(self.offset)

    @property
    def variance(self) -> Tensor:
        """φ(x)ᵀφ(x), constant in x: the prior variance of a function, []."""
        square = self.scale.square()
        return (square if square.dim() == 0 else square.mean()) + self.offset**2

    def to(self, like: Tensor) -> RandomFourierFeatures:
        """In the dtype and on the device of a tensor, without gradients."""
        return RandomFourierFeatures(
            self.points.detach().to(like), self.scale.detach().to(like), self.offset
        )
