"""The queue of a store: its queued runs, in starting order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lvmcore.errors import ConfigError
from lvmcore.runs.job import Job
from lvmcore.runs.stored_jobs import StoredJobs

__all__ = ["JobQueue"]

#: Kinds of run that begin after all others: no page waits for them.
_LAST = ("score", "learning curve")


class JobQueue:
    """The queued runs of a store.

    Args:
        jobs: the runs of the store.
        most_waiting: largest number of queued runs.
    """

    def __init__(self, jobs: StoredJobs, most_waiting: int) -> None:
        self._jobs = jobs
        self.most_waiting = most_waiting

    def ids(self) -> list[str]:
        """Ids of the queued runs, in starting order: as submitted, but ``_LAST`` at the end."""
        waiting = [job for job in self._jobs.all() if job.status == "queued"]
        waiting.sort(key=lambda job: (job.spec.kind in _LAST, job.submitted, job.id))
        return [job.id for job in waiting]

    def with_places(self, jobs: Sequence[Job]) -> list[Job]:
        """The same runs; queued ones with their position in the queue."""
        if not any(job.status == "queued" for job in jobs):
            return list(jobs)
        places = {name: place for place, name in enumerate(self.ids(), start=1)}
        return [replace(job, queue_place=places.get(job.id)) for job in jobs]

    def check_room(self, more: int = 1) -> None:
        """Check that further runs can be queued.

        Args:
            more: their number.

        Raises:
            ConfigError: the queue would hold more than ``most_waiting`` runs.
        """
        waiting = len(self.ids())
        if waiting + more <= self.most_waiting:
            return
        if more == 1:
            raise ConfigError(
                f"The queue is full: {waiting} runs wait already, and {self.most_waiting} may. "
                "Cancel one of them, or try again when one has ended."
            )
        raise ConfigError(
            f"The queue has room for {max(0, self.most_waiting - waiting)} runs, and these are "
            f"{more}: {waiting} wait already, and {self.most_waiting} may. Try again when some "
            "have ended, or start fewer."
        )
