"""Runs that are stopped and go on: what is kept, what is dropped, and what is refused."""

import dataclasses
import json
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.run_job import run_job
from lvmcore.persistence import checkpoint_progress
from lvmcore.runs import Job, Store
from lvmcore.runs.event_log import truncate_events
from lvmcore.runs.job import now
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import JobState
from lvmcore.runs.saved_items import SavedSelection
from tests.unit.lvmcore.jobs.waiting import finished

Submit = Callable[..., str]
STEPS = 60
SETTINGS = {"n_components": 2, "n_inducing": 8, "max_iter": STEPS}


@pytest.fixture
def work(store: Store) -> Callable[..., JobState]:
    """Executes a queued run in this process, stopped after so many steps if asked to."""

    def do(name: str, stop_after: int | None = None, reason: str = "cancelled") -> JobState:
        folder = store.job_folder(name)
        done = 0

        def count(step: object) -> None:
            nonlocal done
            done += 1

        with folder.lock():
            return run_job(
                folder,
                lambda: store.datasets.get(folder.spec().dataset),
                lambda: reason if done == stop_after else None,  # type: ignore[arg-type, return-value]
                on_step=count,
            )

    return do


Work = Callable[..., JobState]


def iterations(store: Store, name: str) -> list[int]:
    return [event.step.iteration for event in store.events(name)]


def test_selections_go_with_the_map_that_they_were_drawn_on(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, stop_after=40)
    store.selections.save(name, SavedSelection("left", {"axes": [0, 1]}))
    store.selections.save(name, SavedSelection("found", {"column": "a", "test": "missing"}))
    among = {"and": [{"column": "a", "test": "missing"}, {"not": {"axes": [0, 1]}}]}
    store.selections.save(name, SavedSelection("left, missing", among))
    assert [one.name for one in store.selections.list(name)] == ["found", "left", "left, missing"]
    half = (
        store.job_folder(name).path / ".selections.json.half"
    )  # as another process may be writing it
    half.touch()
    with store.job_folder(name).lock():
        store.job_folder(name).clear_up()
    assert half.exists()
    store.resume(name)
    assert [one.name for one in store.selections.list(name)] == [
        "found"
    ]  # by its cells, not its place
    work(name, stop_after=10)
    store.selections.delete(name, "found")
    store.selections.save(name, SavedSelection("left", {"axes": [0, 1]}))
    store.resume(name)
    assert store.selections.list(name) == ()


@pytest.mark.slow(quick=["bayesian_gplvm-cancelled", "bayesian_gplvm-interrupted"])
@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
@pytest.mark.parametrize("model", ["bayesian_gplvm", "ldgd"])
def test_a_stopped_run_goes_on_and_ends_like_one_that_was_not(
    store: Store, submit: Submit, work: Work, toy: Dataset, model: str, reason: str
) -> None:
    whole, parted = (submit(toy, model, **SETTINGS) for _ in range(2))
    work(whole)
    work(parted, 23, reason)
    stopped = store.get(parted)
    assert (stopped.status, stopped.checkpoint_step, stopped.resumable) == (reason, 23, True)
    assert stopped.has_model
    before = iterations(store, parted)

    store.resume(parted)
    queued = store.get(parted)
    assert (queued.status, queued.stage, queued.attempt) == ("queued", "waiting", 2)
    assert (queued.has_model, queued.metrics, queued.message) == (False, {}, None)
    assert store.queue.ids() == [parted]
    assert iterations(store, parted) == before

    work(parted)
    one, two = store.get(whole), store.get(parted)
    assert (two.status, two.stage) == ("done", "finished")
    assert two.elbo == pytest.approx(one.elbo, abs=1e-8, rel=0)
    assert two.converged == one.converged
    assert two.attempt == 2
    assert two.seconds is not None
    assert two.seconds > two.earlier > 0
    steps = iterations(store, parted)
    assert steps[: len(before)] == before
    assert all(first < second for first, second in pairwise(steps))
    assert steps[-1] == STEPS
    seconds = [event.step.seconds for event in store.events(parted)]
    assert seconds == sorted(seconds)
    np.testing.assert_array_equal(
        store.load_model(parted).embedding_.mean, store.load_model(whole).embedding_.mean
    )
    for name in (whole, parted):
        left = {path.name for path in store.job_folder(name).path.iterdir()}
        assert not left & {"checkpoint.safetensors", "cancel", "reserve"}


def test_events_after_the_checkpoint_are_dropped_and_numbered_on(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, 30)
    folder = store.job_folder(name)
    late = {"iteration": 31, "total": STEPS, "seconds": 9.0, "objective": -1.0, "terms": {}}
    with folder.files.events.open("a") as file:
        file.write(json.dumps(late) + "\n" + '{"iteration": 32, "to')
    before = store.events(name)
    assert before[-1].step.iteration == 31
    assert store.events(name, after=before[-1].n) == []
    store.resume(name)
    assert [event.n for event in store.events(name)] == [event.n for event in before[:-1]]
    work(name)
    events = store.events(name)
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert [event.step.iteration for event in events].count(31) <= 1
    reader = Store(store.home)
    assert [event.n for event in reader.events(name, after=events[3].n)] == [
        event.n for event in events[4:]
    ]


def test_a_reader_that_was_further_than_the_checkpoint_reads_rightly(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    """What it remembers of the file's offsets belongs to the attempt before."""
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, 30)
    with store.job_folder(name).files.events.open("a") as file:
        for i in range(31, 500):
            step = {"iteration": i, "total": STEPS, "seconds": 9.0, "objective": 0.0, "terms": {}}
            file.write(json.dumps(step) + "\n")
    last = store.events(name)[-1].n
    assert store.events(name, after=last) == []
    store.resume(name)
    work(name)
    events = store.events(name)
    assert all(event.step.terms for event in events)
    assert store.events(name, after=events[-1].n) == []
    assert store.events(name, after=last) == []


@pytest.mark.slow
def test_a_launcher_takes_a_resumed_run_up(
    store: Store, submit: Submit, work: Work, toy: Dataset, launch: Callable[..., Launcher]
) -> None:
    whole, parted = (submit(toy, "ldgd", **SETTINGS) for _ in range(2))
    work(whole)
    work(parted, 12)
    store.cancel(parted)  # has ended: nothing to cancel
    store.resume(parted)
    launch()
    job = finished(store, parted)
    assert job.status == "done"
    assert job.elbo == pytest.approx(store.get(whole).elbo, abs=1e-8, rel=0)


def test_the_cancel_of_the_time_before_does_not_stop_the_resumed_run(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    store.job_folder(name).files.cancel.touch()
    work(name, 5)
    store.resume(name)
    assert not store.job_folder(name).cancel_requested()
    assert store.get(name).status == "queued"


def dead(folder: JobFolder) -> None:
    state = dataclasses.replace(folder.state(), status="running", stage="fitting", started=now())
    folder.write_state(state)


def test_an_interrupted_run_without_a_checkpoint_begins_anew(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    folder = store.job_folder(name)
    dead(folder)
    folder.files.events.write_text('{"iteration": 1, "to')
    job = store.get(name)
    assert (job.status, job.resumable, job.checkpoint_step) == ("interrupted", True, None)
    store.resume(name)
    assert store.events(name) == []
    assert work(name).status == "done"
    assert iterations(store, name)[0] == 1


@pytest.mark.parametrize("damage", ["torn", "other"])
def test_a_checkpoint_that_cannot_be_used_means_from_the_beginning(
    store: Store,
    submit: Submit,
    work: Work,
    toy: Dataset,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, 20, "interrupted")
    path = store.job_folder(name).files.checkpoint
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:1000])
        assert store.get(name).checkpoint_step is None
    else:
        monkeypatch.setattr("lvmcore.base.validation.package_version", lambda: "99")
    store.resume(name)
    state = work(name)
    assert state.status == "done"
    steps = iterations(store, name)
    assert steps[0] == 1
    assert steps == sorted(set(steps))
    job = store.get(name)
    assert job.earlier == 0.0
    if damage == "other":  # known when the fit begins: what was read of the events is void
        assert job.attempt == 3
        assert any("started from the beginning" in note for note in job.notes)


def test_what_has_no_more_to_do_is_not_resumed(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    done, failed, queued = submit(toy), submit(toy, n_components=99), submit(toy)
    work(done)
    work(failed)
    for name in (done, failed, queued):
        assert not store.get(name).resumable
        with pytest.raises(ConfigError, match="cannot be resumed"):
            store.resume(name)
    store.cancel(queued)
    with pytest.raises(ConfigError, match="cancelled and cannot be resumed"):
        store.resume(queued)
    with pytest.raises(DataError, match="no run"):
        store.resume("0" * 32)


def test_a_running_run_is_not_resumed(store: Store, submit: Submit, toy: Dataset) -> None:
    name = submit(toy)
    folder = store.job_folder(name)
    with folder.lock():
        dead(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lvmcore.runs.job_folder._RESUME_WAITS_SECONDS", 0.05)
            with pytest.raises(ConfigError, match="still being written"):
                store.resume(name)
    assert store.get(name).status == "interrupted"


def test_a_resume_that_dies_half_way_can_be_done_again(
    store: Store, submit: Submit, work: Work, toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, 20)
    write = JobFolder.write_state

    def die(folder: JobFolder, state: JobState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(JobFolder, "write_state", die)
    with pytest.raises(DataError, match="No space left"):
        store.resume(name)
    monkeypatch.setattr(JobFolder, "write_state", write)
    job = store.get(name)
    assert (job.status, job.resumable, job.checkpoint_step) == ("cancelled", True, 20)
    store.resume(name)
    assert work(name).status == "done"


def test_a_run_whose_process_died_while_it_measured_is_done(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy)
    work(name)
    folder = store.job_folder(name)
    folder.write_state(dataclasses.replace(folder.state(), stage="measuring"))
    job = store.get(name)
    assert (job.status, job.stage) == ("done", "finished")
    assert "before the figures about the map were measured" in job.notes[-1]


def test_a_state_of_an_earlier_version_is_read(store: Store, submit: Submit, toy: Dataset) -> None:
    name = submit(toy)
    path = store.job_folder(name).files.status
    stored = json.loads(path.read_text())
    del stored["attempt"], stored["earlier"]
    path.write_text(json.dumps(stored))
    job: Job = store.get(name)
    assert (job.attempt, job.earlier, job.status) == (1, 0.0, "queued")


def test_cutting_keeps_the_steps_before_and_replaces_the_file_whole(
    store: Store, submit: Submit, work: Work, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", **SETTINGS)
    work(name, 20)
    path = store.job_folder(name).files.events
    content = path.read_bytes()
    assert not truncate_events(path, 20)
    assert path.read_bytes() == content
    path.write_bytes(b"not json\n" + content)
    assert truncate_events(path, 20)
    assert path.read_bytes() == content
    assert truncate_events(path, 0)
    assert path.read_bytes() == b""
    assert not truncate_events(path.with_name("none"), 3)
    assert checkpoint_progress(store.job_folder(name).files.checkpoint) is not None
