"""`read_table_sandboxed`: an untrusted file is read in a process of its own with limits.

The dashboard and the command line read every file of a user this way.
The process returns an Arrow file and a JSON file in a temporary folder; nothing is pickled. The
limits grow with the content: memory by ten bytes a byte, time by a second for each few megabytes.
On an operating system without such limits (Windows, in part macOS) the limits of time, size, cells
and columns still apply.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from lvmcore.data.readers.files_table import load_files_table
from lvmcore.data.readers.sandbox_transport import CONTENT, MEASURED, REQUEST, RESULT, load_result
from lvmcore.data.size_limits import MAX_BYTES, too_large_error
from lvmcore.data.source import file_size, table_name
from lvmcore.data.table import Table
from lvmcore.data.table_files import file_stamp, files_name, find_table_files
from lvmcore.errors import DataError

__all__ = ["SandboxLimits", "read_files_sandboxed", "read_table_sandboxed"]

#: Most rows of the sample of registered files, and bytes for which its process has memory.
SAMPLE_ROWS, SAMPLE_LIMIT = 10_000, 64_000_000
_POLL_SECONDS = 0.05
#: -P: the current folder is not searched for modules.
_WORKER_COMMAND = [sys.executable, "-P", "-m", "lvmcore.data.readers.sandbox_worker"]
_MEGABYTE = 1e6


@dataclass(frozen=True)
class ContentSize:
    """Size of the content of a file, as far as it is known before it is read.

    Attributes:
        bytes: Size after decompression, in bytes.
        columns: Number of columns; 0 if unknown.
        rows: Number of rows; 0 if unknown.
    """

    bytes: int
    columns: int = 0
    rows: int = 0


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of the process that reads a file.

    Attributes:
        max_bytes: Maximal size of the content after decompression, in bytes.
        seconds: Time limit for a small file: processor time where the system can limit it, else
            wall time.
        wall_factor: Limit of the wall time as a multiple of that of the processor time, for a busy
            machine.
        bytes_per_second: A larger content gets a further second for each so many bytes.
        columns_per_second: A table gets a further second for each so many columns.
        memory: Memory limit for an empty file, in bytes.
        memory_per_byte: Further memory for each byte of the content, in bytes.
        memory_per_column: Further memory for the objects of each column, in bytes.
        memory_per_row: Further memory for the copies of the column that is being converted, in
            bytes for each row.
    """

    max_bytes: int = MAX_BYTES
    seconds: float = 10.0
    wall_factor: float = 3.0
    bytes_per_second: float = 4e6
    columns_per_second: int = 2000
    memory: int = 300_000_000
    memory_per_byte: float = 10.0
    memory_per_column: int = 8000
    memory_per_row: int = 60

    def time_limit(self, content: ContentSize) -> float:
        """Time limit in seconds for a content, whose first 8 MB are free."""
        more = max(0.0, content.bytes - 8e6) / self.bytes_per_second
        return self.seconds + more + content.columns / self.columns_per_second

    def memory_limit(self, content: ContentSize) -> int:
        """Memory limit in bytes for a content."""
        return int(
            self.memory
            + self.memory_per_byte * content.bytes
            + self.memory_per_column * content.columns
            + self.memory_per_row * content.rows
        )


def read_table_sandboxed(
    source: str | PathLike[str] | bytes,
    *,
    name: str | None = None,
    limits: SandboxLimits | None = None,
    **how: str | int | bool | Sequence[str | float] | Mapping[str, str] | None,
) -> Table:
    """Read a table as `read_table` does, in a process of its own with limits.

    Args:
        source: The path of a file, or its bytes.
        name: Name of the table; by default the file's name without its extension.
        limits: Limits of the process.
        how: Settings of `read_table`: delimiter, encoding, decimal, thousands,
            column_decimals, header, sheet, missing.

    Returns:
        The table, equal to what `read_table` returns.

    Raises:
        DataError: The content is not a single table, or reading it exceeds the limits.
        ConfigError: A setting is out of its range.
        UnsupportedError: A package that its format needs is not installed.
    """
    limits = limits or SandboxLimits()
    path = None if isinstance(source, bytes) else Path(source).absolute()
    if name is None:
        name = "table" if path is None else table_name(path.name)
    size = len(source) if isinstance(source, bytes) else file_size(Path(source))
    if size > limits.max_bytes:
        raise too_large_error(name, limits.max_bytes)
    request = {
        "path": None if path is None else os.fspath(path),
        "name": name,
        "how": how,
        "limits": asdict(limits),
    }
    content = source if isinstance(source, bytes) else None
    return _read(request, name, size, limits, content, load_result)


def read_files_sandboxed(
    sources: Sequence[str | PathLike[str]],
    *,
    name: str | None = None,
    limits: SandboxLimits | None = None,
    **how: str | int | bool | Sequence[str | float] | Mapping[str, str] | None,
) -> Table:
    """Register the files of a table that stay where they are: a sample of their rows is read.

    Args:
        sources: Parquet files or text files (CSV, TSV) of one table, or folders of such files.
        name: Name of the table; by default that of the first source.
        limits: Limits of the process that reads the sample.
        how: Settings of `read_table` for text files: delimiter, encoding, decimal, header,
            missing.

    Returns:
        A table of the sample, whose column types are proposals until all rows are read; its
        ``files`` describe all rows.

    Raises:
        DataError: A file cannot be read, the files are not of one table, or their format cannot be
            read block by block.
    """
    limits = limits or SandboxLimits()
    paths = find_table_files(sources)
    name = files_name(sources) if name is None else name
    stamps = tuple(map(file_stamp, paths))
    request = {
        "path": None,
        "files": [os.fspath(path) for path in paths],
        "sample_rows": SAMPLE_ROWS,
        "sample_bytes": SAMPLE_LIMIT,
        "name": name,
        "how": how,
        "limits": asdict(limits),
    }
    return _read(
        request, name, SAMPLE_LIMIT, limits, None, lambda folder: load_files_table(folder, stamps)
    )


def _read(
    request: Mapping[str, object],
    name: str,
    size: int,
    limits: SandboxLimits,
    content: bytes | None,
    load: Callable[[Path], Table],
) -> Table:
    """Have a request answered by a reading process.

    Args:
        request: The request.
        name: Name of the table.
        size: Size of the content, in bytes.
        limits: Limits of the process.
        content: The content; None if it is at the path of the request.
        load: Reads the result from the folder of the process.
    """
    with ExitStack() as stack:
        try:
            place = tempfile.TemporaryDirectory(prefix="latentboard-reading-")
            folder = Path(stack.enter_context(place))
            if content is not None:
                (folder / CONTENT).write_bytes(content)
            (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{name!r} cannot be read: there is no room for it among the temporary files "
                f"({error.strerror}). Make room and try again."
            ) from error
        code = _run_worker(folder, name, size, limits)
        if not (folder / RESULT).is_file():
            raise _exit_error(name, code, _measured_size(folder, size), limits)
        return load(folder)


def _run_worker(folder: Path, name: str, size: int, limits: SandboxLimits) -> int:
    """Run the reading process, within the time limit.

    Returns:
        Its exit status.
    """
    with subprocess.Popen(
        [*_WORKER_COMMAND, str(folder)],
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
                    return process.wait(_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    allowed = limits.time_limit(_measured_size(folder, size))
                    if find_spec("resource") is not None:  # the process limits its processor time
                        allowed *= limits.wall_factor
                    if time.monotonic() - started > allowed:
                        raise _timeout_error(name, allowed) from None
        finally:
            process.kill()


def _environment() -> Mapping[str, str]:
    """The environment with this lvmcore on the path, and without threads, which use memory."""
    root = str(Path(__file__).resolve().parents[3])
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


def _measured_size(folder: Path, size: int) -> ContentSize:
    """Size of the decompressed content, once the process has measured it."""
    try:
        return ContentSize(*json.loads((folder / MEASURED).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return ContentSize(size)


def _timeout_error(name: str, seconds: float) -> DataError:
    return DataError(
        f"Reading {name!r} took longer than {seconds:.0f} s, which a table of its size does not "
        "need, and was stopped. Check that the file is a table; try saving it again as CSV or "
        "Parquet."
    )


def memory_error(name: str, memory: int) -> DataError:
    """The error for a file that needs more than its limit of memory, in bytes."""
    return DataError(
        f"Reading {name!r} needs more than {memory / _MEGABYTE:,.0f} MB of memory, more than a "
        "file of its size may use. Leave out rows or columns, or save it as Parquet."
    )


def _exit_error(name: str, code: int, measured: ContentSize, limits: SandboxLimits) -> DataError:
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return _timeout_error(name, limits.time_limit(measured))
    memory = limits.memory_limit(measured) / _MEGABYTE
    return DataError(
        f"Reading {name!r} needed more memory than a file of its size may use (about {memory:,.0f} "
        f"MB) or than is free, or failed (status {code}), and was stopped. Check that the file is "
        "a table; leave out rows or columns, save it as Parquet, or use a machine with more memory."
    )
