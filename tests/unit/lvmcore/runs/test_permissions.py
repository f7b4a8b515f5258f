"""Folders and files of a store: private whatever the umask, and a store that cannot be written."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.jobs import launcher as launcher_module
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.saved_items import SavedSelection, SavedView
from tests.unit.lvmcore.jobs.waiting import until
from tests.unit.lvmcore.runs.fitting import ran


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def dataset(rng: np.random.Generator) -> Dataset:
    return Dataset.from_arrays(rng.standard_normal((30, 3)), name="toy")


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
def test_folders_and_files_are_the_owner_s_alone(tmp_path: Path, dataset: Dataset) -> None:
    store = Store(tmp_path / "home")
    launcher = Launcher(store, spare=False)
    try:
        spec = JobSpec(store.datasets.put(dataset), "toy", "bayesian_gplvm", {"max_iter": 30})
        run = store.submit(spec)
        launcher.ensure_running()
        until(lambda: store.get(run).finished, "the end of the fit")
    finally:
        launcher.close()
    store.rename(run, "named")
    store.selections.save(run, SavedSelection("some", {"rows": [1]}))
    store.views.save(run, SavedView("some", {"colour": "label"}))
    store.cancel(store.submit(spec))
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "home", *(tmp_path / "home").rglob("*"))
    }
    assert len(modes) > 10
    wrong = {
        name: oct(mode)
        for name, mode in modes.items()
        if mode != (0o700 if (tmp_path / name).is_dir() else 0o600)
    }
    assert wrong == {}


@pytest.mark.usefixtures("open_umask")
def test_the_folders_of_an_earlier_store_become_private(tmp_path: Path) -> None:
    (tmp_path / "home" / "jobs").mkdir(parents=True, mode=0o777)
    Store(tmp_path / "home")
    assert stat.S_IMODE((tmp_path / "home" / "jobs").stat().st_mode) == 0o700


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every change below ``tmp_path``, as a file system that is mounted read-only does."""

    def refusing(name: str, writes: Any = lambda *_: True) -> None:
        genuine = getattr(os, name)

        def refuse(path: Any, *args: Any, **options: Any) -> Any:
            inside = isinstance(path, str | Path) and str(path).startswith(str(tmp_path))
            if inside and writes(*args):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return genuine(path, *args, **options)

        monkeypatch.setattr(os, name, refuse)

    with monkeypatch.context():
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "chmod", "link", "truncate"):
            refusing(name)
        changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        refusing("open", lambda flags, *_: flags & changing)
        yield


def test_a_store_that_cannot_be_written_can_be_read(
    tmp_path: Path, dataset: Dataset, request: pytest.FixtureRequest
) -> None:
    store = Store(tmp_path)
    run = ran(store, dataset, "ppca", n_components=2)
    request.getfixturevalue("read_only")
    again = Store(tmp_path)
    again.reconcile()
    assert [job.id for job in again.list()] == [run]
    assert again.load_model(run).embedding_.mean.shape == (30, 2)
    assert again.damaged() == []


def test_every_change_of_a_store_that_cannot_be_written_is_refused_with_a_sentence(
    tmp_path: Path, dataset: Dataset, request: pytest.FixtureRequest, rng: np.random.Generator
) -> None:
    store = Store(tmp_path)
    run = ran(store, dataset, "ppca", n_components=2)
    queued = store.submit(store.get(run).spec)
    other = Dataset.from_arrays(rng.standard_normal((30, 3)), name="other")
    request.getfixturevalue("read_only")
    changes = {
        "rename": lambda: store.rename(run, "named"),
        "annotate": lambda: store.annotate(run, "a note"),
        "tag": lambda: store.tag(run, ["a tag"]),
        "select": lambda: store.selections.save(run, SavedSelection("some", {"rows": [1]})),
        "view": lambda: store.views.save(run, SavedView("some", {"colour": "label"})),
        "submit": lambda: store.submit(store.get(run).spec),
        "put": lambda: store.datasets.put(other),
        "delete": lambda: store.delete(run),
        "delete dataset": lambda: store.datasets.delete(dataset.digest),
        "cancel": lambda: store.cancel(queued),
    }
    for name, change in changes.items():
        with pytest.raises((DataError, ConfigError), match="Read-only file system"):
            change()
        assert store.get(run).name, name


def test_the_launcher_says_once_that_it_cannot_write(
    tmp_path: Path,
    dataset: Dataset,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher_module, "_IDLE_SECONDS", 0.01)
    store = Store(tmp_path)
    store.submit(JobSpec(store.datasets.put(dataset), "toy", "ppca", {}))
    request.getfixturevalue("read_only")
    with caplog.at_level(logging.WARNING):
        launcher = Launcher(store, spare=False)
        time.sleep(0.5)  # many rounds of its threads
        launcher.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"Queued runs are not started: {tmp_path} cannot be written: Read-only file system"
    )
    assert caplog.records[0].exc_info is None
