"""Every model written to a file and read back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from lvmcore import DataError, load
from lvmcore.base.latent_variable_model import LatentVariableModel
from tests.contract.small import N_ROWS, few_steps, fit, fitted, for_models, make, table_for


def saved(model: LatentVariableModel, folder: Path) -> LatentVariableModel:
    path = folder / "model.safetensors"
    model.save(path)
    return load(path)


@for_models()
def test_round_trip(key: str, tmp_path: Path) -> None:
    frame, _ = table_for(key)
    model = fitted(key)
    again = saved(model, tmp_path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_equal(
        [asdict(s) for s in again.history_], [asdict(s) for s in model.history_]
    )
    assert again.notes_ == model.notes_
    assert again.converged_ == model.converged_
    assert (again.n_iter_, again.n_features_in_) == (model.n_iter_, model.n_features_in_)
    assert again.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(again.elbo_, model.elbo_)
    np.testing.assert_array_equal(again.embedding_.mean, model.embedding_.mean)
    np.testing.assert_array_equal(again.embedding_.variance, model.embedding_.variance)
    for ours, theirs in (
        (again.relevance_, model.relevance_),
        (again.inducing_inputs_, model.inducing_inputs_),
    ):
        assert set(ours) == set(theirs)
        for path, values in ours.items():
            np.testing.assert_array_equal(values, theirs[path])


@pytest.mark.slow(quick=["isomap", "nmf", "tsne"])
@for_models()
def test_a_loaded_model_does_all_that_the_fitted_one_does(key: str, tmp_path: Path) -> None:
    frame, labels = table_for(key, seed=1)
    model, can = fitted(key), fitted(key).capabilities
    again = saved(model, tmp_path)
    if can.new_rows:
        before, after = model.posterior(frame), again.posterior(frame)
        np.testing.assert_array_equal(after.mean, before.mean)
        np.testing.assert_array_equal(after.variance, before.variance)
    if can.decoding:
        for part in ("mean", "variance", "noise_variance"):
            points = model.embedding_.mean
            np.testing.assert_array_equal(
                getattr(again.decode(points), part), getattr(model.decode(points), part)
            )
    if can.sampling:
        np.testing.assert_array_equal(
            again.sample(5, random_state=0), model.sample(5, random_state=0)
        )
    if can.labels != "none":
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    if can.labels != "none" and can.sampling:
        drawn = [m.sample(5, label="class 1", random_state=0) for m in (again, model)]
        np.testing.assert_array_equal(*drawn)
    if can.bound:
        assert again.score(frame, labels) == model.score(frame, labels)


@pytest.mark.slow(quick=["nbvae", "rflvm", "umap"])
@for_models()
def test_a_loaded_model_can_be_fitted_and_saved_again(key: str, tmp_path: Path) -> None:
    frame, labels = table_for(key)
    again = saved(saved(fitted(key), tmp_path), tmp_path)
    again.fit(frame, labels)
    np.testing.assert_array_equal(again.embedding_.mean, fitted(key).embedding_.mean)


@pytest.mark.slow(quick=["factor_analysis", "pca", "topics"])
@for_models()
def test_without_column_names_and_with_notes(key: str, tmp_path: Path) -> None:
    frame, labels = table_for(key)
    X = np.column_stack([frame, np.ones(N_ROWS)])
    model = fit(key, X, labels, **few_steps(key))
    again = saved(model, tmp_path)
    assert not hasattr(again, "feature_names_in_")
    assert again.notes_ == model.notes_ != ()
    if model.capabilities.decoding:
        assert (again.decode(model.embedding_.mean).mean[:, -1] == 1).all()


@pytest.mark.slow(quick=["isomap", "nmf", "tsne"])
@for_models()
def test_settings_given_as_numpy_numbers(key: str, tmp_path: Path) -> None:
    """As a grid over ``np.arange`` gives them."""
    frame, labels = table_for(key)
    settings: dict[str, Any] = {"n_components": np.int64(2), "random_state": np.int32(3)}
    settings |= few_steps(key)
    names = {p.name for p in make(key).parameters()}
    if "learning_rate" in names:
        settings["learning_rate"] = np.float64(0.05)
    again = saved(fit(key, frame, labels, **settings), tmp_path)
    assert again.get_params() == make(key, **settings).get_params()


@pytest.mark.slow(quick=["factor_analysis", "pca", "topics"])
@for_models()
def test_single_precision(key: str, tmp_path: Path) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame, labels, dtype="float32", **few_steps(key))
    again = saved(model, tmp_path)
    if model.capabilities.new_rows:
        np.testing.assert_array_equal(again.transform(frame), model.transform(frame))


@for_models()
def test_not_fitted_is_not_saved(key: str, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        make(key).save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@for_models()
def test_a_torn_file_is_refused(key: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted(key).save(path)
    whole = path.read_bytes()
    for keep in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(DataError, match="cannot be read as a model file"):
            load(path)
