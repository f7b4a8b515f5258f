"""A fit that runs out of memory is repeated in smaller blocks, once."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lvmcore import BayesianGPLVM
from lvmcore.data import Dataset
from lvmcore.jobs.fitting import describe_error, is_out_of_memory
from lvmcore.jobs.run_job import run_job
from lvmcore.numerics.block_sizes import block_cells
from lvmcore.results import FitStep
from lvmcore.runs.job import JobSpec
from lvmcore.runs.job_folder import JobFolder, JobState

STEPS = 8
ON_GPU = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free."


def run(toy: Dataset, folder: Path) -> tuple[JobState, JobFolder]:
    settings = {"n_components": 2, "n_inducing": 5, "max_iter": STEPS, "start": "pca"}
    spec = JobSpec(toy.digest, "toy", "bayesian_gplvm", settings)
    with JobFolder.create(folder, spec, queued=False) as made:
        return run_job(made, lambda: toy, lambda: None), made


def run_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, *, step: int = 3, always: bool = False
) -> list[int]:
    """Let a fit with usual blocks, or any one, raise an error at a step; the blocks of the fits."""
    blocks: list[int] = []
    whole = BayesianGPLVM._fit_from

    def fit(self: BayesianGPLVM, X: Any, y: Any = None, **options: Any) -> Any:
        blocks.append(block_cells(100))
        given = options.pop("callback")

        def callback(reached: FitStep) -> bool:
            stops = given(reached)
            if reached.iteration == step and (always or block_cells(100) == 100):
                raise error
            return bool(stops)

        return whole(self, X, y, callback=callback, **options)

    monkeypatch.setattr(BayesianGPLVM, "_fit_from", fit)
    return blocks


@pytest.mark.parametrize("error", [torch.OutOfMemoryError(ON_GPU), MemoryError()])
def test_a_fit_is_repeated_in_smaller_blocks(
    error: BaseException, toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = run(toy, tmp_path / "usual")
    blocks = run_out_of_memory(monkeypatch, error)
    state, folder = run(toy, tmp_path / "repeated")
    assert blocks == [100, 25]
    assert state.status == "done"
    assert any("smaller" in note or "quarter" in note for note in state.notes)
    assert state.elbo == pytest.approx(expected.elbo, rel=1e-10)
    lines = folder.files.events.read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line)["iteration"] for line in lines]
    assert steps == sorted(set(steps))  # none of the first attempt is counted again
    assert steps[-1] == STEPS


def test_a_fit_that_does_not_fit_in_smaller_blocks_fails_with_a_sentence(
    toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = run_out_of_memory(monkeypatch, torch.OutOfMemoryError(ON_GPU), always=True)
    state, _ = run(toy, tmp_path / "run")
    assert blocks == [100, 25]
    assert (state.status, state.error) == ("failed", "MemoryError")
    assert state.message is not None
    assert state.message.startswith("The memory of the GPU was not enough for this fit, in smaller")


def test_other_errors_are_no_want_of_memory(
    toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = run_out_of_memory(monkeypatch, RuntimeError("shapes differ"), always=True)
    state, _ = run(toy, tmp_path / "run")
    assert blocks == [100]
    assert (state.status, state.error) == ("failed", "Unexpected")


def test_errors_for_want_of_memory() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("no"))
    assert "machine with more memory" in describe_error(MemoryError())[0]
    assert "Choose the device cpu" in describe_error(torch.OutOfMemoryError(ON_GPU))[0]


def test_the_device_of_a_run_is_in_its_state(toy: Dataset, tmp_path: Path) -> None:
    state, folder = run(toy, tmp_path / "run")
    assert state.computation is not None
    assert state.computation.device == "cpu"
    assert folder.state().computation == state.computation
    assert folder.job("x").computation == state.computation
    assert folder.metrics()["elbo"].protocol.endswith(f"Computed on {state.computation.text}.")


def test_the_state_of_an_earlier_version_has_no_device() -> None:
    stored = JobState("done", "finished", submitted=_now()).to_json()
    del stored["computation"]
    assert JobState.from_json(stored).computation is None


def _now() -> Any:
    from lvmcore.runs.job import now

    return now()
