"""Rows that a fit leaves out, and the figures that they give."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from lvmcore import load
from lvmcore.data import Dataset, Table, matching_dataset
from lvmcore.data.column_likelihoods import likelihood_text
from lvmcore.errors import DataError
from lvmcore.evaluation import held_out_rows
from lvmcore.evaluation.cell_density import number_log_density
from lvmcore.evaluation.hidden_cells import hide_cells
from lvmcore.jobs import run_job
from lvmcore.jobs.fitting import training_rows
from lvmcore.models import MODELS
from lvmcore.runs import JobSpec
from lvmcore.runs.job_folder import JobFolder


@pytest.fixture
def table(rng: np.random.Generator) -> Table:
    """Eighty rows in two groups: amounts with heavy tails in the first column."""
    hidden = rng.standard_normal((80, 2)) + np.repeat([[0.0, 0.0], [3.0, -3.0]], 40, axis=0)
    values = hidden @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((80, 5))
    frame = pd.DataFrame(values, columns=["a", "b", "c", "d", "e"])
    frame["a"] = np.expm1(frame["a"].abs())
    frame["kind"] = np.repeat(["x", "y"], 40)
    return Table.from_frame(frame, name="amounts")


def _ran(dataset: Dataset, path: Path, model: str, **parameters: object) -> JobFolder:
    spec = JobSpec(dataset.digest, dataset.name, model, parameters)
    with JobFolder.create(path, spec, queued=False) as folder:
        state = run_job.run_job(folder, lambda: dataset, lambda: None)
    assert state.status == "done", state.message
    return folder


def _fitted(dataset: Dataset, key: str, **parameters: object) -> tuple[Any, Dataset, Dataset]:
    kept, _ = training_rows(dataset, MODELS[key])
    model = MODELS[key](**parameters)
    model.fit(_named(kept), kept.labels)
    return model, kept, dataset.subset(dataset.held_out)


def _named(dataset: Dataset) -> pd.DataFrame:
    return pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))


def test_a_run_is_fitted_to_the_others_and_says_so(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    folder = _ran(dataset, tmp_path / "run", "ppca", n_components=2)
    assert "20 rows held out, to measure the fit with." in folder.state().notes
    frame = pd.read_parquet(folder.files.embedding)
    assert frame["row_id"].tolist() == dataset.row_ids[~dataset.held_out].tolist()
    metrics = folder.metrics()
    assert {"held_out_nlpd", "held_out_rmse"} <= set(metrics)
    assert "held_out_accuracy" not in metrics
    for key in ("held_out_nlpd", "held_out_rmse"):
        assert "20 of the 20 rows held out of the fit" in metrics[key].protocol


def test_without_rows_held_out_there_are_no_such_figures(table: Table, tmp_path: Path) -> None:
    folder = _ran(table.dataset(label="kind"), tmp_path / "run", "ppca", n_components=2)
    assert not [key for key in folder.metrics() if key.startswith("held_out")]


def test_the_density_is_that_of_the_gaussian_in_the_datas_own_units(table: Table) -> None:
    dataset = table.dataset(label="kind", log1p=["a"], hold_out=0.25)
    model, kept, held = _fitted(dataset, "ppca", n_components=2)
    found = held_out_rows.held_out_metrics(model, kept, held)["held_out_nlpd"]
    # Straight from the definition: x = expm1(z), z Gaussian with the model's own covariance.
    sd = kept.X.std(axis=0)
    standard = (kept.X - kept.X.mean(axis=0)) / sd
    values, vectors = np.linalg.eigh(np.cov(standard.T, bias=True))
    noise = values[:-2].mean()
    loadings = vectors[:, -2:] * np.sqrt(values[-2:] - noise)
    covariance = np.outer(sd, sd) * (loadings @ loadings.T + noise * np.eye(len(sd)))
    away = held.X - kept.X.mean(axis=0)
    square = np.einsum("nd,de,ne->n", away, np.linalg.inv(covariance), away)
    log_z = -0.5 * (square + np.linalg.slogdet(covariance)[1] + len(sd) * math.log(2 * math.pi))
    amounts = table.frame["a"].to_numpy()[held.rows]
    expected = -np.mean(log_z - np.log1p(amounts))
    assert found.value == pytest.approx(expected, rel=1e-9)


def test_learning_as_log1p_can_be_compared_with_not_doing_so(table: Table) -> None:
    """Both densities are of the same cells in the same units, so the better model wins."""
    values = {}
    for log1p in ((), ("a",)):
        dataset = table.dataset(label="kind", log1p=log1p, hold_out=0.25)
        found = held_out_rows.held_out_metrics(*_fitted(dataset, "ppca", n_components=2))
        values[log1p] = found["held_out_nlpd"].value
    assert values["a",] < values[()]


def test_the_reconstruction_error_is_that_of_decoding_the_place_of_a_row(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    model, kept, held = _fitted(dataset, "ppca", n_components=2)
    found = held_out_rows.held_out_metrics(model, kept, held)["held_out_rmse"]
    again = model.decode(model.posterior(_named(held)).mean).mean
    cells = [
        ((held.X[n, d] - again[n, d]) / kept.X[:, d].std()) ** 2
        for n in range(len(held))
        for d in range(5)
    ]
    assert found.value == pytest.approx(math.sqrt(sum(cells) / len(cells)), rel=1e-9)
    assert 0 < found.value < 1


@pytest.mark.slow
def test_the_accuracy_is_the_share_of_labels_that_the_model_predicts(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    labels = dataset.labels.copy()
    labels[np.flatnonzero(dataset.held_out)[0]] = None
    dataset = replace(dataset, labels=labels)
    model, kept, held = _fitted(
        dataset, "ldgd", n_components=2, n_inducing=10, max_iter=60, random_state=0
    )
    found = held_out_rows.held_out_metrics(model, kept, held)
    right = [
        bool(model.predict(_named(held).iloc[n : n + 1])[0] == label)
        for n, label in enumerate(held.labels)
        if label is not None
    ]
    assert found["held_out_accuracy"].value == pytest.approx(np.mean(right))
    assert found["held_out_accuracy"].value > 0.8
    assert "19 of these have a label" in found["held_out_accuracy"].protocol
    assert found["held_out_nlpd"].value is not None


def test_a_run_stores_the_positions_that_its_model_infers(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    folder = _ran(dataset, tmp_path / "run", "ppca", n_components=2)
    model, held = load(folder.files.model), dataset.subset(dataset.held_out)
    frame, posterior = pd.read_parquet(folder.files.held_out), model.posterior(_named(held))
    assert frame.columns.tolist() == ["row_id", "z1", "z2", "z1_sd", "z2_sd"]
    assert frame["row_id"].tolist() == held.row_ids.tolist()
    np.testing.assert_allclose(frame[["z1", "z2"]], posterior.mean, rtol=1e-8)
    np.testing.assert_allclose(frame[["z1_sd", "z2_sd"]] ** 2, posterior.variance, rtol=1e-8)


def test_a_run_that_can_place_none_stores_no_positions(table: Table, tmp_path: Path) -> None:
    assert not _ran(table.dataset(), tmp_path / "all", "ppca").files.held_out.exists()
    dataset = table.dataset(hold_out=0.25)
    assert not _ran(dataset, tmp_path / "isomap", "isomap").files.held_out.exists()


def test_positions_are_of_a_sample_of_many_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out_rows, "MOST_ROWS", 7)
    model, kept, held = _fitted(table.dataset(hold_out=0.25), "ppca", n_components=2)
    found = held_out_rows.held_out_positions(model, kept, held)
    assert found is not None
    assert len(found) == 7
    assert set(found["row_id"]) < set(held.row_ids.tolist())


def test_rows_with_missing_cells_are_left_out_with_a_word(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    X = dataset.X.copy()
    X[np.flatnonzero(dataset.held_out)[:3], 1] = np.nan
    model, kept, held = _fitted(replace(dataset, X=X), "factor_analysis", n_components=2)
    found = held_out_rows.held_out_metrics(model, kept, held)["held_out_rmse"]
    assert "17 of the 20 rows held out of the fit; 3 with missing cells left out" in found.protocol
    assert found.value is not None
    X[dataset.held_out, 2] = np.nan
    model, kept, held = _fitted(replace(dataset, X=X), "factor_analysis", n_components=2)
    for metric in held_out_rows.held_out_metrics(model, kept, held).values():
        assert metric.value is None
        assert "Each of the 20 rows held out has a missing cell" in metric.protocol


def test_rows_with_missing_cells_count_where_the_model_takes_them(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    X = dataset.X.copy()
    held_rows = np.flatnonzero(dataset.held_out)
    X[held_rows[:3], 1], X[held_rows[3]] = np.nan, np.nan
    model, kept, held = _fitted(replace(dataset, X=X), "ppca", n_components=2)
    found = held_out_rows.held_out_metrics(model, kept, held)
    assert (
        "19 of the 20 rows held out of the fit; 1 without any cell left out; 3 of them lack cells"
    ) in found["held_out_rmse"].protocol
    some = ~np.isnan(held.X).all(axis=1)
    frame = _named(held)[some]
    assert found["held_out_nlpd"].value == pytest.approx(-model.score_samples(frame).mean())
    again = model.inverse_transform(model.transform(frame))
    error = ((held.X[some] - again) / kept.X.std(axis=0))[~np.isnan(held.X[some])]
    assert found["held_out_rmse"].value == pytest.approx(np.sqrt(np.square(error).mean()))
    X[held_rows] = np.nan
    model, kept, held = _fitted(replace(dataset, X=X), "ppca", n_components=2)
    for metric in held_out_rows.held_out_metrics(model, kept, held).values():
        assert metric.value is None
        assert "Each of the 20 rows held out has no cell" in metric.protocol


def test_hidden_cells_are_predicted_from_the_others_of_their_rows(table: Table) -> None:
    """Each row's Gaussian given its other cells, written out with the model's own covariance."""
    dataset = table.dataset(label="kind", hold_out=0.25)
    model, kept, held = _fitted(dataset, "ppca", n_components=2)
    found = held_out_rows.held_out_metrics(model, kept, held)
    hidden = hide_cells(held.X, 0.2)
    assert 0.1 < hidden.mean() < 0.3
    standard = (kept.X - kept.X.mean(axis=0)) / kept.X.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(standard.T, bias=True))
    noise = values[:-2].mean()
    loadings = vectors[:, -2:] * np.sqrt(values[-2:] - noise)
    covariance = loadings @ loadings.T + noise * np.eye(5)
    truth, mean, variance = [], [], []
    for row, gone in zip((held.X - kept.X.mean(axis=0)) / kept.X.std(axis=0), hidden, strict=True):
        gain = covariance[np.ix_(gone, ~gone)] @ np.linalg.inv(covariance[np.ix_(~gone, ~gone)])
        truth += row[gone].tolist()
        mean += (gain @ row[~gone]).tolist()
        left = covariance[np.ix_(gone, gone)] - gain @ covariance[np.ix_(~gone, gone)]
        variance += np.diag(left).tolist()
    for level, key in ((0.5, "cells_coverage_50"), (0.95, "cells_coverage_95")):
        reach = norm.ppf(0.5 + level / 2) * np.sqrt(variance)
        expected = np.mean(np.abs(np.subtract(truth, mean)) <= reach)
        assert found[key].value == pytest.approx(expected)
        assert f"({hidden.sum()}, seed 0)" in found[key].protocol
    density = -norm.logpdf(truth, mean, np.sqrt(variance)).mean()
    assert found["cells_nlpd"].value == pytest.approx(density, rel=1e-6)


def test_the_levels_of_a_category_are_hidden_together(rng: np.random.Generator) -> None:
    z = rng.standard_normal(60)
    frame = pd.DataFrame(
        {
            "a": z + 0.1 * rng.standard_normal(60),
            "visits": rng.poisson(np.exp(z)),
            "region": np.array(["south", "east", "north"])[np.digitize(z, [-0.5, 0.5])],
        }
    )
    dataset = Table.from_frame(frame, name="regions").dataset(
        features=["a", "visits", "region"], one_hot=["region"], hold_out=0.3
    )
    model, kept, held = _fitted(
        dataset,
        "bayesian_gplvm",
        n_components=1,
        n_inducing=5,
        max_iter=5,
        column_likelihood=likelihood_text(dataset),
    )
    found = held_out_rows.held_out_metrics(model, kept, held)
    cells = found["cells_nlpd"]
    assert cells.value is not None
    assert "under the likelihood of the column" in cells.protocol
    # By hand, from what the model fills in where the levels are hidden together.
    hidden = hide_cells(held.X, 0.2, groups=[range(2, 5)])
    filled = model.impute(
        pd.DataFrame(np.where(hidden, np.nan, held.X), columns=list(held.transformed_names))
    )
    rows = np.flatnonzero(hidden[:, 2])
    p = np.clip(filled.mean[rows, 2:], 1e-3, None)
    levels = np.log((p * held.X[rows, 2:]).sum(1) / p.sum(1))
    numbers = number_log_density(model, held.X, hidden)
    assert numbers is not None
    expected = np.concatenate([levels, numbers[:, :2][hidden[:, :2]]]).mean()
    assert cells.value == pytest.approx(-expected)


def test_every_row_keeps_a_cell_when_cells_are_hidden(rng: np.random.Generator) -> None:
    X = np.where(rng.random((200, 4)) < 0.6, np.nan, 1.0)
    for share in (0.2, 0.9, 1.0):
        hidden = hide_cells(X, share)
        assert not (hidden & np.isnan(X)).any()
        some = ~np.isnan(X).all(axis=1)
        assert (~np.isnan(np.where(hidden, np.nan, X)))[some].any(axis=1).all()


def test_the_calibration_error_is_that_of_the_labels_held_out(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    model, kept, held = _fitted(
        dataset, "ldgd", n_components=2, n_inducing=10, max_iter=60, random_state=0
    )
    found = held_out_rows.held_out_metrics(model, kept, held)["held_out_ece"]
    p = model.predict_proba(_named(held))
    right = model.classes_[p.argmax(axis=1)] == held.labels
    bins = np.ceil(p.max(axis=1) * 15)
    total = sum(abs((right[bins == b] - p.max(axis=1)[bins == b]).sum()) for b in np.unique(bins))
    assert found.value == pytest.approx(total / len(held), abs=1e-9)
    assert "20 of these have a label" in found.protocol


def test_a_column_that_the_fit_left_out_is_left_out_here_too(table: Table) -> None:
    dataset = table.dataset(label="kind", hold_out=0.25)
    X = dataset.X.copy()
    X[~dataset.held_out, 3] = np.nan
    model, kept, held = _fitted(replace(dataset, X=X), "ppca", n_components=2)
    assert kept.feature_names == ("a", "b", "c", "e")
    assert held_out_rows.held_out_metrics(model, kept, held)["held_out_rmse"].value is not None


def test_a_subsample_of_the_rows_held_out_is_called_one(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out_rows, "MOST_ROWS", 7)
    found = held_out_rows.held_out_metrics(
        *_fitted(table.dataset(hold_out=0.25), "ppca", n_components=2)
    )
    assert "7 of the 20 rows held out of the fit, drawn with seed 0" in (
        found["held_out_rmse"].protocol
    )


def test_a_model_without_a_density_has_only_an_error(table: Table) -> None:
    found = held_out_rows.held_out_metrics(
        *_fitted(table.dataset(hold_out=0.25), "pca", n_components=2)
    )
    assert set(found) == {"held_out_rmse"}


def test_too_few_rows_are_left_to_fit() -> None:
    dataset = Dataset.from_arrays([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(DataError, match=r"1 of 2 rows can be used.*A map needs several rows"):
        training_rows(replace(dataset, held_out=np.array([True, False])), MODELS["ppca"])


def test_the_model_of_a_run_knows_how_its_columns_were_made(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(features=["a", "b", "c"], log1p=["a"], one_hot=["kind"])
    folder = _ran(dataset, tmp_path / "run", "ppca", n_components=2)
    model = load(folder.files.model)
    assert list(model.feature_names_in_) == ["log(1 + a)", "b", "c", "kind = x", "kind = y"]
    again = matching_dataset(table, model.feature_names_in_)
    placed = model.transform(pd.DataFrame(again.X, columns=list(again.transformed_names)))
    np.testing.assert_allclose(placed, model.embedding_.mean, atol=1e-8)
