"""The saved selections of rows of the runs of a store."""

from __future__ import annotations

import threading

from lvmcore.errors import DataError
from lvmcore.runs.saved_selections import SavedSelection, read_selections, write_selections
from lvmcore.runs.stored_jobs import StoredJobs

__all__ = ["StoredSelections"]


class StoredSelections:
    """The saved selections of rows of the runs of a store.

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
        """Save a selection of rows with a run; one of the same name is replaced.

        Raises:
            ConfigError: the run has the largest number of selections.
            DataError: there is no such run, or it could not be written.
        """
        path = self._jobs.folder(run).files.selections
        try:
            with self._guard:
                write_selections(path, [*read_selections(path), selection])
        except OSError as error:
            raise DataError(f"The selection could not be kept: {error.strerror}.") from error

    def delete(self, run: str, name: str) -> None:
        """Delete a selection; a missing one is no error.

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
