"""A cost model of a full-batch Gaussian-process map: seconds and bytes by N, D, M, Q and nodes.

Seconds of a step (bound, gradient, Adam) on one core are t = Σ_j c_j b_j(N, D, M, Q) with the
operation counts b_j of ``BASIS`` and coefficients c_j ≥ 0, found by non-negative least squares of
the relative errors on ``MEASURED`` and judged on other sizes, ``HELD_OUT``. They are seconds of the
processor, which other work on the machine changes little. Bytes are the peak memory of the process
of a shard at two numbers of rows, with all pairs of the quasi-Newton steps.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.shard_messages import D, M, Q
from lvmcore.bench.latent.shards import (
    LONG_ROWS,
    NODES,
    fit_over_shards,
    long_finish,
    step_parts,
    step_seconds,
)
from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.shards import LocalConnection
from lvmcore.errors import DataError
from lvmcore.gp.rows.latent_block import LatentBlock
from lvmcore.numerics.threads import torch_threads

__all__ = ["BASIS", "Size", "coefficients", "modelled_seconds", "rows"]


class Size(NamedTuple):
    """Rows, columns, inducing inputs and latent dimensions of a fit."""

    N: int
    D: int
    M: int
    Q: int


#: Operation counts, by the name of what they are of.
BASIS: dict[str, Callable[[Size], float]] = {
    "psi2: N M²": lambda s: s.N * s.M**2,
    "psi2: N M² Q": lambda s: s.N * s.M**2 * s.Q,
    "psi1: N M": lambda s: s.N * s.M,
    "psi1ᵀY: N M D": lambda s: s.N * s.M * s.D,
    "q(X): N Q": lambda s: s.N * s.Q,
    "factors: M³": lambda s: s.M**3,
    "a step": lambda _: 1.0,
}
MEASURED = tuple(
    Size(*numbers)
    for numbers in (
        (2_000, 20, 50, 2),
        (2_000, 5, 200, 5),
        (5_000, 20, 100, 2),
        (10_000, 200, 50, 2),
        (10_000, 20, 50, 10),
        (20_000, 5, 25, 2),
        (20_000, 20, 50, 2),
        (20_000, 20, 50, 5),
        (20_000, 80, 100, 2),
        (20_000, 20, 100, 10),
        (40_000, 5, 100, 5),
        (40_000, 80, 25, 10),
        (80_000, 20, 25, 5),
        (80_000, 20, 50, 2),
        (80_000, 200, 25, 2),
    )
)
HELD_OUT = tuple(
    Size(*numbers)
    for numbers in (
        (3_000, 40, 150, 3),
        (15_000, 100, 40, 4),
        (30_000, 10, 80, 8),
        (60_000, 50, 30, 3),
        (160_000, 20, 50, 2),
    )
)
REPEATS = 5
MEMORY_ROWS = (50_000, 200_000)
#: The long table of the documentation, and the memory of a node that it is planned with.
PLANNED, NODE_BYTES = Size(10**9, D, M, Q), 64 * 2**30


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    yield _error
    yield _bytes_per_row
    yield partial(_planned, NODES[-1])


def modelled_seconds(size: Size, found: Sequence[float]) -> float:
    """Seconds of a step on one core.

    Args:
        size: of the fit.
        found: coefficients, in the order of ``BASIS``.
    """
    counts = [count(size) for count in BASIS.values()]
    return float(np.dot(counts, found))


def coefficients(sizes: Sequence[Size], seconds: Sequence[float]) -> list[float]:
    """Coefficients ≥ 0 with the smallest sum of squared relative errors.

    Args:
        sizes: sizes of fits.
        seconds: of a step of each.
    """
    counts = np.array([[count(size) for count in BASIS.values()] for size in sizes])
    scale = counts.max(axis=0)
    relative = counts / scale / np.asarray(seconds)[:, None]
    found, _ = nnls(relative, np.ones(len(sizes)))
    return [float(c) for c in found / scale]


@cache
def _seconds(size: Size) -> float:
    """Median processor seconds of a step in this process, on one thread."""
    with (
        torch_threads(1),
        fit_over_shards(
            size.N, 1, LocalConnection, columns=size.D, dimensions=size.Q, inducing=size.M
        ) as fit,
    ):
        fit.step()
        found = []
        for _ in range(REPEATS):
            began = time.process_time()
            fit.step()
            found.append(time.process_time() - began)
    return statistics.median(found)


@cache
def _coefficients() -> list[float]:
    return coefficients(MEASURED, [_seconds(size) for size in MEASURED])


def _error() -> BenchmarkRow:
    found = _coefficients()
    errors = [modelled_seconds(size, found) / _seconds(size) - 1 for size in HELD_OUT]
    return BenchmarkRow(
        "cost model: median relative error of a step's seconds on five other sizes",
        statistics.median(abs(error) for error in errors),
        reference=f"largest {max(abs(error) for error in errors):.2f}",
        ceiling=0.25,
        settings={
            "seconds per operation": dict(zip(BASIS, found, strict=True)),
            "measured": [[*size, _seconds(size)] for size in MEASURED],
            "held out": [[*size, _seconds(size)] for size in HELD_OUT],
            "errors": errors,
        },
    )


def _peak(process: int) -> int:
    """Peak memory of a process, bytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise DataError("This system does not tell the peak memory of a process.") from error
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(kilobytes)


def _shard_bytes(n_rows: int) -> int:
    """Peak memory of a shard that has all rows, after Adam and all quasi-Newton pairs."""
    made: list[ProcessConnection] = []

    def connect(block: LatentBlock) -> ProcessConnection:
        made.append(ProcessConnection(block))
        return made[-1]

    with torch_threads(1), fit_over_shards(n_rows, 1, connect) as fit:
        fit.step()
        long_finish(fit)
        return _peak(made[0].pid)


@cache
def _memory() -> tuple[float, float]:
    """Bytes of a shard without rows, and of each row."""
    few, many = (_shard_bytes(n_rows) for n_rows in MEMORY_ROWS)
    each = (many - few) / (MEMORY_ROWS[1] - MEMORY_ROWS[0])
    return few - each * MEMORY_ROWS[0], each


def _bytes_per_row() -> BenchmarkRow:
    fixed, each = _memory()
    return BenchmarkRow(
        f"memory of a shard for each row, {D} columns and {Q} latent dimensions",
        each,
        "bytes",
        reference=f"{8 * D} of them are the row; and {fixed / 1e6:.0f} MB a shard",
        settings={"D": D, "Q": Q, "M": M, "rows": list(MEMORY_ROWS), "fixed": fixed},
    )


def _planned(nodes: int) -> BenchmarkRow:
    fixed, each = _memory()
    seconds = modelled_seconds(PLANNED, _coefficients())
    parts = step_parts()
    parts["compute"] = seconds
    needed = math.ceil(each * PLANNED.N / (NODE_BYTES - fixed))
    times = {k: step_seconds(k, **parts) for k in (*NODES, 256, 1024)}
    return BenchmarkRow(
        f"by the cost model: a step of 1 000 000 000 rows on {nodes} nodes of one core",
        times[nodes],
        "s",
        reference=f"{seconds:.0f} s on one core; {each * PLANNED.N / 1e9:.0f} GB in all, so at "
        f"least {needed} nodes of 64 GiB",
        settings={
            **PLANNED._asdict(),
            "nodes": list(times),
            "seconds": list(times.values()),
            "rows of the measured step": LONG_ROWS,
            "parts": parts,
        },
    )
