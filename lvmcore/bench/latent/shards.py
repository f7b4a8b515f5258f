"""One fit over several processes: speed-up of a step, cost of the messages, time against nodes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from lvmcore.base.fit_problem import FitProblem
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.shard_messages import (
    ACTORS,
    CountingConnection,
    D,
    M,
    Q,
    message_seconds,
    seconds_of,
)
from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.row_block import split_rows
from lvmcore.distributed.row_sums import row_sums
from lvmcore.distributed.shards import Connection, LocalConnection, Shards
from lvmcore.gp.collapsed_rbf_bound import collapsed_sums_bound
from lvmcore.gp.objective import GPLVMObjective
from lvmcore.gp.paths import DataPath
from lvmcore.gp.rows.latent_block import LatentBlock
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.gp.rows.sharded_rows import ShardedRows
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.numerics.threads import torch_threads
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.parameter_state import ParameterState
from lvmcore.training.quasi_newton import QuasiNewtonFinish

__all__ = ["fit_over_shards", "long_finish", "rows", "step_parts", "step_seconds"]

SPEED_ROWS, LONG_ROWS = 200_000, 1_000_000
ROUNDS, LONG_ROUNDS, BOUND_ROUNDS = 7, 3, 60
# Rows with which messages are counted: these do not depend on the number of rows.
FEW_ROWS = 64
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
def fit_over_shards(
    n_rows: int,
    parts: int,
    connect: Connect,
    *,
    columns: int = D,
    dimensions: int = Q,
    inducing: int = M,
) -> Iterator[Fit]:
    """A fit to random rows in so many shards.

    Args:
        n_rows: N.
        parts: number of shards.
        connect: starts a shard.
        columns: D.
        dimensions: Q.
        inducing: M.
    """
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    X, Y = normal(n_rows, dimensions), normal(n_rows, columns)
    path = DataPath(normal(inducing, dimensions), torch.full((1,), 0.1).double())
    blocks = split_rows(n_rows, parts)
    shards = Shards(
        [connect(LatentBlock(path, LatentRows(X[b], 0.1), Y[b].clone(), b.start)) for b in blocks],
        blocks,
    )
    problem = FitProblem(InMemoryRows(Y), (), dimensions, draw, None)
    try:
        rows_ = ShardedRows(shards, [path], (n_rows, dimensions))
        objective = GPLVMObjective(rows_, path, problem)
        yield Fit(objective, shards, path, objective.parameter_state())
    finally:
        shards.close()


# ---- speed-up ----------------------------------------------------------------------------------


@cache
def _speed() -> dict[str, tuple[float, float]]:
    """Median seconds with one shard and with two, of the sums and of a step.

    The two take turns, so that a machine whose speed changes changes it for both.
    """
    found: dict[tuple[str, int], list[float]] = {}
    with (
        torch_threads(1),
        fit_over_shards(SPEED_ROWS, 1, ProcessConnection) as one,
        fit_over_shards(SPEED_ROWS, 2, ProcessConnection) as two,
    ):
        for turn in range(ROUNDS + 1):
            for parts, fit in ((1, one), (2, two)):
                for name, work in (("sums", fit.sums), ("step", fit.step)):
                    seconds = seconds_of(work, 1)
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


# ---- messages ---------------------------------------------------------------------------------


@cache
def _bytes() -> dict[str, dict[str, float]]:
    """Bytes to and from each shard and exchanges, of a step of Adam and of a quasi-Newton step."""
    made: list[CountingConnection] = []

    def connect(block: LatentBlock) -> CountingConnection:
        made.append(CountingConnection(block))
        return made[-1]

    def counted(work: Callable[[], object]) -> dict[str, float]:
        shard = made[0]
        before = shard.sent, shard.received, shard.messages
        work()
        after = shard.sent, shard.received, shard.messages
        sent, received, messages = (b - a for a, b in zip(before, after, strict=True))
        return {"sent": sent, "received": received, "exchanges": messages}

    with fit_over_shards(FEW_ROWS, 2, connect) as fit:
        fit.step()
        adam = counted(fit.step)
        finish = long_finish(fit)
        iterations = [counted(finish.iterate) for _ in range(10)]
        mean = {k: float(np.mean([one[k] for one in iterations])) for k in adam}
    return {"step": adam, "finish": mean}


def long_finish(fit: Fit) -> QuasiNewtonFinish:
    """A quasi-Newton finish that has all its pairs.

    Args:
        fit: a fit.
    """
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
    with torch_threads(1), fit_over_shards(LONG_ROWS, 1, ProcessConnection) as fit:
        fit.step()
        return statistics.median(seconds_of(fit.step, LONG_ROUNDS))


@cache
def _coordinator_seconds() -> float:
    """Median seconds of the bound and its gradient from sums that are there."""
    with torch_threads(1), fit_over_shards(FEW_ROWS, 1, LocalConnection) as fit:
        sums = PsiSums(*row_sums(fit.shards, list(fit.path.parameters()), None)[:3])
        ready = PsiSums(*(part.detach().requires_grad_() for part in vars(sums).values()))
        squares = torch.ones(D, dtype=torch.float64)

        def bound() -> None:
            kernel = fit.path.kernel
            value = collapsed_sums_bound(
                ready, kernel(fit.path.Z, fit.path.Z), fit.path.noise, squares, FEW_ROWS
            )
            torch.autograd.grad(value, [*vars(ready).values(), *fit.path.parameters()])

        bound()
        return statistics.median(seconds_of(bound, BOUND_ROUNDS))


def _share_row(kind: str, text: str) -> BenchmarkRow:
    seconds = message_seconds()
    more = _bytes()[kind]["exchanges"] - _bytes()["step"]["exchanges"]
    messages = (np.array(seconds["step"]) + more * np.array(seconds["number"])).tolist()
    two = messages[ACTORS.index(2)]
    compute = _long_step() / 2
    return BenchmarkRow(
        f"share of Ray's messages in {text}, 1 000 000 rows over two actors",
        two / (compute + two),
        reference=f"{1e3 * two:.1f} ms of messages, {compute:.2f} s of sums a shard",
        ceiling=0.03,
        settings={
            **_SETTINGS,
            "N": LONG_ROWS,
            "actors": list(ACTORS),
            "seconds of messages": messages,
            "seconds of one number": seconds["number"],
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


def step_parts() -> dict[str, float]:
    """What ``step_seconds`` takes, for a step of ``LONG_ROWS`` rows."""
    seconds, found = message_seconds(), _bytes()["step"]
    slope, intercept = np.polyfit(ACTORS, seconds["step"], 1)
    return {
        "compute": _long_step(),
        "fixed": max(0.0, float(intercept)) + _coordinator_seconds(),
        "each": max(0.0, float(slope)),
        "volume": found["sent"] + found["received"],
        "exchanges": found["exchanges"],
    }


def _many_nodes() -> BenchmarkRow:
    parts = step_parts()
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
