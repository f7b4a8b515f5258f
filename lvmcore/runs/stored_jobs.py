"""The runs of a store: one folder each, cached until their files change."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from filelock import Timeout

from lvmcore.errors import ConfigError, DataError
from lvmcore.persistence import branch_path
from lvmcore.runs.job import Job
from lvmcore.runs.job_folder import JobFolder

__all__ = ["StoredJobs"]

_ID = re.compile(r"[0-9a-f]{32}")
# A folder without ``status.json`` after this time is the remnant of a process that died.
_STALE_SECONDS = 3600.0
_DELETE_WAITS_SECONDS = 10.0

_Stamp = tuple[tuple[int, int] | None, ...]


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

    def folder(self, id: str) -> JobFolder:
        """The folder of a run.

        Raises:
            ConfigError: ``id`` is not an id.
            DataError: there is no such run.
        """
        if not _ID.fullmatch(id):
            raise ConfigError(f"{id!r} is no run: expected its id, 32 hexadecimal digits.")
        folder = JobFolder(self.root / id)
        if not folder.exists():
            raise DataError(f"There is no run {id} in {self._home}: it may have been deleted.")
        return folder

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

    def delete(self, id: str) -> None:
        """Delete a run that has ended, or is queued, and those that used its model.

        Raises:
            ConfigError: it is running, or a run that uses its model is.
            DataError: there is no such run.
        """
        folder = self.folder(id)
        for job in [job for job in self.all() if job.spec.run == id]:
            self.delete(job.id)
        if folder.state().status == "queued":
            folder.request_cancel()
        if not self.get(id).finished:
            raise ConfigError("A run under way cannot be deleted: cancel it first.")
        try:
            with folder.lock(_DELETE_WAITS_SECONDS):
                doomed = self._home / f".deleted-{id}"
                folder.path.rename(doomed)
        except Timeout:
            raise ConfigError(
                "The run is still measuring its map: try again in a few seconds."
            ) from None
        shutil.rmtree(doomed, ignore_errors=True)
        with self._guard:
            self._cache.pop(id, None)

    def delete_remnants(self) -> None:
        """Delete remnants of processes that died: incomplete and partly deleted folders."""
        limit = time.time() - _STALE_SECONDS
        for path in (*self.root.iterdir(), *self._home.glob(".d*-*")):
            with suppress(OSError):
                unfinished = path.parent == self._home or not JobFolder(path).exists()
                if unfinished and path.is_dir() and path.stat().st_mtime < limit:
                    shutil.rmtree(path, ignore_errors=True)


def _stamp(path: Path) -> tuple[int, int] | None:
    """A value that changes when a file is replaced atomically; None without the file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino
