"""The objective of a sparse Gaussian process whose rows are in shards."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.objective import DeepGPObjective, RowFitTerm
from lvmcore.deep.rows.row_block import SparseGPBlock, sites_of
from lvmcore.distributed.batch_sums import BatchSums
from lvmcore.distributed.choice import open_shards, shard_count
from lvmcore.errors import ConfigError

__all__ = ["ShardedSVGPObjective", "check_shards_of_batches", "rows_in_shards"]

_REFUSED = "The rows of this fit cannot be in shards, because {why}."


class ShardedSVGPObjective(DeepGPObjective):
    """``DeepGPObjective`` of a single Gaussian process, its batches computed by shards.

    Each step of q(v) and of the parameters is taken here, from sums over the rows of a batch. The
    bound of all rows, which ends a fit, is computed here.

    Args:
        model: initial model without hidden layers; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        batch_size: B.
        generator: draws the batches.
    """

    def __init__(
        self,
        model: InducedDeepGP,
        X: Tensor,
        Y: Tensor,
        *,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator)
        assert not model.sampled
        assert not model.last.uses_weights

        def block(rows: slice) -> SparseGPBlock:
            return SparseGPBlock(model, X[rows].clone(), Y[rows].clone())

        sites = sites_of(model)
        shards = open_shards(block, len(X))
        self._sites = sites
        self._sums = BatchSums(shards, [model], [sites.curvature, sites.shift])

    def batch_terms(self) -> dict[str, Tensor]:
        """Unbiased estimates of the terms from the next batch, by which q(v) is updated."""
        model = self.model
        draw = model.draw(self.n_samples, self.generator)
        batch = self.rows[self.batches.next()]
        fit, curvature, shift = self._sums.of_batch(batch, len(self.rows) / len(batch))
        posterior = model.posterior(draw)
        if model.last.closed_form or fit.requires_grad:
            q = self._sites
            q.update(curvature.to(q.curvature), shift.to(q.shift))
        return {RowFitTerm.name: fit} | model.kl_terms(posterior)


def rows_in_shards(X: Tensor) -> bool:
    """Whether the rows of a fit are to be in shards.

    Raises:
        ConfigError: they are on a device on which shards do not compute.
    """
    if not shard_count():
        return False
    if X.device.type != "cpu":
        why = f"they compute on CPUs, and the device is {X.device}: set device='cpu'"
        raise ConfigError(_REFUSED.format(why=why))
    return True


def check_shards_of_batches(batch_size: int, n_rows: int) -> None:
    """Check that a fit whose steps use all rows has none of them in shards.

    Args:
        batch_size: of the settings, at least N.
        n_rows: N.

    Raises:
        ConfigError: the process has chosen shards.
    """
    if shard_count():
        why = (
            f"a step uses all of them: set batch_size below the number of rows, {n_rows:,} (it "
            f"is {batch_size:,})"
        )
        raise ConfigError(_REFUSED.format(why=why))
