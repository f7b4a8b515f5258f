"""The store: datasets by digest, and one folder per run, without a database."""

from __future__ import annotations

import builtins
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from platformdirs import user_data_path

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.bin import Bin
from lvmcore.runs.disk_usage import DiskUsage, measure_usage
from lvmcore.runs.event_log import EventReader
from lvmcore.runs.job import Event, Job, JobSpec, Kind
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_notes import JobNotes
from lvmcore.runs.job_queue import JobQueue
from lvmcore.runs.run_files import PRIVATE_FOLDER
from lvmcore.runs.saved_items import SavedSelection, SavedView
from lvmcore.runs.stored_datasets import StoredDatasets
from lvmcore.runs.stored_items import StoredItems
from lvmcore.runs.stored_jobs import DamagedRun, StoredJobs

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor
    from lvmcore.models import AnyModel, Purpose

__all__ = ["Store"]

#: Largest number of queued runs of a store.
MOST_WAITING = 100


class Store:
    """Datasets and runs on disk; several processes may use one store at a time.

    Args:
        home: its folder; None for ``$LATENTBOARD_HOME``, else the platform's user data folder.
        most_waiting: largest number of queued runs.

    Attributes:
        home: its folder.
        datasets: its datasets, by digest.
        selections: the selections of rows saved with its runs.
        views: the views of the map saved with its runs.
        queue: its queued runs.
        bin: what was deleted and can be restored.

    Raises:
        ConfigError: the folder cannot be created.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, most_waiting: int = MOST_WAITING
    ) -> None:
        chosen = home or os.environ.get("LATENTBOARD_HOME") or user_data_path("latentboard")
        self.home = Path(chosen).expanduser().absolute()
        self._jobs = StoredJobs(self.home)
        self.bin = Bin(self.home, self._jobs.root, self.home / "datasets")
        self.datasets = StoredDatasets(self.home, self._jobs, self.bin)
        self.selections = StoredItems(self._jobs, SavedSelection, lambda files: files.selections)
        self.views = StoredItems(self._jobs, SavedView, lambda files: files.views)
        self.queue = JobQueue(self._jobs, most_waiting)
        self._events = EventReader()
        self._notes_guard = threading.Lock()
        try:
            self.home.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            for root in (self.datasets.root, self._jobs.root):
                root.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
                with suppress(OSError):  # it belongs to another user, or cannot be written
                    root.chmod(PRIVATE_FOLDER)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.home} cannot hold datasets and runs: {error.strerror}. Set "
                "LATENTBOARD_HOME to a folder that can be written."
            ) from error

    @property
    def writable(self) -> bool:
        """Whether the folder can be written; if not, its runs can only be read."""
        folders = (self.home, self.datasets.root, self._jobs.root)
        return all(os.access(folder, os.W_OK) for folder in folders)

    def size(self) -> DiskUsage:
        """Disk usage, by dataset and by run, and of the bin."""
        return measure_usage(self.datasets.root, self._jobs.root, self.bin.root)

    # ---- starting and stopping -----------------------------------------------------------------

    def submit(self, spec: JobSpec, *, memory: int | None = None) -> str:
        """Put a run in the queue; a launcher on this store starts it.

        The settings of a fit are checked here, once. Loads torch.

        Args:
            spec: description of the run.
            memory: estimated memory, bytes; the run waits until so much is free.

        Returns:
            Its id.

        Raises:
            ConfigError: the model or a setting cannot be used, or the queue is full.
            DataError: the run could not be written, as the disk is full.
        """
        from lvmcore.runs.model_of_job import check_spec

        check_spec(spec)
        return self._create(spec, memory, None)

    def submit_all(
        self, specs: Sequence[JobSpec], *, memory: int | None = None
    ) -> builtins.list[str]:
        """Put runs in the queue, either all or none.

        Args:
            specs: descriptions of the runs.
            memory: estimated memory of each, bytes.

        Returns:
            Their ids, in the same order.

        Raises:
            ConfigError: a model or a setting cannot be used, or the queue has not enough room.
            DataError: a run could not be written, as the disk is full.
        """
        from lvmcore.runs.model_of_job import check_spec

        for spec in specs:
            check_spec(spec)
        self.queue.check_room(len(specs))
        made: builtins.list[str] = []
        try:
            for spec in specs:
                made.append(self._create(spec, memory, None))
        except DataError:
            for run in made:
                with suppress(ConfigError, DataError):
                    self._jobs.delete(run, None)
            raise
        return made

    def continue_fit(self, id: str, max_iter: int, *, memory: int | None = None) -> str:
        """Put the continuation of a fit in the queue: the same fit with more steps.

        It is a new run, with the result of a fit that has ``max_iter`` steps from the start. It
        continues from the state before the other's learning rate decayed if that state is stored
        (``Job.branch_step``), and begins from the start otherwise. Loads torch.

        Args:
            id: id of a run whose bound was still rising at its end.
            max_iter: total number of steps.
            memory: estimated memory, bytes.

        Returns:
            The new run's id.

        Raises:
            ConfigError: the run is not such a fit, ``max_iter`` is not larger than before or is
                larger than the model allows, or the queue is full.
            DataError: there is no such run, or the disk is full.
        """
        from lvmcore.runs.model_of_job import check_spec, continued_spec

        spec = continued_spec(self.get(id), max_iter)
        check_spec(spec)
        return self._create(spec, memory, self._jobs.folder(id))

    def _create(self, spec: JobSpec, memory: int | None, shorter: JobFolder | None) -> str:
        """Create the folder of a queued run, with the states of a shorter fit, if any."""
        self.queue.check_room()
        path = self._jobs.new_path()
        try:
            with JobFolder.create(path, spec, queued=True, memory=memory) as folder:
                if shorter is not None:
                    folder.branches.link(shorter.branches)
                return path.name
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise DataError(f"The run could not be written: {error.strerror}.") from error

    @contextmanager
    def own(self, spec: JobSpec) -> Iterator[JobFolder]:
        """Create a run that this process executes; its lock is held inside the ``with`` block."""
        with JobFolder.create(self._jobs.new_path(), spec, queued=False) as folder:
            yield folder

    def cancel(self, id: str) -> None:
        """Cancel a run: a queued one at once, a running one at its next step.

        A running fit keeps the model fitted so far. A run that has ended is unchanged.
        """
        self._jobs.folder(id).request_cancel()

    def resume(self, id: str) -> None:
        """Put a stopped run back in the queue, to continue from its checkpoint.

        A run that was interrupted before its first checkpoint begins from the start.

        Raises:
            ConfigError: it cannot be resumed (see ``Job.resumable``), or the queue is full.
            DataError: there is no such run, or the disk is full.
        """
        folder = self._jobs.folder(id)
        self.queue.check_room()
        folder.resume()

    def delete(self, id: str) -> str:
        """Delete a run that has ended, is queued or is damaged: its folder goes to the bin.

        Runs that used its model are deleted too.

        Returns:
            The id of the deletion, for ``bin.restore``.

        Raises:
            ConfigError: it is running, or a run that uses its model is.
            DataError: there is no such run, or the folder cannot be written.
        """
        try:
            name = self._jobs.get(id).name
        except DataError:
            name = f"Damaged run {id[:8]}"
        with self.bin.deletion(name, "run") as bin:
            self._jobs.delete(id, bin)
        return bin.name

    def adopt(self, folder: Path, id: str) -> str:
        """Move the folder of a finished run into the store.

        Args:
            folder: the folder, checked, on the same file system.
            id: the id that it had. Another one is taken if a different run has it; an equal run in
                the store stays as it is.

        Returns:
            Its id here.

        Raises:
            DataError: it could not be moved.
        """
        return self._jobs.adopt(folder, id)

    def reconcile(self) -> None:
        """Update the states of runs whose processes have ended, and delete their remnants.

        What was deleted long ago is deleted permanently.

        A running run with a free lock becomes interrupted. A queued run stays queued, whichever
        process submitted it: the queue belongs to the store, and the next launcher starts it.
        """
        self.list(None)
        self._jobs.delete_remnants()
        self.bin.delete_older()

    # ---- reading -------------------------------------------------------------------------------

    def get(self, id: str) -> Job:
        """The run. If its process has ended before it did, it becomes interrupted.

        Raises:
            ConfigError: ``id`` is no id.
            DataError: there is no such run.
        """
        return self.queue.with_places([self._jobs.get(id)])[0]

    def list(self, kind: Kind | None = "fit") -> builtins.list[Job]:
        """The runs, newest first. A folder that cannot be read is left out.

        Args:
            kind: kind of the runs; None for every kind.
        """
        jobs = [job for job in self._jobs.all() if kind is None or job.spec.kind == kind]
        jobs.sort(key=lambda job: (job.submitted, job.id), reverse=True)
        return self.queue.with_places(jobs)

    def damaged(self) -> builtins.list[DamagedRun]:
        """The runs that cannot be read; they can be deleted."""
        return self._jobs.damaged()

    def find(self, spec: JobSpec, *, failed: bool = False, stopped: bool = False) -> Job | None:
        """The run that computes, or has computed, the result described by ``spec``.

        It has the same kind, dataset, model, settings (defaults included) and target, and the same
        fitted run if it uses another one's model. A run that is done is preferred to a running and
        a queued one; among these the newest. Fits without a seed are left out. Loads torch.

        Args:
            spec: description of the result.
            failed: whether a failed run is returned if there is no other.
            stopped: whether an interrupted or a cancelled run is, too.

        Returns:
            None if there is none.
        """
        from lvmcore.runs.model_of_job import settings_of

        wanted = settings_of(spec)
        order = {"done": 0, "running": 1, "queued": 2}
        order |= {"failed": 3} if failed else {}
        order |= {"interrupted": 4, "cancelled": 5} if stopped else {}
        found = [
            job
            for job in self.list(spec.kind)
            if job.status in order
            and (job.status != "done" or job.spec.kind != "fit" or job.has_model)
            and (job.spec.dataset, job.spec.model) == (spec.dataset, spec.model)
            and (job.spec.run, job.spec.origin) == (spec.run, spec.origin)
            and (job.spec.sizes, job.spec.repeats) == (spec.sizes, spec.repeats)
            and (job.spec.target, job.spec.groups, job.spec.time)
            == (spec.target, spec.groups, spec.time)
            and (spec.run or wanted.get("random_state", 0) is not None)
            and settings_of(job.spec) == wanted
        ]
        return min(found, key=lambda job: order[job.status], default=None)

    def events(self, id: str, after: int = 0) -> builtins.list[Event]:
        """The events of a run after number ``after``, oldest first.

        The numbers are valid for one attempt: after ``Job.attempt`` has changed, read from the
        start.
        """
        folder = self._jobs.folder(id)
        return self._events.read(folder.files.events, id, folder.state().attempt, after)

    def job_folder(self, id: str) -> JobFolder:
        """The folder of a run."""
        return self._jobs.folder(id)

    @overload
    def load_model(self, id: str, purpose: Literal["map"] = "map") -> LatentVariableModel: ...

    @overload
    def load_model(self, id: str, purpose: Literal["target"]) -> Predictor: ...

    def load_model(self, id: str, purpose: Purpose = "map") -> AnyModel:
        """The fitted model of a run (loads torch).

        Args:
            id: id of the run.
            purpose: purpose of its model, "map" or "target".

        Raises:
            DataError: the run has no model, or one of the other purpose.
        """
        from lvmcore.models import load

        path = self._model_path(id)
        return load(path, "map") if purpose == "map" else load(path, "target")

    def _model_path(self, id: str) -> Path:
        folder = self._jobs.folder(id)
        if not folder.files.model.is_file():
            name = folder.notes().name or folder.spec().name
            raise DataError(f"The run {name} is {folder.state().status} and has no fitted model.")
        return folder.files.model

    # ---- names and notes -----------------------------------------------------------------------

    def rename(self, id: str, name: str) -> None:
        """Rename a run; a blank name restores the name in its description.

        Raises:
            ConfigError: the name is too long.
            DataError: there is no such run, or the name could not be written.
        """
        self._change_notes(id, "name", lambda notes: notes.named(name))

    def annotate(self, id: str, note: str) -> None:
        """Replace the note of a run.

        Raises:
            ConfigError: the note is too long.
            DataError: there is no such run, or the note could not be written.
        """
        self._change_notes(id, "note", lambda notes: notes.noted(note))

    def tag(self, id: str, tags: Iterable[str]) -> None:
        """Replace the tags of a run.

        Raises:
            ConfigError: a tag is too long, or there are too many.
            DataError: there is no such run, or the tags could not be written.
        """
        self._change_notes(id, "tags", lambda notes: notes.tagged(tags))

    def _change_notes(self, id: str, part: str, change: Callable[[JobNotes], JobNotes]) -> None:
        folder = self._jobs.folder(id)
        try:
            with self._notes_guard:
                folder.write_notes(change(folder.notes()))
        except OSError as error:
            raise DataError(f"The {part} could not be kept: {error.strerror}.") from error
