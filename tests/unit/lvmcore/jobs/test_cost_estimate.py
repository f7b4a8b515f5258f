"""What a fit will cost: from real steps in a process of its own."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lvmcore.data import Dataset
from lvmcore.jobs.cost_estimate import CostEstimate, CostEstimator, _estimate_of
from lvmcore.jobs.cost_probe import probe
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import JobSpec, Store
from tests.unit.lvmcore.jobs.waiting import until

SETTINGS: dict[str, Any] = {"n_components": 2, "n_inducing": 10, "max_iter": 300}


def spec_of(dataset: Dataset, model: str = "bayesian_gplvm", **settings: Any) -> JobSpec:
    return JobSpec(dataset.digest, dataset.name, model, {**SETTINGS, **settings})


@pytest.fixture
def estimator(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[CostEstimator]:
    # a busy machine leaves little time to a process of low priority
    monkeypatch.setattr("lvmcore.jobs.cost_estimate._LONGEST_SECONDS", 600.0)
    made = CostEstimator(store)
    yield made
    made.close()
    assert not gauges()


def gauges() -> list[psutil.Process]:
    """The processes of this one that measure."""
    found = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if "lvmcore.jobs.cost_probe" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def answered(estimator: CostEstimator, spec: JobSpec) -> CostEstimate | None:
    until(lambda: estimator.known(spec)[0], "the estimate")
    return estimator.known(spec)[1]


def test_a_handful_of_steps_is_measured(toy: Dataset) -> None:
    found = probe(spec_of(toy), toy)
    assert found["step"] > 0
    assert found["rest"] >= 0
    assert 50e6 < found["memory"] < 20e9


def test_more_work_is_found_to_be_more(big: Dataset, toy: Dataset) -> None:
    small = probe(spec_of(toy), toy)
    large = probe(spec_of(big, n_inducing=60, n_components=5), big)
    assert large["step"] > small["step"]
    assert large["memory"] >= small["memory"]


@pytest.mark.slow
def test_an_estimate_is_made_and_remembered_with_the_store(
    store: Store, estimator: CostEstimator, toy: Dataset
) -> None:
    spec = spec_of(toy)
    assert estimator.known(spec) == (False, None)
    estimator.ask(spec, toy)
    estimator.ask(spec, toy)
    found = answered(estimator, spec)
    assert found is not None
    assert found.memory is not None
    assert found.seconds(200) == pytest.approx(found.rest + 200 * found.step)
    # Seed and number of steps change neither the time of a step nor the memory.
    assert estimator.known(spec_of(toy, max_iter=7, random_state=4)) == (True, found)
    assert estimator.known(spec_of(toy, n_inducing=11)) == (False, None)
    assert CostEstimator(Store(store.home)).known(spec) == (True, found)
    assert store.list() == []
    assert list((store.home / "datasets").iterdir()) == []


@pytest.mark.slow
def test_the_last_one_asked_for_is_the_one_that_is_made(
    estimator: CostEstimator, toy: Dataset
) -> None:
    specs = [spec_of(toy, n_inducing=count) for count in (5, 6, 7)]
    for spec in specs:
        estimator.ask(spec, toy)
    assert answered(estimator, specs[-1]) is not None
    assert [estimator.known(spec)[0] for spec in specs] == [False, False, True]


@pytest.mark.slow
def test_a_run_goes_first(
    store: Store,
    estimator: CostEstimator,
    toy: Dataset,
    long_fit: Callable[[], str],
    launch: Callable[..., Launcher],
) -> None:
    spec = spec_of(toy)
    estimator.ask(spec, toy)
    until(gauges, "the process that measures")
    name = long_fit()
    until(lambda: not gauges(), "its end, as a run waits")
    assert estimator.known(spec) == (False, None)
    launch()
    until(lambda: store.events(name), "the fit's first step")
    assert not gauges()
    store.cancel(name)
    estimator.ask(spec, toy)
    assert answered(estimator, spec) is not None


@pytest.mark.slow
def test_what_nobody_looks_for_any_more_is_given_up(
    estimator: CostEstimator, big: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(big, n_inducing=60, n_components=5)
    estimator.ask(spec, big)
    until(gauges, "the process that measures")
    monkeypatch.setattr("lvmcore.jobs.cost_estimate._REQUEST_TIMEOUT_SECONDS", 0.05)
    until(lambda: not gauges(), "its end")
    until(lambda: estimator._request is None, "its being forgotten")
    monkeypatch.setattr("lvmcore.jobs.cost_estimate._REQUEST_TIMEOUT_SECONDS", 60.0)
    estimator.ask(spec, big)
    assert answered(estimator, spec) is not None


@pytest.mark.slow
def test_what_cannot_be_fitted_has_no_estimate(estimator: CostEstimator, toy: Dataset) -> None:
    spec = spec_of(toy, n_components=99)
    estimator.ask(spec, toy)
    assert answered(estimator, spec) is None


@pytest.mark.slow
def test_more_memory_than_is_free_is_said_and_not_remembered_for_good(
    store: Store, estimator: CostEstimator, big: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lvmcore.jobs.cost_estimate.available_memory", lambda: 10**6)
    spec = spec_of(big, n_inducing=200)
    estimator.ask(spec, big)
    found = answered(estimator, spec)
    assert found is not None
    assert (found.memory, found.free) == (None, 10**6)
    assert CostEstimator(store).known(spec) == (False, None)


def test_a_damaged_memory_is_measured_again(
    store: Store, estimator: CostEstimator, toy: Dataset
) -> None:
    spec = spec_of(toy)
    folder = store.home / "estimates"
    folder.mkdir()
    key = estimator._key(spec)
    for content in ("", "{", json.dumps({"step": 1})):
        (folder / f"{key}.json").write_text(content)
        assert estimator.known(spec) == (False, None)


@pytest.mark.slow
def test_closing_ends_the_process_and_takes_no_more(store: Store, toy: Dataset) -> None:
    estimator = CostEstimator(store)
    estimator.ask(spec_of(toy), toy)
    until(gauges, "the process that measures")
    estimator.close()
    assert not gauges()
    estimator.ask(spec_of(toy, n_inducing=3), toy)
    assert estimator.known(spec_of(toy, n_inducing=3)) == (False, None)
    assert not list(Path(store.home).glob("estimates/*"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"step": 0.5, "rest": 1, "memory": 7}, CostEstimate(0.5, 1.0, 7, 9)),
        ({"error": "MemoryError"}, CostEstimate(0.0, 0.0, None, 9)),
        ({"error": "Unexpected"}, None),
    ],
)
def test_results_become_estimates(found: dict[str, Any], expected: CostEstimate | None) -> None:
    assert _estimate_of(found, 9) == expected
