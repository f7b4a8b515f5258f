"""The folder of a run: its state, lock, notes and files.

The folder is self-contained, and can be read while the run writes to it. Only the holder of the
run's lock writes ``status.json``: a free lock with the status "running" means that the process of
the run has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from lvmcore.errors import ConfigError, DataError
from lvmcore.metrics.metric import Metric, name_dimensions
from lvmcore.persistence import checkpoint_progress
from lvmcore.runs.atomic_files import DISK_FULL, as_record, is_disk_full, read_json, write_json
from lvmcore.runs.event_log import truncate_events
from lvmcore.runs.job import FINISHED, Job, JobSpec, Status, now
from lvmcore.runs.job_notes import JobNotes
from lvmcore.runs.job_state import JobState
from lvmcore.runs.run_files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    Branches,
    DiskReserve,
    RunFiles,
)
from lvmcore.runs.saved_items import delete_map_regions

__all__ = ["PROCESS_ENDED", "JobFolder", "JobState"]

#: Message of a run whose process ended before the run did, for an unknown reason.
PROCESS_ENDED = (
    "The process that ran this fit ended before the fit did: it was stopped, it crashed, or the "
    "machine ran out of memory. With fewer rows or inducing points it needs less."
)
KILLED = "Stopped by force: the step under way did not end in time, so there is no map of this fit."
_CANNOT_MEASURE = "The process ended before the figures about the map were measured."
# A run that has just ended may still hold its lock while it computes metrics.
_RESUME_WAITS_SECONDS = 5.0


class JobFolder:
    """The folder of a run.

    Args:
        path: the folder.

    Attributes:
        path: the folder.
        files: paths of its files.
        branches: the states from which a fit with more steps continues.
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
        """Create the folder of a new run, and hold its lock inside the ``with`` block.

        The folder may exist if it is empty. ``status.json`` is written last: from then on the run
        is visible to other processes.

        Args:
            path: the folder.
            spec: description of the run.
            queued: whether a launcher starts it; otherwise its status is "running", and the caller
                runs it.
            memory: estimated memory, bytes.

        Raises:
            ConfigError: the folder is not empty, or cannot be created.
        """
        try:
            path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
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
        """Whether the folder holds a run."""
        return self.files.status.is_file()

    def spec(self) -> JobSpec:
        """The run's description."""
        return JobSpec.from_json(read_json(self.files.spec))

    def state(self) -> JobState:
        """The state in ``status.json``, whether the process of the run is alive or not."""
        return JobState.from_json(read_json(self.files.status))

    def cancel_requested(self) -> bool:
        """Whether cancellation was requested."""
        return self.files.cancel.exists()

    def metrics(self) -> dict[str, Metric]:
        """Metrics of the result; empty until they are computed.

        Raises:
            DataError: the file is invalid.
        """
        if not self.files.metrics.is_file():
            return {}
        stored = read_json(self.files.metrics)
        return name_dimensions(as_record(stored, dict[str, Metric], "metrics.json"))

    def notes(self) -> JobNotes:
        """Its edited name and note; blank if they were not edited or cannot be read."""
        try:
            return JobNotes.from_json(read_json(self.files.about))
        except DataError:
            return JobNotes()

    def job(self, name: str) -> Job:
        """The run with the id ``name``; first its state is updated if its process has ended."""
        state, notes, metrics = self.settle(), self.notes(), {}
        try:
            metrics = self.metrics()
        except DataError as error:  # the model is of use without them
            state = dataclasses.replace(state, notes=(*state.notes, str(error)))
        place = checkpoint_progress(self.files.checkpoint) if state.status in FINISHED else None
        return Job(
            id=name,
            spec=self.spec(),
            **{part.name: getattr(state, part.name) for part in dataclasses.fields(state)},
            metrics=metrics,
            has_model=self.files.model.is_file(),
            name=notes.name,
            note=notes.note,
            tags=notes.tags,
            checkpoint_step=None if place is None else place[0],
            has_parts=self.files.parts.is_dir(),
            branch_step=self.branches.step() if state.status == "done" else None,
        )

    # ---- writing -------------------------------------------------------------------------------

    @contextmanager
    def lock(self, timeout: float = 0.0) -> Iterator[None]:
        """Hold the run's lock.

        Raises:
            Timeout: another process holds it.
            DataError: the folder was deleted.
        """
        try:
            with FileLock(self.files.lock, timeout=timeout, mode=PRIVATE_FILE):
                yield
        except FileNotFoundError as error:
            if self.path.is_dir():
                raise
            raise DataError(f"The run in {self.path} has been deleted.") from error

    def write_state(self, state: JobState) -> None:
        """Replace the state. The caller holds the lock."""
        self._reserve.write(lambda: write_json(self.files.status, state.to_json()))

    def clear_up(self) -> None:
        """Delete files that are no longer needed, and partial writes of a process that died.

        The caller holds the lock. The checkpoint is deleted once the run is done. The state from
        which a fit with more steps would continue is kept if the bound was still rising, or if the
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
        """Whether a continuation with more steps is possible, now or after a resume."""
        if state.status == "done":
            return state.converged is False
        if state.status == "cancelled":  # can be resumed from a checkpoint only
            return checkpoint_progress(self.files.checkpoint) is not None
        return state.status != "failed" or state.error == "DiskFull"

    def write_notes(self, notes: JobNotes) -> None:
        """Replace the name and the note. No lock is needed."""
        write_json(self.files.about, dataclasses.asdict(notes))

    def request_cancel(self) -> None:
        """Request cancellation: a queued run ends at once, a running one at its next step.

        Raises:
            DataError: the request could not be written.
        """
        if self.state().status in FINISHED:
            return
        try:
            self._reserve.write(partial(self.files.cancel.touch, PRIVATE_FILE))
            with suppress(Timeout), self.lock():
                state = self.state()
                if state.status == "queued":
                    self.write_state(state.ending("cancelled"))
                    self.clear_up()
        except OSError as error:
            raise DataError(f"The run could not be cancelled: {error.strerror}.") from error

    def resume(self) -> None:
        """Put a stopped run back in the queue, to continue from its checkpoint.

        The events after the checkpoint and the results are deleted. If this is interrupted, the run
        is still resumable.

        Raises:
            ConfigError: it cannot be resumed, or its lock is held.
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

    def requeue(self) -> None:
        """Put a run whose node was lost back in the queue, as ``resume`` does.

        The caller holds the lock.

        Raises:
            OSError: the disk is full.
        """
        self._rewind()

    def _rewind(self) -> None:
        place = checkpoint_progress(self.files.checkpoint)
        step, seconds = (0, 0.0) if place is None else place
        if place is None:
            self.files.checkpoint.unlink(missing_ok=True)
        truncate_events(self.files.events, step)
        delete_map_regions(self.files.selections)
        for path in (*self.files.results, self.files.cancel):
            path.unlink(missing_ok=True)
        self._reserve.allocate()
        state = self.state()
        fresh = JobState("queued", "waiting", submitted=now(), memory=state.memory)
        self.write_state(dataclasses.replace(fresh, attempt=state.attempt + 1, earlier=seconds))

    def give_up(self, status: Status, message: str, error: str | None = None) -> None:
        """End a queued run for which no process could be started."""
        with suppress(Timeout), self.lock():
            state = self.state()
            if state.status == "queued":
                self.write_state(state.ending(status, message=message, error=error))
                self.clear_up()

    def settle(self, message: str = PROCESS_ENDED) -> JobState:
        """The state; written as ended if the run has not ended and its lock is free.

        If it cannot be written, the same state is returned, and a later call writes it.

        Args:
            message: message of a run whose process ended before the run did.
        """
        state = self.state()
        if state.stage in ("waiting", "finished"):
            return state
        try:
            with suppress(Timeout), self.lock():
                state = self.state()
                settled = self._final_state(state, message)
                if settled == state:
                    return state
                state = settled
                self.write_state(state)
                self.clear_up()
        except OSError as error:
            # Without a lock file, in a folder that cannot be written, no process runs the run.
            state = self._final_state(state, message)
            if is_disk_full(error) and state.status == "interrupted":
                state = dataclasses.replace(state, message=DISK_FULL)
        return state

    def _final_state(self, state: JobState, message: str) -> JobState:
        """The final state of a run whose lock is free."""
        if state.status == "running":
            cancelled = self.cancel_requested()
            return state.ending(
                "cancelled" if cancelled else "interrupted",
                message=KILLED if cancelled else message,
            )
        if state.stage == "measuring":
            notes = (*state.notes, _CANNOT_MEASURE)
            return dataclasses.replace(state, stage="finished", notes=notes)
        return state
