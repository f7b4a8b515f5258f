"""Every model on tables that are small, odd or wrong: handled, or refused in words."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore import ConfigError, DataError
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.models import MODELS
from tests.contract.small import (
    N_COLUMNS,
    N_COMPONENTS,
    N_ROWS,
    few_steps,
    fit,
    fitted,
    fitted_to_array,
    for_models,
    make,
    most_components,
    sparse,
    table_for,
)

# Two neighbours a row; more rows than the three classes.
FEWEST_ROWS = {"umap": 3, "lda": 4}
# Dimensions that a model takes where none are given, if not ten.
_TWO = ("srflvm", "rflvm", "bayesian_gplvm", "stochastic_gplvm", "qep_lvm", "deep_qep_lvm")
MOST_CHOSEN = dict.fromkeys(_TWO, 2)
# Models that learn of a row the shares of its cells, not how large they are.
SHARES_ONLY = {"topics"}


def altered(key: str, row: int, column: int, value: float) -> pd.DataFrame:
    frame, _ = table_for(key)
    frame.iloc[row, column] = value
    return frame


@for_models()
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_cell_is_located(key: str, value: float) -> None:
    with pytest.raises(DataError, match=r"infinite.* row 4, column column c"):
        fit(key, altered(key, 3, 2, value), table_for(key)[1])


@pytest.mark.slow(quick=["fast_ldgd", "qep_lvm", "srflvm"])
@for_models()
def test_a_missing_cell_is_taken_or_located(key: str) -> None:
    frame, (_, labels) = altered(key, 3, 2, np.nan), table_for(key)
    if MODELS[key].capabilities.missing_cells:
        assert np.isfinite(fit(key, frame, labels).embedding_.mean).all()
        return
    with pytest.raises(DataError, match=r"missing.*: 1 of .* row 4, column column c"):
        fit(key, frame, labels)
    with pytest.raises(DataError, match=r"missing.* row 4, column 3"):
        fit(key, frame.to_numpy(), labels)


@for_models()
def test_dates_are_no_numbers(key: str) -> None:
    frame, labels = table_for(key)
    dates = np.zeros(frame.shape, dtype="datetime64[D]")
    with pytest.raises(DataError, match="X holds dates or times"):
        fit(key, dates, labels)


@for_models(lambda model: model.capabilities.cells != "any")
def test_a_cell_below_0_is_located(key: str) -> None:
    with pytest.raises(DataError, match=r"The value -2 in row 4, column column c, is below 0"):
        fit(key, altered(key, 3, 2, -2.0))
    with pytest.raises(DataError, match=r"row 4, column column c, is below 0"):
        fitted(key).transform(altered(key, 3, 2, -0.5))


@for_models(lambda model: model.capabilities.cells == "counts")
@pytest.mark.parametrize(
    ("value", "words"),
    [(0.5, "is no whole number"), (2e9, "is more than 1,000,000,000")],
    ids=["a fraction", "too many"],
)
def test_what_is_no_count_is_located(key: str, value: float, words: str) -> None:
    with pytest.raises(DataError, match=rf"row 4, column column c, {words}.* continuous columns"):
        fit(key, altered(key, 3, 2, value))


@for_models(lambda model: model.capabilities.cells != "any")
def test_a_row_of_nothing_and_a_very_large_count_are_taken(key: str) -> None:
    frame, _ = table_for(key)
    frame.iloc[4] = 0.0
    frame.iloc[7, 1] = 1e9
    model = fit(key, frame)
    latent = model.transform(frame)
    assert np.isfinite(latent).all()
    decoded = model.decode(latent)
    assert np.isfinite(decoded.mean).all()
    assert np.isfinite(decoded.variance).all()


@for_models()
def test_a_column_without_any_value_is_named(key: str) -> None:
    frame, labels = table_for(key)
    frame["column b"] = np.nan
    with pytest.raises(DataError, match="column b"):
        fit(key, frame, labels)


@pytest.mark.slow(quick=["bayesian_gplvm", "factor_analysis", "vae"])
@for_models(lambda model: model.capabilities.new_rows)
def test_new_rows_are_checked_like_the_old(key: str) -> None:
    model = fitted(key)
    with pytest.raises(DataError, match=r"infinite.* row 4, column column c"):
        model.transform(altered(key, 3, 2, np.inf))
    if not model.capabilities.missing_cells:
        with pytest.raises(DataError, match=r"missing.* row 4, column column c"):
            model.transform(altered(key, 3, 2, np.nan))


@pytest.mark.slow(quick=["1-factor_analysis", "1-topics", "4-factor_analysis"])
@for_models(lambda model: model.capabilities.new_rows)
@pytest.mark.parametrize("columns", [1, N_COLUMNS - 1, N_COLUMNS + 1])
def test_a_wrong_number_of_columns_is_said(key: str, columns: int) -> None:
    model = fitted_to_array(key)
    with pytest.raises(DataError, match=rf"{columns} features.*expecting {N_COLUMNS}"):
        model.transform(np.ones((3, columns)))


@for_models()
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(5), "2D array"),
        (np.ones((0, 3)), r"0 sample\(s\)"),
        (np.ones((1, 3)), r"1 sample"),
        (np.ones((5, 0)), r"0 feature\(s\)"),
        ([["a", "b"], ["c", "d"]], "could not convert string to float"),
        (np.ones((4, 3)), "Every column is constant"),
        (1e200 * np.arange(12.0).reshape(4, 3), "too large|are measurements rather than counts"),
    ],
    ids=["one dimension", "no row", "one row", "no column", "text", "constant", "huge"],
)
def test_what_is_no_table_of_numbers_is_refused(key: str, X: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit(key, X, [0, 1] * 2, n_components=1)


@for_models(lambda model: most_components(model) > 10)
def test_too_many_dimensions_are_refused_with_the_most_there_can_be(key: str) -> None:
    frame, labels = table_for(key)
    with pytest.raises(
        ConfigError, match=r"n_components=6 .* 30 rows and 5 columns. Choose at most 5"
    ):
        fit(key, frame, labels, n_components=6)
    with pytest.raises(ConfigError, match=r"n_components=4 .* 3 rows .* Choose at most 3"):
        fit(key, frame[:3], labels[:3], n_components=4)


@pytest.mark.slow(quick=["pca", "ppca", "supervised_vae"])
@for_models(lambda model: most_components(model) > 10 and model.key != "lda")
def test_dimensions_are_chosen_where_none_are_given(key: str) -> None:
    frame, labels = table_for(key)
    most = MOST_CHOSEN.get(key, 10)
    chosen = fit(key, frame, labels, n_components=None).embedding_.mean.shape[1]
    assert chosen == min(most, N_COLUMNS)
    few = fit(key, frame[:3], labels[:3], n_components=None)
    assert few.embedding_.mean.shape == (3, 2)
    wide = pd.DataFrame(np.random.default_rng(0).poisson(9.0, size=(N_ROWS, 12)))
    assert fit(key, wide, labels, n_components=None).embedding_.mean.shape == (N_ROWS, most)


@pytest.mark.slow(quick=["nbvae", "ppca", "supervised_vae"])
@for_models(lambda model: model.capabilities.decoding)
def test_constant_columns_are_set_aside_and_returned(key: str) -> None:
    frame, labels = table_for(key)
    plain = fitted(key)
    frame.insert(1, "always", 7.0)
    frame["never"] = 0.0
    model = fit(key, frame, labels)
    assert "2 constant columns set aside: always, never." in model.notes_
    assert not any("constant" in note for note in plain.notes_)
    predicted = model.decode(model.embedding_.mean)
    np.testing.assert_array_equal(predicted.mean[:, [1, 6]], np.tile([7.0, 0.0], (N_ROWS, 1)))
    assert predicted.variance[:, [1, 6]].max() == 0
    assert predicted.noise_variance[:, [1, 6]].max() == 0
    # They change nothing else.
    np.testing.assert_allclose(model.embedding_.mean, plain.embedding_.mean, atol=1e-8)


@pytest.mark.slow(quick=["isomap", "lda", "nmf"])
@for_models(lambda model: most_components(model) > 10)
def test_dimensions_beyond_the_columns_that_vary_are_dropped_with_a_note(key: str) -> None:
    frame, labels = table_for(key)
    frame.iloc[:, 1:] = 1.0
    model = fit(key, frame, labels, n_components=3)
    assert model.embedding_.mean.shape[1] == 1
    assert any("n_components reduced from 3 to 1" in note for note in model.notes_)


@pytest.mark.slow(quick=["bayesian_gplvm", "ldgd", "qep_lvm"])
@for_models(lambda model: "n_inducing" in {p.name for p in model.parameters()})
def test_no_more_inducing_inputs_than_rows(key: str) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame, labels, n_inducing=100, **sparse(key))
    assert any("n_inducing reduced from 100 to 30" in note for note in model.notes_)
    for Z in model.inducing_inputs_.values():
        assert Z.shape == (N_ROWS, N_COMPONENTS)
    assert np.isfinite(model.elbo_)


@pytest.mark.slow(quick=["2-factor_analysis", "2-tsne", "3-factor_analysis"])
@for_models()
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_a_handful_of_rows(key: str, rows: int) -> None:
    frame, labels = table_for(key)
    if rows < FEWEST_ROWS.get(key, 2):
        with pytest.raises(DataError, match=f"{rows} rows"):
            fit(key, frame[:rows], labels[:rows], n_components=1)
        return
    model = fit(key, frame[:rows], labels[:rows], n_components=1)
    assert model.embedding_.mean.shape == (rows, 1)
    assert np.isfinite(model.embedding_.mean).all()
    if model.capabilities.bound:
        assert np.isfinite(model.elbo_)


@pytest.mark.slow(quick=["isomap", "lda", "tsne"])
@for_models()
def test_one_column(key: str) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame[["column a"]], labels, n_components=1)
    assert np.isfinite(model.embedding_.mean).all()


@pytest.mark.slow(quick=["deep_qep_lvm", "ldgd", "rflvm"])
@for_models()
def test_rows_that_repeat(key: str) -> None:
    frame, labels = table_for(key)
    few = pd.concat([frame[:4]] * 5, ignore_index=True)
    model = fit(key, few, labels[:4] * 5)
    assert np.isfinite(model.embedding_.mean).all()
    if model.capabilities.new_rows:
        latent = model.transform(few)
        np.testing.assert_allclose(latent[:4], latent[4:8], atol=1e-6)


@pytest.mark.slow(quick=["nmf", "topics", "umap"])
@for_models()
def test_columns_that_repeat(key: str) -> None:
    """Rank one: every other latent dimension has nothing to explain."""
    frame, labels = table_for(key)
    column = frame["column a"]
    copies = pd.DataFrame({f"c{i}": (i + 1) * column + i for i in range(4)})
    model = fit(key, copies, labels)
    assert np.isfinite(model.embedding_.mean).all()
    if model.capabilities.decoding and key not in SHARES_ONLY:
        back = model.inverse_transform(model.embedding_.mean)
        assert np.corrcoef(back[:, 3], column)[0, 1] > 0.9


@cache
def _in_units(key: str, scale: float, offset: float) -> LatentVariableModel:
    """The model fitted to the table in other units."""
    frame, labels = table_for(key)
    # A chain does not settle: what rounding changes grows from sweep to sweep.
    few = {"max_iter": 6} if MODELS[key].capabilities.chains else {}
    return fit(key, frame.round(3) * scale + offset, labels, **few)


@pytest.mark.slow(
    quick=[
        "1.0-1000000000.0-factor_analysis",
        "1.0-1000000000.0-ppca",
        "1000000000.0-0.0-factor_analysis",
    ]
)
@for_models(lambda model: model.capabilities.decoding and model.capabilities.cells == "any")
@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e9, 0.0), (1.0, 1e9)])
def test_units_do_not_matter(key: str, scale: float, offset: float) -> None:
    plain, model = _in_units(key, 1.0, 0.0), _in_units(key, scale, offset)
    np.testing.assert_allclose(model.embedding_.mean, plain.embedding_.mean, atol=1e-3)
    expected = plain.decode(plain.embedding_.mean)
    got = model.decode(plain.embedding_.mean)
    sd = np.sqrt(expected.variance)
    assert (np.abs((got.mean - offset) / scale - expected.mean) < 0.01 * sd).all()
    np.testing.assert_allclose(got.variance / scale**2, expected.variance, rtol=0.01)


@pytest.mark.slow(quick=["nbvae", "umap", "vae"])
@for_models()
def test_what_can_be_read_as_numbers_is_taken(key: str) -> None:
    frame, labels = table_for(key)
    whole = frame.round(0).to_numpy()
    few = few_steps(key)
    expected = fit(key, whole, labels, **few).embedding_.mean
    for X in (whole.tolist(), whole.astype(np.int64), np.asfortranarray(whole)):
        np.testing.assert_allclose(fit(key, X, labels, **few).embedding_.mean, expected, atol=1e-6)


@pytest.mark.slow(quick=["factor_analysis", "isomap", "lda"])
@for_models()
def test_a_memory_map_is_the_table_in_it(key: str, tmp_path: Path) -> None:
    frame, labels = table_for(key)
    single = frame.to_numpy(dtype=np.float32)
    np.save(tmp_path / "single.npy", single)
    mapped = np.load(tmp_path / "single.npy", mmap_mode="r")
    expected, found = (fit(key, X, labels, **few_steps(key)) for X in (single, mapped))
    np.testing.assert_allclose(found.embedding_.mean, expected.embedding_.mean, atol=1e-6)
    assert found.n_features_in_ == N_COLUMNS
    if found.capabilities.new_rows:
        np.testing.assert_array_equal(found.transform(mapped), found.transform(single))
    if found.capabilities.bound:
        np.testing.assert_array_equal(found.score_samples(mapped), found.score_samples(single))


@pytest.mark.slow(quick=["nmf", "topics", "tsne"])
@for_models()
def test_a_second_fit_forgets_the_first(key: str) -> None:
    frame, labels = table_for(key)
    spoilt = frame.assign(constant=1.0)
    model = fit(key, spoilt, labels, **few_steps(key))
    assert model.notes_
    model.set_params(**make(key).get_params()).fit(frame, labels)
    assert model.notes_ == fitted(key).notes_
    assert model.n_features_in_ == N_COLUMNS
    np.testing.assert_array_equal(model.embedding_.mean, fitted(key).embedding_.mean)
