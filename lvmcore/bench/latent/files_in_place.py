"""Tables larger than memory: the memory of a fit to files, and the speed of placing their rows.

The table of curved clusters is made on the fly, block by block. The fit is ``lvmcore fit`` in a
process of its own, whose resident memory counts with the pages of the mapped array. Placing is
measured from the first block that is done to the last, without the start of the processes; the
speeds of one and of two processes are measured one after the other, and twice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.new_tables.matching_dataset import matching_dataset
from lvmcore.data.readers.sandbox import read_files_sandboxed
from lvmcore.errors import DataError
from lvmcore.jobs.file_blocks.job_parts import block_model
from lvmcore.jobs.file_blocks.parts import apply_to_files
from lvmcore.jobs.file_blocks.pools import LocalPool
from lvmcore.models import load

__all__ = ["rows", "write_clusters"]

COLUMNS, CLASSES, FILES = 20, 4, 10
ROWS, FULL_ROWS = 100_000, 10_000_000
PLACED, FULL_PLACED = 100_000, 1_000_000
STEPS, BLOCK = 50, 1 << 14
MODELS = ("fast_ldgd", "stochastic_gplvm")
#: Most memory of a fit in GB, and least share of the sum of the single speeds.
MOST_MEMORY, LEAST_SHARE = 4.0, 0.8
_SECONDS_BETWEEN = 0.1


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """The rows."""
    n, placed = (FULL_ROWS, FULL_PLACED) if options.full else (ROWS, PLACED)
    for model in MODELS:
        yield partial(_memory, model, n)
    yield partial(_speed, 1, placed)
    yield partial(_speed, 2, placed)
    yield partial(_share, placed)


def write_clusters(folder: Path, n: int) -> None:
    """Write a table of noisy curved clusters as Parquet files, a block at a time.

    Args:
        folder: folder of the files.
        n: number of rows.
    """
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((3, COLUMNS))
    centres = 2 * rng.standard_normal((CLASSES, 3))
    names = np.array([f"class {k + 1}" for k in range(CLASSES)])
    for k in range(FILES):
        own = np.random.default_rng([0, k])
        writer, left = None, n // FILES
        while left:
            size = min(1 << 17, left)
            code = own.integers(0, CLASSES, size)
            Z = centres[code] + own.standard_normal((size, 3))
            X = 3 * np.tanh(0.5 * Z @ directions) + 0.3 * own.standard_normal((size, COLUMNS))
            cells = {f"x{d + 1}": X[:, d] for d in range(COLUMNS)}
            table = pa.table({**cells, "kind": pa.array(names[code])})
            writer = writer or pq.ParquetWriter(folder / f"part-{k:02}.parquet", table.schema)
            writer.write_table(table)
            left -= size
        assert writer is not None
        writer.close()


def _memory(model: str, n: int) -> BenchmarkRow:
    with tempfile.TemporaryDirectory(prefix="latentboard-bench-") as scratch:
        folder = Path(scratch) / "table"
        folder.mkdir()
        write_clusters(folder, n)
        peak = _peak_memory([*_fit_command(model, folder), "--out", str(Path(scratch) / "run")])
    return BenchmarkRow(
        f"{model}: peak resident memory of the fit of {n:,} x {COLUMNS} cells from Parquet",
        peak / 1e9,
        "GB",
        ceiling=MOST_MEMORY,
        settings={"max_iter": STEPS, "n_components": 2, "n_inducing": 20, "dtype": "float64"},
    )


def _fit_command(model: str, folder: Path) -> list[str]:
    settings = (f"max_iter={STEPS}", "n_components=2", "n_inducing=20")
    given = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "lvmcore.cli", "fit", str(folder), "--model", model]
    return [*command, "--label", "kind", *given]


def _peak_memory(command: list[str]) -> float:
    """Largest resident memory of a process and its children together, bytes."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                tree = [watched, *watched.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in tree))
            except psutil.NoSuchProcess:
                pass
            time.sleep(_SECONDS_BETWEEN)
    if process.returncode:
        raise DataError(f"The fit ended with status {process.returncode}.")
    return float(peak)


def _speed(workers: int, placed: int) -> BenchmarkRow:
    name = "1 process" if workers == 1 else f"{workers} processes"
    speeds = _speeds(placed)[workers]
    return BenchmarkRow(
        f"fast_ldgd: rows of {COLUMNS} columns placed a second, with class probabilities, {name}",
        float(np.mean(speeds)),
        "rows/s",
        settings={"rows": placed, "threads a process": 1},
    )


def _share(placed: int) -> BenchmarkRow:
    found = _speeds(placed)
    return BenchmarkRow(
        "fast_ldgd: speed of 2 processes as a share of the sum of their single speeds",
        float(np.mean(found[2]) / (2 * np.mean(found[1]))),
        floor=LEAST_SHARE,
        settings={"rows": placed, "threads a process": 1},
    )


@cache
def _speeds(placed: int) -> dict[int, list[float]]:
    """Rows a second by the number of processes, measured alternately."""
    found: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="latentboard-bench-") as scratch:
        folder = Path(scratch) / "table"
        folder.mkdir()
        write_clusters(folder, placed)
        run = Path(scratch) / "run"
        fit = [*_fit_command("fast_ldgd", folder), "--out", str(run)]
        subprocess.run(fit, check=True, stdout=subprocess.DEVNULL)
        path = run / "model.safetensors"
        model = load(path, "map")
        sample = matching_dataset(read_files_sandboxed([folder]), list(model.feature_names_in_))
        blocks = block_model("project", path, model, sample, None)
        for turn in range(2):
            for workers, speeds in found.items():
                clock = _Clock()
                apply_to_files(
                    blocks,
                    Path(scratch) / f"placed-{turn}-{workers}",
                    partial(LocalPool, workers=workers),
                    clock.tell,
                    block_rows=BLOCK,
                )
                speeds.append(clock.speed)
    return found


class _Clock:
    """Measures rows a second from the first block that is done to the last."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)

    def tell(self, done: int, total: int) -> bool:
        """Note the rows that are done; False."""
        del total
        if done > self._last[0]:
            self._last = done, time.perf_counter()
            self._first = self._first or self._last
        return False

    @property
    def speed(self) -> float:
        """Rows a second."""
        assert self._first is not None
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])
