"""`read_table_limited`: a file that nobody has looked at yet is read in a process with limits.

The process gets the file and answers with an Arrow file and a JSON file in a folder of their own;
nothing is pickled. What it may use grows with the content: memory by ten bytes a byte, time by a
second for each few megabytes. Where the operating system has no such limits (Windows, in part
macOS) the limits on time, size, cells and columns still hold.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import lvmcore
from lvmcore.data.source import MAX_BYTES
from lvmcore.data.table import Table
from lvmcore.data.transport import ANSWER, CONTENT, MEASURED, REQUEST, load_answer
from lvmcore.errors import DataError

__all__ = ["Limits", "read_table_limited"]

_LOOK_SECONDS = 0.05
#: -P: the current folder is not searched for modules.
_READER = [sys.executable, "-P", "-m", "lvmcore.data.reader"]
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Limits:
    """What reading a file may cost.

    Attributes:
        max_bytes: Largest content, after decompression, in bytes.
        seconds: Time for a small file, and the least for any: of the processor where the system
            can count that, else on the wall.
        patience: On the wall it may take so many times as long as on the processor, since a busy
            machine is no fault of the file.
        bytes_per_second: A larger content gets a second more for each so many bytes.
        columns_per_second: A table gets a second more for each so many columns.
        memory: Memory for an empty file, in bytes.
        memory_per_byte: A content gets so much more memory for each of its bytes.
        memory_per_column: A table gets so much more for each column, whose own objects cost that.
    """

    max_bytes: int = MAX_BYTES
    seconds: float = 10.0
    patience: float = 3.0
    bytes_per_second: float = 4e6
    columns_per_second: int = 2000
    memory: int = 300_000_000
    memory_per_byte: float = 10.0
    memory_per_column: int = 8000

    def seconds_for(self, size: int, columns: int = 0) -> float:
        """Time for a content of so many bytes (8 MB are no more than none) and columns."""
        more = max(0.0, size - 8e6) / self.bytes_per_second
        return self.seconds + more + columns / self.columns_per_second

    def memory_for(self, size: int, columns: int = 0) -> int:
        """Memory for a content of so many bytes and columns."""
        return int(self.memory + self.memory_per_byte * size + self.memory_per_column * columns)


def read_table_limited(
    content: bytes,
    *,
    name: str,
    limits: Limits | None = None,
    **how: str | int | bool | Sequence[str | float] | None,
) -> Table:
    """Read a table as `read_table` does, in a process of its own whose means are limited.

    Args:
        content: The bytes of the file.
        name: What to call the table.
        limits: What reading may cost.
        how: Settings of `read_table`: delimiter, encoding, decimal, thousands, header, sheet,
            missing.

    Returns:
        The table, equal to what `read_table` returns.

    Raises:
        DataError: The content is not one table, or reading it costs more than the limits allow.
        ConfigError: A setting is out of its range.
        UnsupportedError: A package that its format needs is not installed.
    """
    limits = limits or Limits()
    if len(content) > limits.max_bytes:
        raise DataError(
            f"{name!r} is larger than {limits.max_bytes / _MEGABYTE:,.0f} MB, the most that is "
            "read. Leave out rows or columns."
        )
    request = {"name": name, "how": how, "limits": asdict(limits)}
    with ExitStack() as stack:
        try:
            place = tempfile.TemporaryDirectory(prefix="latentboard-reading-")
            folder = Path(stack.enter_context(place))
            (folder / CONTENT).write_bytes(content)
            (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{name!r} cannot be read: there is no room for it among the temporary files "
                f"({error.strerror}). Make room and try again."
            ) from error
        code = _run(folder, name, len(content), limits)
        if not (folder / ANSWER).is_file():
            raise _died(name, code, _measured(folder, len(content)), limits)
        return load_answer(folder)


def _run(folder: Path, name: str, size: int, limits: Limits) -> int:
    """Start the reader and wait for its end, but no longer than the content is worth.

    Returns:
        Its exit status.
    """
    with subprocess.Popen(
        [*_READER, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        start_new_session=True,
    ) as process:
        started = time.monotonic()
        try:
            while True:
                try:
                    return process.wait(_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    allowed = limits.seconds_for(*_measured(folder, size))
                    if find_spec("resource") is not None:  # the processor's time is limited too
                        allowed *= limits.patience
                    if time.monotonic() - started > allowed:
                        raise _too_slow(name, allowed) from None
        finally:
            process.kill()


def _environment() -> Mapping[str, str]:
    """Ours, with this lvmcore on the path, and without threads, whose stacks cost memory."""
    root = str(Path(lvmcore.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return dict(os.environ) | {
        "PYTHONPATH": root if not inherited else os.pathsep.join((root, inherited)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "RUST_BACKTRACE": "0",
    }


def _measured(folder: Path, size: int) -> tuple[int, int]:
    """The bytes and columns of the unpacked content, once the reader knows them."""
    try:
        unpacked, columns = (folder / MEASURED).read_text().split()
    except (FileNotFoundError, ValueError):
        return size, 0
    return int(unpacked), int(columns)


def _too_slow(name: str, seconds: float) -> DataError:
    return DataError(
        f"Reading {name!r} took longer than {seconds:.0f} s, which a table of its size does not "
        "need, and was stopped. Check that the file is a table; try saving it again as CSV or "
        "Parquet."
    )


def _died(name: str, code: int, measured: tuple[int, int], limits: Limits) -> DataError:
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return _too_slow(name, limits.seconds_for(*measured))
    memory = limits.memory_for(*measured) / _MEGABYTE
    return DataError(
        f"Reading {name!r} needed more memory than a file of its size may use (about {memory:,.0f} "
        f"MB), or failed (status {code}), and was stopped. Check that the file is a table; leave "
        "out rows or columns, or save it as Parquet."
    )
