"""A disk that fills up at any write: a clear state, whole files, and nothing that raises."""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lvmcore
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.persistence import checkpoint_progress
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.atomic_files import LineAppender
from lvmcore.runs.job_state import JobState

SETTINGS = {"n_components": 2, "n_inducing": 8, "max_iter": 25}
Submit = Callable[..., str]


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """Refuses the bytes of some files, as a full disk does: half of them may be written before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: set[str] = set()
        self._files: dict[int, str] = {}
        make, sync, write = tempfile.mkstemp, os.fsync, os.write

        def mkstemp(*args: Any, **options: Any) -> tuple[int, str]:
            descriptor, path = make(*args, **options)
            self._files[descriptor] = Path(path).name
            return descriptor, path

        def fsync(descriptor: int) -> None:
            if any(f".{name}." in self._files.get(descriptor, "") for name in self.full):
                raise no_space()
            sync(descriptor)

        def write_some(descriptor: int, content: bytes) -> int:
            if "events.jsonl" in self.full and content.startswith(b'{"iteration"'):
                return write(descriptor, content[: len(content) // 2])
            return write(descriptor, content)

        monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "write", write_some)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with monkeypatch.context() as patch:
        yield Disk(patch)


def run(store: Store, name: str, stop_after: int | None = None) -> JobState:
    folder = store.job_folder(name)
    steps: list[object] = []
    with folder.lock():
        return run_job(
            folder,
            lambda: store.datasets.get(folder.spec().dataset),
            lambda: "cancelled" if len(steps) == stop_after else None,
            on_step=steps.append,
        )


def whole(folder: Path) -> None:
    """Every file of a run can be read, and no half of one lies about."""
    for path in folder.iterdir():
        assert not path.name.startswith("."), path.name
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.name == "checkpoint.safetensors":
            assert checkpoint_progress(path) is not None
        elif path.name == "model.safetensors":
            lvmcore.load(path)
        elif path.suffix == ".parquet":
            pd.read_parquet(path)
        elif path.suffix == ".jsonl":
            for line in path.read_text().splitlines():
                json.loads(line)


@pytest.mark.parametrize(
    "file", ["events.jsonl", "model.safetensors", "embedding.parquet", "status.json"]
)
def test_a_run_that_could_not_be_written_fails_and_is_resumed_when_there_is_room(
    store: Store, submit: Submit, toy: Dataset, disk: Disk, file: str
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    disk.full.add(file)
    state = run(store, name)
    assert (state.status, state.error) == ("failed", "DiskFull")
    assert state.message is not None
    assert "disk is full" in state.message
    whole(store.job_folder(name).path)
    if file == "status.json":  # not even the end could be written: as before, it waits
        assert store.get(name).status == "queued"
    else:
        job = store.get(name)
        assert (job.status, job.message, job.resumable) == ("failed", state.message, True)
    disk.full.clear()
    if file != "status.json":
        store.resume(name)
    assert run(store, name).status == "done"
    whole(store.job_folder(name).path)


def test_a_checkpoint_that_cannot_be_written_costs_no_fit(
    store: Store, submit: Submit, toy: Dataset, disk: Disk
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    disk.full.add("checkpoint.safetensors")
    assert run(store, name, stop_after=12).status == "cancelled"
    job = store.get(name)
    assert (job.has_model, job.checkpoint_step, job.resumable) == (True, None, False)
    assert any("checkpoint could not be written" in note for note in job.notes)
    whole(store.job_folder(name).path)


def test_figures_that_cannot_be_written_are_said_to_be_missing(
    store: Store, submit: Submit, toy: Dataset, disk: Disk
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    disk.full.add("metrics.json")
    assert run(store, name).status == "done"
    job = store.get(name)
    assert (job.metrics, job.has_model) == ({}, True)
    assert any("could not be measured" in note for note in job.notes)
    whole(store.job_folder(name).path)


def test_the_end_is_written_into_the_room_that_the_run_kept(
    store: Store, submit: Submit, toy: Dataset, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the fit: only what the reserve gives back can be written then."""
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    folder = store.job_folder(name)
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if folder.files.reserve.exists() and folder.files.events.exists():
            raise no_space()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    disk.full.add("model.safetensors")
    state = run(store, name)
    assert (state.status, state.error) == ("failed", "DiskFull")
    assert store.get(name).status == "failed"
    assert not folder.files.reserve.exists()


def test_a_dead_run_that_cannot_be_written_down_is_interrupted_all_the_same(
    store: Store, submit: Submit, toy: Dataset, disk: Disk
) -> None:
    name = submit(toy)
    folder = store.job_folder(name)
    state = folder.state().to_json() | {"status": "running", "stage": "fitting"}
    folder.files.status.write_text(json.dumps(state | {"started": state["submitted"]}))
    disk.full.add("status.json")
    for _ in range(2):
        job = store.get(name)
        assert (job.status, job.stage) == ("interrupted", "finished")
        assert job.message is not None
        assert "disk is full" in job.message
    store.list()
    store.reconcile()
    assert json.loads(folder.files.status.read_text())["status"] == "running"
    disk.full.clear()
    assert store.get(name).status == "interrupted"
    assert json.loads(folder.files.status.read_text())["status"] == "interrupted"


@pytest.mark.parametrize("file", ["spec.json", "status.json", "reserve"])
def test_a_run_that_cannot_be_submitted_leaves_nothing(
    store: Store, toy: Dataset, disk: Disk, file: str
) -> None:
    store.datasets.put(toy)
    disk.full.add(file)
    with pytest.raises(DataError, match="could not be written: No space left"):
        store.submit(JobSpec(toy.digest, "toy", "ppca"))
    assert store.list() == []
    assert list((store.home / "jobs").iterdir()) == []


@pytest.mark.parametrize("file", ["data.parquet", "dataset.json"])
def test_a_dataset_that_cannot_be_kept_leaves_nothing(
    store: Store, toy: Dataset, disk: Disk, file: str
) -> None:
    disk.full.add(file)
    with pytest.raises(DataError, match=r"toy could not be kept in .*: No space left"):
        store.datasets.put(toy)
    assert list((store.home / "datasets").iterdir()) == []
    assert not list(store.home.glob(".dataset-*"))


def test_a_cancel_that_cannot_be_written_is_said(
    store: Store, submit: Submit, toy: Dataset, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submit(toy)

    def full(*_: object, **__: object) -> None:
        raise no_space()

    monkeypatch.setattr(Path, "touch", full)
    with pytest.raises(DataError, match="could not be cancelled"):
        store.cancel(name)
    assert not store.job_folder(name).files.reserve.exists()


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "events.jsonl"
    lines = LineAppender(path)
    lines.append('{"iteration":1}')
    disk.full.add("events.jsonl")
    with pytest.raises(OSError, match="No space left"):
        lines.append('{"iteration":2}')
    disk.full.clear()
    lines.append('{"iteration":3}')
    lines.close()
    assert path.read_text() == '{"iteration":1}\n{"iteration":3}\n'


def test_a_run_that_is_not_stopped_is_untouched_by_all_this(
    store: Store, submit: Submit, toy: Dataset
) -> None:
    name = submit(toy)
    assert store.job_folder(name).files.reserve.stat().st_size > 0
    assert run(store, name).status == "done"
    assert isinstance(store.load_model(name).elbo_, float)
