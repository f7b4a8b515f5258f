"""Runs that fill missing cells: what they leave, how they check themselves, how they stop."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from lvmcore import ProbabilisticPCA
from lvmcore.data import Dataset, Table
from lvmcore.evaluation.hidden_cells import (
    Width,
    hidden_frame,
    hide_cells,
    interval_width,
    predict_hidden,
)
from lvmcore.jobs import fitting
from lvmcore.jobs.impute import completed_table, imputation_of, imputed_columns
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Job, JobSpec, Store
from lvmcore.runs.job_folder import JobState
from tests.unit.lvmcore.jobs.waiting import finished
from tests.unit.lvmcore.runs.fitting import ran

Filled = Callable[..., tuple[JobState, Job, pd.DataFrame | None]]


@pytest.fixture
def holed(rng: np.random.Generator) -> Dataset:
    """A linear table with gaps; a row without any cell, and a column without any gap."""
    values = rng.normal(size=(90, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(90, 5))
    X = np.where(rng.random(values.shape) < 0.2, np.nan, values * [1, 10, 1, 0.1, 1] + 3)
    X[:, 4], X[7] = values[:, 4], np.nan
    return Dataset.from_arrays(X, ["a", "b"] * 45, ["u", "v", "w", "x", "y"], name="holed")


@pytest.fixture
def filled(store: Store) -> Filled:
    """Fills the missing cells of a run's dataset, in this process."""

    def do(
        run: str, should_stop: object = lambda: None
    ) -> tuple[JobState, Job, pd.DataFrame | None]:
        with store.own(imputation_of(store.get(run))) as folder:
            state = run_job(
                folder, lambda: store.datasets.get(folder.spec().dataset), should_stop, store=store
            )
        path = folder.files.completed
        frame = pd.read_parquet(path) if path.is_file() else None
        return state, store.get(folder.path.name), frame

    return do


def test_the_filled_table(store: Store, holed: Dataset, filled: Filled) -> None:
    run = ran(store, holed, "ppca", n_components=2)
    state, job, frame = filled(run)
    assert state.status == "done"
    assert not job.has_model
    kept = holed.subset(~np.isnan(holed.X).all(axis=1))
    expected = store.load_model(run).impute(pd.DataFrame(kept.X, columns=list(holed.feature_names)))
    assert frame is not None
    assert frame["row_id"].tolist() == kept.row_ids.tolist()
    assert frame["label"].tolist() == list(kept.labels)
    assert list(frame.columns[2:8]) == ["u", "u sd", "u imputed", "v", "v sd", "v imputed"]
    assert frame.columns[-1] == "y"
    for d, name in enumerate("uvwx"):
        gaps = np.isnan(kept.X[:, d])
        np.testing.assert_array_equal(frame[name][~gaps], kept.X[~gaps, d])
        np.testing.assert_array_equal(frame[f"{name} imputed"], gaps)
        np.testing.assert_allclose(frame[name], expected.mean[:, d])
        np.testing.assert_allclose(frame[f"{name} sd"], np.sqrt(expected.variance[:, d]))
    assert "1 row left out: every cell is missing." in state.notes
    assert state.notes[-1].startswith(f"{np.isnan(kept.X).sum()} missing cells were filled by")


def test_the_check_fits_anew_without_the_cells_that_it_compares(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    _, job, _ = filled(ran(store, holed, "ppca", n_components=2))
    X = holed.X[~np.isnan(holed.X).all(axis=1)]
    hidden = hide_cells(X, 0.1)
    left = np.where(hidden, np.nan, X)
    model = ProbabilisticPCA(n_components=2).fit(left)
    sd = np.nanstd(left, axis=0)
    error = ((model.impute(left).mean - X) / sd)[hidden]
    found = job.metrics
    assert found["impute_rmse"].value == pytest.approx(np.sqrt(np.square(error).mean()), rel=1e-6)
    means = ((np.nanmean(left, axis=0) - X) / sd)[hidden]
    assert found["impute_rmse_means"].value == pytest.approx(
        np.sqrt(np.square(means).mean()), rel=1e-9
    )
    assert found["impute_rmse"].value < 0.8 * found["impute_rmse_means"].value
    reach = 1.6448536 * np.sqrt(model.impute(left).variance)
    inside = np.abs(model.impute(left).mean - X)[hidden] <= reach[hidden]
    assert found["cells_coverage_90"].value == pytest.approx(inside.mean())
    means_sd = np.broadcast_to(sd, X.shape)
    truth = ((X - np.nanmean(left, axis=0)) / means_sd)[hidden]
    assert found["cells_nlpd_means"].value == pytest.approx(-norm.logpdf(truth).mean())
    assert found["cells_coverage_50_means"].value == pytest.approx(
        (np.abs(truth) <= norm.ppf(0.75)).mean()
    )
    assert f"({hidden.sum()}, seed 0) were hidden, the model was fitted anew" in (
        found["cells_nlpd"].protocol
    )


def test_the_hidden_cells_are_kept_with_their_intervals(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    _, job, _ = filled(ran(store, holed, "ppca", n_components=2))
    found = pd.read_parquet(store.job_folder(job.id).files.check)
    rows = holed.subset(~np.isnan(holed.X).all(axis=1))
    row, column = np.nonzero(hide_cells(rows.X, 0.1))
    assert found["row_id"].tolist() == rows.row_ids[row].tolist()
    assert found["feature"].tolist() == [holed.feature_names[d] for d in column]
    np.testing.assert_array_equal(found["truth"], rows.X[row, column])
    inside = (found["lower"] <= found["truth"]) & (found["truth"] <= found["upper"])
    assert job.metrics["cells_coverage_90"].value == pytest.approx(inside.mean())
    sd = np.nanstd(np.where(hide_cells(rows.X, 0.1), np.nan, rows.X), axis=0)[column]
    error = np.square((found["mean"] - found["truth"]) / sd).mean()
    assert job.metrics["impute_rmse"].value == pytest.approx(np.sqrt(error))


def test_hidden_cells_of_a_logarithm_are_in_the_tables_units(rng: np.random.Generator) -> None:
    values = rng.normal(size=(50, 1)) + 0.3 * rng.normal(size=(50, 3))
    frame = pd.DataFrame(np.expm1(np.abs(values)), columns=["dose", "a", "b"])
    dataset = Table.from_frame(frame, name="doses").dataset(log1p=["dose"])
    hidden = hide_cells(dataset.X, 0.2)
    left = replace(dataset, X=np.where(hidden, np.nan, dataset.X))
    X = pd.DataFrame(left.X, columns=list(left.transformed_names))
    model = ProbabilisticPCA(n_components=1).fit(X)
    cells = hidden_frame(predict_hidden(model, left, dataset.X, hidden), left, dataset.X, 0.5)
    filled = model.impute(X)
    (rows,) = np.nonzero(hidden[:, 0])
    dose = cells[cells["feature"] == "dose"]
    np.testing.assert_allclose(dose["truth"], frame["dose"][rows])
    mean, reach = filled.mean[rows, 0], norm.ppf(0.75) * np.sqrt(filled.variance[rows, 0])
    for name, learned in (("mean", mean), ("lower", mean - reach), ("upper", mean + reach)):
        np.testing.assert_allclose(dose[name], np.expm1(learned))


@pytest.mark.parametrize(
    ("share", "cells", "expected"),
    [
        (0.90, 10, "fair"),
        (0.70, 10, "fair"),  # 2 of 10 more outside: chance alone does that
        (0.70, 200, "narrow"),
        (0.885, 100_000, "fair"),
        (0.87, 100_000, "narrow"),
        (0.99, 400, "wide"),
    ],
)
def test_what_a_coverage_says_of_the_intervals(share: float, cells: int, expected: Width) -> None:
    assert interval_width(share, 0.9, cells) == expected


def test_steps_of_the_checks_fit_are_told(store: Store, holed: Dataset, filled: Filled) -> None:
    run = ran(store, holed, "bayesian_gplvm", n_components=2, max_iter=15, n_inducing=8)
    state, job, _ = filled(run)
    assert state.status == "done"
    steps = [event.step for event in store.events(job.id)]
    assert (steps[0].iteration, steps[-1].iteration, steps[-1].total) == (1, 15, 15)


def test_stopped_in_the_check_the_filled_table_is_kept(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    run = ran(store, holed, "bayesian_gplvm", n_components=2, max_iter=15, n_inducing=8)
    asked: list[int] = []

    def should_stop() -> str | None:
        asked.append(1)
        return "cancelled" if len(asked) > 4 else None

    state, job, frame = filled(run, should_stop)
    assert state.status == "cancelled"
    assert "the filled table was kept" in (state.message or "")
    assert frame is not None
    assert job.metrics == {}


def test_a_model_that_needs_every_cell_is_refused(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    state, _, frame = filled(ran(store, holed, "pca", n_components=2))
    assert (state.status, state.error) == ("failed", "UnsupportedError")
    assert "PCA cannot fill missing cells" in (state.message or "")
    assert frame is None


def test_it_is_no_fit_in_the_list_and_is_found_again(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    run = ran(store, holed, "ppca", n_components=2)
    spec = imputation_of(store.get(run))
    assert store.find(spec) is None
    _, job, _ = filled(run)
    assert [fit.id for fit in store.list()] == [run]
    found = store.find(spec)
    assert found is not None
    assert found.id == job.id
    assert JobSpec.from_json(spec.to_json()) == spec
    store.delete(run)
    assert store.list(None) == []


@pytest.mark.slow
def test_a_worker_fills_them(store: Store, holed: Dataset, launch: Callable[..., Launcher]) -> None:
    run = ran(store, holed, "ppca", n_components=2)
    name = store.submit(imputation_of(store.get(run)))
    launch().ensure_running()
    job = finished(store, name)
    assert job.status == "done"
    assert job.metrics["impute_rmse"].value is not None
    assert (store.job_folder(name).path / "completed.parquet").is_file()


def test_a_column_learned_as_a_logarithm_is_filled_in_its_own_units(
    rng: np.random.Generator,
) -> None:
    values = rng.normal(size=(60, 1)) + 0.3 * rng.normal(size=(60, 3))
    frame = pd.DataFrame(np.expm1(np.abs(values)), columns=["dose", "dose sd", "other"])
    frame.iloc[4, 0], frame.iloc[9, 0] = np.nan, np.nan
    dataset = Table.from_frame(frame, name="doses").dataset(log1p=["dose", "other"])
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    model = ProbabilisticPCA(n_components=1).fit(X)
    found = completed_table(model, dataset)
    assert list(found.columns) == [
        "row_id", "dose", "dose sd", "dose imputed", "dose sd (2)", "other",
    ]  # fmt: skip
    logs = model.impute(X)
    mean, sd = logs.mean[4, 0], np.sqrt(logs.variance[4, 0])
    assert found["dose"][4] == pytest.approx(np.expm1(mean))
    assert found["dose sd"][4] == pytest.approx(0.5 * (np.exp(mean + sd) - np.exp(mean - sd)))
    known = frame["dose"].notna()
    np.testing.assert_array_equal(found["dose"][known], frame["dose"][known])
    names = imputed_columns(dataset)[0]
    assert (names.value, names.sd, names.imputed) == ("dose", "dose sd", "dose imputed")
    assert imputed_columns(dataset)[1].value == "dose sd (2)"
    np.testing.assert_allclose(found["dose sd (2)"], frame["dose sd"])
    np.testing.assert_allclose(found["other"], frame["other"])


def test_hiding_more_leaves_a_column_out_and_the_check_goes_on(
    store: Store, holed: Dataset, filled: Filled
) -> None:
    """A column whose one known cell is hidden is not in the model of the check."""
    X = np.column_stack([holed.X[:, :2], np.full(90, np.nan)])
    known = np.flatnonzero(hide_cells(np.column_stack([holed.X[:, :2], np.ones(90)]), 0.1)[:, 2])
    X[known[0], 2] = 4.0
    sparse = replace(Dataset.from_arrays(X, name="sparse"))
    run = ran(store, sparse, "ppca", n_components=1)
    state, job, _ = filled(run)
    assert state.status == "done"
    assert job.metrics["impute_rmse"].value is not None
    assert fitting.training_rows(sparse, ProbabilisticPCA)[0].feature_names == ("x1", "x2", "x3")


def test_cells_missing_by_a_draw_of_the_same_seed_leave_others_to_hide() -> None:
    rows = np.random.default_rng(1).normal(size=(200, 20))
    X = np.where(np.random.default_rng(0).random(rows.shape) < 0.2, np.nan, rows)
    hidden = hide_cells(X, 0.1)
    assert 0.08 < hidden.sum() / np.isfinite(X).sum() < 0.12
