"""Fits from several starts: which is kept, what is told on the way, and how one goes on."""

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore import LDGD, BayesianGPLVM, load
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.errors import NumericalError
from lvmcore.persistence import checkpoint_progress
from lvmcore.results import FitStep
from lvmcore.training import loop
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.training.test_checkpoint import X, Y, same, stop_after

STEPS, STARTS = 30, 3
#: At the first and the last step of a start, and in the middle of each.
STOPS = [1, 30, 31, 45, 61, 90]


def model(kind: type[LatentVariableModel] = BayesianGPLVM, **settings: Any) -> Any:
    usual = {"n_components": 2, "n_inducing": 8, "start": "pca", "max_iter": STEPS}
    return kind(**usual | {"n_restarts": STARTS, "random_state": 3} | settings)


def same_starts(one: Any, two: Any) -> None:
    same(one, two)
    for part in ("starts", "bounds", "seeds", "means"):
        np.testing.assert_array_equal(
            getattr(two.restarts_, part), getattr(one.restarts_, part), err_msg=part
        )
    assert two.restarts_.kept == one.restarts_.kept
    assert two.notes_ == one.notes_
    for path, alpha in one.relevance_.items():
        np.testing.assert_array_equal(two.relevance_[path], alpha)
        np.testing.assert_array_equal(two.inducing_inputs_[path], one.inducing_inputs_[path])


@pytest.mark.slow(quick=["BayesianGPLVM-pca", "BayesianGPLVM-random", "LDGD-pca"])
@pytest.mark.parametrize("start", ["pca", "random"])
@pytest.mark.parametrize("kind", [BayesianGPLVM, LDGD])
def test_the_highest_bound_is_kept(kind: type[LatentVariableModel], start: str) -> None:
    fit = model(kind, start=start).fit(X, Y)
    found = fit.restarts_
    assert found.starts.tolist() == [1, 2, 3]
    assert fit.elbo_ == found.bounds.max() == found.bounds[found.kept]
    np.testing.assert_array_equal(fit.embedding_.mean, found.means[found.kept])
    assert len(fit.history_) == STEPS
    assert [step.iteration for step in fit.history_] == list(range(1, STEPS + 1))
    assert len(set(found.seeds.tolist())) == STARTS
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(found.means[i], found.means[j])


@pytest.mark.slow(quick=["BayesianGPLVM"])
@pytest.mark.parametrize("kind", [BayesianGPLVM, LDGD])
def test_the_first_start_is_the_fit_with_one(kind: type[LatentVariableModel]) -> None:
    alone = model(kind, n_restarts=1).fit(X, Y)
    found = model(kind).fit(X, Y).restarts_
    assert alone.restarts_ is None
    assert found.bounds[0] == alone.elbo_
    assert found.seeds[0] == 3
    np.testing.assert_array_equal(found.means[0], alone.embedding_.mean)
    # More starts add to the ones there were.
    np.testing.assert_array_equal(
        model(kind, n_restarts=2).fit(X, Y).restarts_.means, found.means[:2]
    )


def test_an_earlier_start_that_is_kept_decodes_as_it_did() -> None:
    fit = model(start="random", random_state=1).fit(X)
    kept = fit.restarts_.starts[fit.restarts_.kept]
    assert kept < STARTS  # else this tests nothing
    alone = model(start="random", random_state=1)
    alone.fit(X, callback=stop_after(kept * STEPS + 1))  # in the start after it
    np.testing.assert_array_equal(alone.embedding_.mean, fit.embedding_.mean)
    np.testing.assert_array_equal(alone.decode([[0.1, 0.2]]).mean, fit.decode([[0.1, 0.2]]).mean)
    np.testing.assert_array_equal(alone.transform(X[:5]), fit.transform(X[:5]))
    # Its decoder goes with its map, and not with that of the last start.
    residual = [np.square(fit.decode(means).mean - X).mean() for means in fit.restarts_.means]
    assert np.argmin(residual) == fit.restarts_.kept


def test_steps_are_counted_over_all_starts() -> None:
    steps: list[FitStep] = []
    fit = model().fit(X, callback=steps.append)
    assert [step.iteration for step in steps] == list(range(1, STARTS * STEPS + 1))
    assert [step.start for step in steps] == [1] * STEPS + [2] * STEPS + [3] * STEPS
    assert {(step.total, step.starts) for step in steps} == {(STARTS * STEPS, STARTS)}
    assert all(one.seconds <= two.seconds for one, two in pairwise(steps))
    assert {step.total for step in fit.history_} == {STEPS}
    shown = {step.start for step in steps if step.snapshot is not None}
    assert shown == {1, 2, 3}


def test_a_stop_keeps_the_best_start_that_came_to_its_end() -> None:
    stopped = model().fit(X, callback=stop_after(STEPS * 2 + 5))
    two = model(n_restarts=2).fit(X)
    assert stopped.elbo_ == two.elbo_
    np.testing.assert_array_equal(stopped.restarts_.means, two.restarts_.means)
    assert any("Stopped in start 3 of 3, which is left out" in note for note in stopped.notes_)
    first = model().fit(X, callback=stop_after(5))
    assert first.restarts_ is None
    assert len(first.history_) == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BayesianGPLVM, LDGD])
def test_a_fit_stopped_anywhere_ends_as_if_it_had_not_been(
    kind: type[LatentVariableModel], tmp_path: Path
) -> None:
    whole = model(kind).fit(X, Y)
    for stop in STOPS:
        path = tmp_path / f"{stop}.safetensors"
        steps: list[FitStep] = []
        model(kind)._fit_from(X, Y, callback=stop_after(stop), checkpoint=Checkpoint(path))
        place = checkpoint_progress(path)
        assert place is not None
        assert place[0] == stop
        second = model(kind)._fit_from(X, Y, callback=steps.append, checkpoint=Checkpoint(path))
        same_starts(whole, second)
        rest = list(range(stop + 1, STARTS * STEPS + 1))
        assert [step.iteration for step in steps] == rest
        assert all(step.seconds >= place[1] for step in steps)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["isomap", "random"])
def test_many_interruptions_change_nothing(start: str, tmp_path: Path) -> None:
    whole = model(start=start).fit(X)
    path = tmp_path / "checkpoint.safetensors"
    for stop in range(7, STARTS * STEPS, 11):
        model(start=start)._fit_from(X, callback=stop_after(stop), checkpoint=Checkpoint(path))
    same_starts(whole, model(start=start)._fit_from(X, checkpoint=Checkpoint(path)))


def test_seconds_go_on_from_those_of_a_checkpoint(tmp_path: Path) -> None:
    path, steps = tmp_path / "checkpoint.safetensors", list[FitStep]()

    def slow_at_the_end_of_the_first_start(step: FitStep) -> bool:
        if step.iteration == STEPS:
            time.sleep(0.5)
        return step.iteration >= STEPS

    model()._fit_from(X, callback=slow_at_the_end_of_the_first_start, checkpoint=Checkpoint(path))
    place = checkpoint_progress(path)
    assert place is not None
    assert place[0] == STEPS
    model()._fit_from(X, callback=steps.append, checkpoint=Checkpoint(path))
    assert steps[0].seconds >= place[1]


def test_a_fit_without_a_seed_goes_on_with_its_own_starts(tmp_path: Path) -> None:
    path, kept = tmp_path / "checkpoint.safetensors", tmp_path / "kept.safetensors"

    def keep(step: FitStep) -> None:
        if step.iteration == STEPS + 5:
            kept.write_bytes(path.read_bytes())

    settings: dict[str, Any] = {"random_state": None, "start": "isomap"}
    first = model(**settings)._fit_from(X, callback=keep, checkpoint=Checkpoint(path, seconds=0.0))
    second = model(**settings)._fit_from(X, checkpoint=Checkpoint(kept))
    same_starts(first, second)


def broken(starts: set[int]) -> Callable[..., dict[str, float]]:
    """Steps that fail for good in some starts, counted from 1."""
    usual = loop._Optimisation._step
    runs: list[object] = []

    def step(run: loop._Optimisation, iteration: int) -> dict[str, float]:
        if run not in runs:
            runs.append(run)
        if len(runs) in starts and iteration > 3:
            raise NumericalError("A broken step.")
        return usual(run, iteration)

    return step


def test_a_start_that_breaks_down_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model().fit(X)
    monkeypatch.setattr(loop._Optimisation, "_step", broken({2}))
    steps: list[FitStep] = []
    fit = model().fit(X, callback=steps.append)
    assert fit.restarts_.starts.tolist() == [1, 3]
    np.testing.assert_array_equal(fit.restarts_.bounds, whole.restarts_.bounds[[0, 2]])
    np.testing.assert_array_equal(fit.restarts_.seeds, whole.restarts_.seeds[[0, 2]])
    assert "Start 2 of 3 broke down and is left out." in fit.notes_
    assert all(one.iteration < two.iteration for one, two in pairwise(steps))


def test_where_every_start_breaks_down_so_does_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop._Optimisation, "_step", broken({1, 2, 3}))
    with pytest.raises(NumericalError, match="A broken step"):
        model().fit(X)


@pytest.mark.slow(quick=["BayesianGPLVM"])
@pytest.mark.parametrize("kind", [BayesianGPLVM, LDGD])
def test_the_starts_are_saved_with_the_model(
    kind: type[LatentVariableModel], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    fit = model(kind).fit(X, Y)
    fit.save(path)
    kept = load(path).restarts_  # type: ignore[attr-defined]
    for part in ("starts", "bounds", "seeds", "means", "kept"):
        np.testing.assert_array_equal(getattr(kept, part), getattr(fit.restarts_, part))
    again = load(path).set_params(n_restarts=1).fit(X, Y)
    assert again.restarts_ is None
    again.save(path)
    assert load(path).restarts_ is None


def test_notes_are_said_once() -> None:
    fit = model(n_inducing=50, start="spectral").fit(X)
    assert len(fit.notes_) == len(set(fit.notes_))
    assert any("n_inducing reduced" in note for note in fit.notes_)


def test_single_precision_has_starts_too() -> None:
    fit = model(dtype="float32").fit(X)
    assert fit.elbo_ == fit.restarts_.bounds.max()
    assert np.isfinite(fit.transform(X)).all()
