"""Starts that end in any order and in other processes: the fit of one process, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore import GPLVM, LDGD, QEPLVM, SRFLVM, BayesianGPLVM
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.distributed.independent_calls import chosen_caller
from lvmcore.gp.starts import start_fits
from lvmcore.persistence import CHECKPOINT_FORMAT, read_metadata
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.distributed.shuffled_caller import ShuffledCaller
from tests.unit.lvmcore.gp.starts.test_restarts import model, same_starts
from tests.unit.lvmcore.training.test_checkpoint import X, Y, same, stop_after

STEPS, STARTS = 30, 4
KINDS = [BayesianGPLVM, LDGD, QEPLVM, GPLVM]


def short(kind: type[LatentVariableModel] = BayesianGPLVM, **settings: Any) -> Any:
    return model(kind, n_restarts=STARTS, max_iter=STEPS, **settings)


@pytest.mark.slow(quick=["BayesianGPLVM-pca", "LDGD-pca"])
@pytest.mark.parametrize("start", ["pca", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_with_shared_starts_is_that_of_one_process(
    kind: type[LatentVariableModel], start: str
) -> None:
    alone = short(kind, start=start).fit(X, Y)
    caller = ShuffledCaller(during=2)
    with chosen_caller(caller):
        shared = short(kind, start=start).fit(X, Y)
    assert caller.order == [3, 2, 1]
    same(alone, shared)
    for part in ("starts", "bounds", "seeds", "means", "kept"):
        np.testing.assert_array_equal(
            getattr(shared.restarts_, part), getattr(alone.restarts_, part), err_msg=part
        )
    assert shared.notes_ == alone.notes_


@pytest.mark.slow
def test_random_features_have_shared_starts_too() -> None:
    def fit() -> Any:
        settings: dict[str, Any] = {"n_features": 12, "n_restarts": 3, "max_iter": 20}
        return SRFLVM(n_components=2, random_state=1, **settings).fit(X)

    alone = fit()
    with chosen_caller(ShuffledCaller()):
        shared = fit()
    np.testing.assert_array_equal(shared.embedding_.mean, alone.embedding_.mean)
    np.testing.assert_array_equal(shared.restarts_.bounds, alone.restarts_.bounds)
    assert shared.elbo_ == alone.elbo_


def told_by(fit: Callable[[Callable[[FitStep], Any]], object]) -> list[FitStep]:
    steps: list[FitStep] = []
    fit(steps.append)
    return steps


def test_the_steps_are_told_in_the_order_of_the_starts() -> None:
    alone = told_by(lambda callback: short().fit(X, callback=callback))
    with chosen_caller(ShuffledCaller(during=1)):
        shared = told_by(lambda callback: short().fit(X, callback=callback))
    for one, two in zip(alone, shared, strict=True):
        assert (one.iteration, one.start, one.total) == (two.iteration, two.start, two.total)
        assert (one.objective, one.terms, one.ends) == (two.objective, two.terms, two.ends)
    assert all(one.seconds <= two.seconds for one, two in pairwise(shared))
    assert [step.start for step in shared if step.ends and step.snapshot] == [1, 2, 3, 4]


def test_a_fit_goes_on_after_the_starts_that_ended_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path = short().fit(X), tmp_path / "checkpoint.safetensors"
    with chosen_caller(ShuffledCaller(during=2)):  # starts 4 and 3 end in the first one
        short()._fit_from(X, callback=stop_after(10), checkpoint=Checkpoint(path))
    steps, fitted = list[FitStep](), list[int]()
    usual = start_fits.fit_start

    def counted(*arguments: Any, **options: Any) -> Any:
        fitted.append(arguments[3][0])
        return usual(*arguments, **options)

    monkeypatch.setattr("lvmcore.gp.starts.restarts.fit_start", counted)
    again = short()._fit_from(X, callback=steps.append, checkpoint=Checkpoint(path))
    assert fitted == [0, 1]
    same_starts(whole, again)
    assert steps[0].iteration == 11
    assert steps[-1].iteration == STARTS * STEPS
    assert all(one.iteration < two.iteration for one, two in pairwise(steps))


def test_a_fit_goes_on_between_two_starts(tmp_path: Path) -> None:
    whole, path = short(start="random").fit(X), tmp_path / "checkpoint.safetensors"
    with chosen_caller(ShuffledCaller(most=2)):  # asked to stop when starts 1 and 4 have ended
        stopped = short(start="random")._fit_from(X, checkpoint=Checkpoint(path))
    assert stopped.restarts_.starts.tolist() == [1, 4]
    assert stopped.elbo_ == stopped.restarts_.bounds.max()
    assert read_metadata(path, format=CHECKPOINT_FORMAT)["between"]
    again = short(start="random")._fit_from(X, checkpoint=Checkpoint(path))
    same_starts(whole, again)


def test_a_stop_is_told_to_the_callback() -> None:
    steps: list[FitStep] = []

    def ask(step: FitStep) -> bool:
        steps.append(step)
        return False

    with chosen_caller(ShuffledCaller(most=2)):
        short().fit(X, callback=ask)
    # The first start live, then the last one, which ended before the stop.
    assert [step.start for step in steps] == [1] * STEPS + [4] * STEPS


def test_states_before_the_cooling_come_back(tmp_path: Path) -> None:
    folders = [tmp_path / "alone", tmp_path / "shared"]
    for folder in folders:
        folder.mkdir()
    settings: dict[str, Any] = {"start": "random", "max_iter": 60, "learning_rate": 0.01}

    def fit(folder: Path, **more: Any) -> Any:
        checkpoint = Checkpoint(folder / "checkpoint.safetensors", branches=folder)
        return model(n_restarts=3, **settings | more)._fit_from(X, checkpoint=checkpoint)

    fit(folders[0])
    with chosen_caller(ShuffledCaller()):
        fit(folders[1])
    names = [sorted(path.name for path in folder.glob("branch-*")) for folder in folders]
    assert names[0] == names[1] == [f"branch-{n}.safetensors" for n in (1, 2, 3)]
    # Longer fits go on from them, wherever they are made.
    whole = model(n_restarts=3, **settings | {"max_iter": 90}).fit(X)
    for folder in folders:
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        with chosen_caller(ShuffledCaller()):
            same_starts(whole, fit(folder, max_iter=90))
