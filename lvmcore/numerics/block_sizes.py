"""Sizes of blocks, which become smaller where the memory of a device did not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["block_cells", "smaller_blocks"]

#: Share of the usual size where blocks are smaller.
SMALLER = 0.25
_share: ContextVar[float] = ContextVar("block share", default=1.0)


def block_cells(usual: int) -> int:
    """Cells or rows of a block: the usual number, or a quarter of it within ``smaller_blocks``."""
    return max(1, int(usual * _share.get()))


@contextmanager
def smaller_blocks() -> Iterator[None]:
    """Within it blocks are a quarter as large; results change in their last digits only."""
    token = _share.set(SMALLER)
    try:
        yield
    finally:
        _share.reset(token)
