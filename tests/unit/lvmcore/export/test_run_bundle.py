"""A run with its dataset in one file, taken to another store."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.export import run_bundle as module
from lvmcore.export.run_bundle import open_run_bundle, run_bundle
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store

Change = Callable[[dict[str, bytes]], None]


@pytest.fixture
def run(store: Store, toy: Dataset) -> str:
    spec = JobSpec(store.datasets.put(toy), toy.name, "ppca", {"n_components": 2})
    return fitted(store, toy, spec)


@pytest.fixture
def other(tmp_path: Path) -> Store:
    return Store(tmp_path / "other")


def fitted(store: Store, dataset: Dataset, spec: JobSpec) -> str:
    with store.own(spec) as folder:
        run_job(folder, lambda: dataset, lambda: None, store=store)
    return folder.path.name


def changed(bundle: bytes, change: Change) -> bytes:
    """The bundle with other members."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def is_empty(store: Store) -> bool:
    """Whether nothing was stored, or left behind."""
    left = [path.name for path in store.home.iterdir()]
    return not store.list(None) and not store.datasets.names() and not any(".bu" in n for n in left)


def test_the_run_is_the_same_in_the_other_store(store: Store, other: Store, run: str) -> None:
    store.rename(run, "the first")
    store.annotate(run, "for Ada")
    assert open_run_bundle(other, run_bundle(store, run)) == run
    assert other.get(run) == store.get(run)
    kept = [one.job_folder(run).files.events.read_bytes() for one in (store, other)]
    assert kept[0] == kept[1]
    mine, theirs = (one.load_model(run) for one in (store, other))
    np.testing.assert_array_equal(theirs.embedding_.mean, mine.embedding_.mean)
    digest = store.get(run).spec.dataset
    np.testing.assert_array_equal(other.datasets.get(digest).X, store.datasets.get(digest).X)


def test_equal_runs_make_equal_files(store: Store, run: str) -> None:
    assert run_bundle(store, run) == run_bundle(store, run)


def test_a_run_that_predicts_a_target_goes_too(store: Store, other: Store, toy: Dataset) -> None:
    spec = JobSpec(
        store.datasets.put(toy),
        toy.name,
        "gp_regressor",
        {"max_iter": 3},
        target=toy.feature_names[0],
    )
    run = fitted(store, toy, spec)
    open_run_bundle(other, run_bundle(store, run))
    assert other.load_model(run, "target").get_params() == (
        store.load_model(run, "target").get_params()
    )
    kept = other.job_folder(run).files.predictions.read_bytes()
    assert kept == store.job_folder(run).files.predictions.read_bytes()


def test_a_run_that_is_there_stays_as_it_is(store: Store, run: str) -> None:
    bundle = run_bundle(store, run)
    store.rename(run, "another name")
    assert open_run_bundle(store, bundle) == run
    assert [job.name for job in store.list()] == ["another name"]


def test_another_run_of_the_same_id_stays_as_it_is(store: Store, run: str, toy: Dataset) -> None:
    spec = JobSpec(store.get(run).spec.dataset, toy.name, "pca", {"n_components": 2})
    second = fitted(store, toy, spec)

    def rename(members: dict[str, bytes]) -> None:
        meta = json.loads(members["bundle.json"])
        members["bundle.json"] = json.dumps({**meta, "run": second}).encode()

    third = open_run_bundle(store, changed(run_bundle(store, run), rename))
    assert third not in (run, second)
    assert [store.get(one).spec.model for one in (second, third)] == ["pca", "ppca"]


def test_a_run_without_a_model_is_not_taken(
    store: Store, submit: Callable[..., str], toy: Dataset
) -> None:
    with pytest.raises(DataError, match="has no fitted model to take along"):
        run_bundle(store, submit(toy))


def _without_meta(members: dict[str, bytes]) -> None:
    del members["bundle.json"]


def _later_version(members: dict[str, bytes]) -> None:
    members["bundle.json"] = json.dumps({"format": "latentboard run", "version": 2}).encode()


def _path_outside(members: dict[str, bytes]) -> None:
    members["run/../../../escaped"] = b"!"


def _absolute_path(members: dict[str, bytes]) -> None:
    members["/tmp/escaped"] = b"!"


def _lock(members: dict[str, bytes]) -> None:
    members["run/lock"] = b""


def _changed_cells(members: dict[str, bytes]) -> None:
    stored = json.loads(members["dataset/dataset.json"])
    members["dataset/dataset.json"] = json.dumps({**stored, "image_shape": [1, 5]}).encode()


def _other_dataset(members: dict[str, bytes]) -> None:
    spec = json.loads(members["run/spec.json"])
    members["run/spec.json"] = json.dumps({**spec, "dataset": "0" * 64}).encode()


def _running(members: dict[str, bytes]) -> None:
    state = json.loads(members["run/status.json"])
    running = {**state, "status": "running", "stage": "fitting", "ended": None}
    members["run/status.json"] = json.dumps(running).encode()


def _cut_model(members: dict[str, bytes]) -> None:
    members["run/model.safetensors"] = members["run/model.safetensors"][:200]


def _without_spec(members: dict[str, bytes]) -> None:
    del members["run/spec.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_meta, "is no bundle of a run"),
        (_later_version, "has the version 2"),
        (_path_outside, "a file that no run has"),
        (_absolute_path, "a file that no run has"),
        (_lock, "a file that no run has"),
        (_changed_cells, "was changed"),
        (_other_dataset, "another dataset"),
        (_running, "no finished fit"),
        (_cut_model, r"In the bundle: run/model\.safetensors cannot be read"),
        (_without_spec, r"spec\.json"),
    ],
)
def test_a_changed_bundle_is_refused_and_nothing_is_stored(
    change: Change, message: str, store: Store, other: Store, run: str
) -> None:
    bundle = changed(run_bundle(store, run), change)
    with pytest.raises(DataError, match=message):
        open_run_bundle(other, bundle)
    assert is_empty(other)


def test_what_is_no_bundle_is_refused(
    store: Store, other: Store, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = run_bundle(store, run)
    for content in (b"", b"a,b\n1,2\n", bundle[:-300], bundle[:50] + b"x" * 400 + bundle[450:]):
        with pytest.raises(DataError):
            open_run_bundle(other, content)
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(DataError, match="holds more than"):
        open_run_bundle(other, bundle)
    assert is_empty(other)
