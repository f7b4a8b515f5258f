"""Runs that place new rows: what they leave, how they stop, and finding them again."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs import fitting
from lvmcore.jobs import project as projecting
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.project import fitted_rows, projection_of
from lvmcore.jobs.run_job import run_job
from lvmcore.prediction import placement
from lvmcore.prediction.placement import place_rows
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_folder import JobState
from tests.unit.lvmcore.jobs.waiting import finished
from tests.unit.lvmcore.runs.fitting import ran

Project = Callable[..., tuple[JobState, Path]]


@pytest.fixture
def new(toy: Dataset) -> Dataset:
    rng = np.random.default_rng(8)
    X = toy.X[::2] + 0.1 * rng.standard_normal((30, 5))
    return Dataset.from_arrays(X, toy.labels[::2], toy.feature_names, name="new")


@pytest.fixture
def projected(store: Store, new: Dataset) -> Project:
    """Places the new rows on a run's map, in this process."""

    def do(run: str, should_stop: object = lambda: None) -> tuple[JobState, Path]:
        store.datasets.put(new)
        with store.own(projection_of(store.get(run), new)) as folder:
            state = run_job(
                folder,
                lambda: store.datasets.get(folder.spec().dataset),
                should_stop,
                store=store,
            )
            return state, folder.path

    return do


def test_it_leaves_the_placement_and_its_figures(
    store: Store, toy: Dataset, new: Dataset, projected: Project
) -> None:
    run = ran(store, toy, "ldgd", n_components=2, max_iter=20)
    state, path = projected(run)
    assert state.status == "done"
    job = store.get(path.name)
    assert job.spec.run == run
    assert not job.has_model
    expected = place_rows(store.load_model(run), new, toy)
    pd.testing.assert_frame_equal(pd.read_parquet(path / "embedding.parquet"), expected.frame)
    assert {key: metric.value for key, metric in job.metrics.items()} == {
        key: metric.value for key, metric in expected.metrics.items()
    }
    assert set(job.metrics) == {"unusual_rows", "accuracy", "expected_calibration_error"}
    steps = [event.step for event in store.events(path.name)]
    assert (steps[-1].iteration, steps[-1].total) == (90, 90)


def test_it_is_no_fit_in_the_list_and_is_found_again(
    store: Store, toy: Dataset, new: Dataset, projected: Project
) -> None:
    run, other = ran(store, toy, "ppca"), ran(store, toy, "ppca")
    spec = projection_of(store.get(run), new)
    assert store.find(spec) is None
    _, path = projected(run)
    assert {job.id for job in store.list()} == {run, other}
    found = store.find(spec)
    assert found is not None
    assert found.id == path.name
    assert store.find(projection_of(store.get(other), new)) is None
    fit = store.find(JobSpec(toy.digest, toy.name, "ppca"))
    assert fit is not None
    assert fit.id in (run, other)


def test_a_spec_comes_back_as_it_was_written(store: Store, toy: Dataset, new: Dataset) -> None:
    spec = projection_of(store.get(ran(store, toy, "ppca")), new)
    assert JobSpec.from_json(spec.to_json()) == spec
    earlier = spec.to_json()
    del earlier["run"]  # as written before there were runs of this kind
    assert JobSpec.from_json(earlier | {"kind": "fit"}).run == ""


def test_it_goes_with_the_run_and_with_the_rows(
    store: Store, toy: Dataset, new: Dataset, projected: Project
) -> None:
    run = ran(store, toy, "ppca")
    _, path = projected(run)
    store.delete(run)
    assert not path.exists()
    _, path = projected(ran(store, toy, "ppca"))
    store.datasets.delete(new.digest)
    assert not path.exists()
    _, path = projected(ran(store, toy, "ppca"))
    store.datasets.delete(toy.digest)
    assert not path.exists()
    assert store.list(None) == []


@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
def test_it_stops_where_asked_and_keeps_nothing(
    store: Store, toy: Dataset, projected: Project, reason: fitting.Reason
) -> None:
    state, path = projected(ran(store, toy, "ppca"), lambda: reason)
    assert state.status == reason
    assert not (path / "embedding.parquet").exists()
    assert store.get(path.name).resumable == (reason == "interrupted")


def test_a_run_without_a_model_is_said_to_be(
    store: Store, toy: Dataset, projected: Project
) -> None:
    run = ran(store, toy, "ppca")
    store.job_folder(run).files.model.unlink()
    state, _ = projected(run)
    assert state.status == "failed"
    assert "has no fitted model" in str(state.message)
    assert state.error == "DataError"


def test_the_unexpected_goes_to_the_log(
    store: Store, toy: Dataset, projected: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(*parts: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    run = ran(store, toy, "ppca")
    monkeypatch.setattr(projecting, "place_rows", fall)
    state, path = projected(run)
    assert state.error == "Unexpected"
    assert "a fault of ours" in (path / "worker.log").read_text()


@pytest.mark.slow
def test_a_worker_does_it(
    store: Store, toy: Dataset, new: Dataset, launch: Callable[..., Launcher]
) -> None:
    run = ran(store, toy, "ppca")
    store.datasets.put(new)
    placing_run = store.submit(projection_of(store.get(run), new))
    launch()
    job = finished(store, placing_run)
    assert job.status == "done"
    assert job.metrics["unusual_rows"].value is not None
    frame = pd.read_parquet(store.job_folder(placing_run).path / "embedding.parquet")
    assert frame["row_id"].tolist() == new.row_ids.tolist()
    assert placement.UNUSUAL < 1


def test_rows_held_out_are_none_of_the_fit(store: Store, toy: Dataset) -> None:
    from dataclasses import replace

    held = replace(toy, held_out=np.arange(60) % 5 == 0)
    run = ran(store, held, "ppca")
    assert len(fitted_rows(store, store.get(run).spec)) == 48
    with pytest.raises(DataError, match="holds no dataset"):
        fitted_rows(store, JobSpec("f" * 64, "gone", "ppca"))
