"""A shard in an actor of a Ray cluster, on any of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.shard import Command, Shard
from lvmcore.distributed.shards import ShardLostError, answer_of

__all__ = ["RayConnection"]

#: Longest time for an actor to find room on a node and to take its rows.
START_SECONDS = 120.0
_LOST = "A node with rows of the fit was lost. The fit can go on from its last checkpoint."
_NO_ROOM = (
    "The cluster has no room for all shards of the fit: each takes {threads} of its cores. The fit "
    "goes on from its last checkpoint when there is."
)


class _Actor:
    """A shard, as Ray starts it on a node.

    Args:
        block: its rows.
        threads: threads of its operations.
    """

    def __init__(self, block: RowBlock, threads: int) -> None:
        self._shard = Shard(block, threads)

    def ready(self) -> bool:
        """True."""
        return True

    def answer(self, commands: Sequence[Command]) -> Any:
        """The answer to the last of some commands, or the error of the first that failed."""
        return answer_of(self._shard, commands)


class RayConnection:
    """A shard in an actor; Ray spreads the actors over the nodes.

    Args:
        block: its rows.
        threads: cores that it takes.
    """

    def __init__(self, block: RowBlock, threads: int = 1) -> None:
        import ray

        self._ray, self._threads = ray, threads
        options: dict[str, Any] = {"num_cpus": threads, "scheduling_strategy": "SPREAD"}
        actor: Any = ray.remote(_Actor)
        self._actor = actor.options(**options).remote(block, threads)
        self._ready: Any = self._actor.ready.remote()
        self._answer: Any = None

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands."""
        self._answer = self._actor.answer.remote(commands)

    def receive(self) -> Any:
        """The answer to the last of them."""
        errors = self._ray.exceptions
        try:
            if self._ready is not None:
                self._ray.get(self._ready, timeout=START_SECONDS)
                self._ready = None
            return self._ray.get(self._answer)
        except errors.GetTimeoutError as error:
            raise ShardLostError(_NO_ROOM.format(threads=self._threads)) from error
        except (errors.RayActorError, errors.RaySystemError, errors.ObjectLostError) as error:
            raise ShardLostError(_LOST) from error

    def close(self) -> None:
        """End the actor."""
        if self._ray.is_initialized():  # else a call would start a cluster
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(self._actor)
