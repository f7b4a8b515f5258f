"""A fit with more steps that goes on from a shorter one ends as if it had had them at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.models import MODELS
from lvmcore.persistence import branch_path, checkpoint_progress
from lvmcore.results import FitStep
from lvmcore.training import checkpoint
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.training.test_checkpoint import KEYS, X, Y, model, same, stop_after

SHORT, LONG = 100, 160
#: Of 100 steps the last 40 cool, and what came before is the same however many there are.
CRUISED = 60
#: Of a model with a quasi-Newton finish the first 40 are the same.
BEFORE_THE_FINISH = {"bayesian_gplvm": 40}


def kept(folder: Path, name: str = "checkpoint.safetensors") -> Checkpoint:
    return Checkpoint(folder / name, branches=folder)


def fitted(folder: Path, key: str, data: Any = X, **settings: Any) -> LatentVariableModel:
    """A fit whose checkpoint is its own, as that of every run is, beside branches for all."""
    own = kept(folder, f"{settings['max_iter']}.safetensors")
    return model(key, **settings)._fit_from(data, Y, checkpoint=own)


@pytest.mark.slow(quick=["supervised_vae", "vae"])
@pytest.mark.parametrize("key", [*KEYS, "vae"])
def test_a_longer_fit_that_goes_on_equals_one_from_the_beginning(key: str, tmp_path: Path) -> None:
    short = fitted(tmp_path, key, max_iter=SHORT)
    assert not short.converged_
    place = checkpoint_progress(branch_path(tmp_path, 1))
    assert place is not None
    assert place[0] == BEFORE_THE_FINISH.get(key, CRUISED)
    steps: list[FitStep] = []
    again = kept(tmp_path, "longer.safetensors")
    long = model(key, max_iter=LONG)._fit_from(X, Y, callback=steps.append, checkpoint=again)
    whole = model(key, max_iter=LONG).fit(X, Y)
    same(whole, long)
    assert again.notes == []
    assert again.saved == place[1] > 0
    assert {step.total for step in long.history_} == {LONG}
    assert [step.iteration for step in steps] == [step.iteration for step in whole.history_]
    assert whole.elbo_ != short.elbo_


@pytest.mark.slow(quick=["supervised_vae"])
@pytest.mark.parametrize("key", KEYS)
def test_it_goes_on_again_and_again(key: str, tmp_path: Path) -> None:
    for steps in (40, 41, 90):
        last = fitted(tmp_path, key, max_iter=steps)
    same(model(key, max_iter=90).fit(X, Y), last)


@pytest.mark.slow
def test_the_place_does_not_depend_on_when_the_shorter_fit_was_interrupted(tmp_path: Path) -> None:
    """In the cooling a checkpoint is no place to branch off; the one before the cooling is."""
    stopped = model("ldgd", max_iter=SHORT)
    own = kept(tmp_path, f"{SHORT}.safetensors")
    stopped._fit_from(X, Y, callback=stop_after(80), checkpoint=own)
    fitted(tmp_path, "ldgd", max_iter=SHORT)
    same(model("ldgd", max_iter=LONG).fit(X, Y), fitted(tmp_path, "ldgd", max_iter=LONG))


@pytest.mark.slow
def test_a_longer_fit_that_is_interrupted_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    fitted(tmp_path, "ldgd", max_iter=SHORT)
    for stop in (CRUISED + 1, LONG - 10):
        stopped = model("ldgd", max_iter=LONG)
        stopped._fit_from(X, Y, callback=stop_after(stop), checkpoint=kept(tmp_path))
    again = kept(tmp_path)
    long = model("ldgd", max_iter=LONG)._fit_from(X, Y, checkpoint=again)
    same(model("ldgd", max_iter=LONG).fit(X, Y), long)
    assert again.saved == 0


@pytest.mark.slow
@pytest.mark.parametrize("key", ["bayesian_gplvm", "ldgd"])
def test_every_start_goes_on_from_its_own_state(key: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_restarts": 3}
    fitted(tmp_path, key, max_iter=40, **settings)
    assert [branch_path(tmp_path, start).is_file() for start in (1, 2, 3, 4)] == [True] * 3 + [
        False
    ]
    steps: list[FitStep] = []
    long = model(key, max_iter=70, **settings)
    long._fit_from(X, Y, callback=steps.append, checkpoint=kept(tmp_path))
    whole = model(key, max_iter=70, **settings).fit(X, Y)
    same(whole, long)
    for one, two in ((whole.restarts_, long.restarts_),):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(two.means, one.means)
        np.testing.assert_allclose(two.bounds, one.bounds, rtol=0, atol=1e-8)
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert {step.start for step in steps} == {1, 2, 3}


@pytest.mark.slow
def test_a_fit_without_a_seed_keeps_the_one_that_it_drew(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"random_state": None, "n_restarts": 2}
    short = fitted(tmp_path, "ldgd", max_iter=40, **settings)
    long = fitted(tmp_path, "ldgd", max_iter=60, **settings)
    seeds = short.restarts_.seeds.tolist()  # type: ignore[attr-defined]
    assert long.restarts_.seeds.tolist() == seeds  # type: ignore[attr-defined]
    whole = model("ldgd", max_iter=60, n_restarts=2, random_state=seeds[0]).fit(X, Y)
    same(whole, long)


@pytest.mark.slow
def test_a_table_with_gaps_goes_on_too(tmp_path: Path) -> None:
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    holed[:5] = X[:5]
    fitted(tmp_path, "ldgd", holed, max_iter=40)
    long = fitted(tmp_path, "ldgd", holed, max_iter=60)
    whole = model("ldgd", max_iter=60).fit(holed, Y)
    same(whole, long)
    np.testing.assert_array_equal(long.impute(holed).variance, whole.impute(holed).variance)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["settings", "data", "torn", "later"])
def test_a_state_that_does_not_fit_is_not_used_and_said(change: str, tmp_path: Path) -> None:
    fitted(tmp_path, "ldgd", max_iter=SHORT)
    path, data, settings = branch_path(tmp_path, 1), X.copy(), {"max_iter": LONG}
    if change == "settings":
        settings["n_inducing"] = 7
    elif change == "data":
        data[3, 1] += 1e-9
    elif change == "torn":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        settings["max_iter"] = SHORT - 10
    again = fitted(tmp_path, "ldgd", data, **settings)
    same(model("ldgd", **settings).fit(data, Y), again)
    (note,) = again.notes_
    assert "started from the beginning, and ends the same" in note


def test_a_state_that_is_too_large_or_cannot_be_written_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LARGEST_BRANCH", 1000)
    fit = fitted(tmp_path, "bayesian_gplvm", max_iter=20)
    assert not branch_path(tmp_path, 1).exists()
    assert fit.notes_ == ()
    monkeypatch.undo()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lvmcore.training.checkpoint.write", full)
    assert len(fitted(tmp_path, "bayesian_gplvm", max_iter=20).history_) == 20
    assert not branch_path(tmp_path, 1).exists()


def test_without_a_folder_none_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    model("ldgd", max_iter=20)._fit_from(X, Y, checkpoint=Checkpoint(path))
    assert not branch_path(tmp_path, 1).exists()
    MODELS["ppca"](n_components=2)._fit_from(X, checkpoint=kept(tmp_path))
    assert not branch_path(tmp_path, 1).exists()
