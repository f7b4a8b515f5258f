"""Sums of random features over the rows of a long table, some rows at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.blocks import ROWS_AT_A_TIME
from lvmcore.features import Features

__all__ = ["average_sums", "feature_sums"]


def feature_sums(features: Features, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """ΦᵀΦ and ΦᵀY in N R(R + D) operations, with the features of some rows in memory at a time.

    Features are made anew for the gradient: with A = XWᵀ, Φ = [Φ_s, Φ_c] and
    dΦ = Φ(dG + dGᵀ) + Y dPᵀ it is dA = dΦ_s ∘ Φ_c − dΦ_c ∘ Φ_s, dX = dA W, dW = dAᵀX and
    ds = Σ dΦ ∘ Φ / s.

    Args:
        features: φ, without an offset.
        X: places, [N, Q].
        Y: columns, [N, D]; no gradient reaches them.

    Returns:
        G [R, R] and P [R, D], float64.
    """
    assert not features.offset
    G, P = _Sums.apply(features.points, features.scale, X, Y)  # type: ignore[no-untyped-call]
    return G, P


@torch.no_grad()
def average_sums(features: Features, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """``feature_sums`` averaged over draws of the places, X [S, N, Q]."""
    parts = [feature_sums(features, places, Y) for places in X]
    G, P = (torch.stack(part).mean(0) for part in zip(*parts, strict=True))
    return G, P


class _Sums(torch.autograd.Function):
    """See ``feature_sums``."""

    @staticmethod
    def forward(
        ctx: Any, points: Tensor, scale: Tensor, X: Tensor, Y: Tensor
    ) -> tuple[Tensor, Tensor]:
        features = Features(points, scale)
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
        features = Features(points, scale)
        d_G, d_P = (part.to(X) for part in cotangents)
        twice = d_G + d_G.T
        d_X, d_points, d_scale = torch.empty_like(X), torch.zeros_like(points), scale.new_zeros(())
        for rows in _blocks(X):
            Phi = features(X[rows])
            d_Phi = torch.addmm(Phi @ twice, Y[rows], d_P.T)
            (sine, cosine), (d_sine, d_cosine) = Phi.chunk(2, 1), d_Phi.chunk(2, 1)
            d_angle = d_sine * cosine - d_cosine * sine
            torch.matmul(d_angle, points, out=d_X[rows])
            d_points += d_angle.T @ X[rows]
            d_scale += (d_Phi * Phi).sum()
        return d_points, d_scale / scale, d_X, None


def _blocks(X: Tensor) -> list[slice]:
    return [slice(begin, begin + ROWS_AT_A_TIME) for begin in range(0, len(X), ROWS_AT_A_TIME)]
