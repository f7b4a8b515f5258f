"""One fit over several processes: speed-up of a step, cost of the messages, time against nodes."""

from __future__ import annotations

import logging
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from lvmcore.base.fit_problem import FitProblem
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.row_block import split_rows
from lvmcore.distributed.row_sums import row_sums
from lvmcore.distributed.shard import Command
from lvmcore.distributed.shards import Connection, LocalConnection, Shards
from lvmcore.errors import DataError
from lvmcore.gp.objective import GPLVMObjective
from lvmcore.gp.paths import DataPath
from lvmcore.gp.rows.latent_block import LatentBlock
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.gp.rows.sharded_rows import ShardedRows
from lvmcore.numerics.threads import torch_threads
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.parameter_state import ParameterState
from lvmcore.training.quasi_newton import QuasiNewtonFinish

__all__ = ["rows"]

D, Q, M = 20, 2, 50
SPEED_ROWS, LONG_ROWS = 200_000, 1_000_000
ROUNDS, LONG_ROUNDS, MESSAGE_ROUNDS = 7, 3, 60
# Rows of the blocks with which messages are timed: their sums take no time, the messages do not
# depend on their number.
FEW_ROWS = 64
ACTORS = (1, 2, 4)
NODES = (1, 2, 4, 8, 16, 32, 64)
# Assumed of the network between nodes: 10 Gbit/s, and half a round trip between two machines.
BANDWIDTH, LATENCY = 1.25e9, 1e-4
_SETTINGS = {"D": D, "Q": Q, "M": M, "dtype": "float64", "threads a shard": 1}

Connect = Callable[[LatentBlock], Connection]


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    yield _sums_speed
    yield _step_speed
    yield _message_bytes
    yield _step_share
    yield _finish_share
    yield _many_nodes


@dataclass(frozen=True)
class Fit:
    """A fit over shards at its start, and what one process needs for the same.

    Attributes:
        objective: its objective.
        shards: its shards.
        path: its shared parameters.
        state: its optimiser.
    """

    objective: GPLVMObjective
    shards: Shards
    path: DataPath
    state: ParameterState

    def sums(self) -> None:
        """The sums over the rows, without a gradient."""
        with torch.no_grad():
            row_sums(self.shards, list(self.path.parameters()), None)

    def step(self) -> None:
        """A bound with its gradient and a step of Adam."""
        self.state.zero_grad()
        bound = torch.stack(list(self.objective.terms().values())).sum()
        (-bound).backward()  # type: ignore[no-untyped-call]
        self.state.step(1e-9)


@contextmanager
def _fit(n_rows: int, parts: int, connect: Connect) -> Iterator[Fit]:
    """A fit to random rows in so many shards."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    X, Y = normal(n_rows, Q), normal(n_rows, D)
    path = DataPath(normal(M, Q), torch.full((1,), 0.1).double())
    blocks = split_rows(n_rows, parts)
    shards = Shards(
        [connect(LatentBlock(path, LatentRows(X[b], 0.1), Y[b].clone(), b.start)) for b in blocks],
        blocks,
    )
    problem = FitProblem(InMemoryRows(Y), (), Q, draw, None)
    try:
        rows_ = ShardedRows(shards, [path], (n_rows, Q))
        objective = GPLVMObjective(rows_, path, problem)
        yield Fit(objective, shards, path, objective.parameter_state())
    finally:
        shards.close()


def _seconds(work: Callable[[], object], repeats: int) -> list[float]:
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


# ---- speed-up ----------------------------------------------------------------------------------


@cache
def _speed() -> dict[str, tuple[float, float]]:
    """Median seconds with one shard and with two, of the sums and of a step.

    The two take turns, so that a machine whose speed changes changes it for both.
    """
    found: dict[tuple[str, int], list[float]] = {}
    with (
        torch_threads(1),
        _fit(SPEED_ROWS, 1, ProcessConnection) as one,
        _fit(SPEED_ROWS, 2, ProcessConnection) as two,
    ):
        for turn in range(ROUNDS + 1):
            for parts, fit in ((1, one), (2, two)):
                for name, work in (("sums", fit.sums), ("step", fit.step)):
                    seconds = _seconds(work, 1)
                    if turn:  # the first turn starts the processes
                        found.setdefault((name, parts), []).extend(seconds)
    return {
        name: (statistics.median(found[name, 1]), statistics.median(found[name, 2]))
        for name in ("sums", "step")
    }


def _speed_row(name: str, text: str, floor: float | None) -> BenchmarkRow:
    one, two = _speed()[name]
    settings = {**_SETTINGS, "N": SPEED_ROWS, "rounds": ROUNDS, "seconds": [one, two]}
    return BenchmarkRow(
        f"{text}, 200 000 rows: two shards on two cores against one",
        one / two,
        "x",
        reference=f"{one:.2f} s with one shard",
        floor=floor,
        settings=settings,
    )


def _sums_speed() -> BenchmarkRow:
    return _speed_row("sums", "psi sums", 1.7)


def _step_speed() -> BenchmarkRow:
    return _speed_row("step", "a step (bound, gradient, Adam)", None)


# ---- messages ----------------------------------------------------------------------------------


class _CountingConnection(LocalConnection):
    """A shard in this process that counts the bytes of its messages, and these."""

    def __init__(self, block: LatentBlock) -> None:
        super().__init__(block)
        self.sent = self.received = self.messages = 0

    def send(self, commands: Sequence[Command]) -> None:
        self.sent += len(pickle.dumps(commands, protocol=pickle.HIGHEST_PROTOCOL))
        self.messages += 1
        super().send(commands)

    def receive(self) -> Any:
        answer = super().receive()
        self.received += len(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
        return answer


@cache
def _bytes() -> dict[str, dict[str, float]]:
    """Bytes to and from each shard and exchanges, of a step of Adam and of a quasi-Newton step."""
    made: list[_CountingConnection] = []

    def connect(block: LatentBlock) -> _CountingConnection:
        made.append(_CountingConnection(block))
        return made[-1]

    def counted(work: Callable[[], object]) -> dict[str, float]:
        shard = made[0]
        before = shard.sent, shard.received, shard.messages
        work()
        after = shard.sent, shard.received, shard.messages
        sent, received, messages = (b - a for a, b in zip(before, after, strict=True))
        return {"sent": sent, "received": received, "exchanges": messages}

    with _fit(FEW_ROWS, 2, connect) as fit:
        fit.step()
        adam = counted(fit.step)
        finish = _long_finish(fit)
        iterations = [counted(finish.iterate) for _ in range(10)]
        mean = {k: float(np.mean([one[k] for one in iterations])) for k in adam}
    return {"step": adam, "finish": mean}


def _long_finish(fit: Fit) -> QuasiNewtonFinish:
    """A quasi-Newton finish that has all its pairs."""
    finish = QuasiNewtonFinish(fit.objective, FEW_ROWS * D)
    for _ in range(25):
        finish.iterate()
    return finish


def _message_bytes() -> BenchmarkRow:
    found = _bytes()["step"]
    return BenchmarkRow(
        "bytes to and from each shard in a step",
        (found["sent"] + found["received"]) / 1e3,
        "kB",
        reference="they do not depend on the number of rows",
        settings={**_SETTINGS, **_bytes()},
    )


@cache
def _long_step() -> float:
    """Median seconds of a step of 1 000 000 rows in one process on one core."""
    with torch_threads(1), _fit(LONG_ROWS, 1, ProcessConnection) as fit:
        fit.step()
        return statistics.median(_seconds(fit.step, LONG_ROUNDS))


@cache
def _message_seconds() -> dict[str, list[float]]:
    """Median seconds of a step and of a quasi-Newton step of few rows.

    With 1, 2 and 4 actors, less those with as many shards in this process: what Ray's messages
    take, packed and unpacked.

    Raises:
        DataError: Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise DataError("Ray is not installed: pip install latentboard[ray].") from error
    from lvmcore.distributed.ray_shard import RayConnection

    def median(parts: int, connect: Connect) -> tuple[float, float]:
        with torch_threads(1), _fit(FEW_ROWS, parts, connect) as fit:
            fit.step()
            step = statistics.median(_seconds(fit.step, MESSAGE_ROUNDS))
            finish = _long_finish(fit)
            return step, statistics.median(_seconds(finish.iterate, MESSAGE_ROUNDS))

    ray.init(
        num_cpus=max(ACTORS),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=80 * 2**20,
    )
    try:
        pairs = [(median(k, RayConnection), median(k, LocalConnection)) for k in ACTORS]
    finally:
        ray.shutdown()
    return {
        "step": [there[0] - here[0] for there, here in pairs],
        "finish": [there[1] - here[1] for there, here in pairs],
        "coordinator": [here[0] for _, here in pairs],
    }


def _share_row(kind: str, text: str) -> BenchmarkRow:
    messages = _message_seconds()[kind][ACTORS.index(2)]
    compute = _long_step() / 2
    return BenchmarkRow(
        f"share of Ray's messages in {text}, 1 000 000 rows over two actors",
        messages / (compute + messages),
        reference=f"{1e3 * messages:.1f} ms of messages, {compute:.2f} s of sums a shard",
        ceiling=0.03,
        settings={
            **_SETTINGS,
            "N": LONG_ROWS,
            "actors": list(ACTORS),
            "seconds of messages": _message_seconds()[kind],
            "seconds of a step in one process": _long_step(),
        },
    )


def _step_share() -> BenchmarkRow:
    return _share_row("step", "a step")


def _finish_share() -> BenchmarkRow:
    return _share_row("finish", "a quasi-Newton step")


# ---- many nodes, by simulation -----------------------------------------------------------------


def step_seconds(
    nodes: int, *, compute: float, fixed: float, each: float, volume: float, exchanges: float
) -> float:
    """Seconds of a step over nodes: the sums of a shard, then the messages of all, one by one.

    T(K) = compute/K + fixed + K (each + volume/bandwidth) + exchanges · 2 latency: every shard
    sends to and receives from one coordinator (a star), whose network and processor they share.

    Args:
        nodes: K.
        compute: of all sums on one node.
        fixed: of the coordinator's own part, and of messages whatever K is.
        each: of packing and unpacking the messages of a shard.
        volume: bytes to and from a shard.
        exchanges: number of exchanges with the shards.
    """
    network = 0.0 if nodes == 1 else nodes * volume / BANDWIDTH + 2 * exchanges * LATENCY
    return compute / nodes + fixed + nodes * each + network


def _many_nodes() -> BenchmarkRow:
    seconds, found = _message_seconds(), _bytes()["step"]
    slope, intercept = np.polyfit(ACTORS, seconds["step"], 1)
    parts = {
        "compute": _long_step(),
        "fixed": max(0.0, float(intercept)) + seconds["coordinator"][0],
        "each": max(0.0, float(slope)),
        "volume": found["sent"] + found["received"],
        "exchanges": found["exchanges"],
    }
    times = [step_seconds(k, **parts) for k in NODES]
    return BenchmarkRow(
        "simulated: a step of 1 000 000 rows on 64 nodes of one core against one node",
        times[0] / times[-1],
        "x",
        reference=f"{times[0]:.2f} s and {times[-1]:.3f} s, a star at 10 Gbit/s",
        settings={
            **_SETTINGS,
            "N": LONG_ROWS,
            "nodes": list(NODES),
            "seconds": times,
            "parts": parts,
            "bandwidth": BANDWIDTH,
            "latency": LATENCY,
        },
    )
