"""The worker of a run on a node, without a cluster around it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs.executors.folder_mirror import FileMark, apply_changes
from lvmcore.jobs.executors.node_worker import NodeWorker, folder_files, package_versions
from lvmcore.runs import Store
from tests.unit.lvmcore.jobs.waiting import until

Submit = Callable[..., str]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of a node."""
    folder = tmp_path / "node"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_run_is_received_computed_and_reported(
    store: Store, submit: Submit, toy: Dataset, node: Path
) -> None:
    name = submit(toy, n_components=2)
    folder, digest = store.job_folder(name), store.get(name).spec.dataset
    worker = NodeWorker(1)
    assert worker.missing_datasets([digest]) == [digest]
    worker.receive_dataset(digest, folder_files(store.datasets.root / digest))
    worker.receive_dataset(digest, {})  # sent by another run, too
    assert worker.missing_datasets([digest]) == []
    worker.receive_run(name, folder_files(folder.path))
    worker.start(name, [digest])
    known: dict[str, FileMark] = {}

    def followed() -> bool:
        changes, ended, _ = worker.changes(known)
        for file, mark in apply_changes(folder.path, changes).items():
            if mark is None:
                known.pop(file)
            else:
                known[file] = mark
        return ended is not None

    until(followed, "the end of the run")
    job = store.get(name)
    assert (job.status, job.has_model) == ("done", True)
    assert job.metrics
    worker.close()
    assert [path.name for path in node.glob("latentboard-run-*")] == []
    assert list(node.glob("latentboard-datasets-*/*"))


def test_copies_of_processes_that_were_killed_are_deleted(node: Path) -> None:
    (node / "latentboard-run-999999999-abc" / "jobs").mkdir(parents=True)
    (node / "latentboard-run-other").mkdir()
    worker = NodeWorker(1)
    left = {path.name for path in node.iterdir()}
    assert "latentboard-run-999999999-abc" not in left
    assert "latentboard-run-other" in left
    worker.close()


def test_what_belongs_to_the_machine_of_a_run_is_not_sent(tmp_path: Path) -> None:
    for name in ("spec.json", "lock", "reserve", "cancel", ".status.json.part"):
        (tmp_path / name).write_bytes(b"x")
    assert folder_files(tmp_path) == {"spec.json": b"x"}
    with pytest.raises(DataError, match="does not exist"):
        folder_files(tmp_path / "gone")


def test_the_versions_are_those_of_this_process() -> None:
    found = package_versions()
    assert set(found) == {"python", "latentboard", "torch", "numpy"}
    assert all(found.values())
