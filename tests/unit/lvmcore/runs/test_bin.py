"""Deleted runs and datasets: they come back whole, and go permanently in time."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from lvmcore.runs import bin as bin_module
from lvmcore.runs.atomic_files import write_json
from tests.unit.lvmcore.runs.fitting import ran

Submit = Callable[..., str]


def content(folder: Path) -> dict[str, bytes]:
    """The files below a folder, without locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def projected(store: Store, run: str, rows: Dataset) -> str:
    spec = JobSpec(store.datasets.put(rows), rows.name, "ppca", kind="project", run=run)
    with store.own(spec) as folder:
        run_job(folder, lambda: rows, lambda: None, store=store)
        return folder.path.name


def test_a_deleted_run_comes_back_with_those_that_used_its_model(
    store: Store, toy: Dataset
) -> None:
    run = ran(store, toy, "ppca", "mine", n_components=2)
    derived = projected(store, run, toy.subset(np.arange(60) < 9))
    store.annotate(run, "a note")
    before, model = store.get(run), store.load_model(run)
    files = content(store.job_folder(run).path)
    deletion = store.delete(run)
    assert store.list(None) == []
    (found,) = store.bin.deletions()
    assert (found.id, found.name, found.kind) == (deletion, "mine", "run")
    assert set(found.runs) == {run, derived}
    assert found.size > sum(map(len, files.values()))
    assert store.size().bin == found.size
    assert store.size().runs == {}
    store.bin.restore(deletion)
    assert store.get(run) == before
    assert {job.id for job in store.list(None)} == {run, derived}
    assert content(store.job_folder(run).path) == files
    np.testing.assert_array_equal(store.load_model(run).embedding_.mean, model.embedding_.mean)
    assert store.bin.deletions() == []
    with pytest.raises(DataError, match="restored or emptied"):
        store.bin.restore(deletion)


def test_a_deleted_dataset_comes_back_with_its_runs(
    store: Store, toy: Dataset, big: Dataset, submit: Submit
) -> None:
    runs = {submit(toy), submit(toy, "pca")}
    other = submit(big)
    deletion = store.datasets.delete(toy.digest)
    assert [job.id for job in store.list()] == [other]
    (found,) = store.bin.deletions()
    assert (found.name, found.kind, set(found.runs)) == ("toy", "dataset", runs)
    store.bin.restore(deletion)
    np.testing.assert_array_equal(store.datasets.get(toy.digest).X, toy.X)
    assert {job.id: job.status for job in store.list()} == {
        other: "queued",
        **dict.fromkeys(runs, "cancelled"),
    }


def test_a_dataset_that_was_read_again_meanwhile_stays(
    store: Store, toy: Dataset, submit: Submit
) -> None:
    run = submit(toy)
    deletion = store.datasets.delete(toy.digest)
    again = submit(toy)
    store.bin.restore(deletion)
    assert {job.id for job in store.list()} == {run, again}
    assert store.datasets.names() == {toy.digest: "toy"}
    assert store.bin.deletions() == []


def test_a_run_waits_for_what_it_needs(store: Store, toy: Dataset) -> None:
    run = ran(store, toy, "ppca", "the fit", n_components=2)
    derived = projected(store, run, toy.subset(np.arange(60) < 9))
    first = store.delete(derived)
    second = store.delete(run)
    third = store.datasets.delete(toy.digest)
    with pytest.raises(DataError, match="The fit of this run was deleted too: restore the fit"):
        store.bin.restore(first)
    with pytest.raises(DataError, match="The dataset of this run was deleted too: restore toy"):
        store.bin.restore(second)
    assert len(store.bin.deletions()) == 3
    for deletion in (third, second, first):
        store.bin.restore(deletion)
    assert {job.id for job in store.list(None)} == {run, derived}
    second = store.delete(run)
    store.datasets.delete(toy.digest)
    shutil.rmtree(store.bin.root / store.bin.deletions()[0].id)
    with pytest.raises(DataError, match=r"The dataset of this run was deleted permanently"):
        store.bin.restore(second)
    assert [one.id for one in store.bin.deletions()] == [second]


def test_what_cannot_be_deleted_leaves_no_deletion(store: Store, toy: Dataset) -> None:
    with pytest.raises(DataError, match="may have been deleted"):
        store.delete("0" * 32)
    assert store.bin.deletions() == []
    assert list(store.bin.root.iterdir()) == []


def test_a_damaged_run_and_a_damaged_deletion_come_back(store: Store, submit: Submit) -> None:
    path = store.job_folder(submit(Dataset.from_arrays(np.eye(4), name="small"))).path
    (path / "spec.json").write_text("{")
    deletion = store.delete(path.name)
    (store.bin.root / deletion / "deletion.json").write_text("[")
    (store.bin.root / "notes").mkdir()  # not of the store
    (found,) = store.bin.deletions()
    assert (found.name, found.kind) == (f"Damaged run {deletion[:8]}", "run")
    store.bin.restore(deletion)
    assert [run.id for run in store.damaged()] == [path.name]


def test_what_is_old_is_deleted_for_good(store: Store, toy: Dataset, submit: Submit) -> None:
    old, recent = store.delete(submit(toy)), store.delete(submit(toy, "pca"))
    about = store.bin.root / old / "deletion.json"
    kept = json.loads(about.read_text())
    about.write_text(json.dumps(kept | {"time": kept["time"] - 86400 * 29}))
    store.reconcile()
    assert [one.id for one in store.bin.deletions()] == [recent, old]
    about.write_text(json.dumps(kept | {"time": kept["time"] - 86400 * 31}))
    store.reconcile()
    assert [one.id for one in store.bin.deletions()] == [recent]
    store.bin.empty()
    assert store.bin.deletions() == []
    assert store.size().bin == 0


def test_a_full_disk_empties_the_bin_and_the_deletion_goes_on(
    store: Store, toy: Dataset, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.delete(submit(toy))
    run = submit(toy, "pca")

    def write(path: Path, value: Any) -> None:
        if store.bin.deletions()[1:]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_json(path, value)

    monkeypatch.setattr(bin_module, "write_json", write)
    deletion = store.delete(run)
    assert [one.id for one in store.bin.deletions()] == [deletion]

    def refuse(path: Path, value: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(bin_module, "write_json", refuse)
    run = submit(toy, "pca")
    with pytest.raises(DataError, match=r"The run could not be deleted: No space left"):
        store.delete(run)
    assert store.get(run).status == "queued"


@pytest.mark.parametrize("bad", ["", "..", "../jobs", "a" * 31, "A" * 32, "0" * 32 + "\n"])
def test_what_is_no_id_reaches_no_file(store: Store, bad: str) -> None:
    with pytest.raises(ConfigError, match="32 hexadecimal"):
        store.bin.restore(bad)
