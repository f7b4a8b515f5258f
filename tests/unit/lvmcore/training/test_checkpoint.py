"""A fit that was stopped and goes on from its checkpoint ends as if it had never stopped."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.errors import NumericalError
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray
from lvmcore.persistence import checkpoint_progress
from lvmcore.results import FitStep
from lvmcore.training import loop
from lvmcore.training.adam import Adam
from lvmcore.training.checkpoint import Checkpoint, restore_tensors, tensor_arrays

KEYS = ["bayesian_gplvm", "ldgd", "fast_ldgd", "srflvm", "supervised_vae"]
STEPS = 100
#: In the warm-up, while the noise is held, just before and after a recovery, in the cooling, and at
#: the very last step.
STOPS = [1, 20, 40, 41, 70, STEPS]
RECOVERY_AT = 40

rng = np.random.default_rng(5)
CODES = np.arange(45) % 3
X = 2 * np.eye(3, 4)[CODES] + 0.7 * rng.standard_normal((45, 4))
Y = np.array(["a", "b", "c"])[CODES]


def model(key: str, **settings: Any) -> LatentVariableModel:
    usual = {"n_components": 2, "n_inducing": 8, "max_iter": STEPS, "random_state": 3}
    usual |= {"batch_size": 16, "n_hidden": 8}  # 45 rows: the steps see some at a time
    known = {p.name for p in MODELS[key].parameters()}
    return MODELS[key](**{name: usual[name] for name in usual if name in known} | settings)


@pytest.fixture
def recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fit recover from a collapse once, and from a broken step once."""
    usual = loop._Optimisation._has_collapsed
    step = loop._Optimisation._step

    def collapsed(run: loop._Optimisation, bound: float, iteration: int) -> bool:
        return usual(run, bound, iteration) or iteration == RECOVERY_AT

    def broken(run: loop._Optimisation, iteration: int) -> dict[str, float]:
        if iteration == RECOVERY_AT + 15:
            raise NumericalError("A broken step.")
        return step(run, iteration)

    monkeypatch.setattr(loop._Optimisation, "_has_collapsed", collapsed)
    monkeypatch.setattr(loop._Optimisation, "_step", broken)


def stop_after(last: int) -> Callable[[FitStep], bool]:
    return lambda step: step.iteration >= last


def untimed(history: tuple[FitStep, ...]) -> list[FitStep]:
    """The steps without their seconds; a missing score is one object, so that it equals itself."""
    return [
        dataclasses.replace(
            step, seconds=0.0, held_out=math.nan if math.isnan(step.held_out) else step.held_out
        )
        for step in history
    ]


def same(one: LatentVariableModel, two: LatentVariableModel, X: FloatArray = X) -> None:
    assert two.elbo_ == pytest.approx(one.elbo_, abs=1e-8, rel=0)
    assert untimed(two.history_) == untimed(one.history_)
    assert [list(step.terms) for step in two.history_] == [
        list(step.terms) for step in one.history_
    ]
    assert two.converged_ == one.converged_
    np.testing.assert_array_equal(two.embedding_.mean, one.embedding_.mean)
    np.testing.assert_array_equal(two.embedding_.variance, one.embedding_.variance)
    np.testing.assert_array_equal(two.transform(X[:5]), one.transform(X[:5]))


@pytest.mark.slow(quick=["supervised_vae"])
@pytest.mark.usefixtures("recovery")
@pytest.mark.parametrize("key", KEYS)
def test_a_fit_stopped_anywhere_ends_as_if_it_had_not_been(key: str, tmp_path: Path) -> None:
    whole = model(key).fit(X, Y)
    assert len(whole.history_) == STEPS - 1
    for stop in STOPS:
        path = tmp_path / f"{stop}.safetensors"
        first = model(key)._fit_from(X, Y, callback=stop_after(stop), checkpoint=Checkpoint(path))
        assert checkpoint_progress(path) == (stop, pytest.approx(first.history_[-1].seconds, abs=1))
        seconds = first.history_[-1].seconds
        second = model(key)._fit_from(X, Y, checkpoint=Checkpoint(path))
        same(whole, second)
        assert all(step.seconds >= seconds for step in second.history_[len(first.history_) :])


@pytest.mark.slow(quick=["srflvm", "supervised_vae"])
@pytest.mark.parametrize("key", KEYS)
def test_many_interruptions_change_nothing(key: str, tmp_path: Path) -> None:
    whole = model(key, max_iter=60).fit(X, Y)
    path = tmp_path / "checkpoint.safetensors"
    for stop in (7, 14, 33, 47):
        part = model(key, max_iter=60)
        part._fit_from(X, Y, callback=stop_after(stop), checkpoint=Checkpoint(path))
        assert part.history_[-1].iteration == stop
    same(whole, model(key, max_iter=60)._fit_from(X, Y, checkpoint=Checkpoint(path)))


@pytest.mark.slow(quick=["bayesian_gplvm", "fast_ldgd"])
@pytest.mark.parametrize("key", [key for key in KEYS if MODELS[key].capabilities.missing_cells])
def test_a_fit_to_a_table_with_gaps_goes_on_too(key: str, tmp_path: Path) -> None:
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    holed[:5] = X[:5]
    whole = model(key, max_iter=40).fit(holed, Y)
    path = tmp_path / "checkpoint.safetensors"
    for stop in (9, 26):
        model(key, max_iter=40)._fit_from(
            holed, Y, callback=stop_after(stop), checkpoint=Checkpoint(path)
        )
    again = model(key, max_iter=40)._fit_from(holed, Y, checkpoint=Checkpoint(path))
    same(whole, again)
    np.testing.assert_array_equal(again.impute(holed).variance, whole.impute(holed).variance)


# The bound of one draw a step is never flat at so high a rate.
@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in KEYS if key != "srflvm"])
def test_an_early_end_is_the_same_after_a_stop_in_the_cooling(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The trend of so few rows' bound is known too poorly for the usual limit.
    monkeypatch.setattr("lvmcore.training.schedule.OPTIMUM_GAIN", 0.1)
    settings = {"max_iter": 800, "learning_rate": 0.3}
    whole = model(key, **settings).fit(X, Y)
    cooling = len(whole.history_) - 20
    assert whole.converged_
    assert len(whole.history_) < 800
    path = tmp_path / "checkpoint.safetensors"
    model(key, **settings)._fit_from(
        X, Y, callback=stop_after(cooling), checkpoint=Checkpoint(path)
    )
    same(whole, model(key, **settings)._fit_from(X, Y, checkpoint=Checkpoint(path)))


def test_a_fit_by_some_columns_at_a_time_goes_on_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lvmcore.random_features.count_terms.MOST_PRODUCTS", 0)
    monkeypatch.setattr("lvmcore.random_features.count_terms.FEWEST_COLUMNS", 3)
    counts = rng.poisson(np.exp(0.2 + X.repeat(2, axis=1))).astype(float)
    settings = {"likelihood": "negative_binomial", "n_features": 10}
    whole = model("srflvm", **settings).fit(counts)
    assert model("srflvm", **settings).fit(counts).elbo_ == whole.elbo_
    path = tmp_path / "checkpoint.safetensors"
    for stop in (1, 42, 71):
        model("srflvm", **settings)._fit_from(
            counts, None, callback=stop_after(stop), checkpoint=Checkpoint(path)
        )
    last = model("srflvm", **settings)._fit_from(counts, None, checkpoint=Checkpoint(path))
    same(whole, last, counts)


def test_a_fit_without_a_seed_goes_on_with_its_own_draws(tmp_path: Path) -> None:
    path, kept = tmp_path / "checkpoint.safetensors", tmp_path / "kept.safetensors"

    def stop(step: FitStep) -> bool:
        if step.iteration == 21:
            kept.write_bytes(path.read_bytes())
        return step.iteration == 40

    first = model("ldgd", random_state=None, max_iter=60)
    first._fit_from(X, Y, callback=stop, checkpoint=Checkpoint(path, seconds=0.0))
    second = model("ldgd", random_state=None, max_iter=60)
    second._fit_from(X, Y, callback=stop_after(40), checkpoint=Checkpoint(kept))
    assert checkpoint_progress(kept) is not None
    assert untimed(second.history_) == untimed(first.history_)


@pytest.mark.slow
def test_single_precision_goes_on_too(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    settings: dict[str, Any] = {"dtype": "float32", "max_iter": 40}
    whole = model("ldgd", **settings).fit(X, Y)
    stopped = model("ldgd", **settings)
    stopped._fit_from(X, Y, callback=stop_after(17), checkpoint=Checkpoint(path))
    same(whole, model("ldgd", **settings)._fit_from(X, Y, checkpoint=Checkpoint(path)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("settings", "of other data, other settings"),
        ("data", "of other data, other settings"),
        ("labels", "of other data, other settings"),
        ("torn", "could not be read"),
        ("model", "could not be read"),
        ("empty", "could not be read"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_not_used_and_said(
    change: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    settings = {"max_iter": 20}
    stopped = model("ldgd", **settings)
    stopped._fit_from(X, Y, callback=stop_after(12), checkpoint=Checkpoint(path))
    data, labels = X.copy(), Y.copy()
    if change == "settings":
        settings["max_iter"] = 21
    elif change == "data":
        data[3, 1] += 1e-9
    elif change == "labels":
        labels[[0, 1]] = labels[[1, 0]]
    elif change == "torn":
        path.write_bytes(path.read_bytes()[:-100])
    elif change == "model":
        stopped.save(path)
    else:
        path.write_bytes(b"")
    fresh = model("ldgd", **settings).fit(data, labels)
    again = model("ldgd", **settings)._fit_from(data, labels, checkpoint=Checkpoint(path))
    same(fresh, again)
    (note,) = again.notes_
    assert said in note
    assert "started from the beginning" in note


def test_the_checkpoint_comes_every_so_often_and_never_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(0.0, 1e6, 0.25))
    monkeypatch.setattr("lvmcore.training.checkpoint.time.monotonic", lambda: float(next(clock)))
    path = tmp_path / "checkpoint.safetensors"
    places: list[int] = []

    def look(step: FitStep) -> None:
        place = checkpoint_progress(path)
        places.append(0 if place is None else place[0])

    fit = model("bayesian_gplvm", max_iter=60, start="pca")
    fit._fit_from(X, callback=look, checkpoint=Checkpoint(path, seconds=2.0))
    written = sorted(set(places))
    # Eight quarters of a second to the first. Each write costs one: twenty times that are waited.
    assert written[:2] == [0, 8]
    assert 6 <= written[2] - written[1] <= 8
    assert 18 <= written[3] - written[2] <= 20
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_that_cannot_be_written_stops_nothing_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "checkpoint.safetensors"
    monkeypatch.setattr("lvmcore.training.checkpoint.write", full)
    fit = model("bayesian_gplvm", max_iter=10)
    fit._fit_from(X, checkpoint=Checkpoint(path, seconds=0.0))
    (note,) = fit.notes_
    assert "No space left on device" in note
    assert len(fit.history_) == 10
    assert not path.exists()


def test_models_that_take_one_step_leave_none(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    MODELS["ppca"](n_components=2)._fit_from(X, checkpoint=Checkpoint(path, seconds=0.0))
    assert not path.exists()
    assert checkpoint_progress(path) is None


def test_the_public_fit_keeps_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model("ldgd", max_iter=3).fit(X, Y)
    assert list(tmp_path.iterdir()) == []
    assert torch.is_grad_enabled()


def test_moments_are_laid_out_as_their_parameter_is() -> None:
    """The optimiser takes a parameter and its moments number by number, whatever their strides."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(4, 3).T.clone()) for _ in range(2)]
    one, other = (Adam([p]) for p in parameters)
    assert not parameters[0].is_contiguous()
    with torch.no_grad():
        parameters[1].copy_(parameters[0])
    gradient = torch.randn(3, 4)
    parameters[0].grad = gradient.clone()
    one.step(0.001)
    arrays = tensor_arrays(parameters[:1], parameters[:1], one)
    restore_tensors(arrays, parameters[1:], [parameters[1].detach().clone()], other)
    for parameter, adam in zip(parameters, (one, other), strict=True):
        parameter.grad = (2 * gradient).clone()
        adam.step(0.001)
    assert torch.equal(parameters[0], parameters[1])
