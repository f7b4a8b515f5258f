"""A shard in a process of this machine: ``python -m lvmcore.distributed.process_shard FD``.

The two processes exchange pickles over a pair of sockets. The shard's process has its own session,
and ends when the other end is closed, so also with the process of the fit.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from lvmcore.distributed.row_block import RowBlock
from lvmcore.distributed.shard import Command, Shard
from lvmcore.distributed.shards import ShardLostError, answer_of

__all__ = ["ProcessConnection"]

_ENDS_WITHIN_SECONDS = 5.0
_LOST = "A process with rows of the fit has ended. The fit can go on from its last checkpoint."


class ProcessConnection:
    """A shard in a process of its own.

    Args:
        block: its rows.
        threads: threads of its operations.
    """

    def __init__(self, block: RowBlock, threads: int = 1) -> None:
        here, there = socket.socketpair()
        with there:
            descriptor = there.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[descriptor],
                start_new_session=True,  # Ctrl-C stops the fit at its next step, not its shards
                env={**os.environ, "PYTHONPATH": _path(), "OMP_NUM_THREADS": str(threads)},
            )
        self._pipe: Pipe[Any, Any] = Pipe(here.detach())
        self._send((block, threads))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def _send(self, content: object) -> None:
        try:
            self._pipe.send_bytes(pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL))
        except OSError as error:
            raise ShardLostError(_LOST) from error

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands."""
        self._send(commands)

    def receive(self) -> Any:
        """The answer to the last of them."""
        try:
            return pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise ShardLostError(_LOST) from error

    def close(self) -> None:
        """Close the connection, at which the process ends."""
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_SECONDS)
            return
        self._process.kill()
        self._process.wait()


def _path() -> str:
    """The module search path of a process that imports this lvmcore."""
    root, inherited = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
    return root if not inherited else os.pathsep.join((root, inherited))


def main(descriptor: int) -> None:
    """Answer commands until the other end is closed."""
    pipe: Pipe[Any, Any] = Pipe(descriptor)
    with suppress(EOFError, OSError):
        block, threads = pickle.loads(pipe.recv_bytes())
        shard = Shard(block, threads)
        while True:
            answer = answer_of(shard, pickle.loads(pipe.recv_bytes()))
            pipe.send_bytes(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main(int(sys.argv[1]))
