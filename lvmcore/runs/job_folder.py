"""The folder of one run: complete in itself, and safe to read while it is being written.

Who may write what: ``status.json`` is written only by whoever holds the run's lock, so a lock that
is free beside a status of "running" means that the process which ran it is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lvmcore.errors import ConfigError, DataError
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import checkpoint_progress
from lvmcore.runs.atomic_files import DISK_FULL, is_disk_full, read_json, write_json
from lvmcore.runs.event_log import truncate_events
from lvmcore.runs.job import FINISHED, Job, JobSpec, Status, now
from lvmcore.runs.job_notes import JobNotes
from lvmcore.runs.job_state import JobState
from lvmcore.runs.run_files import Branches, DiskReserve, RunFiles
from lvmcore.runs.saved_selections import drop_drawn

__all__ = ["GONE", "JobFolder", "JobState"]

#: What a run says whose process ended without a word.
GONE = (
    "The process that ran this fit ended before the fit did: it was stopped, it crashed, or the "
    "machine ran out of memory. With fewer rows or inducing points it needs less."
)
STOPPED_BY_FORCE = (
    "Stopped by force: the step under way did not end in time, so there is no map of this fit."
)
_CANNOT_MEASURE = "The process ended before the figures about the map were measured."
# A run that has just ended may still be measuring its map.
_RESUME_WAITS_SECONDS = 5.0


class JobFolder:
    """One run's folder.

    Args:
        path: the folder.

    Attributes:
        files: paths of its files.
        branches: the states that a fit with more steps goes on from.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = RunFiles(path)
        self.branches = Branches(path)
        self._reserve = DiskReserve(self.files.reserve)

    @classmethod
    @contextmanager
    def create(
        cls, path: Path, spec: JobSpec, *, queued: bool, memory: int | None = None
    ) -> Iterator[JobFolder]:
        """Make the folder of a new run, and hold its lock inside the ``with`` block.

        The folder may exist if it is empty. The run is there for others from the moment that
        ``status.json`` is, which is written last.

        Args:
            path: the folder.
            spec: what to run.
            queued: for a launcher to start it; otherwise the caller runs it, and it is running.
            memory: bytes that it is estimated to need.

        Raises:
            ConfigError: the folder holds something already, or cannot be made.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            occupied = any(path.iterdir())
        except OSError as error:
            raise ConfigError(f"The folder {path} cannot be made: {error.strerror}.") from error
        if occupied:
            raise ConfigError(
                f"The folder {path} is not empty: expected a new or an empty folder for the run."
            )
        folder = cls(path)
        with folder.lock():
            write_json(folder.files.spec, spec.to_json())
            folder._reserve.allocate()
            state = JobState("queued", "waiting", submitted=now(), memory=memory)
            if not queued:
                began = state.submitted
                state = dataclasses.replace(
                    state, status="running", stage="preparing", started=began
                )
            folder.write_state(state)
            yield folder

    # ---- reading -------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is a run here."""
        return self.files.status.is_file()

    def spec(self) -> JobSpec:
        """The run's description."""
        return JobSpec.from_json(read_json(self.files.spec))

    def state(self) -> JobState:
        """The run's state as written, whether its process is alive or not."""
        return JobState.from_json(read_json(self.files.status))

    def cancel_requested(self) -> bool:
        """Whether someone has asked for the run to stop."""
        return self.files.cancel.exists()

    def metrics(self) -> dict[str, Metric]:
        """Figures about the map; empty until they are measured."""
        if not self.files.metrics.is_file():
            return {}
        try:
            stored = read_json(self.files.metrics)
            return {key: Metric(**value) for key, value in stored.items()}
        except TypeError as error:
            raise DataError(f"{self.files.metrics} makes no sense: {error}.") from error

    def notes(self) -> JobNotes:
        """Its name and note as people changed them; what cannot be read counts as unchanged."""
        try:
            return JobNotes.from_json(read_json(self.files.about))
        except DataError:
            return JobNotes()

    def job(self, name: str) -> Job:
        """The run as it stands, under the id ``name``; a dead one is settled first."""
        state, notes = self.settle(), self.notes()
        place = checkpoint_progress(self.files.checkpoint) if state.status in FINISHED else None
        return Job(
            id=name,
            spec=self.spec(),
            **{part.name: getattr(state, part.name) for part in dataclasses.fields(state)},
            metrics=self.metrics(),
            has_model=self.files.model.is_file(),
            name=notes.name,
            note=notes.note,
            checkpoint_step=None if place is None else place[0],
            branch_step=self.branches.step() if state.status == "done" else None,
        )

    # ---- writing -------------------------------------------------------------------------------

    @contextmanager
    def lock(self, timeout: float = 0.0) -> Iterator[None]:
        """Hold the run's lock.

        Raises:
            Timeout: someone else holds it.
            DataError: the folder is gone.
        """
        try:
            with FileLock(self.files.lock, timeout=timeout):
                yield
        except FileNotFoundError as error:
            if self.path.is_dir():
                raise
            raise DataError(f"The run in {self.path} has been deleted.") from error

    def write_state(self, state: JobState) -> None:
        """Replace the state; only for the holder of the lock."""
        self._reserve.write(lambda: write_json(self.files.status, state.to_json()))

    def clear_up(self) -> None:
        """Remove what a run that has ended no longer needs, and what a dead process left half.

        Only for the holder of the lock. The checkpoint goes once the run is done; the state that a
        fit with more steps would go on from stays where the bound was still rising, or where the
        run may be resumed and end so.
        """
        state = self.state()
        if state.status in FINISHED:
            self._reserve.release()
        if state.status == "done":
            self.files.checkpoint.unlink(missing_ok=True)
        if not self._may_continue(state):
            self.branches.delete()
        self.files.delete_partial_writes()

    def _may_continue(self, state: JobState) -> bool:
        """Whether a fit with more steps may still be asked for, now or after a resume."""
        if state.status == "done":
            return state.converged is False
        if state.status == "cancelled":  # resumed from its checkpoint, or not at all
            return checkpoint_progress(self.files.checkpoint) is not None
        return state.status != "failed" or state.error == "DiskFull"

    def write_notes(self, notes: JobNotes) -> None:
        """Replace the name and the note; anybody may, at any time."""
        write_json(self.files.about, dataclasses.asdict(notes))

    def request_cancel(self) -> None:
        """Ask for the run to stop: at once if it is queued, else at its next step.

        Raises:
            DataError: the request could not be written.
        """
        if self.state().status in FINISHED:
            return
        try:
            self._reserve.write(self.files.cancel.touch)
            with suppress(Timeout), self.lock():
                state = self.state()
                if state.status == "queued":
                    self.write_state(state.ending("cancelled"))
                    self.clear_up()
        except OSError as error:
            raise DataError(f"The run could not be told to stop: {error.strerror}.") from error

    def resume(self) -> None:
        """Put a run that was stopped back in the queue, to go on from its checkpoint.

        The events after the checkpoint go, and so does the map of the time when it was stopped.
        Whatever cuts this short, the run stays as resumable as it was.

        Raises:
            ConfigError: it cannot be resumed, or is still being written.
            DataError: the disk is full.
        """
        self.settle()
        try:
            with self.lock(_RESUME_WAITS_SECONDS):
                job = self.job("")
                if not job.resumable:
                    raise ConfigError(
                        f"The run {job.spec.name} is {job.status} and cannot be resumed: expected "
                        "one that was interrupted, or cancelled after its first checkpoint."
                    )
                self._rewind()
        except Timeout:
            raise ConfigError(
                "The run is still being written: try again in a few seconds."
            ) from None
        except OSError as error:
            raise DataError(f"The run could not be resumed: {error.strerror}.") from error

    def _rewind(self) -> None:
        place = checkpoint_progress(self.files.checkpoint)
        step, seconds = (0, 0.0) if place is None else place
        if place is None:
            self.files.checkpoint.unlink(missing_ok=True)
        truncate_events(self.files.events, step)
        drop_drawn(self.files.selections)  # regions of the map that goes
        for path in (*self.files.results, self.files.cancel):
            path.unlink(missing_ok=True)
        self._reserve.allocate()
        state = self.state()
        fresh = JobState("queued", "waiting", submitted=now(), memory=state.memory)
        self.write_state(dataclasses.replace(fresh, attempt=state.attempt + 1, earlier=seconds))

    def give_up(self, status: Status, message: str, error: str | None = None) -> None:
        """End a queued run, because no process could be started for it."""
        with suppress(Timeout), self.lock():
            state = self.state()
            if state.status == "queued":
                self.write_state(state.ending(status, message=message, error=error))
                self.clear_up()

    def settle(self, gone: str = GONE) -> JobState:
        """The state; written down as ended if the run is not at its end and nobody holds the lock.

        Where that cannot be written, it is what a later call will write.

        Args:
            gone: what to say of a process that ended before its run did.
        """
        state = self.state()
        if state.stage in ("waiting", "finished"):
            return state
        with suppress(Timeout), self.lock():
            state = self.state()
            settled = self._settled(state, gone)
            if settled == state:
                return state
            state = settled
            try:
                self.write_state(state)
                self.clear_up()
            except OSError as error:
                if is_disk_full(error) and state.status == "interrupted":
                    state = dataclasses.replace(state, message=DISK_FULL)
        return state

    def _settled(self, state: JobState, gone: str) -> JobState:
        """What a state means that nobody is working on."""
        if state.status == "running":
            cancelled = self.cancel_requested()
            return state.ending(
                "cancelled" if cancelled else "interrupted",
                message=STOPPED_BY_FORCE if cancelled else gone,
            )
        if state.stage == "measuring":
            notes = (*state.notes, _CANNOT_MEASURE)
            return dataclasses.replace(state, stage="finished", notes=notes)
        return state
