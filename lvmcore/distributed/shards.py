"""The shards of a fit: commands to all of them at once, and sums of their answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.shard import Command, Shard
from lvmcore.errors import LatentboardError

__all__ = ["Connection", "LocalConnection", "ShardLostError", "Shards", "answer_of"]


class ShardLostError(LatentboardError):
    """A shard of a fit ended with its process or its node.

    The fit can go on from its last checkpoint, with other shards.
    """


class Connection(Protocol):
    """The way to one shard: a command is sent, then its answer received."""

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands, without waiting.

        Raises:
            ShardLostError: the shard is gone.
        """

    def receive(self) -> Any:
        """The answer to the last of the commands that were sent before.

        Raises:
            ShardLostError: the shard is gone.
        """

    def close(self) -> None:
        """End the shard."""


def answer_of(shard: Shard, commands: Sequence[Command]) -> Any:
    """The answer to the last of some commands, or the error of the first that failed."""
    try:
        return shard.execute(commands)
    except Exception as error:
        return error


class LocalConnection:
    """A shard in this process.

    Args:
        block: its rows.
    """

    def __init__(self, block: RowBlock) -> None:
        self._shard = Shard(pickle.loads(pickle.dumps(block)))
        self._answer: Any = None

    def send(self, commands: Sequence[Command]) -> None:
        """Execute commands."""
        self._answer = answer_of(self._shard, commands)

    def receive(self) -> Any:
        """The answer to the last of them."""
        return self._answer

    def close(self) -> None:
        """Nothing: the shard ends with its last reference."""


class Shards:
    """The shards of consecutive blocks of rows.

    Commands without an answer wait until one with an answer is sent, and travel with it.

    Args:
        connections: one a block, in the order of the rows.
        rows: the rows of each block.
    """

    def __init__(self, connections: Sequence[Connection], rows: Sequence[slice]) -> None:
        self._connections, self.rows = list(connections), list(rows)
        self._waiting: list[list[Command]] = [[] for _ in connections]

    def __len__(self) -> int:
        return len(self._connections)

    def tell(self, name: str, *arguments: Any) -> None:
        """A command to all shards whose answer is not needed."""
        for waiting in self._waiting:
            waiting.append((name, arguments))

    def tell_each(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> None:
        """``tell``, with arguments of its own for each shard."""
        for waiting, own in zip(self._waiting, arguments, strict=True):
            waiting.append((name, own))

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """The answers of all shards to a command, in the order of the rows.

        Raises:
            ShardLostError: a shard is gone.
        """
        return self.ask_each(name, [arguments] * len(self))

    def ask_each(self, name: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """``ask``, with arguments of its own for each shard.

        Args:
            name: of the command.
            arguments: one a shard; None for a shard that is not asked.

        Returns:
            The answers of the shards that were asked.

        Raises:
            ShardLostError: a shard is gone.
        """
        asked = [i for i, own in enumerate(arguments) if own is not None]
        for i in asked:
            commands, self._waiting[i] = [*self._waiting[i], (name, arguments[i] or ())], []
            self._connections[i].send(commands)
        answers = [self._connections[i].receive() for i in asked]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def close(self) -> None:
        """End the shards."""
        for connection in self._connections:
            connection.close()


#: Makes the connection to a new shard of a block.
Connect = Callable[[RowBlock], Connection]
