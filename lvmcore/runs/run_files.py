"""Files in the folder of a run: paths, states for continuation, and reserved disk space."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lvmcore.persistence import branch_path, checkpoint_progress, write_atomically
from lvmcore.runs.atomic_files import is_disk_full

__all__ = [
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "Branches",
    "DiskReserve",
    "RunFiles",
    "private_opener",
]

#: Permissions of the folders and files of a store: its owner's alone.
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
#: Reserved bytes, so that the final state of a run can be written to a full disk.
_RESERVE_BYTES = 16384
_BRANCH_PATTERN = "branch-*.safetensors"


def private_opener(path: str, flags: int) -> int:
    """An opener for ``open`` that creates a file for its owner alone."""
    return os.open(path, flags, PRIVATE_FILE)


class RunFiles:
    """Paths of the files of a run.

    Args:
        folder: the folder of the run.

    Attributes:
        spec: description of the run.
        status: state of the run.
        about: edited name and note.
        events: the steps of the fit.
        model: the fitted model.
        embedding: positions of the rows on the map.
        all_rows: positions of all rows of registered files, of which ``embedding`` has a sample.
        density: positions of the rows that the density picture of such a map is drawn of.
        parts: folder of the results of registered files, block by block.
        predictions: predictions of the target.
        hidden: means of the hidden units.
        completed: the table with its missing cells filled.
        check: hidden cells of the imputation check.
        comparison: the model and other methods on these cells, or on the held-out rows of a target.
        agreement: agreement of the starts, by row.
        learning_curve: scores of the fits of a learning curve.
        held_out: positions of the held-out rows on the map.
        metrics: metrics of the result.
        selections: saved selections of rows.
        colours: chosen colours of columns.
        views: saved views of the map.
        log: standard output and error of the worker.
        checkpoint: state from which the fit can be resumed.
        cancel: exists once cancellation was requested.
        reserve: disk space reserved for the final state.
        lock: lock file, held by the process of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.json"
        self.status = folder / "status.json"
        self.about = folder / "about.json"
        self.events = folder / "events.jsonl"
        self.model = folder / "model.safetensors"
        self.embedding = folder / "embedding.parquet"
        self.all_rows = folder / "all_rows.parquet"
        self.density = folder / "density.parquet"
        self.parts = folder / "parts"
        self.predictions = folder / "predictions.parquet"
        self.hidden = folder / "hidden.parquet"
        self.completed = folder / "completed.parquet"
        self.check = folder / "check.parquet"
        self.comparison = folder / "comparison.json"
        self.agreement = folder / "agreement.parquet"
        self.learning_curve = folder / "learning_curve.json"
        self.held_out = folder / "held_out.parquet"
        self.metrics = folder / "metrics.json"
        self.selections = folder / "selections.json"
        self.colours = folder / "colours.json"
        self.views = folder / "views.json"
        self.log = folder / "worker.log"
        self.checkpoint = folder / "checkpoint.safetensors"
        self.cancel = folder / "cancel"
        self.reserve = folder / "reserve"
        self.lock = folder / "lock"

    @property
    def first(self) -> frozenset[str]:
        """Names of the files that exist before ``status.json`` does."""
        return frozenset(path.name for path in (self.spec, self.reserve, self.lock))

    @property
    def results(self) -> tuple[Path, ...]:
        """Files written at the end of a fit."""
        return (
            self.model,
            self.embedding,
            self.all_rows,
            self.density,
            self.predictions,
            self.hidden,
            self.agreement,
            self.held_out,
            self.check,
            self.comparison,
            self.metrics,
        )

    def delete_partial_writes(self) -> None:
        """Delete temporary files of a process that died while it wrote a file of the run."""
        written = (self.status, self.events, self.checkpoint, self.completed, self.learning_curve)
        whole = (*written, *self.results)
        for name in (*(path.name for path in whole), _BRANCH_PATTERN):
            for partial in self.folder.glob(f".{name}.*"):
                partial.unlink(missing_ok=True)


class Branches:
    """States of a fit, one per start, from which a fit with more steps continues.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def paths(self) -> list[Path]:
        """The files of the states."""
        return sorted(self._folder.glob(_BRANCH_PATTERN))

    def step(self) -> int | None:
        """Step of the state of the first start; None without one."""
        progress = checkpoint_progress(branch_path(self._folder, 1))
        return None if progress is None else progress[0]

    def link(self, other: Branches) -> None:
        """Link the states of a shorter fit into this run, which has not started.

        Hard links take no further disk space; each run replaces its own files later.

        Args:
            other: the states of the shorter fit.
        """
        for path in other.paths():
            mine = self._folder / path.name
            try:
                os.link(path, mine)
            except OSError:  # a file system without links
                with suppress(FileNotFoundError):
                    shutil.copy2(path, mine)

    def delete(self) -> None:
        """Delete the states."""
        for path in self.paths():
            path.unlink(missing_ok=True)


class DiskReserve:
    """Disk space reserved by a run, so that its final state can be written to a full disk.

    Args:
        path: the file that occupies the space.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def allocate(self) -> None:
        """Reserve the space.

        Raises:
            OSError: the disk is full.
        """
        write_atomically(self._path, bytes(_RESERVE_BYTES))

    def release(self) -> None:
        """Release the space."""
        self._path.unlink(missing_ok=True)

    def write(self, write: Callable[[], None]) -> None:
        """Call ``write``; if the disk is full, release the reserve and call it again.

        Raises:
            OSError: it could not be written.
        """
        try:
            write()
        except OSError as error:
            if not is_disk_full(error) or not self._path.is_file():
                raise
            self.release()
            write()
