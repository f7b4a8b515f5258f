"""The saved selections of rows and views of the map of the runs of a store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic

from lvmcore.errors import DataError
from lvmcore.runs.run_files import RunFiles
from lvmcore.runs.saved_items import Item, read_items, write_items
from lvmcore.runs.stored_jobs import StoredJobs

__all__ = ["StoredItems"]


class StoredItems(Generic[Item]):
    """The saved selections, or views, of the runs of a store.

    Args:
        jobs: the runs.
        kind: the class of the items.
        file: the file of a run that holds them.
    """

    def __init__(
        self, jobs: StoredJobs, kind: type[Item], file: Callable[[RunFiles], Path]
    ) -> None:
        self._jobs = jobs
        self._kind = kind
        self._file = file
        self._guard = threading.Lock()

    def list(self, run: str) -> tuple[Item, ...]:
        """The items of a run, in the order of their names.

        Raises:
            DataError: there is no such run.
        """
        return read_items(self._path(run), self._kind)

    def save(self, run: str, item: Item) -> None:
        """Save an item with a run; one of the same name is replaced.

        Raises:
            ConfigError: the run has the largest number of them.
            DataError: there is no such run, or it could not be written.
        """
        path = self._path(run)
        try:
            with self._guard:
                write_items(path, [*read_items(path, self._kind), item])
        except OSError as error:
            raise DataError(f"The {item.noun} could not be kept: {error.strerror}.") from error

    def delete(self, run: str, name: str) -> None:
        """Delete an item; a missing one is no error.

        Raises:
            DataError: there is no such run, or it could not be written.
        """
        path = self._path(run)
        try:
            with self._guard:
                write_items(path, [one for one in read_items(path, self._kind) if one.name != name])
        except OSError as error:
            noun = self._kind.noun
            raise DataError(f"The {noun} could not be deleted: {error.strerror}.") from error

    def _path(self, run: str) -> Path:
        return self._file(self._jobs.folder(run).files)
