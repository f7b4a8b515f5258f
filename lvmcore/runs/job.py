"""What a run is: its immutable description, its state, and what it reports."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from lvmcore.errors import ConfigError, DataError

if TYPE_CHECKING:
    from lvmcore.results import FitStep

from lvmcore.metrics.metric import Metric

#: What a run does: fit a model that is kept, score one on rows that it has not seen, place other
#: rows on the map of a fitted one, fill the missing cells of its table, or predict its target for
#: other rows.
Kind = Literal["fit", "score", "project", "impute", "predict"]
Status = Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
Stage = Literal[
    "waiting",
    "preparing",
    "fitting",
    "placing",
    "predicting",
    "stopping",
    "measuring",
    "finished",
]

#: The states in which a run has ended; it leaves them only when it is resumed.
FINISHED: frozenset[Status] = frozenset({"done", "cancelled", "failed", "interrupted"})

_VERSIONED = (
    "latentboard",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "openTSNE",
    "umap-learn",
)


def now() -> datetime:
    """The time, UTC."""
    return datetime.now(UTC)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        installed = installed_version(name)
        if installed is not None:
            found[name] = installed
    return found


def installed_version(name: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True)
class JobSpec:
    """What to compute: written once, never changed.

    Attributes:
        dataset: digest of the dataset.
        dataset_name: what the dataset is called, for people.
        model: key of the model.
        parameters: settings of the model; those not named keep their defaults.
        name: what the run is called, for people.
        kind: what is done: "fit"; "score" for a fit to a part of the rows that is measured on the
            others and not kept; "project" where the rows of the dataset are placed on the map of
            another run; "impute" where that run's model fills the missing cells of its dataset;
            "predict" where it predicts its target for the rows of the dataset.
        run: id of the fitted run whose model is used; "" for a run that fits its own.
        continues: id of the run with fewer steps that this fit goes on from; "" for one that begins
            anew. What it computes does not depend on it.
        sweep: id that the fits of one sweep share; "" for a fit of its own.
        target: column that the model learns to predict; "" for a model of a map.
        groups: column whose groups are held out of a fit to a target as a whole; "" for none.
        time: column whose last rows are held out of a fit to a target; "" for none.
        codes: words that are learned as 0 and 1, by column of two words, for a run whose dataset
            is not kept beside it.
        versions: of the packages that decide the result.
        created: when, ISO 8601 in UTC.
    """

    dataset: str
    dataset_name: str
    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    kind: Kind = "fit"
    run: str = ""
    continues: str = ""
    sweep: str = ""
    target: str = ""
    groups: str = ""
    time: str = ""
    codes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=_versions)
    created: str = field(default_factory=lambda: now().isoformat())

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise ConfigError(f"A run of kind {self.kind!r} is unknown: expected one of {known}.")
        if self.groups and self.time:
            raise ConfigError(
                f"Rows cannot be held out by the groups of {self.groups!r} and by the time of "
                f"{self.time!r} at once: choose one of them."
            )
        if self.target and self.kind == "score":
            raise ConfigError("A fit to a target is measured on rows that it leaves out anyway.")
        if (self.groups or self.time) and not self.target:
            raise ConfigError("Groups and time decide which rows a fit to a target leaves out.")
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        codes = {column: (words[0], words[1]) for column, words in self.codes.items()}
        object.__setattr__(self, "codes", MappingProxyType(codes))
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        if not self.name:
            what = f"{self.target} of {self.dataset_name}" if self.target else self.dataset_name
            object.__setattr__(self, "name", f"{self.model} on {what}")

    def to_json(self) -> dict[str, Any]:
        """As spec.json holds it."""
        return {
            "kind": self.kind,
            "run": self.run,
            "continues": self.continues,
            "sweep": self.sweep,
            "target": self.target,
            "groups": self.groups,
            "time": self.time,
            "codes": {column: list(words) for column, words in self.codes.items()},
            "name": self.name,
            "dataset": self.dataset,
            "dataset_name": self.dataset_name,
            "model": self.model,
            "parameters": dict(self.parameters),
            "versions": dict(self.versions),
            "created": self.created,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """From what ``to_json`` gave.

        Raises:
            DataError: a part is missing or unknown.
        """
        try:
            return cls(**stored)
        except TypeError as error:
            raise DataError(f"spec.json does not describe a run: {error}.") from error


@dataclass(frozen=True)
class Job:
    """A run as it stands.

    Attributes:
        id: 32 hexadecimal digits, random.
        spec: what was asked for.
        status: where it stands.
        stage: what a running one is doing; "measuring" once the model is already there.
        message: why it failed or stopped early, in a plain sentence; else None.
        error: kind of error of a failed one ("DataError", "MemoryError", …); else None.
        queue_place: 1 for the next one to start; None unless queued.
        submitted: when it was asked for, or asked to go on.
        started: when its fit began, or went on; None before.
        ended: when it ended; None before.
        seconds: how long it ran, or has run so far, earlier attempts included as far as their work
            was kept; None before it started.
        elbo: the bound that was reached, total nats; None where there is none.
        converged: whether the bound had stopped rising, or rows that the fit stops by were
            predicted no better; None before the end.
        notes: plain sentences about the fit (rows left out, columns set aside).
        metrics: figures about the map, by key; empty until they are measured.
        has_model: whether there is a fitted model to load.
        name: what the run is called now, for people; by default as it was asked for.
        note: what somebody wrote down about it.
        attempt: 1 at first; grows whenever the run begins anew or goes on from a checkpoint, and
            its events after that step are dropped.
        earlier: seconds of earlier attempts whose work was kept.
        memory: bytes that it was estimated to need; None where nobody estimated.
        checkpoint_step: steps that its checkpoint holds, from which it would go on; None without.
        branch_step: steps that the state holds from which a fit with more of them would go on;
            None without.
        resumable: whether ``Store.resume`` takes it.
    """

    id: str
    spec: JobSpec
    status: Status
    stage: Stage
    submitted: datetime
    message: str | None = None
    error: str | None = None
    queue_place: int | None = None
    started: datetime | None = None
    ended: datetime | None = None
    elbo: float | None = None
    converged: bool | None = None
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    has_model: bool = False
    name: str = ""
    note: str = ""
    attempt: int = 1
    earlier: float = 0.0
    memory: int | None = None
    checkpoint_step: int | None = None
    branch_step: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.spec.name)

    @property
    def resumable(self) -> bool:
        """Whether it can go on: from its checkpoint, or, where it was cut short, from the start."""
        if self.status == "interrupted" or self.error == "DiskFull":
            return True
        return self.status == "cancelled" and self.checkpoint_step is not None

    @property
    def still_rising(self) -> bool:
        """Whether it is a fit whose steps ran out while its bound was still rising."""
        ran_out = self.status == "done" and self.converged is False and self.has_model
        return ran_out and self.spec.kind == "fit" and self.elbo is not None

    @property
    def finished(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status in FINISHED

    @property
    def seconds(self) -> float | None:
        """Seconds from start to end, or to now."""
        if self.started is None:
            return None
        return self.earlier + ((self.ended or now()) - self.started).total_seconds()


@dataclass(frozen=True)
class Event:
    """One report of a fit under way, as it was written down.

    Attributes:
        n: its number in the run, from 1.
        step: the report.
    """

    n: int
    step: FitStep


def check_status(status: Any) -> Status:
    """``status`` if it is one.

    Raises:
        DataError: it is not.
    """
    if status not in get_args(Status):
        raise DataError(f"status.json holds the status {status!r}, which is unknown.")
    checked: Status = status
    return checked
