"""The messages of a fit over several processes: their bytes, and their time with Ray."""

from __future__ import annotations

import logging
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.row_sums import row_sums
from lvmcore.distributed.shard import Command
from lvmcore.distributed.shards import LocalConnection, Shards
from lvmcore.errors import DataError
from lvmcore.gp.paths import DataPath
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.numerics.threads import torch_threads

__all__ = ["ACTORS", "CountingConnection", "D", "M", "Q", "message_seconds", "seconds_of"]

D, Q, M = 20, 2, 50
MESSAGE_ROUNDS = 60
ACTORS = (1, 2, 4)


def seconds_of(work: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each of some calls."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


class CountingConnection(LocalConnection):
    """A shard in this process that counts the bytes of its messages, and these."""

    def __init__(self, block: RowBlock) -> None:
        super().__init__(block)
        self.sent = self.received = self.messages = 0

    def send(self, commands: Sequence[Command]) -> None:
        """Execute commands, and count their bytes."""
        self.sent += len(pickle.dumps(commands, protocol=pickle.HIGHEST_PROTOCOL))
        self.messages += 1
        super().send(commands)

    def receive(self) -> Any:
        """The answer to the last of them, its bytes counted."""
        answer = super().receive()
        self.received += len(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
        return answer


class _ReadyBlock(RowBlock):
    """A block whose sums have the shapes of ``LatentBlock``'s, and take no time."""

    def __init__(self, path: DataPath) -> None:
        super().__init__(path, LatentRows(torch.zeros(2, Q, dtype=torch.float64), 0.1))

    def sums(self, facts: Any) -> tuple[torch.Tensor, ...]:
        """Zeros that depend on all parameters."""
        del facts
        nothing = sum(p.sum() for p in (*self.shared_parameters, *self.own_parameters)) * 0.0
        shapes = ((), (M, D), (M, M), (), ())
        return tuple(torch.zeros(shape, dtype=torch.float64) + nothing for shape in shapes)

    def own_scales(self) -> Sequence[torch.Tensor]:
        """Ones."""
        return [torch.ones_like(parameter) for parameter in self.own_parameters]


@cache
def message_seconds() -> dict[str, list[float]]:
    """Median seconds of the messages of a step and of an exchange of one number.

    With 1, 2 and 4 actors of Ray that compute nothing: packing, transport and unpacking.

    Raises:
        DataError: Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise DataError("Ray is not installed: pip install latentboard[ray].") from error
    from lvmcore.distributed.ray_shard import RayConnection

    path = DataPath(torch.zeros(M, Q).double(), torch.full((1,), 0.1).double())
    parameters = list(path.parameters())

    def messages(parts: int) -> tuple[float, float]:
        shards = Shards([RayConnection(_ReadyBlock(path)) for _ in range(parts)], [])

        def step() -> None:
            sums = row_sums(shards, parameters, None)
            total = torch.stack([one.sum() for one in sums]).sum()
            torch.autograd.grad(total, parameters, allow_unused=True)

        def number() -> None:
            shards.tell("vectors.position", 0)
            shards.ask("vectors.dot", 0, 0)

        try:
            seconds_of(step, 5)
            return (
                statistics.median(seconds_of(step, MESSAGE_ROUNDS)),
                statistics.median(seconds_of(number, MESSAGE_ROUNDS)),
            )
        finally:
            shards.close()

    ray.init(
        address="local",
        num_cpus=max(ACTORS),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=80 * 2**20,
    )
    try:
        with torch_threads(1):
            found = [messages(parts) for parts in ACTORS]
    finally:
        ray.shutdown()
    return {
        "step": [step for step, _ in found],
        "number": [number for _, number in found],
    }
