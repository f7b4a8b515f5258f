"""The folder of one run: complete in itself, and safe to read while it is being written.

Who may write what: ``status.json`` is written only by whoever holds the run's lock, so a lock that
is free beside a status of "running" means that the process which ran it is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.about import About
from lvmcore.runs.files import read_json, write_json
from lvmcore.runs.spec import FINISHED, Job, JobSpec, Metric, Stage, Status, check_status, now

__all__ = ["GONE", "JobFolder", "State"]

#: What a run says whose process ended without a word.
GONE = (
    "The process that ran this fit ended before the fit did: it was stopped, it crashed, or the "
    "machine ran out of memory. Start it again; with fewer rows or inducing points it needs less."
)
STOPPED_BY_FORCE = (
    "Stopped by force: the step under way did not end in time, so nothing of this fit was kept."
)


@dataclass(frozen=True)
class State:
    """What ``status.json`` holds: see ``Job`` for the meaning of each part."""

    status: Status
    stage: Stage
    submitted: datetime
    started: datetime | None = None
    ended: datetime | None = None
    message: str | None = None
    error: str | None = None
    elbo: float | None = None
    converged: bool | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As status.json holds it."""
        stored = dataclasses.asdict(self)
        for moment in ("submitted", "started", "ended"):
            stored[moment] = None if stored[moment] is None else stored[moment].isoformat()
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> State:
        """From what ``to_json`` gave.

        Raises:
            DataError: a part is missing or makes no sense.
        """
        try:
            return cls(
                status=check_status(stored["status"]),
                stage=stored["stage"],
                submitted=datetime.fromisoformat(stored["submitted"]),
                started=_moment(stored["started"]),
                ended=_moment(stored["ended"]),
                message=stored["message"],
                error=stored["error"],
                elbo=stored["elbo"],
                converged=stored["converged"],
                notes=tuple(stored["notes"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"status.json makes no sense: {error!r}.") from error

    def ending(self, status: Status, **parts: Any) -> State:
        """This state, ended now as ``status``."""
        return dataclasses.replace(self, status=status, stage="finished", ended=now(), **parts)


class JobFolder:
    """One run's folder.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec_path = path / "spec.json"
        self.status_path = path / "status.json"
        self.about_path = path / "about.json"
        self.events_path = path / "events.jsonl"
        self.model_path = path / "model.safetensors"
        self.embedding_path = path / "embedding.parquet"
        self.metrics_path = path / "metrics.json"
        self.log_path = path / "worker.log"
        self.cancel_path = path / "cancel"
        self.lock_path = path / "lock"

    @classmethod
    @contextmanager
    def create(cls, path: Path, spec: JobSpec, *, queued: bool) -> Iterator[JobFolder]:
        """Make the folder of a new run, and hold its lock inside the ``with`` block.

        The folder may exist if it is empty. The run is there for others from the moment that
        ``status.json`` is, which is written last.

        Args:
            path: the folder.
            spec: what to run.
            queued: for a launcher to start it; otherwise the caller runs it, and it is running.

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
            write_json(folder.spec_path, spec.to_json())
            state = State("queued", "waiting", submitted=now())
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
        return self.status_path.is_file()

    def spec(self) -> JobSpec:
        """The run's description."""
        return JobSpec.from_json(read_json(self.spec_path))

    def state(self) -> State:
        """The run's state as written, whether its process is alive or not."""
        return State.from_json(read_json(self.status_path))

    def cancel_requested(self) -> bool:
        """Whether someone has asked for the run to stop."""
        return self.cancel_path.exists()

    def metrics(self) -> dict[str, Metric]:
        """Figures about the map; empty until they are measured."""
        if not self.metrics_path.is_file():
            return {}
        try:
            stored = read_json(self.metrics_path)
            return {key: Metric(**value) for key, value in stored.items()}
        except TypeError as error:
            raise DataError(f"{self.metrics_path} makes no sense: {error}.") from error

    def about(self) -> About:
        """Its name and note as people changed them; what cannot be read counts as unchanged."""
        try:
            return About.from_json(read_json(self.about_path))
        except DataError:
            return About()

    def job(self, name: str) -> Job:
        """The run as it stands, under the id ``name``; a dead one is settled first."""
        state, about = self.settle(), self.about()
        return Job(
            id=name,
            spec=self.spec(),
            **{part.name: getattr(state, part.name) for part in dataclasses.fields(state)},
            metrics=self.metrics(),
            has_model=self.model_path.is_file(),
            name=about.name,
            note=about.note,
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
            with FileLock(self.lock_path, timeout=timeout):
                yield
        except FileNotFoundError as error:
            if self.path.is_dir():
                raise
            raise DataError(f"The run in {self.path} has been deleted.") from error

    def write_state(self, state: State) -> None:
        """Replace the state; only for the holder of the lock."""
        write_json(self.status_path, state.to_json())

    def write_about(self, about: About) -> None:
        """Replace the name and the note; anybody may, at any time."""
        write_json(self.about_path, dataclasses.asdict(about))

    def request_cancel(self) -> None:
        """Ask for the run to stop: at once if it is queued, else at its next step."""
        if self.state().status in FINISHED:
            return
        self.cancel_path.touch()
        with suppress(Timeout), self.lock():
            state = self.state()
            if state.status == "queued":
                self.write_state(state.ending("cancelled"))

    def fail(self, message: str, error: str) -> None:
        """Write a queued run down as failed, because no process could be started for it."""
        with suppress(Timeout), self.lock():
            state = self.state()
            if state.status == "queued":
                self.write_state(state.ending("failed", message=message, error=error))

    def settle(self, gone: str = GONE) -> State:
        """The state; written down as ended if it says "running" and nobody holds the lock.

        Args:
            gone: what to say of a process that ended before its run did.
        """
        state = self.state()
        if state.status != "running":
            return state
        try:
            with self.lock():
                state = self.state()
                if state.status == "running":
                    cancelled = self.cancel_requested()
                    state = state.ending(
                        "cancelled" if cancelled else "interrupted",
                        message=STOPPED_BY_FORCE if cancelled else gone,
                    )
                    self.write_state(state)
        except Timeout:
            pass
        return state


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
