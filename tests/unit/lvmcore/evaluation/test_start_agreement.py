"""What a run with several starts leaves, and how it goes on after a stop."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import stability
from lvmcore.cli.progress import describe_step
from lvmcore.data import Dataset
from lvmcore.evaluation.start_agreement import start_agreement
from lvmcore.export.curves import curves_frame
from lvmcore.gp.starts.restarts import RestartResult
from lvmcore.jobs.run_job import run_job
from lvmcore.metrics import stability as metrics_stability
from lvmcore.runs import Store
from lvmcore.runs.event_log import EventLog, read_events, step_from_json, step_to_json
from tests.unit.lvmcore.runs.fitting import ran
from tests.unit.lvmcore.runs.test_event_log import step

Submit = Callable[..., str]
SETTINGS = {"n_components": 2, "n_inducing": 8, "max_iter": 20, "n_restarts": 3}
KEYS = {"disagreement", "neighbours", "bound_spread"}


def test_a_run_with_several_starts_says_how_far_they_agree(store: Store, toy: Dataset) -> None:
    run = ran(store, toy, "ldgd", start="random", **SETTINGS)
    job, model = store.get(run), store.load_model(run)
    found = model.restarts_  # type: ignore[attr-defined]
    expected = stability(found.means)
    assert curves_frame(store, [run])["start"].unique().tolist() == [1, 2, 3]
    rows = pd.read_parquet(store.job_folder(run).files.agreement)
    assert rows["row_id"].tolist() == toy.row_ids.tolist()
    np.testing.assert_array_equal(rows["disagreement"], expected.disagreement)
    np.testing.assert_array_equal(rows["neighbour_agreement"], expected.neighbour_agreement)
    assert job.metrics["disagreement"].value == pytest.approx(expected.overall)
    assert job.metrics["neighbours"].value == pytest.approx(expected.overall_agreement)
    assert job.metrics["bound_spread"].value == pytest.approx(np.ptp(found.bounds))
    for key in KEYS:
        assert "3 starts; the one with the highest bound is shown." in job.metrics[key].protocol


def test_a_run_with_one_start_says_nothing_of_it(store: Store, toy: Dataset) -> None:
    run = ran(store, toy, "bayesian_gplvm", **{**SETTINGS, "n_restarts": 1})
    assert not store.job_folder(run).files.agreement.exists()
    assert not KEYS & set(store.get(run).metrics)
    assert "starts" not in store.job_folder(run).files.events.read_text()
    other = ran(store, toy, "ppca")
    assert not KEYS & set(store.get(other).metrics)


def test_a_long_table_says_how_many_rows_are_compared(
    store: Store, toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = store.load_model(ran(store, toy, "ldgd", start="random", **SETTINGS))
    monkeypatch.setattr(metrics_stability, "MAX_COMPARED", 30)
    found = start_agreement(model, toy)
    assert found is not None
    assert found.rows is not None
    assert found.rows["neighbour_agreement"].notna().sum() == 30
    assert found.rows["disagreement"].notna().all()
    assert "30 of 60 rows, evenly spaced." in found.metrics["neighbours"].protocol
    assert found.metrics["neighbours"].dimensions == "dimensions 1 and 2"


def test_maps_that_cannot_be_compared_are_said_not_to_be(store: Store, toy: Dataset) -> None:
    model = store.load_model(ran(store, toy, "bayesian_gplvm", **SETTINGS))
    means = np.zeros((2, len(toy), 2))
    starts = RestartResult(np.arange(1, 3), np.array([1.0, 2.0]), np.arange(2), means, 1)
    model.restarts_ = starts  # type: ignore[attr-defined]
    found = start_agreement(model, toy)
    assert found is not None
    assert found.rows is None
    assert found.metrics["disagreement"].value is None
    assert "all lie in one place" in found.metrics["disagreement"].protocol
    assert found.metrics["bound_spread"].value == 1.0


@pytest.mark.slow(quick=["13"])
@pytest.mark.parametrize("stop", [13, 20, 33, 60])
def test_a_stopped_run_goes_on_in_the_start_that_it_was_in(
    store: Store, submit: Submit, toy: Dataset, stop: int
) -> None:
    whole, parted = (submit(toy, "bayesian_gplvm", **SETTINGS) for _ in range(2))

    def work(name: str, last: int = -1) -> None:
        folder, seen = store.job_folder(name), list[object]()
        with folder.lock():
            run_job(
                folder,
                lambda: toy,
                lambda: "cancelled" if len(seen) == last else None,
                on_step=seen.append,
            )

    work(whole)
    work(parted, stop)
    job = store.get(parted)
    assert (job.status, job.checkpoint_step) == ("cancelled", stop)
    assert ("disagreement" in job.metrics) == (stop >= 40)  # two starts have come to their end
    store.resume(parted)
    assert not store.job_folder(parted).files.agreement.exists()
    work(parted)
    one, two = store.get(whole), store.get(parted)
    assert two.elbo == pytest.approx(one.elbo, abs=1e-8, rel=0)
    assert two.metrics == one.metrics
    iterations = [event.step.iteration for event in store.events(parted)]
    assert iterations == sorted(set(iterations))
    assert iterations[-1] == 60
    assert {event.step.start for event in store.events(parted)} == {1, 2, 3}
    np.testing.assert_array_equal(
        store.load_model(parted).embedding_.mean, store.load_model(whole).embedding_.mean
    )


def test_steps_of_several_starts_are_written_and_told() -> None:
    several = step(7, start=2, starts=3)
    assert step_from_json(step_to_json(several)).start == 2
    assert step_from_json(step_to_json(several)).starts == 3
    assert describe_step(several).startswith("start 2/3 · step 7/")
    assert "start" not in step_to_json(step(7))
    assert describe_step(step(7)).startswith("step 7/")


def test_the_last_step_of_each_start_is_written(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    for i in range(1, 61):
        log.add(step(i, start=1 + (i - 1) // 20, starts=3))
    log.close()
    events, _, _ = read_events(tmp_path / "events.jsonl")
    iterations = [event.step.iteration for event in events]
    assert {1, 20, 21, 40, 41, 60} <= set(iterations)
    assert iterations == sorted(iterations)
