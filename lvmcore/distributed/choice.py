"""How many shards a fit of this process has, and where they are: no setting of a model.

The number changes where a fit is computed, and its results in their last digits only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from lvmcore.distributed.row_block import RowBlock, split_rows
from lvmcore.distributed.shards import Connect, Shards
from lvmcore.errors import ConfigError

__all__ = [
    "SHARDS",
    "check_shards",
    "chosen_shards",
    "open_shards",
    "shard_count",
    "shards_in_actors",
]

#: Environment variable with the number of shards, "2", or "4 ray" for actors of the cluster.
SHARDS = "LATENTBOARD_SHARDS"
MOST_SHARDS = 1024


def check_shards(count: int) -> int:
    """The number of shards.

    Raises:
        ConfigError: it is none.
    """
    if not 1 <= count <= MOST_SHARDS:
        raise ConfigError(f"{count} shards cannot be used: expected 1 to {MOST_SHARDS}.")
    return count


def shard_count() -> int:
    """Number of shards of a fit of this process; 0 where its rows are not in shards.

    Raises:
        ConfigError: the environment variable is no number of shards.
    """
    number = os.environ.get(SHARDS, "").partition(" ")[0]
    if not number:
        return 0
    if not number.isdecimal():
        raise ConfigError(f"{SHARDS}={number!r} is no number of shards.")
    return check_shards(int(number))


def shards_in_actors() -> bool:
    """Whether the shards of this process are actors of a cluster."""
    return os.environ.get(SHARDS, "").endswith(" ray")


@contextmanager
def chosen_shards(count: int, *, ray: bool = False) -> Iterator[None]:
    """Fits of this process and of its children have so many shards.

    Args:
        count: number of shards; 0 for none.
        ray: whether they are actors of the cluster that the process is connected to, rather than
            processes of this machine.

    Raises:
        ConfigError: the number cannot be used.
    """
    before = os.environ.pop(SHARDS, None)
    if count:
        os.environ[SHARDS] = f"{check_shards(count)}{' ray' if ray else ''}"
    try:
        yield
    finally:
        os.environ.pop(SHARDS, None)
        if before is not None:
            os.environ[SHARDS] = before


def open_shards(make_block: Callable[[slice], RowBlock], n_rows: int) -> Shards:
    """The shards of a fit, as chosen for this process.

    Args:
        make_block: makes the block of some rows.
        n_rows: N.
    """
    import torch

    rows = split_rows(n_rows, shard_count())
    threads = max(1, torch.get_num_threads() // len(rows))
    connect: Connect
    if shards_in_actors():
        from lvmcore.distributed.ray_shard import RayConnection

        connect = partial(RayConnection, threads=1)
    else:
        from lvmcore.distributed.process_shard import ProcessConnection

        connect = partial(ProcessConnection, threads=threads)
    return Shards([connect(make_block(block)) for block in rows], rows)
