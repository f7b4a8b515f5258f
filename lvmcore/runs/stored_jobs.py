"""The runs of a store: one folder each, cached until their files change."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from lvmcore.errors import ConfigError, DataError, LatentboardError
from lvmcore.persistence import branch_path
from lvmcore.runs.job import Job
from lvmcore.runs.job_folder import JobFolder

__all__ = ["DamagedRun", "StoredJobs"]

_ID = re.compile(r"[0-9a-f]{32}")
# A folder without ``status.json`` after this time is the remnant of a process that died.
_STALE_SECONDS = 3600.0
_DELETE_WAITS_SECONDS = 10.0

_Stamp = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class DamagedRun:
    """A run whose files cannot be read.

    Attributes:
        id: 32 hexadecimal digits.
        reason: the file and what is wrong with it, one sentence.
    """

    id: str
    reason: str


class StoredJobs:
    """The runs of a store.

    Args:
        home: the folder of the store.

    Attributes:
        root: the folder that holds the folders of the runs.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.root = home / "jobs"
        self._guard = threading.Lock()
        self._cache: dict[str, tuple[_Stamp, Job]] = {}

    def new_path(self) -> Path:
        """The path of a new run, named by a random id; the folder is not created."""
        return self.root / secrets.token_hex(16)

    def adopt(self, folder: Path, id: str) -> str:
        """Move the folder of a finished run here; see ``Store.adopt``.

        Raises:
            DataError: it could not be moved.
        """
        spec = JobFolder(folder).spec()
        target = self.root / id if _ID.fullmatch(id) else self.new_path()
        with suppress(LatentboardError):
            if self.folder(target.name).spec() == spec:
                return target.name
        if target.exists():
            target = self.new_path()
        try:
            folder.rename(target)
        except OSError as error:
            raise DataError(f"The run could not be stored: {error.strerror}.") from error
        return target.name

    def folder(self, id: str) -> JobFolder:
        """The folder of a run.

        Raises:
            ConfigError: ``id`` is not an id.
            DataError: there is no such run.
        """
        if not _ID.fullmatch(id):
            raise ConfigError(f"{id!r} is no run: expected its id, 32 hexadecimal digits.")
        folder = JobFolder(self.root / id)
        if folder.exists():
            return folder
        if folder.path.exists() and not _is_remnant(folder.path):
            raise DataError(f"The run {id} is damaged: it has no file status.json.")
        raise DataError(f"There is no run {id} in {self._home}: it may have been deleted.")

    def get(self, id: str) -> Job:
        """The run, from the cache if its files are unchanged; without its queue position.

        Raises:
            ConfigError: ``id`` is not an id.
            DataError: there is no such run.
        """
        folder = self.folder(id)
        files = (
            folder.files.status,
            folder.files.about,
            folder.files.metrics,
            folder.files.model,
            folder.files.checkpoint,
            branch_path(folder.path, 1),
        )
        stamp = tuple(_stamp(path) for path in files)
        with self._guard:
            known = self._cache.get(id)
        inactive = known is not None and known[1].stage in ("waiting", "finished")
        if known is not None and known[0] == stamp and inactive:
            return known[1]
        job = folder.job(id)
        if folder.state().status == job.status:  # not so if the disk was full
            with self._guard:
                self._cache[id] = (stamp, job)
        return job

    def all(self) -> Iterator[Job]:
        """The runs that can be read, in any order."""
        for path in self.root.iterdir():
            with suppress(DataError, ConfigError, OSError):
                yield self.get(path.name)

    def damaged(self) -> list[DamagedRun]:
        """The runs that cannot be read, in the order of their ids."""
        found = []
        for path in self.root.iterdir():
            if not _ID.fullmatch(path.name) or _is_remnant(path):
                continue
            try:
                self.get(path.name)
            except (LatentboardError, OSError) as error:
                found.append(DamagedRun(path.name, str(error)))
        return sorted(found, key=lambda run: run.id)

    def delete(self, id: str, bin: Path | None) -> None:
        """Delete a run that has ended, is queued or is damaged, and those that used its model.

        Args:
            id: id of the run.
            bin: the folder of a deletion, to whose folder ``jobs`` the runs are moved; None
                deletes them permanently.

        Raises:
            ConfigError: it is running, or a run that uses its model is.
            DataError: there is no such run, or the folder cannot be written.
        """
        if any(run.id == id for run in self.damaged()):
            self._remove(JobFolder(self.root / id), bin)
            return
        folder = self.folder(id)
        for job in [job for job in self.all() if job.spec.run == id]:
            self.delete(job.id, bin)
        if folder.state().status == "queued":
            folder.request_cancel()
        if not self.get(id).finished:
            raise ConfigError("A run under way cannot be deleted: cancel it first.")
        self._remove(folder, bin)

    def _remove(self, folder: JobFolder, bin: Path | None) -> None:
        """Delete a folder, or a link or file in its place, unless a process writes to it."""
        path = folder.path
        doomed = self._home / f".deleted-{path.name}"
        if bin is not None and path.is_dir() and not path.is_symlink():
            doomed = bin / "jobs" / path.name
        try:
            if path.is_dir() and not path.is_symlink() and not folder.files.lock.is_dir():
                with folder.lock(_DELETE_WAITS_SECONDS):
                    path.rename(doomed)
            else:
                path.rename(doomed)
            if doomed.is_symlink() or not doomed.is_dir():
                doomed.unlink()
        except Timeout:
            raise ConfigError(
                "The run is still measuring its map: try again in a few seconds."
            ) from None
        except OSError as error:
            raise DataError(f"The run could not be deleted: {error.strerror}.") from error
        if doomed.parent == self._home:
            shutil.rmtree(doomed, ignore_errors=True)
        with self._guard:
            self._cache.pop(path.name, None)

    def delete_remnants(self) -> None:
        """Delete remnants of processes that died: runs that never started, half-deleted folders.

        Anything else is left: a folder of the user, or a run that is damaged.
        """
        limit = time.time() - _STALE_SECONDS
        unfinished = [path for path in self.root.iterdir() if _is_remnant(path)]
        for path in (*unfinished, *self._home.glob(".d*-*")):
            with suppress(OSError):
                if path.is_dir() and path.stat().st_mtime < limit:
                    shutil.rmtree(path, ignore_errors=True)


def _is_remnant(path: Path) -> bool:
    """Whether a folder is that of a run that was being created: it holds no more than its start."""
    if path.is_symlink() or not path.is_dir() or not _ID.fullmatch(path.name):
        return False
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError:
        return False
    return all(name.startswith(".") or name in JobFolder(path).files.first for name in names)


def _stamp(path: Path) -> tuple[int, int] | None:
    """A value that changes when a file is replaced atomically; None without the file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino
