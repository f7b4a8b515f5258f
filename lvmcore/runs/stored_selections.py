"""The selections of rows that are saved with the runs of a store."""

from __future__ import annotations

import threading

from lvmcore.errors import DataError
from lvmcore.runs.saved_selections import SavedSelection, read_selections, write_selections
from lvmcore.runs.stored_jobs import StoredJobs

__all__ = ["StoredSelections"]


class StoredSelections:
    """The saved selections of a store's runs.

    Args:
        jobs: the runs.
    """

    def __init__(self, jobs: StoredJobs) -> None:
        self._jobs = jobs
        self._guard = threading.Lock()

    def list(self, run: str) -> tuple[SavedSelection, ...]:
        """The selections of a run, in the order of their names.

        Raises:
            DataError: there is no such run.
        """
        return read_selections(self._jobs.folder(run).files.selections)

    def save(self, run: str, selection: SavedSelection) -> None:
        """Save a selection of rows with a run, in place of one of the same name.

        Raises:
            ConfigError: the run keeps as many as it can.
            DataError: there is no such run, or it could not be written.
        """
        path = self._jobs.folder(run).files.selections
        try:
            with self._guard:
                write_selections(path, [*read_selections(path), selection])
        except OSError as error:
            raise DataError(f"The selection could not be kept: {error.strerror}.") from error

    def delete(self, run: str, name: str) -> None:
        """Delete a selection; one that is not there is as good as deleted.

        Raises:
            DataError: there is no such run, or it could not be written.
        """
        path = self._jobs.folder(run).files.selections
        try:
            with self._guard:
                kept = [one for one in read_selections(path) if one.name != name]
                write_selections(path, kept)
        except OSError as error:
            raise DataError(f"The selection could not be deleted: {error.strerror}.") from error
