"""Blocks of a small problem that one machine can solve too, and shards of them in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.shards import LocalConnection, Shards
from lvmcore.errors import NumericalError

__all__ = ["Own", "QuadraticBlock", "Shared", "local_shards", "loss_of"]


class Shared(nn.Module):
    """A slope that all rows share, [Q]."""

    def __init__(self, slope: Tensor) -> None:
        super().__init__()
        self.slope = nn.Parameter(slope.clone())


class Own(nn.Module):
    """A position and a scale of each row, [n, Q] and [n, 1]."""

    def __init__(self, position: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.position = nn.Parameter(position.clone())
        self.scale = nn.Parameter(scale.clone())


def loss_of(shared: Shared, own: Own, Y: Tensor) -> tuple[Tensor, Tensor]:
    """Two sums over rows, coupled and not quadratic, [] and [Q]."""
    fit = (Y - own.position * shared.slope).square().sum()
    curved = (own.scale.exp() * (1 + own.position.square())).sum(0)
    return fit, curved - 0.7 * own.scale.sum()


class QuadraticBlock(RowBlock):
    """Rows Y [n, Q] with their positions and scales."""

    def __init__(self, shared: Shared, own: Own, Y: Tensor) -> None:
        super().__init__(shared, own)
        self.parts, self.Y = (shared, own), Y

    def sums(self, facts: Any) -> tuple[Tensor, ...]:
        if facts == "break":
            raise NumericalError("A broken block.")
        return loss_of(*self.parts, self.Y)

    def own_scales(self) -> Sequence[Tensor]:
        own = self.parts[1]
        return [0.5 + own.position.detach().square(), own.scale.detach().exp()]


def local_shards(shared: Shared, own: Own, Y: Tensor, ends: Sequence[int]) -> Shards:
    """Shards in this process whose blocks end before these rows."""
    rows = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    blocks = [
        QuadraticBlock(shared, Own(own.position[part].data, own.scale[part].data), Y[part])
        for part in rows
    ]
    return Shards([LocalConnection(block) for block in blocks], rows)
