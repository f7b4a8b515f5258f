"""A campaign of damaged files: each is read as a table, or refused with a sentence.

``python -m tests.campaigns.files [--count 2000] [--seed 0] [--tables-only]``

Each file is read in the process with limits. It fails the campaign if the reading ends in an error
of another kind, in an empty message, or not within 30 s; if a process takes more memory than it
may; or if the table differs from the file as a second reader reads it, and no note says why. The
files that fail are kept, and the exit status is 1.
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import numpy as np

from lvmcore.data import SandboxLimits, Table, read_table_sandboxed
from lvmcore.data.readers import sandbox
from lvmcore.errors import LatentboardError
from tests.campaigns.damage import damaged
from tests.campaigns.second_routes import SecondReaderError, differences
from tests.campaigns.seed_files import table_files
from tests.campaigns.stored_files import (
    RUN_FILES,
    model_files,
    model_outcome,
    run_files,
    run_outcome,
)
from tests.damaged_models import KINDS
from tests.damaged_models import damaged as damaged_model

__all__ = ["Report", "campaign", "main"]

#: Longest reading, in seconds, and largest process, in bytes; every seed has less than 100 kB.
_SECONDS = 30.0
_MEMORY = 800_000_000
#: One in so many readings starts a new interpreter.
_REAL = 25


@dataclass
class Report:
    """What became of the files.

    Attributes:
        counts: Number of files by their kind and outcome.
        failures: What failed, and the kept files.
        largest: Memory of the largest process, in bytes.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    largest: int = 0

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.counts})
        outcomes = sorted({outcome for _, outcome in self.counts})
        width = max(map(len, outcomes))
        lines = [" " * width + "".join(f"{kind:>9}" for kind in kinds)]
        for outcome in outcomes:
            cells = (f"{self.counts[kind, outcome]:>9}" for kind in kinds)
            lines.append(outcome.ljust(width) + "".join(cells))
        lines.append(f"Largest process: {self.largest / 1e6:.0f} MB")
        return "\n".join([*lines, *self.failures, f"{len(self.failures)} failures"])


class _SideProcess:
    """A process for what may hang or take any memory: the second reader, and model files."""

    def __init__(self) -> None:
        self.process: multiprocessing.process.BaseProcess | None = None

    def ask(self, *question: object) -> list[str]:
        """The answer of the process; that it gave up, where it has none within the time."""
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=_answer, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.connection.send(question)
            if self.connection.poll(_SECONDS):
                return list(self.connection.recv())
        except (EOFError, OSError):
            pass
        self.close()
        return ["gave up"]

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _answer(connection: Connection) -> None:
    """The work of the other process."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (3_000_000_000, 3_000_000_000))
    while True:
        try:
            content, table = connection.recv()
        except EOFError:
            return
        if table is None:
            connection.send(model_outcome(content))
            continue
        if isinstance(table, str):
            connection.send(run_outcome(content, table))
            continue
        try:
            connection.send(["same", *differences(content, table)])
        except SecondReaderError as error:
            connection.send(["second reader refused", str(error)[:200]])
        except MemoryError:
            connection.send(["gave up"])


class _QuickReader:
    """Starts the reading processes by a fork, except each of so many files.

    Attributes:
        number: Number of the file that is read.
        largest: Memory of the largest process, in bytes.
    """

    def __init__(self) -> None:
        self.number = self.largest = 0
        self._start = sandbox._run_worker
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.fork_server", str(_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=sandbox._environment(),
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> "_QuickReader":
        sandbox._run_worker = self._run
        return self

    def __exit__(self, *_: object) -> None:
        sandbox._run_worker = self._start
        self._server.kill()
        self._server.communicate()

    def _run(self, folder: Path, name: str, size: int, limits: SandboxLimits) -> int:
        if self.number % _REAL == 0:
            return self._start(folder, name, size, limits)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{folder}\n")
        code, kilobytes = self._server.stdout.readline().split()
        self.largest = max(self.largest, 1024 * int(kilobytes), _largest_process())
        return int(code)


def campaign(count: int, seed: int, kept: Path, *, models: bool = True) -> Report:
    """Damage and read files.

    Args:
        count: Number of files.
        seed: Seed of the damage.
        kept: Folder for the files that fail.
        models: Whether model files and files of runs are among them.
    """
    files = table_files() | (model_files() | run_files() if models else {})
    everything = [content for group in files.values() for content in group]
    kinds, report, second = list(files), Report(), _SideProcess()
    with closing(second), _QuickReader() as reader:
        for number in range(count):
            reader.number = number
            rng = np.random.default_rng([seed, number])
            kind = kinds[number % len(kinds)]
            group = files[kind]
            whole = group[int(rng.integers(len(group)))]
            others = group if rng.random() < 0.7 else everything
            if kind == "model":
                damage = str(rng.choice(KINDS))
                content = damaged_model(whole, damage, Random(int(rng.integers(2**32))))
            else:
                damage, content = damaged(whole, others, rng)
            if kind == "run":
                outcome, *faults = second.ask(content, RUN_FILES[group.index(whole)])
            elif kind == "model":
                outcome, *faults = second.ask(content, None)
            else:
                outcome, faults = _read(content, second, reader)
            report.counts[kind, outcome] += 1
            report.largest = max(report.largest, reader.largest)
            if faults:
                path = kept / f"{number}.{kind}"
                path.write_bytes(content)
                report.failures.append(f"{path} ({damage}): {'; '.join(faults)}")
    return report


def _read(content: bytes, second: _SideProcess, reader: _QuickReader) -> tuple[str, list[str]]:
    """Outcome of a reading, and what is wrong with it."""
    started = time.monotonic()
    faults = []
    table: Table | None = None
    try:
        table = read_table_sandboxed(content, name="file")
        outcome = "read"
    except LatentboardError as error:
        message = str(error)
        outcome = "refused"
        if not message.strip():
            faults.append("an empty message")
        if "cannot be read (" in message or "or failed (status" in message:
            faults.append(f"an error of another kind: {message}")
        if "more memory" in message or "MB of memory" in message:
            outcome = "refused for memory"
        if "took longer than" in message:
            outcome = "refused for time"
    except Exception as error:
        outcome = "traceback"
        faults.append(f"{type(error).__name__}: {error}")
    if time.monotonic() - started > _SECONDS:
        faults.append(f"it took {time.monotonic() - started:.0f} s")
    if reader.largest > _MEMORY:
        faults.append(f"a process took {reader.largest / 1e6:.0f} MB")
        reader.largest = 0
    if table is not None:
        answer, *details = second.ask(content, table)
        outcome = f"read, {answer}" if answer != "same" or not details else "read differently"
        told = " and told" if table.notes else ""
        if answer == "same" and details:
            faults += [f"it differs: {detail}" for detail in details]
        elif answer == "second reader refused":
            outcome += told
        if answer == "second reader refused" and not told and not _is_text(table):
            faults.append(f"the second reader refuses it: {'; '.join(details)}")
    return outcome, faults


def _is_text(table: Table) -> bool:
    """Whether a file has rows of text, which readers split by different rules."""
    return table.detected.format.startswith(("csv", "tsv", "text", "json"))


def _largest_process() -> int:
    """Memory of this process and of the largest one that it has waited for, in bytes.

    The kernel counts the memory of the process that started this one in ``ru_maxrss`` (it is kept
    over ``exec``), so the peak of this process is read from its own status.
    """
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    own = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * max(children, int(own.split()[1]))


def main(argv: list[str] | None = None) -> int:
    """Run the campaign and print its report; the exit status is 1 if a file failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=2000, help="number of files")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage")
    parser.add_argument("--tables-only", action="store_true", help="leave models and runs out")
    arguments = parser.parse_args(argv)
    kept = Path(tempfile.mkdtemp(prefix="latentboard-campaign-"))
    report = campaign(arguments.count, arguments.seed, kept, models=not arguments.tables_only)
    print(report)
    if not report.failures:
        kept.rmdir()
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
