"""The bin of a store: deleted runs and datasets, until they are restored or the bin is emptied."""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lvmcore.errors import ConfigError, DataError, LatentboardError
from lvmcore.runs.atomic_files import is_disk_full, read_json, write_json
from lvmcore.runs.disk_usage import folder_bytes
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.run_files import PRIVATE_FOLDER

__all__ = ["KEPT_DAYS", "Bin", "Deletion", "DeletionKind"]

#: Days after which what was deleted is deleted permanently.
KEPT_DAYS = 30
_ID = re.compile(r"[0-9a-f]{32}")
_ABOUT = "deletion.json"
_JOBS, _DATASETS = "jobs", "datasets"

DeletionKind = Literal["run", "dataset"]


@dataclass(frozen=True)
class Deletion:
    """A deletion that can be undone.

    Attributes:
        id: 32 hexadecimal digits.
        name: name of the run or the dataset.
        kind: what was deleted.
        runs: ids of the runs that were deleted, those with their fit or dataset included.
        time: when it was deleted.
        size: disk usage, bytes.
    """

    id: str
    name: str
    kind: DeletionKind
    runs: tuple[str, ...]
    time: datetime
    size: int


class Bin:
    """The bin of a store; one folder a deletion, with the deleted folders as they were.

    Args:
        home: the folder of the store.
        jobs: its folder of runs.
        datasets: its folder of datasets.
    """

    def __init__(self, home: Path, jobs: Path, datasets: Path) -> None:
        self.root = home / "bin"
        self._roots = {_DATASETS: datasets, _JOBS: jobs}

    @contextmanager
    def deletion(self, name: str, kind: DeletionKind) -> Iterator[Path]:
        """Make a folder for what is deleted together; one that stays empty is deleted again.

        Where the disk is full the bin is emptied, so that a deletion makes room.

        Args:
            name: name of the run or the dataset.
            kind: what is deleted.

        Yields:
            The folder, whose name is the id of the deletion: deleted runs go to its folder
            ``jobs``, a dataset to ``datasets``.

        Raises:
            DataError: the folder cannot be written.
        """
        try:
            try:
                folder = self._new(name, kind)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                self.empty()
                folder = self._new(name, kind)
        except OSError as error:
            raise DataError(f"The {kind} could not be deleted: {error.strerror}.") from error
        try:
            yield folder
        finally:
            if not any(self._deleted(folder)):
                shutil.rmtree(folder, ignore_errors=True)

    def _new(self, name: str, kind: DeletionKind) -> Path:
        folder = self.root / secrets.token_hex(16)
        try:
            for path in (self.root, folder, folder / _JOBS, folder / _DATASETS):
                path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            write_json(folder / _ABOUT, {"name": name, "kind": kind, "time": time.time()})
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def deletions(self) -> list[Deletion]:
        """The deletions, newest first."""
        found = []
        for folder in self._folders():
            deleted = list(self._deleted(folder))
            runs = tuple(path.name for path in deleted if path.parent.name == _JOBS)
            about = _about(folder)
            kind: DeletionKind = "dataset" if len(deleted) > len(runs) else "run"
            name = str(about.get("name") or f"Damaged {kind} {folder.name[:8]}")
            when = datetime.fromtimestamp(_time_of(folder), UTC)
            found.append(Deletion(folder.name, name, kind, runs, when, folder_bytes(folder)))
        return sorted(found, key=lambda one: (one.time, one.id), reverse=True)

    def restore(self, id: str) -> None:
        """Undo a deletion: all its runs and its dataset come back, under the ids that they had.

        Args:
            id: id of the deletion.

        Raises:
            ConfigError: ``id`` is no id.
            DataError: there is no such deletion, a run needs data or a fit that were deleted too,
                or the folders cannot be written.
        """
        if not _ID.fullmatch(id):
            raise ConfigError(f"{id!r} is no deletion: expected its id, 32 hexadecimal digits.")
        folder = self.root / id
        if not folder.is_dir():
            raise DataError("The bin does not hold this any more: it was restored or emptied.")
        self._check_complete(folder)
        try:
            for path in self._deleted(folder):
                target = self._roots[path.parent.name] / path.name
                if not target.exists():  # it may have been read again since
                    path.rename(target)
        except OSError as error:
            raise DataError(f"It could not be restored: {error.strerror}.") from error
        shutil.rmtree(folder, ignore_errors=True)

    def _check_complete(self, folder: Path) -> None:
        """Refuse to restore a run without its dataset or the fit whose model it used."""
        for path in (folder / _JOBS).glob("*"):
            try:
                spec = JobFolder(path).spec()
            except LatentboardError:
                continue  # it was damaged before
            for part, name in ((_DATASETS, spec.dataset), (_JOBS, spec.run)):
                if name and not any((at / name).exists() for at in self._places(part, folder)):
                    raise DataError(self._reason(part, name))

    def _places(self, part: str, folder: Path) -> tuple[Path, Path]:
        """Where the folders of a part are, in the store and in a deletion."""
        return self._roots[part], folder / part

    def _reason(self, part: str, name: str) -> str:
        """Why a run that needs a deleted dataset or fit cannot be restored."""
        what = "dataset" if part == _DATASETS else "fit"
        for one in self._folders():
            if (one / part / name).exists():
                title = str(_about(one).get("name") or "")
                return f"The {what} of this run was deleted too: restore {title} first."
        return f"The {what} of this run was deleted permanently, so the run cannot be restored."

    def empty(self) -> None:
        """Delete everything in the bin permanently."""
        for folder in self._folders():
            shutil.rmtree(folder, ignore_errors=True)

    def delete_older(self, days: float = KEPT_DAYS) -> None:
        """Delete permanently what was deleted more than so many days ago."""
        limit = time.time() - 86400 * days
        for folder in self._folders():
            if _time_of(folder) < limit:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        try:
            return [p for p in self.root.iterdir() if _ID.fullmatch(p.name) and p.is_dir()]
        except OSError:
            return []

    def _deleted(self, folder: Path) -> Iterator[Path]:
        """The deleted folders of a deletion, the dataset first."""
        for part in self._roots:
            with suppress(OSError):
                yield from sorted((folder / part).iterdir())


def _about(folder: Path) -> dict[str, object]:
    """What the file of a deletion says; nothing if it cannot be read."""
    try:
        return read_json(folder / _ABOUT)
    except DataError:
        return {}


def _time_of(folder: Path) -> float:
    """When a deletion was made, seconds since the epoch."""
    said = _about(folder).get("time")
    if isinstance(said, int | float) and 0 <= said < 1e11:
        return float(said)
    try:
        return folder.stat().st_mtime
    except OSError:
        return time.time()
