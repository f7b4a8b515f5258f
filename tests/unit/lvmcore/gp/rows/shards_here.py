"""Shards in the process of a test, so that a fit starts no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lvmcore.deep.rows import sharded_objective
from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.shards import LocalConnection, Shards
from lvmcore.gp.minibatch import sharded_batches
from lvmcore.gp.rows import placement

__all__ = ["use_shards_here"]


def use_shards_here(monkeypatch: pytest.MonkeyPatch, ends: Sequence[int]) -> None:
    """Fits have their rows in shards of this process, which end before these rows; [] for none."""

    def open_here(make_block: Callable[[slice], RowBlock], n_rows: int) -> Shards:
        assert ends[-1] == n_rows
        rows = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return Shards([LocalConnection(make_block(block)) for block in rows], rows)

    for module in (placement, sharded_batches, sharded_objective):
        monkeypatch.setattr(module, "open_shards", open_here)
        monkeypatch.setattr(module, "shard_count", lambda: len(ends))
