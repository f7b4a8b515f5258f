"""The files in the folder of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lvmcore.persistence import branch_path, checkpoint_progress, write_atomically
from lvmcore.runs.atomic_files import is_disk_full

__all__ = ["Branches", "DiskReserve", "RunFiles"]

#: Bytes that a run keeps, so that its end can be written down when the disk is full.
_RESERVE_BYTES = 16384
_BRANCH_PATTERN = "branch-*.safetensors"


class RunFiles:
    """Paths of the files of a run.

    Args:
        folder: the folder of the run.

    Attributes:
        spec: what to run.
        status: the state of the run.
        about: its name and note, as people changed them.
        events: the steps of the fit.
        model: the fitted model.
        embedding: positions of the rows on the map.
        predictions: predictions of the target.
        hidden: means of the hidden units.
        completed: the table with its missing cells filled.
        check: the hidden cells of the imputation check.
        agreement: agreement of the starts, by row.
        metrics: figures about the result.
        selections: selections of rows that were saved.
        log: what the worker wrote to standard output and error.
        checkpoint: the state of the fit to resume from.
        cancel: there once somebody asked for the run to stop.
        reserve: disk space set aside for the last state.
        lock: held by the process that runs it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.json"
        self.status = folder / "status.json"
        self.about = folder / "about.json"
        self.events = folder / "events.jsonl"
        self.model = folder / "model.safetensors"
        self.embedding = folder / "embedding.parquet"
        self.predictions = folder / "predictions.parquet"
        self.hidden = folder / "hidden.parquet"
        self.completed = folder / "completed.parquet"
        self.check = folder / "check.parquet"
        self.agreement = folder / "agreement.parquet"
        self.metrics = folder / "metrics.json"
        self.selections = folder / "selections.json"
        self.log = folder / "worker.log"
        self.checkpoint = folder / "checkpoint.safetensors"
        self.cancel = folder / "cancel"
        self.reserve = folder / "reserve"
        self.lock = folder / "lock"

    @property
    def results(self) -> tuple[Path, ...]:
        """What a fit writes at its end."""
        return (
            self.model,
            self.embedding,
            self.predictions,
            self.hidden,
            self.agreement,
            self.check,
            self.metrics,
        )

    def delete_partial_writes(self) -> None:
        """Delete what a process left that died while it wrote a file of the run."""
        whole = (self.status, self.events, self.checkpoint, self.completed, *self.results)
        for name in (*(path.name for path in whole), _BRANCH_PATTERN):
            for partial in self.folder.glob(f".{name}.*"):
                partial.unlink(missing_ok=True)


class Branches:
    """The states of a fit, one a start, that a fit with more steps goes on from.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def paths(self) -> list[Path]:
        """The files of the states."""
        return sorted(self._folder.glob(_BRANCH_PATTERN))

    def step(self) -> int | None:
        """Steps that the state of the first start holds; None without one."""
        progress = checkpoint_progress(branch_path(self._folder, 1))
        return None if progress is None else progress[0]

    def link(self, other: Branches) -> None:
        """Let this run, which has not begun, go on from the states that a shorter fit has left.

        They take no further room: the files are the same until one of the runs replaces its own.
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
    """Disk space that a run sets aside, so that its last state can be written to a full disk.

    Args:
        path: the file that takes the space.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def allocate(self) -> None:
        """Set the space aside.

        Raises:
            OSError: the disk is full.
        """
        write_atomically(self._path, bytes(_RESERVE_BYTES))

    def release(self) -> None:
        """Give the space back."""
        self._path.unlink(missing_ok=True)

    def write(self, write: Callable[[], None]) -> None:
        """Write something; where the disk is full, release the reserve and write again.

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
