"""The store: datasets by digest, and one folder per run. No database."""

from __future__ import annotations

import builtins
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout
from platformdirs import user_data_path

from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.persistence import branch_path
from lvmcore.runs.atomic_files import read_json
from lvmcore.runs.disk_usage import DiskUsage, measure_usage
from lvmcore.runs.event_log import read_events
from lvmcore.runs.job import Event, Job, JobSpec, Kind
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.saved_selections import SavedSelection, read_selections, write_selections

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor

__all__ = ["Store"]

#: Runs that may wait in the queue of a store.
MOST_WAITING = 100

_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{16,128}")
_REMEMBERED_OFFSETS = 1024
# A folder that is still without its status after an hour was left by a process that died.
_STALE_SECONDS = 3600.0
_DELETE_WAITS_SECONDS = 10.0

_Stamp = tuple[tuple[int, int] | None, ...]


class Store:
    """Where datasets and runs are kept; several processes may use one store at a time.

    Args:
        home: its folder; None takes ``$LATENTBOARD_HOME``, else the platform's user data folder.
        most_waiting: runs that may wait in the queue.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, *, most_waiting: int = MOST_WAITING
    ) -> None:
        self.most_waiting = most_waiting
        chosen = home or os.environ.get("LATENTBOARD_HOME") or user_data_path("latentboard")
        self.home = Path(chosen).expanduser().absolute()
        self._datasets = self.home / "datasets"
        self._jobs = self.home / "jobs"
        try:
            self._datasets.mkdir(parents=True, exist_ok=True)
            self._jobs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.home} cannot hold datasets and runs: {error.strerror}. Set "
                "LATENTBOARD_HOME to a folder that can be written."
            ) from error
        self._guard = threading.Lock()
        self._seen: dict[str, tuple[_Stamp, Job]] = {}
        self._offsets: OrderedDict[tuple[str, int, int], int] = OrderedDict()

    # ---- datasets ------------------------------------------------------------------------------

    def put_dataset(self, dataset: Dataset) -> str:
        """Keep a dataset; the same one twice is kept once.

        Returns:
            Its digest.
        """
        target = self._dataset_path(dataset.digest)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=self.home, prefix=".dataset-") as scratch:
                fresh = Path(scratch) / "dataset"
                try:
                    save_dataset(dataset, fresh)
                except OSError as error:
                    raise DataError(
                        f"The dataset {dataset.name} could not be kept in {self._datasets}: "
                        f"{error.strerror}."
                    ) from error
                with suppress(FileExistsError, OSError):
                    fresh.rename(target)
            if not target.is_dir():
                raise DataError(
                    f"The dataset {dataset.name} could not be kept in {self._datasets}."
                )
        return dataset.digest

    def get_dataset(self, digest: str) -> Dataset:
        """The dataset with this digest.

        Raises:
            DataError: the store holds none.
        """
        path = self._dataset_path(digest)
        if not path.is_dir():
            raise DataError(f"The store {self.home} holds no dataset with the digest {digest}.")
        return load_dataset(path)

    def _dataset_path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ConfigError(f"{digest!r} is no digest: expected hexadecimal digits.")
        return self._datasets / digest

    def datasets(self) -> dict[str, str]:
        """Names of the datasets, by digest. One that cannot be read is left out."""
        names = {}
        for path in self._datasets.iterdir():
            with suppress(DataError, KeyError):
                names[path.name] = str(read_json(path / "dataset.json")["name"])
        return names

    def delete_dataset(self, digest: str) -> None:
        """Delete a dataset and all its runs.

        Raises:
            ConfigError: one of the runs is under way; nothing is deleted then.
            DataError: the store holds no such dataset.
        """
        path = self._dataset_path(digest)
        if not path.is_dir():
            raise DataError(f"The store {self.home} holds no dataset with the digest {digest}.")
        fits = {job.id for job in self._readable() if job.spec.dataset == digest}
        jobs = [job for job in self._readable() if job.id in fits or job.spec.run in fits]
        busy = [job.name for job in jobs if job.status == "running"]
        if busy:
            raise ConfigError(
                f"The data set cannot be deleted while a run of it is under way: {busy[0]}. Wait "
                "for its end, or cancel it first."
            )
        for job in jobs:
            if JobFolder(self._jobs / job.id).exists():  # it may have gone with its fitted run
                self.delete(job.id)
        doomed = self.home / f".deleted-{digest}"
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def size(self) -> DiskUsage:
        """How much room everything takes on the disk, by dataset and by run."""
        return measure_usage(self._datasets, self._jobs)

    # ---- runs ----------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, *, memory: int | None = None) -> str:
        """Put a run in the queue; a launcher on this store starts it.

        Args:
            spec: what to run.
            memory: bytes that it is estimated to need: it waits while so much is not free.

        Returns:
            Its id.

        Raises:
            ConfigError: the queue is full.
            DataError: the run could not be written, as the disk is full.
        """
        return self._submit(spec, memory, None)

    def submit_all(
        self, specs: Sequence[JobSpec], *, memory: int | None = None
    ) -> builtins.list[str]:
        """Put runs in the queue, all of them or none; their ids in the same order.

        Args:
            specs: what to run.
            memory: bytes that each is estimated to need.

        Raises:
            ConfigError: the queue has not that much room.
            DataError: a run could not be written, as the disk is full.
        """
        self._check_queue(len(specs))
        made: builtins.list[str] = []
        try:
            for spec in specs:
                made.append(self._submit(spec, memory, None))
        except DataError:
            for run in made:
                with suppress(ConfigError, DataError):
                    self.delete(run)
            raise
        return made

    def go_on(self, id: str, max_iter: int, *, memory: int | None = None) -> str:
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
        from lvmcore.runs.model_of_job import make_estimator

        job, folder = self.get(id), self._known(id)
        if not job.still_rising:
            raise ConfigError(
                f"The run {job.name} cannot go on with more steps: expected a fit that is done and "
                "whose bound was still rising when its steps ran out."
            )
        spec = job.spec
        had = make_estimator(spec).get_params(deep=False).get("max_iter")
        if had is None:
            raise ConfigError(
                f"The run {job.name} cannot go on with more steps: its model has no setting for "
                "their number."
            )
        if max_iter <= had:
            raise ConfigError(
                f"{max_iter} steps are no more than the {had} that the run {job.name} had: choose "
                "a larger number."
            )
        longer = JobSpec(
            dataset=spec.dataset,
            dataset_name=spec.dataset_name,
            model=spec.model,
            parameters={**spec.parameters, "max_iter": max_iter},
            name=spec.name,
            continues=id,
            target=spec.target,
            groups=spec.groups,
            time=spec.time,
        )
        make_estimator(longer)
        return self._submit(longer, memory, folder)

    def _submit(self, spec: JobSpec, memory: int | None, shorter: JobFolder | None) -> str:
        """Make a run's folder, with what a shorter fit has left for it, if any."""
        self._check_queue()
        name = secrets.token_hex(16)
        try:
            with JobFolder.create(self._jobs / name, spec, queued=True, memory=memory) as folder:
                if shorter is not None:
                    folder.branch_off(shorter)
                return name
        except OSError as error:
            shutil.rmtree(self._jobs / name, ignore_errors=True)
            raise DataError(f"The run could not be written: {error.strerror}.") from error

    @contextmanager
    def own(self, spec: JobSpec) -> Iterator[JobFolder]:
        """Make a run for this process to execute, and hold its lock inside the ``with`` block."""
        path = self._jobs / secrets.token_hex(16)
        with JobFolder.create(path, spec, queued=False) as folder:
            yield folder

    def get(self, id: str) -> Job:
        """The run as it stands. One whose process is gone is settled as interrupted on the way.

        Raises:
            ConfigError: ``id`` is no id.
            DataError: there is no such run.
        """
        job = self._read(id)
        return self._with_places([job])[0] if job.status == "queued" else job

    def list(self, kind: Kind | None = "fit") -> builtins.list[Job]:
        """The runs, newest first. A folder that cannot be read is left out.

        Args:
            kind: which: the history is that of fits; None lists every run.
        """
        jobs = [job for job in self._readable() if kind is None or job.spec.kind == kind]
        jobs.sort(key=lambda job: (job.submitted, job.id), reverse=True)
        return self._with_places(jobs)

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
        wanted = _asked(spec)
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
            and _asked(job.spec) == wanted
        ]
        return min(found, key=lambda job: order[job.status], default=None)

    def queue(self) -> builtins.list[str]:
        """Ids of the runs that wait, in the order in which they will start."""
        waiting = [job for job in self._readable() if job.status == "queued"]
        return [job.id for job in sorted(waiting, key=lambda job: (job.submitted, job.id))]

    def events(self, id: str, after: int = 0) -> builtins.list[Event]:
        """The events of a run after number ``after``, oldest first.

        The numbers hold for one attempt: where ``Job.attempt`` has grown, read from the start.
        """
        folder = self._known(id)
        path, attempt = folder.events_path, folder.state().attempt
        with self._guard:
            offset = self._offsets.get((id, attempt, after), 0)
        events, last, end = read_events(path, after if offset else 0, offset)
        events = [event for event in events if event.n > after]
        if events and events[-1].n == last:
            with self._guard:
                self._offsets[id, attempt, last] = end
                while len(self._offsets) > _REMEMBERED_OFFSETS:
                    self._offsets.popitem(last=False)
        return events

    def cancel(self, id: str) -> None:
        """Stop a run: a queued one at once, a running one at its next step, keeping what it has.

        A run that has ended is left as it is.
        """
        self._known(id).request_cancel()

    def resume(self, id: str) -> None:
        """Put a run that was stopped back in the queue: it goes on from its checkpoint.

        One that was interrupted before its first checkpoint begins anew.

        Raises:
            ConfigError: it cannot be resumed (see ``Job.resumable``), or the queue is full.
            DataError: there is no such run, or the disk is full.
        """
        folder = self._known(id)
        self._check_queue()
        folder.resume()

    def delete(self, id: str) -> None:
        """Delete a run that has ended, or is queued, with everything in its folder.

        What was made with its model goes too.

        Raises:
            ConfigError: it is running, or something is being made with its model.
        """
        folder = self._known(id)
        for job in [job for job in self._readable() if job.spec.run == id]:
            self.delete(job.id)
        if folder.state().status == "queued":
            folder.request_cancel()
        if not self._read(id).finished:
            raise ConfigError("A run under way cannot be deleted: cancel it first.")
        try:
            with folder.lock(_DELETE_WAITS_SECONDS):
                doomed = self.home / f".deleted-{id}"
                folder.path.rename(doomed)
        except Timeout:
            raise ConfigError(
                "The run is still measuring its map: try again in a few seconds."
            ) from None
        shutil.rmtree(doomed, ignore_errors=True)
        with self._guard:
            self._seen.pop(id, None)

    def rename(self, id: str, name: str) -> None:
        """Call a run something else; a blank name gives it its first one back.

        Raises:
            ConfigError: the name is too long.
        """
        folder = self._known(id)
        with self._guard:
            folder.write_about(folder.about().named(name))

    def annotate(self, id: str, note: str) -> None:
        """Write something down about a run, in place of what was written before.

        Raises:
            ConfigError: the note is too long.
        """
        folder = self._known(id)
        with self._guard:
            folder.write_about(folder.about().noted(note))

    def selections(self, id: str) -> tuple[SavedSelection, ...]:
        """The selections of rows that were kept with a run, in the order of their names."""
        return read_selections(self._known(id).selections_path)

    def keep_selection(self, id: str, selection: SavedSelection) -> None:
        """Keep a selection of rows with a run, in place of one of the same name.

        Raises:
            ConfigError: the run keeps as many as it can.
            DataError: there is no such run, or it could not be written.
        """
        path = self._known(id).selections_path
        try:
            with self._guard:
                write_selections(path, [*read_selections(path), selection])
        except OSError as error:
            raise DataError(f"The selection could not be kept: {error.strerror}.") from error

    def drop_selection(self, id: str, name: str) -> None:
        """Let go of a selection; one that is not there is as good as gone.

        Raises:
            DataError: there is no such run, or it could not be written.
        """
        path = self._known(id).selections_path
        try:
            with self._guard:
                kept = [one for one in read_selections(path) if one.name != name]
                write_selections(path, kept)
        except OSError as error:
            raise DataError(f"The selection could not be deleted: {error.strerror}.") from error

    def load_model(self, id: str) -> LatentVariableModel:
        """The fitted model of a run that has a map (loads torch).

        Raises:
            DataError: the run has no model, or one of a target.
        """
        from lvmcore.models import load_map

        return load_map(self._model_path(id))

    def load_predictor(self, id: str) -> Predictor:
        """The fitted model of a run that predicts a target (loads torch).

        Raises:
            DataError: the run has no model, or one of a map.
        """
        from lvmcore.models import load_predictor

        return load_predictor(self._model_path(id))

    def _model_path(self, id: str) -> Path:
        folder = self._known(id)
        if not folder.model_path.is_file():
            name = folder.about().name or folder.spec().name
            raise DataError(f"The run {name} is {folder.state().status} and has no fitted model.")
        return folder.model_path

    def folder(self, id: str) -> Path:
        """The folder of a run."""
        return self._known(id).path

    def job_folder(self, id: str) -> JobFolder:
        """The folder of a run, with what can be done in it."""
        return self._known(id)

    def reconcile(self) -> None:
        """Settle what processes that died have left, and clear up after them.

        A running run whose lock is free becomes interrupted. A queued one stays queued, whoever
        submitted it: the queue belongs to the store, and the next launcher goes on with it.
        """
        self.list(None)
        limit = time.time() - _STALE_SECONDS
        for path in (*self._jobs.iterdir(), *self.home.glob(".d*-*")):
            with suppress(OSError):
                unfinished = path.parent == self.home or not JobFolder(path).exists()
                if unfinished and path.is_dir() and path.stat().st_mtime < limit:
                    shutil.rmtree(path, ignore_errors=True)

    # ---- helpers -------------------------------------------------------------------------------

    def _check_queue(self, more: int = 1) -> None:
        waiting = len(self.queue())
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

    def _known(self, id: str) -> JobFolder:
        if not _ID.fullmatch(id):
            raise ConfigError(f"{id!r} is no run: expected its id, 32 hexadecimal digits.")
        folder = JobFolder(self._jobs / id)
        if not folder.exists():
            raise DataError(f"There is no run {id} in {self.home}: it may have been deleted.")
        return folder

    def _read(self, id: str) -> Job:
        """The run, from memory if its files have not changed since."""
        folder = self._known(id)
        files = (
            folder.status_path,
            folder.about_path,
            folder.metrics_path,
            folder.model_path,
            folder.checkpoint_path,
            branch_path(folder.path, 1),
        )
        stamp = tuple(_stamp(path) for path in files)
        with self._guard:
            known = self._seen.get(id)
        settled = known is not None and known[1].stage in ("waiting", "finished")
        if known is not None and known[0] == stamp and settled:
            return known[1]
        job = folder.job(id)
        if folder.state().status == job.status:  # a full disk may keep a settled state unwritten
            with self._guard:
                self._seen[id] = (stamp, job)
        return job

    def _readable(self) -> Iterator[Job]:
        for path in self._jobs.iterdir():
            with suppress(DataError, ConfigError, OSError):
                yield self._read(path.name)

    def _with_places(self, jobs: builtins.list[Job]) -> builtins.list[Job]:
        if not any(job.status == "queued" for job in jobs):
            return jobs
        places = {name: place for place, name in enumerate(self.queue(), start=1)}
        return [replace(job, queue_place=places.get(job.id)) for job in jobs]


def _asked(spec: JobSpec) -> dict[str, Any]:
    """The settings of a run, with the defaults of those that it does not name."""
    from lvmcore.models import MODELS, PREDICTORS

    models = {**MODELS, **PREDICTORS}
    known = models[spec.model].parameters() if spec.model in models else ()
    return {parameter.name: parameter.default for parameter in known} | dict(spec.parameters)


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when an atomically replaced file does."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino
