"""Results of registered files in parts: one Parquet file a block of rows, in the rows' order.

The folder has ``part-000000.parquet`` and so on, and ``parts.json`` with what they are of. A part
that exists is not computed again, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lvmcore.data.long_tables.file_blocks import arrow_blocks, rows_of_block
from lvmcore.errors import CancelledError, DataError
from lvmcore.jobs.file_blocks.block_model import BlockModel
from lvmcore.jobs.file_blocks.pools import BlockPool
from lvmcore.persistence import write_atomically

__all__ = ["PARTS", "apply_to_files", "part_paths"]

#: File that describes the parts of a folder.
PARTS = "parts.json"
_POLL_SECONDS = 0.5

#: Called with the rows done and in all (0 if unknown); True cancels.
Tell = Callable[[int, int], bool]


def part_paths(folder: Path) -> list[Path]:
    """The parts of a folder, in the order of their rows."""
    return sorted(folder.glob("part-*.parquet"))


def apply_to_files(
    model: BlockModel,
    folder: Path,
    new_pool: Callable[[BlockModel], BlockPool],
    tell: Tell = lambda *_: False,
    *,
    block_rows: int | None = None,
) -> int:
    """Apply a model to all rows of files, and write the results in parts.

    At most ``BlockPool.most`` blocks are in memory, whatever the number of rows.

    Args:
        model: the model, with its schema.
        folder: folder of the parts; parts of the same model and files in it are kept.
        new_pool: starts the processes.
        tell: called with the rows done and in all (0 if unknown); True cancels.
        block_rows: rows of a part; by default by the number of columns.

    Returns:
        The number of rows that were read.

    Raises:
        CancelledError: ``tell`` asked to stop; the parts that are done are kept.
        DataError: a file changed or a cell cannot be used, the folder holds other parts, or it
            cannot be written.
    """
    model.files.check_unchanged()
    names = model.columns
    size = block_rows or rows_of_block(len(names or model.files.columns))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _describe_parts(model, folder, size)
        run = _Run(folder, model.files.n_rows or 0, tell)
        for number, block in enumerate(arrow_blocks(model.files, names, rows=size)):
            n = block.cells.num_rows
            if _is_whole(run.path(number)):
                run.skip(n)
                continue
            run.pool = run.pool or new_pool(model)
            while len(run.waiting) >= run.pool.most:
                run.collect()
            run.submit(number, block)
        while run.waiting:
            run.collect()
        model.files.check_unchanged()
        write_atomically(
            folder / PARTS, json.dumps({**_facts(model, size), "rows": run.read}).encode()
        )
        return run.read
    except OSError as error:
        raise DataError(
            f"The results cannot be written to {str(folder)!r}: {error.strerror or error}."
        ) from error
    finally:
        with suppress(UnboundLocalError):
            run.close()


class _Run:
    """The blocks under way.

    Args:
        folder: folder of the parts.
        total: number of rows; 0 if unknown.
        tell: called with the progress; True cancels.
    """

    def __init__(self, folder: Path, total: int, tell: Tell) -> None:
        self._folder, self._total, self._tell = folder, total, tell
        self.pool: BlockPool | None = None
        self.waiting: dict[int, int] = {}
        self.read = self._done = 0

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self._folder / f"part-{number:06}.parquet"

    def skip(self, rows: int) -> None:
        """Count the rows of a part that exists."""
        self.read += rows
        self._done += rows
        self._report()

    def submit(self, number: int, block: Any) -> None:
        """Have a block computed."""
        assert self.pool is not None
        self.pool.submit(number, block)
        self.waiting[number] = block.cells.num_rows
        self.read += block.cells.num_rows
        self._report()

    def collect(self) -> None:
        """Write the blocks that are finished."""
        assert self.pool is not None
        for number, content in self.pool.finished(_POLL_SECONDS):
            write_atomically(self.path(number), content)
            self._done += self.waiting.pop(number)
        self._report()

    def close(self) -> None:
        """End the processes."""
        if self.pool is not None:
            self.pool.close()

    def _report(self) -> None:
        if self._tell(self._done, self._total):
            raise CancelledError("Stopped before all rows were done: the parts done are kept.")


def _facts(model: BlockModel, size: int) -> dict[str, Any]:
    """What the parts of a folder are of."""
    of = hashlib.sha256(model.content)
    of.update(json.dumps([stamp.digest for stamp in model.files.stamps]).encode())
    settings = [model.application, model.row_id, dict(model.labels or {}), model.target]
    of.update(json.dumps([*settings, model.surprise, model.details]).encode())
    return {"digest": of.hexdigest(), "block_rows": size, "application": model.application}


def _describe_parts(model: BlockModel, folder: Path, size: int) -> None:
    """Write what the parts are of, or check that those in the folder are of the same."""
    path, facts = folder / PARTS, _facts(model, size)
    if path.is_file():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            stored = {}
        if {name: stored.get(name) for name in facts} != facts:
            raise DataError(
                f"The folder {str(folder)!r} holds results of another model, table or settings. "
                "Choose a new folder."
            )
        return
    if any(folder.iterdir()):
        raise DataError(
            f"The folder {str(folder)!r} is not empty. Choose a new folder for the results."
        )
    write_atomically(path, json.dumps(facts).encode())


def _is_whole(path: Path) -> bool:
    """Whether a part exists and can be read."""
    if not path.is_file():
        return False
    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return False
    return True
