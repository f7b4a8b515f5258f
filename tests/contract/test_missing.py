"""Every model that takes missing cells: fitted to them, placed by the others, filled."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import UnsupportedError, load
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.models import MODELS
from tests.contract.small import N_COLUMNS, N_COMPONENTS, N_ROWS, fit, fitted, for_models, table_for

for_fillers = for_models(lambda model: model.capabilities.missing_cells)


def holed(key: str, share: float = 0.2, seed: int = 1) -> tuple[pd.DataFrame, list[str]]:
    """The model's table with cells missing at random; the first two rows are complete."""
    frame, labels = table_for(key)
    gaps = np.random.default_rng(seed).random(frame.shape) < share
    gaps[:2] = False
    return frame.mask(gaps), labels


@cache
def fit_holed(key: str) -> LatentVariableModel:
    """The model fitted to ``holed(key)``; shared, so leave it as it is."""
    return fit(key, *holed(key))


def test_there_are_models_that_take_missing_cells() -> None:
    takers = {key for key, model in MODELS.items() if model.capabilities.missing_cells}
    assert {"bayesian_gplvm", "ldgd", "ppca"} <= takers


@for_models(lambda model: not model.capabilities.missing_cells)
def test_others_say_that_they_fill_nothing(key: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot fill missing cells"):
        fitted(key).impute(table_for(key)[0])


@pytest.mark.slow(quick=["fast_ldgd", "ppca", "qep_lvm"])
@for_fillers
def test_a_table_with_gaps_is_fitted(key: str) -> None:
    frame, labels = holed(key)
    model = fit_holed(key)
    assert model.embedding_.mean.shape == (N_ROWS, N_COMPONENTS)
    assert np.isfinite(model.embedding_.mean).all()
    assert ((model.embedding_.variance > 0) == model.capabilities.uncertainty).all()
    assert np.isfinite(model.elbo_)
    assert model.elbo_ >= model.history_[0].objective
    assert np.isfinite(model.score(frame, labels))
    assert np.isfinite(model.transform(frame)).all()


@pytest.mark.slow(quick=["fast_ldgd", "srflvm"])
@for_fillers
def test_observed_cells_are_left_alone_and_missing_ones_filled(key: str) -> None:
    frame, _ = holed(key)
    truth, gaps = table_for(key)[0].to_numpy(), frame.isna().to_numpy()
    filled = fit_holed(key).impute(frame)
    np.testing.assert_array_equal(filled.mean[~gaps], frame.to_numpy()[~gaps])
    for part in (filled.variance, filled.noise_variance):
        assert part.shape == (N_ROWS, N_COLUMNS)
        assert (part[~gaps] == 0).all()
        assert (part[gaps] > 0).all()
    assert (filled.variance >= filled.noise_variance * (1 - 1e-9)).all()
    sd = truth.std(axis=0)
    ours = ((filled.mean - truth) / sd)[gaps]
    means = ((np.nanmean(frame, axis=0) - truth) / sd)[gaps]
    assert np.square(ours).mean() < 0.6 * np.square(means).mean()


@pytest.mark.slow(quick=["deep_qep_lvm", "fast_ldgd", "ppca"])
@for_fillers
def test_a_row_is_filled_alike_alone_in_company_and_in_any_order(key: str) -> None:
    frame, _ = holed(key)
    model, order = fit_holed(key), np.random.default_rng(3).permutation(N_ROWS)
    together, scale = model.impute(frame), frame.std().to_numpy()
    permuted = model.impute(frame.iloc[order])
    np.testing.assert_allclose(permuted.mean / scale, together.mean[order] / scale, atol=1e-5)
    np.testing.assert_allclose(
        permuted.variance / scale**2, together.variance[order] / scale**2, atol=1e-5
    )
    for n in (3, 11, 20):
        alone = model.impute(frame.iloc[n : n + 1])
        np.testing.assert_allclose(alone.mean[0] / scale, together.mean[n] / scale, atol=1e-5)


@for_fillers
def test_gaps_are_filled_by_a_model_that_was_fitted_without_any(key: str) -> None:
    frame, _ = holed(key)
    gaps = frame.isna().to_numpy()
    filled = fitted(key).impute(frame)
    assert np.isfinite(filled.mean).all()
    assert (filled.variance[gaps] > 0).all()
    complete = fitted(key).impute(table_for(key)[0])
    np.testing.assert_array_equal(complete.mean, table_for(key)[0])
    assert (complete.variance == 0).all()


@pytest.mark.slow(quick=["fast_ldgd", "ldgd"])
@for_fillers
def test_a_row_without_any_cell_has_the_prior(key: str) -> None:
    frame, labels = holed(key)
    model = fit_holed(key)
    frame.iloc[4] = np.nan
    place = model.posterior(frame)
    if MODELS[key].capabilities.cells == "any":
        np.testing.assert_allclose(place.mean[4], 0, atol=1e-12)
        # A point estimate has no variance, whatever it is placed by.
        np.testing.assert_allclose(place.variance[4], model.capabilities.uncertainty, atol=1e-12)
    else:  # weights that are positive: the same of every factor
        assert np.ptp(place.mean[4]) < 1e-9 * place.mean[4, 0]
    filled = model.impute(frame)
    # Nothing is known of it, so its cells are spread like the columns themselves.
    assert (filled.variance[4] > 0.3 * frame.var().to_numpy()).all()
    if MODELS[key].capabilities.labels == "none":
        assert model.score(frame.iloc[[4]]) == 0
    refitted = fit(key, frame, labels)
    assert np.isfinite(refitted.elbo_)
    assert any(note.startswith("1 row has no cell to go by") for note in refitted.notes_)


@for_fillers
def test_rows_without_any_cell_are_filled_alone_too(key: str) -> None:
    empty = holed(key)[0].iloc[:2].copy()
    empty.loc[:] = np.nan
    filled = fit_holed(key).impute(empty)
    assert np.isfinite(filled.mean).all()
    assert (filled.variance > 0).all()


@pytest.mark.slow(quick=["bayesian_gplvm", "ldgd"])
@for_fillers
def test_few_cells_are_said_to_be_few(key: str) -> None:
    frame, labels = table_for(key)
    wide = pd.concat([frame.add_prefix(f"{i} ") for i in range(8)], axis="columns")
    gaps = np.random.default_rng(0).random(wide.shape) < 0.95
    gaps[[0, 1]] = False
    model = fit(key, wide.mask(gaps), labels)
    assert np.isfinite(model.embedding_.mean).all()
    assert np.isfinite(model.impute(wide.mask(gaps)).mean).all()
    assert any("of the cells are missing" in note for note in model.notes_)


@pytest.mark.slow(quick=["ldgd", "qep_lvm"])
@for_fillers
def test_gaps_in_a_constant_column_are_filled_with_its_value(key: str) -> None:
    frame, labels = holed(key)
    frame["always"] = 7.0
    frame.loc[6, "always"] = np.nan
    filled = fit(key, frame, labels).impute(frame)
    assert filled.mean[6, -1] == 7.0
    assert filled.variance[6, -1] == 0


@pytest.mark.slow(quick=["bayesian_gplvm", "ppca", "srflvm"])
@for_models(
    lambda model: (
        model.capabilities.missing_cells
        and model.capabilities.labels == "none"
        and model.capabilities.cells == "any"
    )
)
def test_score_of_rows_with_gaps_is_in_the_units_of_the_data(key: str) -> None:
    frame, _ = holed(key)
    scaled = frame * np.array([1, 1, 10, 1, 1])
    model = fit(key, scaled)
    # A column in other units, ten times the numbers: log 10 nats less for each of its cells.
    less = frame["column c"].notna().mean() * np.log(10)
    assert model.score(scaled) == pytest.approx(fit_holed(key).score(frame) - less, abs=1e-4)


@pytest.mark.slow(quick=["fast_ldgd", "ppca", "qep_lvm"])
@for_fillers
def test_what_is_saved_fills_alike(key: str, tmp_path: Path) -> None:
    frame, labels = holed(key)
    model = fit_holed(key)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    for part in ("mean", "variance", "noise_variance"):
        np.testing.assert_array_equal(
            getattr(again.impute(frame), part), getattr(model.impute(frame), part)
        )
    assert again.score(frame, labels) == model.score(frame, labels)
    np.testing.assert_array_equal(
        again.decode(model.embedding_.mean).variance, model.decode(model.embedding_.mean).variance
    )


@pytest.mark.slow(quick=["ppca", "srflvm"])
@for_fillers
def test_single_precision_fills_alike(key: str) -> None:
    frame, labels = holed(key)
    short = {"max_iter": 10} if "max_iter" in {p.name for p in MODELS[key].parameters()} else {}
    single = fit(key, frame, labels, dtype="float32", **short).impute(frame)
    double = fit(key, frame, labels, **short).impute(frame)
    sd = frame.std(ddof=0).to_numpy()
    assert (np.abs(single.mean - double.mean) < 0.1 * sd).all()
    assert (np.abs(np.sqrt(single.variance) - np.sqrt(double.variance)) < 0.1 * sd).all()


@for_models(lambda model: model.capabilities.missing_cells and model.capabilities.missing_labels)
def test_a_missing_label_beside_missing_cells_is_taken(key: str) -> None:
    frame, labels = holed(key)
    some = [None if n % 7 == 0 else label for n, label in enumerate(labels)]
    model = fit(key, frame, some)
    assert np.mean(model.predict(frame) == labels) > 0.9
