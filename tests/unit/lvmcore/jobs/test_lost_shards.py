"""A run that loses a process with some of its rows goes on from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from lvmcore.cli import local_run
from lvmcore.data import Dataset
from lvmcore.distributed.choice import SHARDS, chosen_shards
from lvmcore.distributed.shards import ShardLostError
from lvmcore.errors import ConfigError
from lvmcore.jobs import worker
from lvmcore.jobs.executors.executor import NODE_LOST
from lvmcore.jobs.executors.requirements import requirements
from lvmcore.jobs.run_job import run_job
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.models import MODELS, load
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_folder import JobFolder
from tests.unit.lvmcore.jobs.waiting import until

SETTINGS = {"n_components": 2, "n_inducing": 12, "device": "cpu"}
#: Fits of all rows in every step, and of mini-batches, that take some seconds.
LONG: dict[str, dict[str, Any]] = {
    "bayesian_gplvm": {"max_iter": 400, "start": "pca"},
    "stochastic_gplvm": {"max_iter": 1500, "batch_size": 32, "latent_posterior": "free"},
}


@pytest.fixture
def surface() -> Dataset:
    rng = np.random.default_rng(11)
    latent = rng.standard_normal((150, 2))
    X = np.sin(latent @ rng.standard_normal((2, 6))) + 0.1 * rng.standard_normal((150, 6))
    return Dataset.from_arrays(X, name="surface")


def submitted(
    store: Store, dataset: Dataset, model: str = "bayesian_gplvm", **settings: Any
) -> JobFolder:
    digest = store.datasets.put(dataset)
    settings = {**SETTINGS, **settings}
    return store.job_folder(store.submit(JobSpec(digest, "surface", model, settings)))


def shard_processes(pid: int) -> list[psutil.Process]:
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if "lvmcore.distributed.process_shard" in child.cmdline()]


@pytest.mark.parametrize("model", LONG)
def test_a_worker_that_loses_a_shard_leaves_the_run_in_the_queue_and_another_ends_it(
    store: Store, surface: Dataset, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    folder = submitted(store, surface, model, **LONG[model])
    name = folder.path.name
    with chosen_shards(2):
        first = WorkerProcess(1)
        first.assign(store.home, name)
        until(folder.files.checkpoint.is_file, "a checkpoint")
        one, _ = shard_processes(first.pid)
        one.kill()
        until(lambda: first.returncode is not None, "the end of the worker")
    assert first.returncode == NODE_LOST
    first.end()
    assert folder.state().status == "queued"
    assert folder.state().attempt == 2
    done = store.events(name)[-1].step.iteration

    # Another process goes on, with all rows in it.
    monkeypatch.delenv(SHARDS, raising=False)
    steps: list[int] = []
    state = run_job(
        folder,
        lambda: surface,
        lambda: None,
        on_step=lambda step: steps.append(step.iteration),
        store=store,
    )
    assert state.status == "done", state.message
    assert steps[0] == done + 1 > 1
    numbers = [event.step.iteration for event in store.events(name)]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


def test_a_run_that_loses_shards_again_and_again_is_interrupted(
    store: Store, surface: Dataset
) -> None:
    folder = submitted(store, surface)
    for attempt in range(1, worker._MOST_ATTEMPTS):
        assert folder.state().attempt == attempt
        assert worker._after_loss(folder, "A shard was lost.") == NODE_LOST
        assert folder.state().status == "queued"
    assert worker._after_loss(folder, "A shard was lost.") == 0
    assert folder.state().status == "interrupted"
    assert folder.state().message == "A shard was lost."


def test_the_command_line_goes_on_after_a_loss(
    store: Store, surface: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = submitted(store, surface, max_iter=5), []

    def loses(*arguments: Any, **named: Any) -> Any:
        calls.append(folder.state().status)
        if len(calls) < 3:
            raise ShardLostError("A shard was lost.")
        return run_job(*arguments, **named)

    monkeypatch.setattr(local_run, "run_job", loses)
    state = local_run.run_here(folder, surface, lambda: None, lambda step: None)
    assert state.status == "done"
    assert calls == ["queued"] * 3
    calls[:] = []
    monkeypatch.setattr(local_run, "MOST_LOSSES", 2)
    other = submitted(store, surface, max_iter=6)
    with pytest.raises(ShardLostError):
        local_run.run_here(other, surface, lambda: None, lambda step: None)
    assert other.state().status == "interrupted"


def test_models_without_shards_are_refused_by_the_command_line() -> None:
    local_run.check_model_shards(0, MODELS["vae"]())
    local_run.check_model_shards(2, MODELS["ldgd"]())
    with pytest.raises(
        ConfigError, match=r"vae.*bayesian_gplvm, fast_ldgd, ldgd, qep_lvm, stochastic_gplvm, svgp_"
    ):
        local_run.check_model_shards(2, MODELS["vae"]())
    with pytest.raises(ConfigError, match="expected 1 to"):
        local_run.check_model_shards(-2, MODELS["ldgd"]())


def test_a_run_in_shards_asks_for_a_core_and_one_for_each_of_them(
    store: Store, surface: Dataset
) -> None:
    job = submitted(store, surface).job("a")
    with chosen_shards(6):
        needs = requirements(job)
    assert (needs.threads, needs.shards) == (1, 6)
    assert requirements(job).shards == 0


def test_what_a_run_was_computed_on_names_its_shards(tmp_path: Path, surface: Dataset) -> None:
    with chosen_shards(2):
        model = MODELS["bayesian_gplvm"](**SETTINGS, max_iter=2).fit(surface.X)
    assert model.computation_ is not None
    assert model.computation_.text.endswith("rows in 2 shards")
    model.save(tmp_path / "model.safetensors")
    stored = load(tmp_path / "model.safetensors")
    assert stored.computation_ == model.computation_
