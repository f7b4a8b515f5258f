"""The Missing cells page: what it says where there is nothing to do, filling, and the result."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.formatting import markdown, number
from app.services import fitted_maps, imputation, runs, server
from app.views.impute import imputation_check
from lvmcore.data import Dataset, Table
from lvmcore.evaluation.imputation_scores import (
    BASELINES,
    ColumnComparison,
    ImputationComparison,
    comparison_to_json,
)
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.impute import completed_table, imputation_of
from lvmcore.jobs.run_job import run_job
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.results import FitStep
from lvmcore.runs import Job
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.event_log import EventLog
from lvmcore.runs.job_folder import JobFolder
from tests.app.conftest import OpenPage, Wait, follow, ways
from tests.app.views.new_rows.test_page import button, labels, numbers, texts, traces
from tests.unit.lvmcore.runs.fitting import ran

N_ROWS, N_COLUMNS = 80, 12
NAMES = ["imputed", "![x](http://a)", *(f"c{i}" for i in range(3, 13))]


@pytest.fixture(scope="module")
def holed() -> Dataset:
    """Rows of a plane of which some cells are missing, in four columns of twelve."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N_ROWS, 2)) @ rng.normal(size=(2, N_COLUMNS))
    X += 0.3 * rng.normal(size=X.shape)
    gaps = rng.random(X.shape) < 0.15
    gaps[:, 4:] = False
    return Dataset.from_arrays(np.where(gaps, np.nan, X), ["a", "b"] * 40, NAMES, name="gappy")


@pytest.fixture
def fit(holed: Dataset) -> Iterator[str]:
    """A fit of a model that takes missing cells; nothing is filled with it yet."""
    run = ran(server.store(), holed, "ppca", n_components=2)
    yield run
    runs.delete_runs([run])


@pytest.fixture(scope="module")
def done(holed: Dataset, shared_home: Path) -> str:
    """A fit with which the missing cells have been filled."""
    store = server.store()
    run = ran(store, holed, "ppca", n_components=1)
    with owned(run) as folder:
        assert (
            run_job(
                folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, store=store
            ).status
            == "done"
        )
    return run


def filling(run: str) -> Job:
    job = imputation.imputation_job(run)
    assert job is not None
    return job


@contextmanager
def owned(run: str) -> Iterator[JobFolder]:
    """A job of the fit that this test runs itself."""
    store = server.store()
    with store.own(imputation_of(store.get(run))) as folder:
        yield folder


def keep_table(folder: JobFolder, run: str, holed: Dataset) -> None:
    content = to_parquet_bytes(completed_table(fitted_maps.model(run), holed))
    write_atomically(folder.files.completed, content)


# ---- nothing to do ---------------------------------------------------------------------------


def test_without_a_run_it_says_what_it_is_for(open_page: OpenPage) -> None:
    page = open_page("impute")
    assert not page.exception
    assert "A check on hidden cells measures the error" in texts(page)
    assert ways(page) == ["Go to the data"]


def test_a_table_without_gaps_has_nothing_to_fill(open_page: OpenPage, fitted: str) -> None:
    page = open_page("impute", run=fitted)
    assert not page.exception
    assert "No cell is missing in the 178 rows and 13 columns" in page.info[0].value
    assert "Impute the missing cells" not in labels(page)
    assert "Missing cells" not in ways(open_page("latent", run=fitted))


def test_a_model_that_needs_every_cell_says_so(open_page: OpenPage, holed: Dataset) -> None:
    run = ran(server.store(), holed, "pca", n_components=2)
    page = open_page("impute", run=run)
    assert not page.exception
    assert "PCA cannot impute missing cells: it needs every cell" in page.info[0].value
    assert ways(page) == ["Fit another model"]
    assert "Missing cells" not in ways(open_page("latent", run=run))


# ---- filling ---------------------------------------------------------------------------------


def test_from_the_map_to_the_filled_table(
    open_page: OpenPage, holed: Dataset, fit: str, wait: Wait
) -> None:
    page = follow(open_page("latent", run=fit), "Missing cells")
    gaps = np.isnan(holed.X)
    assert f"lacks {gaps.sum()} cells in 4 of 12 columns" in texts(page)
    button(page, "Impute the missing cells").click().run()
    assert not page.exception
    assert wait(filling(fit).id).status == "done"
    page.run()
    assert not page.exception
    assert not page.error
    assert "90 % intervals contain" in texts(page)
    assert f"{gaps.sum()} missing cells were filled" in texts(page)


def test_the_verdict_and_the_table_come_before_the_check(open_page: OpenPage, done: str) -> None:
    page = open_page("impute", run=done)
    assert not page.exception
    job = filling(done)
    covered, error = (job.metrics[key].value for key in ("cells_coverage_90", "impute_rmse"))
    assert covered is not None
    cells = imputation.hidden_cells(job.id)
    percent = f"{100 * covered:.0f} %"
    assert f"contain {percent} of {len(cells)} hidden cells" in texts(page)
    assert error is not None
    comparison = imputation.comparison(job.id)
    assert comparison is not None
    (total,) = comparison.total
    assert total.errors["model"] == pytest.approx(error)
    assert f"error **{number(error, 3)} sd**" in texts(page)
    for key, name in BASELINES.items():
        assert f"{name} ({number(total.errors[key], 3)})" in texts(page)
        assert f"{number(total.log_densities[key], 3)} of {name}" in texts(page)
    assert [one.value for one in page.header] == ["The completed table", "Check on hidden cells"]
    by_column = page.dataframe[1].value
    assert by_column["", "column"].tolist() == [one.column for one in comparison.columns]
    assert by_column["error", "forest"].tolist() == [
        one.errors["forest"] for one in comparison.columns
    ]
    assert "fitted anew without them" in texts(page)
    shown = page.dataframe[2].value
    assert shown["model"][1] == percent
    assert shown["means"][3] == number(job.metrics["impute_rmse_means"].value, 3)
    dots = [trace for trace in traces(page) if trace["name"] != "exact"]
    column = str(page.main.selectbox[0].format_func(page.main.selectbox[0].value)).rsplit(" (", 1)[
        0
    ]
    ours = cells[cells["feature"] == column]
    np.testing.assert_allclose(
        np.sort(np.concatenate([numbers(trace["y"]) for trace in dots])), np.sort(ours["mean"])
    )


@pytest.mark.slow
@pytest.mark.parametrize("levels", [False, True])
def test_the_density_by_column_is_named(
    open_page: OpenPage, rng: np.random.Generator, *, levels: bool
) -> None:
    z = rng.standard_normal(60)
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(1 + 0.5 * z)),
            "size": np.array(["low", "mid", "high"], dtype=object)[np.digitize(z, [-0.5, 0.5])],
            "dose": np.array(["a", "b", "c"], dtype=object)[np.digitize(z, [-0.3, 0.8])],
        }
    )
    frame.loc[::7, "dose"] = None
    columns = ["size", "dose"] if levels else [*frame]
    dataset = Table.from_frame(frame, name="doses").dataset(
        features=columns,
        one_hot=["size", "dose"],
        likelihoods={"size": "ordinal(low < mid < high)"},
    )
    settings = {"n_components": 1, "n_inducing": 5, "max_iter": 5}
    store = server.store()
    run = ran(store, dataset, "bayesian_gplvm", column_likelihood="by column", **settings)
    with owned(run) as folder:
        state = run_job(folder, lambda: dataset, lambda: None, store=store)
        assert state.status == "done"
    page = open_page("impute", run=run)
    assert not page.exception
    assert not page.error
    said = texts(page).replace("\\", "")
    assert "NLPD: minus the log probability of a hidden level (at least 0.001) or count" in said
    assert ("all levels of categories, which have no intervals" in said) == levels
    assert ("those of the model are of the likelihood of each column" in said) == (not levels)


def test_filled_cells_are_named_and_rows_and_columns_chosen(
    open_page: OpenPage, holed: Dataset, done: str
) -> None:
    page = open_page("impute", run=done)
    gaps = np.isnan(holed.X)
    table = page.dataframe[0].value
    assert table["row"].tolist() == holed.row_ids[gaps.any(axis=1)].tolist()
    first = gaps[gaps.any(axis=1)][0]
    expected = ", ".join(name for name, gone in zip(NAMES, first, strict=True) if gone)
    assert table["imputed (2)"][0] == expected  # a column of the table is called "imputed"
    (chosen,) = page.multiselect
    assert chosen.value == NAMES[:10]
    chosen.set_value(["c12", "imputed"]).run()
    assert list(page.dataframe[0].value) == ["row", "imputed (2)", "c12", "imputed"]
    page.get("button_group")[0].set_value("all").run()
    assert not page.exception
    assert len(page.dataframe[0].value) == N_ROWS
    page.multiselect[0].set_value([]).run()
    assert not page.exception


def test_the_files_hold_every_row_and_flags_where_asked(holed: Dataset, done: str) -> None:
    expected = fitted_maps.model(done).impute(pd.DataFrame(holed.X, columns=NAMES))
    run = filling(done).id
    for make, read in (
        (imputation.filled_csv, pd.read_csv),
        (imputation.filled_parquet, pd.read_parquet),
    ):
        assert list(read(io.BytesIO(make(run, details=False)))) == [*NAMES, "label"]
        frame = read(io.BytesIO(make(run, details=True)))
        assert list(frame)[:13] == [*NAMES, "label"]
        assert frame["label"].tolist() == list(holed.labels)
        for d, name in enumerate(NAMES):
            gaps = np.isnan(holed.X[:, d])
            np.testing.assert_array_equal(frame[name][~gaps], holed.X[~gaps, d])
            np.testing.assert_allclose(frame[name], expected.mean[:, d], rtol=1e-6)
            if d < 4:
                np.testing.assert_array_equal(frame[f"{name} imputed"], gaps)
                sd = np.where(gaps, np.sqrt(expected.variance[:, d]), np.nan)
                np.testing.assert_allclose(frame[f"{name} sd"], sd, rtol=1e-6)
            else:
                assert f"{name} imputed" not in frame


def test_the_same_fit_is_filled_once(open_page: OpenPage, done: str) -> None:
    page = open_page("impute", run=done)
    assert "Impute the missing cells" not in labels(page)
    job = filling(done)
    assert imputation.start_imputation(done) == job.id
    fit = server.store().get(done)
    assert server.uses_model_of(fit, job)
    assert not server.uses_model_of(replace(fit, ended=job.ended), job)  # the fit went on since


# ---- under way, stopped, failed --------------------------------------------------------------


@pytest.mark.slow
def test_the_table_is_there_while_it_is_checked(
    open_page: OpenPage, holed: Dataset, fit: str
) -> None:
    with owned(fit) as folder:
        folder.write_state(replace(folder.state(), stage="preparing"))
        page = open_page("impute", run=fit)
        assert not page.exception
        assert "Cancel" in labels(page)
        assert not page.dataframe
        keep_table(folder, fit, holed)
        folder.write_state(replace(folder.state(), stage="fitting"))
        with closing(EventLog(folder.files.events)) as log:
            log.add(FitStep(40, 100, 20.0, -1.0))
        page.run()
        assert not page.exception
        bar = page.get("progress")[0].proto
        assert bar.text.endswith("Check: step 40 of 100, at most 30 s left.")
        assert bar.value == 40
        assert len(page.dataframe) == 1
        assert "Check on hidden cells" not in texts(page)
        button(page, "Cancel").click().run()
        assert folder.cancel_requested()
        assert page.get("progress")[0].proto.text == "Stopping."


@pytest.mark.slow
def test_what_was_stopped_in_the_check_is_shown_unchecked(
    open_page: OpenPage, holed: Dataset, fit: str, wait: Wait
) -> None:
    with owned(fit) as folder:
        keep_table(folder, fit, holed)
        folder.write_state(folder.state().ending("cancelled", message="The table was kept."))
    page = open_page("impute", run=fit)
    assert not page.exception
    assert "The table was kept." in texts(page)
    assert len(page.dataframe) == 1
    button(page, "Start again").click().run()
    assert not page.exception
    assert wait(filling(fit).id).status == "done"


def test_what_failed_says_why(open_page: OpenPage, fit: str) -> None:
    with owned(fit) as folder:
        folder.write_state(folder.state().ending("failed", message="*No* room.", error="DiskFull"))
    page = open_page("impute", run=fit)
    assert not page.exception
    assert page.error[0].value == r"\*No\* room\."
    assert {"Resume", "Start again"} <= set(labels(page))
    assert not page.dataframe


# ---- what the check says ---------------------------------------------------------------------


@pytest.mark.slow(quick=["0.9-0.4-said2", "1.0-1.2-said1"])
@pytest.mark.parametrize(
    ("covered", "error", "said"),
    [
        (0.5, 0.4, ["too narrow"]),
        (1.0, 1.2, ["too wide", "Column means have about the same error"]),
        (0.9, 0.4, []),
    ],
)
def test_a_poor_check_is_said_plainly(
    open_page: OpenPage, holed: Dataset, fit: str, covered: float, error: float, said: list[str]
) -> None:
    cells = pd.DataFrame({"row_id": ["1"] * 200, "feature": "c3"})
    cells = cells.assign(truth=1.0, mean=1.0, lower=0.0, upper=2.0)
    values = {"impute_rmse": error, "impute_rmse_means": 1.0, "cells_coverage_90": covered}
    with owned(fit) as folder:
        keep_table(folder, fit, holed)
        write_atomically(folder.files.check, to_parquet_bytes(cells))
        metrics = {
            key + suffix: asdict(Metric(key, values.get(key + suffix, 0.5), "How."))
            for key in imputation_check.FIGURES
            for suffix in ("", "_means")
        }
        write_json(folder.files.metrics, metrics)
        folder.write_state(folder.state().ending("done"))
    page = open_page("impute", run=fit)
    assert not page.exception
    assert len(page.warning) == len(said)
    for warning, words in zip(page.warning, said, strict=True):
        assert words in warning.value
    assert "compared with column means only" in page.info[0].value  # as of an earlier version
    assert "Impute again" in labels(page)


@pytest.mark.parametrize("numbers", [0, 20])
def test_intervals_are_those_of_numbers_and_counts(
    open_page: OpenPage, holed: Dataset, fit: str, numbers: int
) -> None:
    is_number = np.arange(200) < numbers
    cells = pd.DataFrame({"row_id": ["1"] * 200, "feature": np.where(is_number, "c3", "c1")})
    cells = cells.assign(truth=1.0, mean=1.0, lower=0.0, upper=2.0, has_interval=is_number)
    covered = 1.0 if numbers else None  # 20 of 20 cells is no evidence of wide intervals
    with owned(fit) as folder:
        keep_table(folder, fit, holed)
        write_atomically(folder.files.check, to_parquet_bytes(cells))
        metrics = {
            key + suffix: asdict(Metric(key, covered, "How."))
            for key in imputation_check.FIGURES
            for suffix in ("", "_means")
        }
        write_json(folder.files.metrics, metrics)
        folder.write_state(folder.state().ending("done"))
    page = open_page("impute", run=fit)
    assert not page.exception
    assert not any("too wide" in warning.value for warning in page.warning)
    if numbers:
        assert "contain 100 % of 20 hidden numbers and counts" in texts(page)
        assert [list(box.options) for box in page.selectbox if box.label == "Column"] == [
            ["c3 (20 hidden)"]
        ]
    else:
        assert "all levels of categories" in texts(page)


def test_columns_that_a_baseline_predicts_better_are_named(
    open_page: OpenPage, holed: Dataset, fit: str
) -> None:
    numbers = {"model": 0.9, "means": 1.0, "neighbours": 0.5, "forest": 0.8}
    better = ColumnComparison("c3", "numbers", 20, numbers, dict.fromkeys(numbers, -1.0))
    poor = replace(better, column=NAMES[1], better=("neighbours", "forest"))
    total = replace(better, column="", errors=numbers | {"forest": None})
    with owned(fit) as folder:
        keep_table(folder, fit, holed)
        cells = pd.DataFrame({"row_id": ["1"] * 200, "feature": "c3"})
        cells = cells.assign(truth=1.0, mean=1.0, lower=0.0, upper=2.0)
        write_atomically(folder.files.check, to_parquet_bytes(cells))
        found = ImputationComparison((total,), (better, poor), "How.")
        write_json(folder.files.comparison, comparison_to_json(found))
        values = {"impute_rmse": 0.9, "impute_rmse_means": 1.0, "cells_coverage_90": 0.9}
        write_json(
            folder.files.metrics,
            {
                key + suffix: asdict(Metric(key, values.get(key + suffix, 0.5), "How."))
                for key in imputation_check.FIGURES
                for suffix in ("", "_means")
            },
        )
        folder.write_state(folder.state().ending("done"))
    page = open_page("impute", run=fit)
    assert not page.exception
    (warning,) = page.warning
    named = markdown(NAMES[1])
    assert warning.value.startswith(f"Do not use for **{named}** (error 0.900 against 0.500 of")
    assert "**above** nearest neighbours (0.500)" in texts(page)
    assert "10 % below column means" in texts(page)
    assert "Not measured for every column: a random forest" in texts(page)
    assert page.dataframe[1].value["", "use it"].tolist() == ["yes", "no"]


def test_imputing_again_adds_a_run(open_page: OpenPage, done: str) -> None:
    first = filling(done)
    again = imputation.start_imputation(done, again=True)
    assert filling(done).id == again != first.id
    runs.cancel(again, patience=60)
    runs.delete_runs([again])
    assert filling(done).id == first.id


# ---- pictures --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictured(shared_home: Path) -> str:
    """Small pictures of which some pixels are missing, filled and checked."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 64)) + 0.1 * rng.normal(size=(40, 64))
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    names = [f"pixel_{r}_{c}" for r in range(8) for c in range(8)]
    dataset = Dataset.from_arrays(X, None, names, name="pictures", image_shape=(8, 8))
    store = server.store()
    run = ran(store, dataset, "ppca", n_components=2)
    with owned(run) as folder:
        found = run_job(
            folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, store=store
        )
        assert found.status == "done"
    return run


def test_pictures_are_drawn_observed_hidden_and_filled(open_page: OpenPage, pictured: str) -> None:
    page = open_page("impute", run=pictured)
    assert not page.exception
    job = filling(pictured)
    assert f"impute:{job.id}:pictures" in {chart.key for chart in page.get("plotly_chart")}
    found = imputation.hidden_pictures(job.id, 5)
    assert found is not None
    assert found.truth.shape == (5, 64)
    cells = imputation.hidden_cells(job.id)
    dataset = fitted_maps.stored_dataset(job.spec.dataset)
    for i, name in enumerate(found.names):
        own = cells[cells["row_id"].astype(str) == name]
        at = [dataset.feature_names.index(feature) for feature in own["feature"]]
        np.testing.assert_array_equal(found.truth[i, at], own["truth"])
        assert np.isnan(found.seen[i, at]).all()
        np.testing.assert_array_equal(found.filled[i, at], own["mean"])
        row = dataset.row_ids.tolist().index(name)
        np.testing.assert_array_equal(np.isnan(found.truth[i]), np.isnan(dataset.X[row]))
        rest = np.setdiff1d(np.flatnonzero(~np.isnan(dataset.X[row])), at)
        np.testing.assert_array_equal(found.filled[i, rest], dataset.X[row, rest])
        assert (found.width[i, rest] == 0).all()
    assert np.isfinite(found.filled).all()
    assert (found.width >= 0).all()


def test_rows_that_are_no_pictures_have_none(done: str) -> None:
    assert imputation.hidden_pictures(filling(done).id, 5) is None
