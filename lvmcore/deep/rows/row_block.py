"""A block of rows of a sparse Gaussian process: what a shard of an SVGP computes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.output_layer import GaussianSites, ProjectedRows
from lvmcore.distributed.batch_block import BatchBlock

__all__ = ["SparseGPBlock", "sites_of"]


def sites_of(model: InducedDeepGP) -> GaussianSites:
    """q(v) of the last layer, kept as running sums over rows."""
    q = model.last.q
    assert isinstance(q, GaussianSites)
    return q


class SparseGPBlock(BatchBlock):
    """Rows with a copy of a Gaussian process without hidden layers.

    Its sums are Σ_n E log p(y_n | f(x_n)) times N/B, then, without a gradient, those by which q(v)
    follows: Σ β a aᵀ [G, M, M] and Σ a (g + β μ) [P, M].

    Args:
        model: the process.
        X: inputs, standardised, [n, H].
        Y: targets: standardised numbers, or signs of classes, [n, P].
    """

    def __init__(self, model: InducedDeepGP, X: Tensor, Y: Tensor) -> None:
        super().__init__(model)
        self.model, self.X, self.Y = model, X, Y

    @property
    def state(self) -> Sequence[Tensor]:
        """The running sums of q(v)."""
        q = sites_of(self.model)
        return [q.curvature, q.shift]

    def batch_sums(self, rows: Tensor, scale: float, noise: Tensor | None) -> tuple[Tensor, ...]:
        """Sums over some rows; nothing is drawn."""
        del noise
        model, last = self.model, self.model.last
        draw = model.draw(1, torch.Generator())
        projected = ProjectedRows.of_inputs(draw.last, self.X[rows], self.Y[rows], scale)
        fit, mean, variance = last.expected_log_likelihood(
            draw.last, model.posterior(draw), projected
        )
        if last.closed_form:
            sums = last.gaussian_sums(draw.last, projected)
        elif fit.requires_grad:
            sums = last.label_sums(draw.last, projected, fit, mean, variance)
        else:
            q = sites_of(model)
            sums = torch.zeros_like(q.curvature), torch.zeros_like(q.shift)
        return fit, *sums
