import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import Timeout

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job import now
from lvmcore.runs.job_folder import JobFolder

SPEC = JobSpec("0" * 64, "toy", "ppca", {"n_components": 2, "random_state": None, "device": "cpu"})
BAD_IDS = ["", "..", "../../etc", "a" * 31, "A" * 32, "g" * 32, "0" * 32 + "\n", "0" * 31 + "/"]


def test_home_comes_from_the_argument_or_the_environment(tmp_path: Path, home: Path) -> None:
    assert Store().home == home
    assert Store(tmp_path / "other").home == tmp_path / "other"
    assert (tmp_path / "other" / "jobs").is_dir()


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="LATENTBOARD_HOME"):
        Store(tmp_path / "file")


def test_a_dataset_is_kept_once_and_comes_back_equal(store: Store, toy: Dataset) -> None:
    digest = store.datasets.put(toy)
    assert store.datasets.put(toy) == digest == toy.digest
    back = store.datasets.get(digest)
    np.testing.assert_array_equal(back.X, toy.X)
    assert back.digest == digest
    assert [path.name for path in (store.home / "datasets").iterdir()] == [digest]
    assert not list(store.home.glob(".dataset-*"))


def test_unknown_and_impossible_digests_are_refused(store: Store) -> None:
    with pytest.raises(DataError, match="no dataset"):
        store.datasets.get("0" * 64)
    for digest in ("", "../jobs", "0" * 15, "A" * 64, "0" * 64 + "/x"):
        with pytest.raises(ConfigError, match="digest"):
            store.datasets.get(digest)


def test_a_submitted_run_comes_back_as_it_was_asked_for(store: Store) -> None:
    before = now()
    job = store.get(store.submit(SPEC))
    assert job.spec == SPEC
    assert (job.status, job.queue_place, job.has_model) == ("queued", 1, False)
    assert before <= job.submitted <= now()
    assert (job.started, job.ended, job.seconds, job.message, job.elbo) == (None,) * 5
    assert job.spec.name == "ppca on toy"
    assert job.spec.versions["numpy"] == np.__version__
    assert not job.finished


def test_a_spec_does_not_change_with_what_it_was_made_of() -> None:
    settings = {"n_components": 2}
    spec = JobSpec("0" * 64, "toy", "ppca", settings)
    settings["n_components"] = 3
    assert spec.parameters["n_components"] == 2
    with pytest.raises(TypeError):
        spec.parameters["n_components"] = 3  # type: ignore[index]


def test_an_unknown_kind_of_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bake'"):
        JobSpec("0" * 64, "toy", "ppca", kind="bake")  # type: ignore[arg-type]


def test_ids_are_random_and_the_list_is_newest_first(store: Store) -> None:
    names = [store.submit(SPEC) for _ in range(4)]
    assert len({name[:16] for name in names}) == 4
    listed = store.list()
    assert [job.id for job in listed] == names[::-1]
    assert [job.queue_place for job in listed] == [4, 3, 2, 1]
    assert store.queue.ids() == names


@pytest.mark.parametrize("bad", BAD_IDS)
def test_what_is_no_id_reaches_no_file(store: Store, bad: str) -> None:
    for action in (
        store.get,
        store.events,
        store.cancel,
        store.delete,
        store.load_model,
        store.job_folder,
    ):
        with pytest.raises(ConfigError, match="32 hexadecimal"):
            action(bad)


def test_a_run_that_is_not_there_is_said_to_be_missing(store: Store) -> None:
    with pytest.raises(DataError, match="may have been deleted"):
        store.get("0" * 32)


def test_a_queued_run_is_cancelled_at_once_and_leaves_the_queue(store: Store) -> None:
    first, second = store.submit(SPEC), store.submit(SPEC)
    store.cancel(first)
    job = store.get(first)
    assert (job.status, job.stage, job.queue_place) == ("cancelled", "finished", None)
    assert job.ended is not None
    assert store.get(second).queue_place == 1
    store.cancel(first)
    assert store.get(first) == job


def test_deleting_leaves_nothing(store: Store) -> None:
    name = store.submit(SPEC)
    path = store.job_folder(name).path
    store.delete(name)
    assert not path.exists()
    assert store.list() == []
    assert not list(store.home.glob(".deleted-*"))


def test_a_running_run_is_not_deleted(store: Store) -> None:
    name = store.submit(SPEC)
    folder = store.job_folder(name)
    with folder.lock():
        mark_running(folder)
        with pytest.raises(ConfigError, match="cancel it first"):
            store.delete(name)
    assert store.job_folder(name).path.is_dir()


def test_a_run_without_a_model_says_so(store: Store) -> None:
    with pytest.raises(DataError, match="ppca on toy is queued"):
        store.load_model(store.submit(SPEC))


def mark_running(folder: JobFolder) -> None:
    state = folder.state().to_json()
    state |= {"status": "running", "stage": "fitting", "started": now().isoformat()}
    folder.files.status.write_text(json.dumps(state))


def test_a_running_run_whose_lock_is_held_is_alive(store: Store) -> None:
    name = store.submit(SPEC)
    folder = store.job_folder(name)
    with folder.lock():
        mark_running(folder)
        job = store.get(name)
        assert (job.status, job.stage) == ("running", "fitting")
        assert job.seconds is not None
        store.reconcile()
        assert Store(store.home).get(name).status == "running"


def test_reconciling_interrupts_what_nobody_runs_and_keeps_the_queue(store: Store) -> None:
    dead, waiting = store.submit(SPEC), store.submit(SPEC)
    mark_running(store.job_folder(dead))
    fresh = Store(store.home)
    fresh.reconcile()
    written = json.loads((fresh.job_folder(dead).path / "status.json").read_text())
    assert written["status"] == "interrupted"
    assert "ended before" in written["message"]
    assert fresh.queue.ids() == [waiting]
    assert fresh.get(dead).ended == store.get(dead).ended


def test_a_cancelled_run_whose_process_died_is_cancelled(store: Store) -> None:
    name = store.submit(SPEC)
    folder = store.job_folder(name)
    with folder.lock():
        mark_running(folder)
        store.cancel(name)
        assert store.get(name).status == "running"
    job = store.get(name)
    assert job.status == "cancelled"
    assert job.message is not None
    assert "by force" in job.message


def test_reconciling_clears_what_was_never_finished_but_nothing_recent(store: Store) -> None:
    half, recent = store.home / "jobs" / ("1" * 32), store.home / "jobs" / ("2" * 32)
    trash = store.home / f".deleted-{'3' * 32}"
    for path in (half, recent, trash):
        path.mkdir()
    long_ago = time.time() - 86400
    os.utime(half, (long_ago, long_ago))
    os.utime(trash, (long_ago, long_ago))
    kept = store.submit(SPEC)
    os.utime(store.job_folder(kept).path, (long_ago, long_ago))
    store.reconcile()
    assert not half.exists()
    assert not trash.exists()
    assert recent.exists()
    assert store.get(kept).status == "queued"


@pytest.mark.parametrize("content", ["", "{", '{"status": "baking"}', "[]"])
def test_a_damaged_run_is_left_out_of_the_list_and_named_when_asked_for(
    store: Store, content: str
) -> None:
    good, bad = store.submit(SPEC), store.submit(SPEC)
    (store.job_folder(bad).path / "status.json").write_text(content)
    assert [job.id for job in store.list()] == [good]
    with pytest.raises(DataError, match=r"status\.json"):
        store.get(bad)


def test_a_lock_is_held_once_even_across_processes(store: Store) -> None:
    name = store.submit(SPEC)
    code = (
        "import sys\nfrom lvmcore.runs import Store\n"
        "folder = Store(sys.argv[1]).job_folder(sys.argv[2])\n"
        "with folder.lock():\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(store.home), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Timeout), store.job_folder(name).lock():
            pass
        holder.stdin.close()
        holder.wait()
    with store.job_folder(name).lock():
        pass


def test_only_a_new_or_empty_folder_becomes_a_run(tmp_path: Path) -> None:
    empty, file = tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.write_text("")
    for path in (empty, tmp_path / "new" / "deep"):
        with JobFolder.create(path, SPEC, queued=True) as folder:
            assert folder.state().status == "queued"
    for path, said in ((empty, "not empty"), (file, "cannot be made")):
        with pytest.raises(ConfigError, match=said), JobFolder.create(path, SPEC, queued=True):
            pass


def test_a_run_of_ones_own_is_never_in_the_queue(store: Store) -> None:
    with store.own(SPEC) as folder:
        name = folder.path.name
        assert store.queue.ids() == []
        assert store.get(name).status == "running"
    assert store.get(name).status == "interrupted"


def line(iteration: int) -> str:
    facts = {"iteration": iteration, "total": 9, "seconds": 0.1, "objective": -1.0, "terms": {}}
    return json.dumps(facts) + "\n"


def test_events_are_read_on_from_where_the_last_reading_ended(store: Store) -> None:
    name = store.submit(SPEC)
    path = store.job_folder(name).path / "events.jsonl"
    assert store.events(name) == []
    path.write_text(line(1) + line(2) + line(3)[:10])
    assert [event.n for event in store.events(name)] == [1, 2]
    assert store.events(name, after=2) == []
    path.write_text(line(1) + line(2) + line(3) + line(4))
    assert [event.step.iteration for event in store.events(name, after=2)] == [3, 4]
    assert [event.n for event in store.events(name, after=2)] == [3, 4]
    assert [event.n for event in Store(store.home).events(name, after=3)] == [4]
    assert store.events(name, after=99) == []
