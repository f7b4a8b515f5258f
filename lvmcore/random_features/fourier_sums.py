"""Sums of random features over the rows of a long table, in blocks of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.numerics.row_blocks import BLOCK_ROWS
from lvmcore.random_features.fourier import RandomFourierFeatures

__all__ = ["averaged_feature_sums", "feature_sums"]


def feature_sums(
    features: RandomFourierFeatures, X: Tensor, Y: Tensor, *, single: bool = False
) -> tuple[Tensor, Tensor]:
    """ΦᵀΦ and ΦᵀY in N R(R + D) operations, with the features of one block in memory.

    The backward pass computes the features again: with A = XWᵀ, Φ = [Φ_s, Φ_c] and
    dΦ = Φ(dG + dGᵀ) + Y dPᵀ the gradients are dA = dΦ_s ∘ Φ_c − dΦ_c ∘ Φ_s, dX = dA W, dW = dAᵀX
    and ds = Σ dΦ ∘ Φ / s, over the two features of a point where each has a scale of its own.

    Args:
        features: φ, without an offset.
        X: latent positions, [N, Q].
        Y: columns, [N, D], without gradient.
        single: whether features and products of a block are in single precision.

    Returns:
        G [R, R] and P [R, D], float64.
    """
    assert not features.offset
    tensors = [features.points, features.scale, X, Y]
    if single:
        tensors = [tensor.float() for tensor in tensors]
    G, P = _FeatureSums.apply(*tensors)  # type: ignore[no-untyped-call]
    return G, P


@torch.no_grad()
def averaged_feature_sums(
    features: RandomFourierFeatures, X: Tensor, Y: Tensor
) -> tuple[Tensor, Tensor]:
    """``feature_sums`` averaged over draws of the latent positions, X [S, N, Q]."""
    parts = [feature_sums(features, positions, Y) for positions in X]
    G, P = (torch.stack(part).mean(0) for part in zip(*parts, strict=True))
    return G, P


class _FeatureSums(torch.autograd.Function):
    """See ``feature_sums``."""

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, scale: Tensor, X: Tensor, Y: Tensor
    ) -> tuple[Tensor, Tensor]:
        features = RandomFourierFeatures(points, scale)
        R = features.width
        G, P = (X.new_zeros(R, n, dtype=torch.float64) for n in (R, Y.shape[1]))
        for rows in _blocks(X):
            Phi = features(X[rows])
            G += Phi.T @ Phi
            P += Phi.T @ Y[rows]
        ctx.save_for_backward(points, scale, X, Y)
        return G, P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        points, scale, X, Y = ctx.saved_tensors
        features = RandomFourierFeatures(points, scale)
        d_G, d_P = (part.to(X) for part in cotangents)
        twice = d_G + d_G.T
        d_X, d_points = torch.empty_like(X), torch.zeros_like(points)
        d_scale = torch.zeros_like(scale)
        for rows in _blocks(X):
            Phi = features(X[rows])
            d_Phi = torch.addmm(Phi @ twice, Y[rows], d_P.T)
            (sine, cosine), (d_sine, d_cosine) = Phi.chunk(2, 1), d_Phi.chunk(2, 1)
            d_angle = d_sine * cosine - d_cosine * sine
            torch.matmul(d_angle, points, out=d_X[rows])
            d_points += d_angle.T @ X[rows]
            by_scale = d_Phi * Phi
            d_scale += by_scale.sum() if scale.dim() == 0 else by_scale.sum(0).view(2, -1).sum(0)
        return d_points, d_scale / scale, d_X, None


def _blocks(X: Tensor) -> list[slice]:
    return [slice(begin, begin + BLOCK_ROWS) for begin in range(0, len(X), BLOCK_ROWS)]
