"""Description, state and events of a run."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from lvmcore.devices import Computation
from lvmcore.errors import ConfigError, DataError

if TYPE_CHECKING:
    from lvmcore.results import FitStep

from lvmcore.metrics.metric import Metric
from lvmcore.runs.atomic_files import as_record

#: Kinds of run: "fit" a model and keep it; "score" a fit on held-out rows; "project" new rows onto
#: the map of a fitted model; "impute" the missing cells of its table; "predict" its target for new
#: rows; "learning curve" for fits to parts of the rows, each scored.
Kind = Literal["fit", "score", "project", "impute", "predict", "learning curve"]
Status = Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
Stage = Literal[
    "waiting",
    "preparing",
    "reading",
    "fitting",
    "placing",
    "predicting",
    "stopping",
    "measuring",
    "finished",
]

#: Final states of a run; it leaves them only if it is resumed.
FINISHED: frozenset[Status] = frozenset({"done", "cancelled", "failed", "interrupted"})

#: Layout of ``spec.json``: 2 since defaults of maps are advised for the table, 3 since those of
#: models of a target are, 4 since the exact process transforms its target.
LAYOUT = 4
_EARLIER_MAP = {
    "n_components": "ard",
    "n_inducing": 25,
    "noise": "column",
    "start": "pca",
    "max_iter": 500,
}
_FIFTY = {"n_inducing": 50}
#: Settings that were defaults before a layout, by the layout and the model, where they are not now.
_EARLIER_DEFAULTS: Mapping[int, Mapping[str, Mapping[str, Any]]] = {
    2: {
        "bayesian_gplvm": _EARLIER_MAP,
        "qep_lvm": _EARLIER_MAP,
        "deep_qep_lvm": _EARLIER_MAP,
        "ldgd": {
            "n_components": "ard",
            "n_inducing": 25,
            "noise": "column",
            "likelihood": "probit",
            "max_iter": 300,
        },
    },
    3: {
        "ldgd": {"label_weight": 1.0},
        "fast_ldgd": {"label_weight": 1.0, "n_inducing": 25, "noise": "column"},
        "svgp_regressor": {"n_inducing": 50, "kernel": "rbf", "batch_size": 2000},
        "svgp_classifier": _FIFTY,
        "dsvi_regressor": _FIFTY,
        "dsvi_classifier": _FIFTY,
        "sod_regressor": _FIFTY,
        "sod_classifier": _FIFTY,
        "sghmc_regressor": _FIFTY,
        "dspp_regressor": _FIFTY,
        "deep_kernel_regressor": _FIFTY,
        "deep_kernel_classifier": _FIFTY,
        "deep_kernel_qep_regressor": _FIFTY,
        "deep_kernel_qep_classifier": _FIFTY,
        "qep_regressor": _FIFTY,
        "qep_classifier": _FIFTY,
        "deep_qep_regressor": _FIFTY,
        "deep_qep_classifier": _FIFTY,
    },
    4: {"gp_regressor": {"target_transform": "none"}},
}

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
    """The current time, UTC."""
    return datetime.now(UTC)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        installed = installed_version(name)
        if installed is not None:
            found[name] = installed
    return found


@cache
def installed_version(name: str) -> str | None:
    """The version of a package; None if it is not installed. Its metadata are read once."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True)
class JobSpec:
    """Immutable description of a run.

    Attributes:
        dataset: digest of the dataset.
        dataset_name: display name of the dataset.
        model: key of the model.
        parameters: settings of the model; missing ones have their defaults.
        name: display name of the run.
        kind: "fit"; "score" for a fit to a part of the rows that is evaluated on the others and not
            kept; "project" for the rows of the dataset on the map of another run; "impute" for the
            missing cells of another run's dataset by its model; "predict" for the target of another
            run at the rows of the dataset.
        run: id of the fitted run whose model is used; "" for a run that fits its own.
        continues: id of the run with fewer steps that this fit continues; "" for one that begins
            from the start. The result does not depend on it.
        sweep: id of the sweep that the fit belongs to; "" for none.
        target: column that the model learns to predict; "" for a model of a map.
        groups: column whose groups are held out of a fit to a target as a whole; "" for none.
        time: column whose last rows are held out of a fit to a target; "" for none.
        codes: words encoded as 0 and 1, by binary column, for a run whose dataset is not stored
            with it.
        date_scales: unit and origin of the features that are dates, by column, likewise.
        origin: the library in which the model was fitted, such as "gpytorch"; "" for this one.
        sizes: numbers of rows of a learning curve; empty for another run.
        repeats: number of fits of a learning curve for each; 0 for another run.
        versions: versions of the packages that determine the result.
        created: time of creation, ISO 8601 in UTC.

    Raises:
        ConfigError: the kind is unknown, or the target, the groups and the time contradict one
            another.
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
    date_scales: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    origin: str = ""
    sizes: tuple[int, ...] = ()
    repeats: int = 0
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
        for pairs in ("codes", "date_scales"):
            given = {column: (two[0], two[1]) for column, two in getattr(self, pairs).items()}
            object.__setattr__(self, pairs, MappingProxyType(given))
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        if not self.name:
            what = f"{self.target} of {self.dataset_name}" if self.target else self.dataset_name
            object.__setattr__(self, "name", f"{self.model} on {what}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its JSON form, as its mappings are views that cannot be written to."""
        return JobSpec.from_json, (self.to_json(),)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as in ``spec.json``."""
        return {
            "kind": self.kind,
            "run": self.run,
            "continues": self.continues,
            "sweep": self.sweep,
            "target": self.target,
            "groups": self.groups,
            "time": self.time,
            "codes": {column: list(words) for column, words in self.codes.items()},
            "date_scales": {column: list(pair) for column, pair in self.date_scales.items()},
            "origin": self.origin,
            "sizes": list(self.sizes),
            "repeats": self.repeats,
            "name": self.name,
            "dataset": self.dataset,
            "dataset_name": self.dataset_name,
            "model": self.model,
            "parameters": dict(self.parameters),
            "versions": dict(self.versions),
            "created": self.created,
            "layout": LAYOUT,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The description from its JSON form.

        Raises:
            DataError: a field is missing, unknown, or of another type.
        """
        unknown = set(stored) - {part.name for part in fields(cls)} - {"layout"}
        if unknown:
            raise DataError(f"spec.json is damaged: it has unknown fields, {sorted(unknown)}.")
        spec = as_record(
            {name: stored[name] for name in stored if name != "layout"}, cls, "spec.json"
        )
        layout = stored.get("layout", 1)
        if not isinstance(layout, int):
            raise DataError(f"spec.json is damaged: its layout is {layout!r}, no number.")
        return replace(spec, parameters=_earlier_parameters(spec, layout))


def _earlier_parameters(spec: JobSpec, layout: int) -> dict[str, Any]:
    """The parameters of a description of a layout, whose missing ones may have other defaults."""
    usual: dict[str, Any] = {}
    for since, defaults in _EARLIER_DEFAULTS.items():
        if layout < since:
            usual |= defaults.get(spec.model, {})
    given = {
        name: usual[name] if value is None and name in usual else value
        for name, value in spec.parameters.items()
    }
    return {**usual, **given}


@dataclass(frozen=True)
class Job:
    """A run: its description and its current state.

    Attributes:
        id: 32 random hexadecimal digits.
        spec: the description.
        status: queued, running, or how it ended.
        stage: current stage of a running one; "measuring" if the model is already saved.
        message: the reason of a failure or an early stop, one sentence; else None.
        error: name of the error of a failed run ("DataError", "MemoryError", …); else None.
        queue_place: position in the queue, from 1; None unless queued.
        submitted: time of submission, or of the last resume.
        started: start time of the current attempt; None before.
        ended: end time; None before.
        seconds: duration so far, including earlier attempts whose work was kept; None before the
            start.
        elbo: final bound, total nats; None without a bound.
        converged: whether the bound was flat at the end, or early stopping on held-out rows ended
            the fit; None before the end.
        rise: for mini-batches the least and largest rise of the bound a step before the learning
            rate was annealed, nats (95 % confidence); None for other fits, for those of earlier
            versions, and before the end.
        notes: sentences about the fit (rows left out, columns set aside).
        metrics: metrics of the map, by key; empty until they are computed.
        has_model: whether there is a fitted model to load.
        name: current display name; by default that of the description.
        note: a user's note.
        tags: a user's tags.
        attempt: number of the attempt, from 1; it increases whenever the run is restarted or
            resumed from a checkpoint, and later events are deleted.
        earlier: seconds of earlier attempts whose work was kept.
        memory: estimated memory, bytes; None without an estimate.
        checkpoint_step: step of its checkpoint; None without one.
        computation: device, precision and threads of the fit; None before its first step, and for
            runs of earlier versions and without a fit.
        branch_step: step of the state from which a fit with more steps would continue; None without
            one.
        has_parts: whether there are results of registered files, block by block.
        resumable: whether ``Store.resume`` accepts it.
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
    rise: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    has_model: bool = False
    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()
    attempt: int = 1
    earlier: float = 0.0
    memory: int | None = None
    computation: Computation | None = None
    checkpoint_step: int | None = None
    branch_step: int | None = None
    has_parts: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.spec.name)

    @property
    def resumable(self) -> bool:
        """Whether it can be resumed: from what it kept, or from the start if interrupted."""
        if self.status == "interrupted" or self.error == "DiskFull":
            return True
        kept = self.checkpoint_step is not None or self.spec.kind == "learning curve"
        kept = kept or self.has_parts
        return self.status == "cancelled" and kept

    @property
    def still_rising(self) -> bool:
        """Whether it is a fit that ended at ``max_iter`` before its bound had converged."""
        ran_out = self.status == "done" and self.converged is False and self.has_model
        return ran_out and self.spec.kind == "fit" and self.elbo is not None

    @property
    def finished(self) -> bool:
        """Whether it has ended, with or without a result."""
        return self.status in FINISHED

    @property
    def seconds(self) -> float | None:
        """Seconds from start to end or to now, with those of earlier attempts; None before."""
        if self.started is None:
            return None
        return self.earlier + ((self.ended or now()) - self.started).total_seconds()


@dataclass(frozen=True)
class Event:
    """A recorded step of a fit.

    Attributes:
        n: number of the event in the run, from 1.
        step: the step.
    """

    n: int
    step: FitStep
