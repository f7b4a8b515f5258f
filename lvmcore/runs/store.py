"""The store: datasets by digest, and one folder per run. No database."""

from __future__ import annotations

import builtins
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from platformdirs import user_data_path

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.disk_usage import DiskUsage, measure_usage
from lvmcore.runs.event_log import EventReader
from lvmcore.runs.job import Event, Job, JobSpec, Kind
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_queue import JobQueue
from lvmcore.runs.stored_datasets import StoredDatasets
from lvmcore.runs.stored_jobs import StoredJobs
from lvmcore.runs.stored_selections import StoredSelections

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor
    from lvmcore.models import AnyModel, Purpose

__all__ = ["Store"]

#: Runs that may wait in the queue of a store.
MOST_WAITING = 100


class Store:
    """Where datasets and runs are kept; several processes may use one store at a time.

    Args:
        home: its folder; None takes ``$LATENTBOARD_HOME``, else the platform's user data folder.
        most_waiting: runs that may wait in the queue.

    Attributes:
        home: its folder.
        datasets: its datasets, by digest.
        selections: the selections of rows that are saved with its runs.
        queue: the runs that wait.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, most_waiting: int = MOST_WAITING
    ) -> None:
        chosen = home or os.environ.get("LATENTBOARD_HOME") or user_data_path("latentboard")
        self.home = Path(chosen).expanduser().absolute()
        self._jobs = StoredJobs(self.home)
        self.datasets = StoredDatasets(self.home, self._jobs)
        self.selections = StoredSelections(self._jobs)
        self.queue = JobQueue(self._jobs, most_waiting)
        self._events = EventReader()
        self._notes_guard = threading.Lock()
        try:
            self.datasets.root.mkdir(parents=True, exist_ok=True)
            self._jobs.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.home} cannot hold datasets and runs: {error.strerror}. Set "
                "LATENTBOARD_HOME to a folder that can be written."
            ) from error

    def size(self) -> DiskUsage:
        """How much room everything takes on the disk, by dataset and by run."""
        return measure_usage(self.datasets.root, self._jobs.root)

    # ---- starting and stopping -----------------------------------------------------------------

    def submit(self, spec: JobSpec, *, memory: int | None = None) -> str:
        """Put a run in the queue; a launcher on this store starts it.

        The settings of a fit are checked here, and by the model's own ``fit``. Loads torch.

        Args:
            spec: what to run.
            memory: bytes that it is estimated to need: it waits while so much is not free.

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
        """Put runs in the queue, all of them or none; their ids in the same order.

        Args:
            specs: what to run.
            memory: bytes that each is estimated to need.

        Raises:
            ConfigError: a model or a setting cannot be used, or the queue has not that much room.
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
                    self.delete(run)
            raise
        return made

    def continue_fit(self, id: str, max_iter: int, *, memory: int | None = None) -> str:
        """Put a fit in the queue that has more steps than one whose bound was still rising.

        It is a run of its own, and ends as a fit with so many steps from the beginning would: it
        goes on from where the other began to settle, if that is still there, and begins anew where
        it is not (``Job.branch_step``). Loads torch.

        Args:
            id: of the run that ended still rising.
            max_iter: steps in all.
            memory: bytes that it is estimated to need.

        Returns:
            The new run's id.

        Raises:
            ConfigError: the run did not end so, the steps are no more than it had or more than
                the model allows, or the queue is full.
            DataError: there is no such run, or the disk is full.
        """
        from lvmcore.runs.model_of_job import check_spec, continued_spec

        spec = continued_spec(self.get(id), max_iter)
        check_spec(spec)
        return self._create(spec, memory, self._jobs.folder(id))

    def _create(self, spec: JobSpec, memory: int | None, shorter: JobFolder | None) -> str:
        """Make a queued run's folder, with what a shorter fit has left for it, if any."""
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
        """Make a run for this process to execute, and hold its lock inside the ``with`` block."""
        with JobFolder.create(self._jobs.new_path(), spec, queued=False) as folder:
            yield folder

    def cancel(self, id: str) -> None:
        """Stop a run: a queued one at once, a running one at its next step, keeping what it has.

        A run that has ended is left as it is.
        """
        self._jobs.folder(id).request_cancel()

    def resume(self, id: str) -> None:
        """Put a run that was stopped back in the queue: it goes on from its checkpoint.

        One that was interrupted before its first checkpoint begins anew.

        Raises:
            ConfigError: it cannot be resumed (see ``Job.resumable``), or the queue is full.
            DataError: there is no such run, or the disk is full.
        """
        folder = self._jobs.folder(id)
        self.queue.check_room()
        folder.resume()

    def delete(self, id: str) -> None:
        """Delete a run that has ended, or is queued, with everything in its folder.

        What was made with its model goes too.

        Raises:
            ConfigError: it is running, or something is being made with its model.
        """
        self._jobs.delete(id)

    def reconcile(self) -> None:
        """Settle what processes that died have left, and clear up after them.

        A running run whose lock is free becomes interrupted. A queued one stays queued, whoever
        submitted it: the queue belongs to the store, and the next launcher goes on with it.
        """
        self.list(None)
        self._jobs.delete_remnants()

    # ---- reading -------------------------------------------------------------------------------

    def get(self, id: str) -> Job:
        """The run as it stands. One whose process is gone is settled as interrupted on the way.

        Raises:
            ConfigError: ``id`` is no id.
            DataError: there is no such run.
        """
        return self.queue.with_places([self._jobs.get(id)])[0]

    def list(self, kind: Kind | None = "fit") -> builtins.list[Job]:
        """The runs, newest first. A folder that cannot be read is left out.

        Args:
            kind: which: the history is that of fits; None lists every run.
        """
        jobs = [job for job in self._jobs.all() if kind is None or job.spec.kind == kind]
        jobs.sort(key=lambda job: (job.submitted, job.id), reverse=True)
        return self.queue.with_places(jobs)

    def find(self, spec: JobSpec, *, failed: bool = False) -> Job | None:
        """The run that computes, or has computed, what ``spec`` asks for; the best there is.

        Same kind, dataset, model and settings, those at their defaults included, and the same
        fitted run where another one's model is used. One that is done comes before one under way
        or waiting; the newest first. What was stopped or drew its seed anew is not found. Loads
        torch.

        Args:
            spec: what is asked for.
            failed: whether one that failed will do where there is no better.
        """
        from lvmcore.runs.model_of_job import settings_of

        wanted = settings_of(spec)
        order = {"done": 0, "running": 1, "queued": 2} | ({"failed": 3} if failed else {})
        found = [
            job
            for job in self.list(spec.kind)
            if job.status in order
            and (job.status != "done" or job.spec.kind != "fit" or job.has_model)
            and (job.spec.dataset, job.spec.model) == (spec.dataset, spec.model)
            and job.spec.run == spec.run
            and (job.spec.target, job.spec.groups, job.spec.time)
            == (spec.target, spec.groups, spec.time)
            and (spec.run or wanted.get("random_state", 0) is not None)
            and settings_of(job.spec) == wanted
        ]
        return min(found, key=lambda job: order[job.status], default=None)

    def events(self, id: str, after: int = 0) -> builtins.list[Event]:
        """The events of a run after number ``after``, oldest first.

        The numbers hold for one attempt: where ``Job.attempt`` has grown, read from the start.
        """
        folder = self._jobs.folder(id)
        return self._events.read(folder.files.events, id, folder.state().attempt, after)

    def job_folder(self, id: str) -> JobFolder:
        """The folder of a run, with what can be done in it."""
        return self._jobs.folder(id)

    @overload
    def load_model(self, id: str, purpose: Literal["map"] = "map") -> LatentVariableModel: ...

    @overload
    def load_model(self, id: str, purpose: Literal["target"]) -> Predictor: ...

    def load_model(self, id: str, purpose: Purpose = "map") -> AnyModel:
        """The fitted model of a run (loads torch).

        Args:
            id: of the run.
            purpose: what its model is for, "map" or "target".

        Raises:
            DataError: the run has no model, or one that is for the other purpose.
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
        """Call a run something else; a blank name gives it its first one back.

        Raises:
            ConfigError: the name is too long.
        """
        folder = self._jobs.folder(id)
        with self._notes_guard:
            folder.write_notes(folder.notes().named(name))

    def annotate(self, id: str, note: str) -> None:
        """Write something down about a run, in place of what was written before.

        Raises:
            ConfigError: the note is too long.
        """
        folder = self._jobs.folder(id)
        with self._notes_guard:
            folder.write_notes(folder.notes().noted(note))
