"""Real workers in processes of their own."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from lvmcore.data import Dataset
from lvmcore.jobs import worker_process
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job import Event
from tests.unit.lvmcore.jobs.waiting import finished, until, workers_of

Submit = Callable[..., str]
Launch = Callable[..., Launcher]
LongFit = Callable[[], str]


Workers = Callable[[], list[psutil.Process]]


@pytest.fixture
def workers() -> Workers:
    """The workers that this test has started and that are alive."""
    others = {worker.pid for worker in workers_of(os.getpid())}
    return lambda: [worker for worker in workers_of(os.getpid()) if worker.pid not in others]


@pytest.mark.slow
def test_a_run_goes_from_submission_to_a_loadable_model(
    store: Store, submit: Submit, launch: Launch, toy: Dataset, workers: Workers
) -> None:
    launcher = launch(spare=True)
    name = submit(toy, n_components=2)
    launcher.ensure_running()
    job = finished(store, name)
    assert (job.status, job.message, job.has_model, job.converged) == ("done", None, True, True)
    model = store.load_model(name)
    assert job.elbo == model.elbo_
    assert job.metrics["trustworthiness"].value is not None
    assert [event.n for event in store.events(name)] == [1]
    assert (store.job_folder(name).path / "worker.log").read_text() == ""
    launcher.close()
    assert not workers()


@pytest.mark.slow
def test_a_spare_worker_waits_and_is_used(
    store: Store, submit: Submit, launch: Launch, toy: Dataset, workers: Workers
) -> None:
    launcher = launch(spare=True)
    until(workers, "the spare worker")
    (spare,) = workers()
    name = submit(toy, "bayesian_gplvm", n_components=2, n_inducing=5, max_iter=3)
    launcher.ensure_running()
    assert finished(store, name).status == "done"
    until(lambda: not spare.is_running(), "the end of the worker that was the spare")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "spares"),  # bytes that the fit was said to take, and with how few there is no spare
    [
        ((2 * 10**9, 10**9), 0),
        ((3 * 10**8, 10**9), 1),
        ((None, 10**9), 1),
        ((None, 10**8), 0),  # what it takes is seen
    ],
)
def test_beside_a_fit_that_takes_much_memory_no_spare_waits(
    store: Store,
    launch: Launch,
    big: Dataset,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[int | None, int],
    spares: int,
) -> None:
    memory, most = said
    monkeypatch.setattr("lvmcore.jobs.launcher._SPARE_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("lvmcore.jobs.launcher._LARGE_FIT_BYTES", most)
    parameters = {"n_components": 5, "n_inducing": 60, "n_restarts": 100}
    spec = JobSpec(store.datasets.put(big), big.name, "bayesian_gplvm", parameters)
    launch(spare=True)
    name = store.submit(spec, memory=memory)
    until(lambda: len(store.events(name)) >= 3, "three events")
    found = workers()
    assert len(found) == 1 + spares
    own = min(found, key=psutil.Process.create_time)
    store.cancel(name)
    finished(store, name)
    until(lambda: [worker for worker in workers() if worker != own], "the spare for the next fit")


@pytest.mark.slow
def test_runs_start_one_at_a_time_in_order_and_a_failure_stops_nobody(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    names = [submit(toy, n_components=count) for count in (2, 99, 3)]
    launch()
    jobs = [finished(store, name) for name in names]
    assert [job.status for job in jobs] == ["done", "failed", "done"]
    assert jobs[1].message is not None
    assert "n_components=99" in jobs[1].message
    assert jobs[1].error == "ConfigError"
    for before, after in pairwise(jobs):
        assert before.ended is not None
        assert after.started is not None
        assert before.ended <= after.started


@pytest.mark.slow
def test_two_launchers_take_turns_and_start_nothing_twice(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    names = [submit(toy, n_components=2) for _ in range(2)]
    launch()
    other = Launcher(Store(store.home), spare=False, slots=1)
    jobs = [finished(store, name) for name in names]
    other.close()
    for job in jobs:
        assert job.status == "done"
        assert len(store.events(job.id)) == 1
    one, two = jobs
    assert one.ended is not None
    assert two.started is not None
    assert one.ended <= two.started


@pytest.mark.slow
def test_two_workers_with_the_same_run_run_it_once(
    store: Store, submit: Submit, toy: Dataset
) -> None:
    name = submit(toy, "bayesian_gplvm", n_components=2, n_inducing=5, max_iter=30)
    workers = [WorkerProcess(), WorkerProcess()]
    for worker in workers:
        worker.assign(store.home, name)
    until(lambda: all(worker.wait(0.1) for worker in workers), "the workers' end")
    for worker in workers:
        worker.end()
    assert store.get(name).status == "done"
    steps = [event.step.iteration for event in store.events(name)]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_a_fit_is_followed_and_cancelled_and_keeps_what_was_fitted(
    store: Store, long_fit: LongFit, launch: Launch, big: Dataset
) -> None:
    launch()
    name = long_fit()
    seen: list[Event] = []

    def followed() -> bool:
        seen.extend(store.events(name, after=len(seen)))
        return len(seen) >= 8

    until(followed, "eight events")
    assert store.get(name).status == "running"
    store.cancel(name)
    job = finished(store, name)

    assert [event.n for event in seen] == list(range(1, len(seen) + 1))
    steps = [event.step for event in seen]
    assert steps[0].iteration == 1
    assert all(one.iteration < two.iteration for one, two in pairwise(steps))
    assert all(one.seconds <= two.seconds for one, two in pairwise(steps))
    assert all(step.total == 100 * 900 and step.terms for step in steps)
    assert any(step.snapshot is not None for step in steps)

    assert (job.status, job.has_model, job.message, job.converged) == (
        "cancelled",
        True,
        None,
        False,
    )
    model = store.load_model(name)
    assert model.embedding_.mean.shape == (len(big), 5)
    assert np.isfinite(model.decode(np.zeros((1, 5))).mean).all()
    assert len(pd.read_parquet(store.job_folder(name).path / "embedding.parquet")) == len(big)


@pytest.mark.slow
def test_a_killed_worker_leaves_an_interrupted_run(
    store: Store, long_fit: LongFit, launch: Launch, workers: Workers
) -> None:
    launch()
    name = long_fit()
    until(lambda: store.events(name), "the first event")
    (worker,) = workers()
    worker.kill()
    job = finished(store, name)
    assert job.status == "interrupted"
    assert job.message is not None
    assert "ended before" in job.message or "killed" in job.message


@pytest.mark.slow
def test_closing_interrupts_the_run_and_leaves_the_queue_to_the_next(
    store: Store, long_fit: LongFit, submit: Submit, launch: Launch, toy: Dataset, workers: Workers
) -> None:
    first = launch()
    name = long_fit()
    waiting = submit(toy, n_components=2)
    until(lambda: store.events(name), "the first event")
    first.close()
    assert not workers()
    job = store.get(name)
    assert (job.status, job.has_model) == ("interrupted", True)
    assert store.get(waiting).status == "queued"
    launch()
    assert finished(store, waiting).status == "done"
    assert store.get(name).status == "interrupted"


SERVER = """
import sys, threading
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import JobSpec, Store
store = Store(sys.argv[1])
launcher = Launcher(store)
print("up", flush=True)
threading.Event().wait()
"""


@pytest.mark.slow
def test_a_server_that_dies_takes_its_workers_along(
    store: Store, long_fit: LongFit, tmp_path: Path
) -> None:
    name = long_fit()
    command = [sys.executable, "-c", SERVER, str(store.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        until(lambda: store.events(name), "the first event")
        workers = workers_of(server.pid)
        assert workers
        server.kill()
        server.wait()
    until(lambda: not any(_alive(worker) for worker in workers), "the end of the workers")
    until(lambda: store.get(name).status != "running", "the end of the run")
    job = store.get(name)
    assert (job.status, job.has_model) == ("interrupted", True)
    assert store.load_model(name).embedding_.mean.shape[1] == 5


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stand_in(path: Path, code: str) -> str:
    """An executable that takes the interpreter's place and runs ``code``."""
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


DEAF = f"""
import dataclasses, json, signal, sys, time
sys.path.insert(0, {str(Path(worker_process.__file__).parents[2])!r})
from pathlib import Path
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job import now
signal.signal(signal.SIGTERM, signal.SIG_IGN)
request = json.loads(sys.stdin.readline())
folder = JobFolder(Path(request["home"]) / "jobs" / request["id"])
with folder.lock():
    state = dataclasses.replace(folder.state(), status="running", stage="fitting", started=now())
    folder.write_state(state)
    time.sleep(3600)
"""


@pytest.mark.slow
def test_a_fit_that_does_not_listen_is_stopped_by_force(
    store: Store,
    submit: Submit,
    launch: Launch,
    toy: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", stand_in(tmp_path / "deaf", DEAF))
    launch()
    name = submit(toy)
    until(lambda: store.get(name).status == "running", "the run's start")
    store.cancel(name)
    job = finished(store, name)
    assert (job.status, job.has_model) == ("cancelled", False)
    assert job.message is not None
    assert "by force" in job.message


#: A fit whose steps take 1.5 s: it has made one, and looks at the cancellation after the next.
SLOW = DEAF.replace(
    "    time.sleep(3600)\n",
    """    folder.files.events.write_text('{"iteration": 1}\\n')
    while not folder.cancel_requested():
        time.sleep(0.01)
    time.sleep(1.5)
    (folder.path / "kept").touch()
    folder.write_state(state.ending("cancelled"))
""",
)


@pytest.mark.slow
def test_a_cancelled_fit_may_end_its_step(
    store: Store,
    submit: Submit,
    launch: Launch,
    toy: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", stand_in(tmp_path / "slow", SLOW))
    launch()
    name = submit(toy)
    until(store.job_folder(name).files.events.is_file, "the first step")
    store.cancel(name)
    job = finished(store, name)
    assert (job.status, job.message) == ("cancelled", None)
    assert (store.job_folder(name).path / "kept").exists()


def test_a_worker_that_cannot_start_fails_the_run_with_its_last_words(
    store: Store,
    submit: Submit,
    launch: Launch,
    toy: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = stand_in(tmp_path / "broken", "raise SystemExit('no torch today')")
    monkeypatch.setattr(sys, "executable", broken)
    name = submit(toy)
    launch()
    job = finished(store, name)
    assert (job.status, job.error) == ("failed", "WorkerError")
    assert job.message is not None
    assert "could not be started" in job.message
    assert "no torch today" in (store.job_folder(name).path / "worker.log").read_text()


def test_a_run_whose_workers_are_killed_before_they_begin_is_interrupted(
    store: Store,
    submit: Submit,
    launch: Launch,
    toy: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", stand_in(tmp_path / "killed", code))
        name = submit(toy)
        launch().ensure_running()
        job = finished(store, name)
    assert (job.status, job.error, job.resumable) == ("interrupted", None, True)
    assert job.message is not None
    assert "was killed" in job.message


@pytest.mark.slow
def test_a_run_cancelled_in_the_queue_is_never_started(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    cancelled, kept = submit(toy, n_components=2), submit(toy, n_components=2)
    store.cancel(cancelled)
    launch()
    assert finished(store, kept).status == "done"
    job = store.get(cancelled)
    assert (job.status, job.started) == ("cancelled", None)
    assert store.events(cancelled) == []


def test_a_closed_launcher_starts_nothing(
    store: Store, submit: Submit, launch: Launch, toy: Dataset, workers: Workers
) -> None:
    launcher = launch()
    launcher.close()
    name = submit(toy)
    launcher.ensure_running()
    launcher.close()
    assert store.get(name).status == "queued"
    assert not workers()


@pytest.mark.slow
def test_a_worker_ends_with_its_leash_and_with_a_signal_while_it_waits() -> None:
    released, signalled = WorkerProcess(), WorkerProcess()
    released.release()
    until(lambda: released.wait(0.1), "the released worker's end")
    assert released.returncode == 0
    signalled.terminate()
    until(lambda: signalled.wait(0.1), "the signalled worker's end")
    assert signalled.returncode == -signal.SIGTERM
    for worker in (released, signalled):
        assert worker.error_tail() == ""
        worker.end()


def test_threads_are_limited_unless_the_person_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    given: dict[str, Any] = {}

    class Recorder(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            given.update(options["env"])
            super().__init__([str(shutil.which("true"))], **options)

    monkeypatch.setattr(subprocess, "Popen", Recorder)
    worker = WorkerProcess()
    worker.end()
    assert given["OMP_NUM_THREADS"] == "7"
    assert given["OMP_WAIT_POLICY"] == "PASSIVE"
    assert given["MKL_NUM_THREADS"] == str(worker_process.threads_of_a_fit())
