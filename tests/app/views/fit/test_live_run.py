"""Resuming a stopped run on the Fit page."""

import dataclasses
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app.services import fitted_maps, progress, runs, server
from app.state.widgets import widget_key
from app.views.fit import live_run
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job import now
from tests.app.conftest import OpenPage, Wait
from tests.app.shell.test_shell import texts
from tests.app.views.fit.test_page import dataset_with_labels

SETTINGS = {"n_components": 2, "n_inducing": 8, "max_iter": 40}


def stopped(reason: str, steps: int) -> str:
    """A run that was stopped after so many steps, in this process: no launcher takes it."""
    dataset: Dataset = dataset_with_labels()
    store = server.store()
    store.datasets.put(dataset)
    spec = JobSpec(dataset.digest, dataset.name, "bayesian_gplvm", SETTINGS)
    seen: list[object] = []
    with store.own(spec) as folder:
        run_job(
            folder,
            lambda: dataset,
            lambda: reason if len(seen) >= steps else None,  # type: ignore[arg-type, return-value]
            on_step=seen.append,
        )
        return folder.path.name


def resume(page: AppTest, run: str) -> AppTest:
    page.button(widget_key("fit", run, "resume")).click().run()
    return page


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
def test_a_stopped_run_is_resumed_to_its_end(open_page: OpenPage, wait: Wait, reason: str) -> None:
    run = stopped(reason, 15)
    page = open_page("fit", run=run)
    assert not page.exception
    assert "Continues after step 15" in texts(page.caption)
    resume(page, run)
    assert not page.exception
    job = wait(run)
    assert (job.status, job.attempt) == ("done", 2)
    page.run()
    assert not page.exception
    assert not [button for button in page.button if button.label == "Resume"]
    assert len(fitted_maps.model(run).history_) == 40
    assert progress.progress(run).steps[-1].iteration == 40


@pytest.mark.slow
def test_the_map_that_was_kept_gives_way_to_that_of_the_whole_fit(wait: Wait) -> None:
    run = stopped("cancelled", 15)
    assert len(fitted_maps.model(run).history_) == 15
    assert progress.progress(run).steps[-1].iteration == 15
    runs.resume(run)
    wait(run)
    assert len(fitted_maps.model(run).history_) == 40
    iterations = [step.iteration for step in progress.progress(run).steps]
    assert iterations == sorted(set(iterations))


@pytest.mark.slow
def test_one_that_left_no_checkpoint_starts_from_the_beginning(
    open_page: OpenPage, wait: Wait
) -> None:
    run = stopped("interrupted", 0)
    page = open_page("fit", run=run)
    assert "Starts from the first step" in texts(page.caption)
    assert "Resume it, or fit again below" in texts(page.warning)
    resume(page, run)
    assert wait(run).status == "done"


def test_a_run_that_was_cancelled_before_its_first_step_offers_no_resume(
    open_page: OpenPage,
) -> None:
    run = stopped("cancelled", 0)
    page = open_page("fit", run=run)
    assert not [button for button in page.button if button.label == "Resume"]


def test_a_resume_that_is_refused_says_why(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped("interrupted", 5)
    page = open_page("fit", run=run)

    def full(name: str) -> None:
        raise DataError("The run could not be resumed: No space left on device.")

    monkeypatch.setattr(runs, "resume", full)
    resume(page, run)
    page.run()
    assert not page.exception
    assert "No space left" in texts(page.error)
    assert server.store().get(run).ended is not None
    assert server.store().get(run).submitted < now()


def test_a_run_that_waits_to_go_on_keeps_its_curves_and_says_what_it_waits_for(
    open_page: OpenPage, quiet_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped("interrupted", 15)
    runs.resume(run)
    page = open_page("fit", run=run)
    assert not page.exception
    assert "the worker is starting" in texts(page.markdown)
    assert page.get("echarts_chart")

    with quiet_store.own(quiet_store.get(run).spec):  # another run is under way
        page.run()
        assert "when an earlier run finishes" in texts(page.markdown)
        folder = quiet_store.job_folder(run)
        folder.write_state(dataclasses.replace(folder.state(), memory=3 * 10**9))
        monkeypatch.setattr(live_run, "available_memory", lambda: 10**9)
        page.run()
        assert "starts when 3.0 GB of memory are free" in texts(page.markdown).replace("\\", "")

    monkeypatch.setattr(server, "cluster", SimpleNamespace)
    page.run()
    assert "when a node of the cluster has room" in texts(page.markdown)
    monkeypatch.setattr(server, "launcher", lambda: SimpleNamespace(trouble="No <b>node</b>."))
    page.run()
    assert r"queued\: No \<b\>node\<\/b\>\." in texts(page.markdown)


@pytest.mark.slow
def test_a_full_queue_is_said_on_the_page(open_page: OpenPage, quiet_store: Store) -> None:
    dataset = dataset_with_labels()
    quiet_store.datasets.put(dataset)
    for _ in range(quiet_store.queue.most_waiting):
        quiet_store.submit(JobSpec(dataset.digest, dataset.name, "ppca"))
    page = open_page("fit")
    page.button(widget_key("fit", "start")).click().run()
    assert not page.exception
    told = f"queue is full: {quiet_store.queue.most_waiting} runs wait already"
    assert told in texts(page.error).replace("\\", "")
    assert "run" not in page.query_params
