"""The server's memory and its workers: the only file with st.cache_*.

What is cached here is shared by all sessions of the server, and must not be changed by who gets
it. Caches are keyed on digests and run ids, never on frames: Streamlit hashes a sample of those.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import streamlit as st

from app import comparing, profiles
from app.cards import ModelCard, Shape, card_of, recommend
from app.colouring import Categories, categories
from app.comparing import Measured
from app.histogram import histogram
from app.profiles import Missing, Profile
from app.state import DEFAULT_SAMPLE, Reading, Roles, Sample, Source
from lvmcore.data import (
    Dataset,
    Table,
    load_sample,
    propose_label,
    propose_row_id,
    read_table_limited,
    samples,
)
from lvmcore.errors import LatentboardError
from lvmcore.runs import (
    Estimate,
    Estimator,
    Job,
    JobSpec,
    Launcher,
    Store,
    curves_frame,
    embedding_frame,
    map_picture,
    to_csv_bytes,
    to_parquet_bytes,
)

if TYPE_CHECKING:
    import pandas as pd

    from app.axes import Axes
    from app.exploring import Ask, Grid, Reconstruction
    from lvmcore.base import LatentVariableModel
    from lvmcore.results import FitStep, Snapshot
    from lvmcore.runs.picture import PictureFormat

__all__ = [
    "FEATURE_TYPES",
    "Progress",
    "add_method",
    "cancel",
    "cards",
    "classes",
    "close",
    "curves_csv",
    "dataset_of",
    "delete_dataset",
    "delete_runs",
    "devices",
    "embedding_csv",
    "embedding_parquet",
    "estimate",
    "fit_sample",
    "fitted_dataset",
    "heatmap",
    "histograms",
    "job",
    "launcher",
    "map_file",
    "measured",
    "missing",
    "model",
    "profile",
    "progress",
    "proposed_roles",
    "reconstruction",
    "resume",
    "sample_about",
    "sample_dataset",
    "sample_titles",
    "shape",
    "start_fit",
    "start_score",
    "store",
    "stored_dataset",
    "table",
    "warm_up",
]

#: Types of columns that a fit learns from unless somebody says otherwise.
FEATURE_TYPES = ("numeric", "count", "binary")

_WARM_UP_AFTER_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.02


# ---- the server's singletons -----------------------------------------------------------------


def store() -> Store:
    """Where datasets and runs are kept."""
    return _store(os.environ.get("LATENTBOARD_HOME"))


@st.cache_resource(show_spinner=False)
def _store(home: str | None) -> Store:
    found = Store(home)
    found.reconcile()
    return found


def launcher() -> Launcher:
    """What starts queued runs, with a warm spare worker; one for the server."""
    found = _launcher(os.environ.get("LATENTBOARD_HOME"))
    found.ensure_running()
    return found


@st.cache_resource(show_spinner=False)
def _launcher(home: str | None) -> Launcher:
    return Launcher(_store(home))


def warm_up() -> None:
    """Make a spare worker and import the models, once and in the background.

    Both load torch, which keeps a core busy for seconds: it begins when the first page is there.
    """
    _warm_up(os.environ.get("LATENTBOARD_HOME"))


@st.cache_resource(show_spinner=False)
def _warm_up(home: str | None) -> threading.Timer:
    timer = threading.Timer(_WARM_UP_AFTER_SECONDS, _load, [home])
    timer.daemon = True
    timer.start()
    return timer


def _load(home: str | None) -> None:
    _launcher(home)
    import lvmcore.models  # noqa: F401


# ---- tables and datasets ---------------------------------------------------------------------


def sample_titles() -> dict[str, str]:
    """Titles of the samples that the package brings along, by key."""
    return {key: f"{sample.title} ({sample.rows} rows)" for key, sample in samples().items()}


def sample_about(key: str) -> str:
    """One plain line on what a sample is."""
    return samples()[key].about


def table(source: Source, reading: Reading) -> Table:
    """The table of a source.

    Raises:
        DataError: it cannot be read, or not in that way.
    """
    if isinstance(source, Sample):
        return _sample(source.key)
    return _uploaded(source.digest, source.name, reading, source.content)


@st.cache_resource(show_spinner=False, max_entries=8)
def _sample(key: str) -> Table:
    return load_sample(key)


@st.cache_resource(show_spinner="Reading the table", max_entries=4)
def _uploaded(digest: str, name: str, reading: Reading, _content: bytes) -> Table:
    del digest  # the cache's key: the content itself is too long to be hashed at every rerun
    return read_table_limited(_content, name=_title(name), **asdict(reading))


def _title(filename: str) -> str:
    """A file's name without its folder and endings."""
    name = PurePath(filename).name
    return name.split(".", 1)[0] or name


def proposed_roles(table: Table) -> Roles:
    """What the columns of a table would be used for."""
    label, row_id = propose_label(table), propose_row_id(table)
    features = tuple(
        column.name
        for column in table.columns
        if column.type in FEATURE_TYPES and column.name not in (label, row_id)
    )
    categories = tuple(column.name for column in table.columns if column.type == "category")
    return Roles(features, label, row_id, one_hot=categories)


def dataset_of(table: Table, roles: Roles) -> Dataset:
    """The matrix that models are fitted to.

    Raises:
        DataError: a column cannot be used as asked.
    """
    types = tuple(str(column.type) for column in table.columns)
    return _dataset(table.digest, table.name, types, roles, table)


@st.cache_resource(show_spinner=False, max_entries=8)
def _dataset(
    digest: str, name: str, types: tuple[str, ...], roles: Roles, _table: Table
) -> Dataset:
    del digest, name, types  # the cache's key
    return _table.dataset(
        features=roles.features,
        label=roles.label,
        row_id=roles.row_id,
        log1p=[name for name in roles.log1p if name in roles.features],
        one_hot=[name for name in roles.one_hot if name in roles.features],
        hold_out=roles.hold_out,
    )


def stored_dataset(digest: str) -> Dataset:
    """A dataset that a run was started on.

    Raises:
        DataError: the store holds none with this digest.
    """
    return _stored(os.environ.get("LATENTBOARD_HOME"), digest)


@st.cache_resource(show_spinner=False, max_entries=8)
def _stored(home: str | None, digest: str) -> Dataset:
    return _store(home).get_dataset(digest)


def shape(dataset: Dataset) -> Shape:
    """What matters of a dataset for the choice of a model."""
    return _shape(dataset.digest, dataset)


@st.cache_data(show_spinner=False, max_entries=64)
def _shape(digest: str, _dataset: Dataset) -> Shape:
    import numpy as np

    del digest  # the cache's key
    fitted = _dataset.subset(~_dataset.held_out) if _dataset.held_out.any() else _dataset
    complete = int((~np.isnan(fitted.X)).all(1).sum())
    labels = [] if fitted.labels is None else fitted.labels.tolist()
    return Shape(
        rows=complete,
        columns=fitted.X.shape[1],
        classes=len(fitted.classes),
        unlabelled=labels.count(None),
        incomplete=len(fitted) - complete,
    )


def histograms(table: Table) -> list[list[float]]:
    """A tiny histogram of each column, in the table's order: shares of its cells."""
    return _histograms(table.digest, table)


@st.cache_data(show_spinner=False, max_entries=8)
def _histograms(digest: str, _table: Table) -> list[list[float]]:
    del digest  # the cache's key
    return [histogram(_table.frame[column.name]) for column in _table.columns]


def profile(table: Table, name: str, *, log1p: bool) -> Profile:
    """What a column of a table holds; with its histogram on the scale of log(1 + x) if asked."""
    return _profile(table.digest, name, str(table.column(name).type), log1p, table)


@st.cache_data(show_spinner=False, max_entries=64)
def _profile(digest: str, name: str, kind: str, log1p: bool, _table: Table) -> Profile:
    del digest, kind  # the cache's key
    return profiles.profile(_table, name, log1p=log1p)


def missing(table: Table) -> Missing | None:
    """Where cells of a table are missing; None where none is."""
    return _missing(table.digest, table)


@st.cache_data(show_spinner=False, max_entries=8)
def _missing(digest: str, _table: Table) -> Missing | None:
    del digest  # the cache's key
    return profiles.missing(_table)


# ---- models ----------------------------------------------------------------------------------


@st.cache_resource(show_spinner="Loading the models")
def cards() -> tuple[ModelCard, ...]:
    """A card for each model, in the order of menus (loads torch)."""
    from lvmcore.models import MODELS

    return tuple(card_of(model) for model in MODELS.values())


@st.cache_resource(show_spinner=False)
def devices() -> tuple[str, ...]:
    """Devices that this machine offers (loads torch)."""
    import torch

    return ("auto", "cpu", "cuda") if torch.cuda.is_available() else ("auto", "cpu")


def model(run: str) -> LatentVariableModel:
    """The fitted model of a run.

    Raises:
        DataError: it has none.
    """
    return _model(os.environ.get("LATENTBOARD_HOME"), run, _attempt(run))


@st.cache_resource(show_spinner="Loading the model", max_entries=8)
def _model(home: str | None, run: str, attempt: int) -> LatentVariableModel:
    del attempt  # the cache's key: a run that was resumed ends with another model
    return _store(home).load_model(run)


def _attempt(run: str) -> int:
    """Which attempt of a run this is: what was computed of an earlier one no longer holds."""
    return store().get(run).attempt


# ---- runs ------------------------------------------------------------------------------------


def job(run: str | None) -> Job | None:
    """A run as it stands; None where there is no such run."""
    if run is None:
        return None
    try:
        return store().get(run)
    except LatentboardError:
        return None


def start_fit(dataset: Dataset, key: str, parameters: Mapping[str, Any]) -> str:
    """Put a fit in the queue.

    Returns:
        The run's id.

    Raises:
        ConfigError: a setting is not allowed, or the queue is full.
        DataError: the dataset or the run cannot be kept.
    """
    spec = _spec(dataset, key, parameters)
    store().put_dataset(dataset)
    _, cost = _estimator(os.environ.get("LATENTBOARD_HOME")).known(spec)
    run = store().submit(spec, memory=None if cost is None else cost.memory)
    launcher()
    return run


def _spec(dataset: Dataset, key: str, parameters: Mapping[str, Any]) -> JobSpec:
    from lvmcore.models import MODELS
    from lvmcore.parameters import check_settings

    return JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=key,
        parameters=check_settings(MODELS[key], parameters),
        name=f"{MODELS[key].title} on {dataset.name}",
    )


def estimate(
    dataset: Dataset, key: str, parameters: Mapping[str, Any]
) -> tuple[bool, Estimate | None]:
    """What a fit would cost: measured in a process of its own when it is asked for first.

    Returns:
        Whether the answer is known yet; the estimate, None where none can be made.
    """
    if "max_iter" not in parameters:  # in closed form, or of unknown length
        return True, None
    try:
        spec = _spec(dataset, key, parameters)
    except LatentboardError:
        return True, None
    found = _estimator(os.environ.get("LATENTBOARD_HOME"))
    known, cost = found.known(spec)
    if not known:
        found.ask(spec, dataset)
    return known, cost


@st.cache_resource(show_spinner=False)
def _estimator(home: str | None) -> Estimator:
    return Estimator(_store(home))


def close() -> None:
    """End what this server has started: its workers and what estimates fits."""
    home = os.environ.get("LATENTBOARD_HOME")
    _estimator(home).close()
    _launcher(home).close()


def add_method(dataset: Dataset, key: str) -> str:
    """A run of a model with the settings that suit the dataset: the one there is, or a new one.

    Returns:
        The run's id.

    Raises:
        DataError: the dataset cannot be kept.
    """
    card = next(card for card in cards() if card.key == key)
    parameters = card.suggest(shape(dataset))
    found = store().find(JobSpec(dataset.digest, dataset.name, key, parameters))
    return start_fit(dataset, key, parameters) if found is None else found.id


def measured(job: Job) -> Measured:
    """How well a run's map does, as far as it is known."""
    from lvmcore.models import MODELS

    score = store().find(_score_spec(job), failed=True)
    return comparing.measured(job, score, MODELS[job.spec.model].capabilities)


def start_score(job: Job) -> str:
    """Score a run's model and settings on held-out rows, unless that was done or is under way.

    Returns:
        The id of the scoring run.
    """
    found = store().find(_score_spec(job))
    if found is not None:
        return found.id
    run = store().submit(_score_spec(job))
    launcher()
    return run


def _score_spec(job: Job) -> JobSpec:
    spec = job.spec
    return JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters=spec.parameters,
        name=f"Score of {spec.name}",
        kind="score",
    )


def cancel(run: str, *, patience: float) -> None:
    """Ask a run to stop, and wait for its end for so many seconds at most.

    Raises:
        DataError: there is no such run.
    """
    store().cancel(run)
    deadline = time.monotonic() + patience
    while not store().get(run).finished and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_SECONDS)


def sample_dataset() -> Dataset:
    """The first sample, its columns used as proposed."""
    sample = table(Sample(DEFAULT_SAMPLE), Reading())
    return dataset_of(sample, proposed_roles(sample))


def resume(run: str) -> None:
    """Put a run that was stopped back in the queue.

    Raises:
        ConfigError: it cannot be resumed.
        DataError: there is no such run, or the disk is full.
    """
    store().resume(run)
    launcher()


def fit_sample() -> str:
    """Put a fit of the first sample in the queue, with the model and settings that suit it.

    Returns:
        The run's id.
    """
    dataset = sample_dataset()
    key, _ = recommend(cards(), shape(dataset))
    card = next(card for card in cards() if card.key == key)
    return start_fit(dataset, key, card.suggest(shape(dataset)))


def fitted_dataset(run: str) -> Dataset:
    """The rows that a run was fitted to, in the order of the model's map.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _fitted(os.environ.get("LATENTBOARD_HOME"), run)


@st.cache_resource(show_spinner=False, max_entries=8)
def _fitted(home: str | None, run: str) -> Dataset:
    from lvmcore.models import MODELS
    from lvmcore.runs.execute import rows_to_fit

    spec = _store(home).get(run).spec
    rows, _ = rows_to_fit(_stored(home, spec.dataset), MODELS[spec.model])
    return rows


def classes(run: str) -> Categories | None:
    """The class of each row that a run is fitted to; None without labels.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _classes(os.environ.get("LATENTBOARD_HOME"), run)


@st.cache_resource(show_spinner=False, max_entries=8)
def _classes(home: str | None, run: str) -> Categories | None:
    import pandas as pd

    dataset = _fitted(home, run)
    if dataset.labels is None:
        return None
    return categories(pd.Series(dataset.labels, dtype=object), dataset.label_name or "label")


@dataclass
class Progress:
    """The steps of a run as far as they have been read; safe to share between sessions.

    Attributes:
        steps: in order, without their snapshots.
        snapshot: the last one; None before the first.
    """

    steps: list[FitStep] = field(default_factory=list)
    snapshot: Snapshot | None = None
    _read: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def update(self, store: Store, run: str) -> None:
        """Read the events that were written since the last time."""
        with self._guard:
            for event in store.events(run, after=self._read):
                self._read = event.n
                step = event.step
                if step.snapshot is not None:
                    self.snapshot = step.snapshot
                self.steps.append(replace(step, snapshot=None))


def progress(run: str) -> Progress:
    """The steps of a run, up to date."""
    found = _progress(os.environ.get("LATENTBOARD_HOME"), run, _attempt(run))
    found.update(store(), run)
    return found


@st.cache_resource(show_spinner=False, max_entries=16)
def _progress(home: str | None, run: str, attempt: int) -> Progress:
    del home, run, attempt  # the cache's key
    return Progress()


# ---- the latent page -------------------------------------------------------------------------


def heatmap(run: str, ask: Ask) -> Grid:
    """A heatmap of a run's map.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot compute it.
    """
    return _heatmap(os.environ.get("LATENTBOARD_HOME"), run, _attempt(run), ask)


@st.cache_resource(show_spinner=False, max_entries=128)
def _heatmap(home: str | None, run: str, attempt: int, ask: Ask) -> Grid:
    from app import exploring

    return exploring.heatmap(_model(home, run, attempt), _fitted(home, run), ask)


def reconstruction(run: str, latent: tuple[float, ...]) -> Reconstruction:
    """What a place of a run's map looks like in the data's units.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot decode.
    """
    return _reconstruction(os.environ.get("LATENTBOARD_HOME"), run, _attempt(run), latent)


@st.cache_resource(show_spinner=False, max_entries=256)
def _reconstruction(
    home: str | None, run: str, attempt: int, latent: tuple[float, ...]
) -> Reconstruction:
    from app import exploring

    return exploring.reconstruct(_model(home, run, attempt), _fitted(home, run), latent)


def embedding_csv(run: str) -> bytes:
    """A run's map as CSV: row id, label, latent means and sds.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return to_csv_bytes(_embedding(run))


def embedding_parquet(run: str) -> bytes:
    """A run's map as Parquet: row id, label, latent means and sds.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return to_parquet_bytes(_embedding(run))


def _embedding(run: str) -> pd.DataFrame:
    return embedding_frame(model(run), fitted_dataset(run))


# ---- the runs page ---------------------------------------------------------------------------


def curves_csv(runs: Iterable[str]) -> bytes:
    """The curves of some runs as CSV, one number a row: see ``lvmcore.runs.curves_frame``.

    Raises:
        DataError: there is no such run.
    """
    return to_csv_bytes(curves_frame(store(), runs))


def map_file(run: str, axes: Axes, form: PictureFormat, *, sd_behind: bool) -> bytes:
    """A run's map as a picture for print.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return map_picture(model(run), fitted_dataset(run), axes, form, sd_behind=sd_behind)


def delete_runs(runs: Iterable[str]) -> None:
    """Delete runs, and what the server remembers of any.

    Raises:
        ConfigError: one is under way, and is left as it is with those after it.
    """
    try:
        for run in runs:
            store().delete(run)
    finally:
        _forget()


def delete_dataset(digest: str) -> None:
    """Delete a dataset with its runs, and what the server remembers of any.

    Raises:
        ConfigError: one of the runs is under way; nothing is deleted then.
    """
    try:
        store().delete_dataset(digest)
    finally:
        _forget()


def _forget() -> None:
    for memory in (_stored, _model, _fitted, _classes, _progress, _heatmap, _reconstruction):
        memory.clear()
