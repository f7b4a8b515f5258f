"""Runs that fit a model to a target column."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from lvmcore.data import Dataset, Table, matching_dataset
from lvmcore.data.held_out_rows import hold_out_groups, hold_out_last
from lvmcore.errors import ConfigError, DataError
from lvmcore.evaluation import baseline_methods
from lvmcore.evaluation.target_quality import coverage_at, target_metrics
from lvmcore.evaluation.target_scores import BASELINES, MODEL, read_comparison
from lvmcore.jobs import fit_target
from lvmcore.jobs.cost_probe import probe
from lvmcore.jobs.fitting import Reason, StoppedError
from lvmcore.jobs.predict import prediction_of
from lvmcore.jobs.run_job import run_job
from lvmcore.models import PREDICTORS
from lvmcore.prediction.new_table import NewTableRoles, read_new_table
from lvmcore.prediction.target_rows import (
    HELD_OUT,
    date_scales_of_fit,
    split_for_target,
    target_columns,
    target_features,
    unlearned_categories,
)
from lvmcore.recommend.target_models import (
    propose_for_target,
    suggested_target_settings,
    summarise_target,
    target_obstacle,
)
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_folder import JobState
from lvmcore.runs.model_of_job import make_model
from lvmcore.runs.python_snippet import snippet
from tests.unit.lvmcore.jobs.waiting import finished

QUICK = {"max_iter": 30, "n_inducing": 10}


@pytest.fixture(autouse=True)
def small_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Baselines with few trees, so that the many fits here take no longer."""
    monkeypatch.setattr(baseline_methods, "ITERATIONS", (5,))
    monkeypatch.setattr(baseline_methods, "TREES", (10,))


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    """120 houses: the price is linear in size and age, plus 3 of noise, and 10 for a garden."""
    size, age = rng.uniform(0, 10, 120), rng.uniform(0, 5, 120)
    garden = np.where(rng.uniform(size=120) < 0.5, "yes", "no")
    price = 100 + 8 * size - 5 * age + 10 * (garden == "yes") + 3 * rng.standard_normal(120)
    return pd.DataFrame(
        {
            "size": size,
            "age": age,
            "garden": garden,
            "price": price,
            "dear": np.where(price > 145, "dear", np.where(price > 120, "fair", "cheap")),
            "street": np.repeat([f"street {k}" for k in range(12)], 10),
            "sold": pd.date_range("2020-01-01", periods=120).astype("datetime64[us]"),
        }
    )


Run = Callable[..., tuple[JobState, Store, str]]


@pytest.fixture
def run(store: Store) -> Run:
    """Runs a fit to a target of a table in this process."""

    def do(
        frame: pd.DataFrame | Dataset,
        target: str = "price",
        model: str = "svgp_regressor",
        groups: str = "",
        time: str = "",
        stop_at: int | None = None,
        reason: Reason = "cancelled",
        **parameters: Any,
    ) -> tuple[JobState, Store, str]:
        dataset = frame if isinstance(frame, Dataset) else Table.from_frame(frame).dataset()
        spec = JobSpec(
            store.datasets.put(dataset),
            "houses",
            model,
            QUICK | parameters,
            target=target,
            groups=groups,
            time=time,
        )
        seen: list[int] = []
        with store.own(spec) as folder:
            state = run_job(
                folder,
                lambda: dataset,
                lambda: reason if stop_at is not None and len(seen) >= stop_at else None,
                on_step=lambda step: seen.append(step.iteration),
            )
            return state, store, folder.path.name

    return do


def made(store: Store, run: str, name: str = "predictions") -> pd.DataFrame:
    return pd.read_parquet(store.job_folder(run).path / f"{name}.parquet")


def test_a_number_is_predicted_and_measured_on_a_fifth_of_the_rows(
    run: Run, frame: pd.DataFrame
) -> None:
    state, store, name = run(frame)
    assert state.status == "done", state.message
    found, job = made(store, name), store.get(name)
    assert len(found) == 120
    assert found["held_out"].sum() == round(HELD_OUT * 120)
    assert np.array_equal(found["truth"], frame["price"])
    held = found[found["held_out"]]
    error = held["truth"] - held["mean"]
    assert job.metrics["rmse"].value == pytest.approx(float(np.sqrt(np.mean(error**2))))
    assert job.metrics["mae"].value == pytest.approx(float(error.abs().mean()))
    assert job.metrics["nlpp"].value == pytest.approx(-held["log_density"].mean())
    inside = (held["q05"] < held["truth"]) & (held["truth"] < held["q95"])
    assert job.metrics["coverage_90"].value == pytest.approx(inside.mean())
    assert job.metrics["coverage_90"].value == coverage_at(held, np.array([0.9]))[0]
    others = {"elbo", "r2"}
    width = (held["q95"] - held["q05"]).mean()
    assert job.metrics["width_90"].value == pytest.approx(width)
    assert set(job.metrics) == others | {"rmse", "mae", "nlpp", "coverage_90", "width_90"}
    assert all("24 rows" in job.metrics[key].protocol for key in ("rmse", "r2"))
    r2 = job.metrics["r2"].value
    assert r2 is not None
    assert r2 > 0.9
    assert not store.job_folder(name).files.hidden.exists()  # one layer has nothing hidden
    compared = read_comparison(store.job_folder(name).files.comparison)
    assert compared is not None
    assert compared.rows == 24
    assert [one.method for one in compared.methods] == [MODEL, *BASELINES]
    own = compared.methods[0].values
    assert own == {key: job.metrics[key].value for key in own}
    linear = compared.methods[1].values["rmse"]
    assert linear is not None
    assert 2 < linear < 5  # the truth is linear with a noise of 3


@pytest.mark.parametrize("asked", [None, "cancelled"])
def test_a_fit_that_is_cancelled_is_compared_and_one_that_stops_while_compared_is_not(
    run: Run, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, asked: Reason | None
) -> None:
    stops: list[Callable[[], None]] = []

    def compare(*parts: Any, check_stop: Callable[[], None], **more: Any) -> None:
        del parts, more
        stops.append(check_stop)
        raise StoppedError("interrupted")

    monkeypatch.setattr(fit_target, "compare_target", compare)
    state, store, name = run(frame, stop_at=3 if asked else None)
    assert state.status == (asked or "done")
    stops[0]()  # the reason that ended the fit is not asked for again
    assert "rmse" in store.get(name).metrics
    assert read_comparison(store.job_folder(name).files.comparison) is None
    assert not [note for note in state.notes if "could not be measured" in note]


def test_the_target_is_not_among_the_columns_it_is_learned_from(
    run: Run, frame: pd.DataFrame
) -> None:
    state, store, name = run(frame)
    assert state.status == "done"
    assert list(store.load_model(name, "target").feature_names_in_) == ["size", "age", "garden"]
    whole = Table.from_frame(frame).dataset(log1p=["price"])
    state, store, name = run(whole)  # nor its logarithm, and it is predicted in its own units
    assert "log(1 + price)" not in store.load_model(name, "target").feature_names_in_
    assert np.array_equal(made(store, name)["truth"], frame["price"])


def test_the_model_of_the_run_is_the_one_that_python_fits(run: Run, frame: pd.DataFrame) -> None:
    _, store, name = run(frame)
    spec, dataset = store.get(name).spec, store.datasets.get(store.get(name).spec.dataset)
    rows = split_for_target(dataset, "number", spec)
    model = make_model(spec, "target").fit(rows.X[~rows.held_out], rows.y[~rows.held_out])
    again = model.predict(rows.X)  # type: ignore[attr-defined]
    assert np.allclose(again, made(store, name)["mean"], rtol=0, atol=1e-9)


def test_a_class_is_predicted_and_measured(run: Run, frame: pd.DataFrame) -> None:
    state, store, name = run(frame, "dear", "svgp_classifier")
    assert state.status == "done", state.message
    found, job = made(store, name), store.get(name)
    assert {"predicted", "probability", "probability of cheap"} <= set(found)
    held = found[found["held_out"]]
    assert job.metrics["accuracy"].value == (held["truth"] == held["predicted"]).mean()
    right = [row[f"probability of {row['truth']}"] for _, row in held.iterrows()]
    assert job.metrics["log_loss"].value == pytest.approx(-np.log(right).mean())
    auc = job.metrics["auc"].value
    assert auc is not None
    assert auc > 0.9
    assert set(job.metrics) == {
        "accuracy",
        "macro_f1",
        "log_loss",
        "auc",
        "calibration_error",
        "elbo",
    }
    shares = held["truth"].value_counts(normalize=True)
    whole = found["truth"].value_counts(normalize=True)
    assert abs(shares["dear"] - whole["dear"]) < 0.05  # the same share of each class


def test_two_classes_have_the_usual_area_under_the_curve(run: Run, frame: pd.DataFrame) -> None:
    _, store, name = run(frame, "garden", "svgp_classifier")
    held = made(store, name).query("held_out")
    area = roc_auc_score(held["truth"] == "yes", held["probability of yes"])
    assert store.get(name).metrics["auc"].value == pytest.approx(area)


def test_hidden_layers_leave_their_units(run: Run, frame: pd.DataFrame) -> None:
    _, store, name = run(frame, model="sod_regressor", n_layers=2, hidden_dim=2, max_iter=5)
    hidden = made(store, name, "hidden")
    units = [f"layer {layer} unit {unit}" for layer in (1, 2) for unit in (1, 2)]
    assert list(hidden) == ["row_id", "row", "held_out", *units]
    model, rows = store.load_model(name, "target"), frame[["size", "age", "garden"]].copy()
    rows["garden"] = (rows["garden"] == "yes").astype(float)
    assert np.allclose(hidden[units[2:]], model.hidden(rows, 2), rtol=0, atol=1e-9)


# ---- which rows ---------------------------------------------------------------------------------


def test_groups_are_held_out_whole(run: Run, frame: pd.DataFrame) -> None:
    state, store, name = run(frame, groups="street")
    found = made(store, name)
    shares = found.groupby(frame["street"])["held_out"].mean()
    assert set(shares) == {0.0, 1.0}
    assert HELD_OUT * 120 <= found["held_out"].sum() < HELD_OUT * 120 + 10
    assert any("'street'" in note for note in state.notes)


def test_the_last_rows_are_held_out_by_time(run: Run, frame: pd.DataFrame) -> None:
    shuffled = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    _, store, name = run(shuffled, time="sold")
    held = made(store, name)["held_out"].to_numpy()
    assert held.sum() == 24
    assert shuffled["sold"][held].min() > shuffled["sold"][~held].max()


def test_rows_of_one_time_stay_together(run: Run, frame: pd.DataFrame) -> None:
    frame["year"] = np.repeat([2018, 2019, 2020], 40)
    _, store, name = run(frame, time="year")
    assert np.array_equal(made(store, name)["held_out"], frame["year"] == 2020)


def test_the_rows_that_the_dataset_holds_out_are_the_ones_measured(
    run: Run, frame: pd.DataFrame
) -> None:
    dataset = Table.from_frame(frame).dataset(hold_out=0.4, hold_out_seed=3)
    _, store, name = run(dataset)
    assert np.array_equal(made(store, name)["held_out"], dataset.held_out)


def test_another_seed_draws_other_rows(run: Run, frame: pd.DataFrame) -> None:
    held = []
    for seed in (0, 0, 1):
        _, store, name = run(frame, random_state=seed, max_iter=2)
        held.append(made(store, name)["held_out"].to_numpy())
    assert np.array_equal(held[0], held[1])
    assert not np.array_equal(held[0], held[2])


def test_rows_without_a_target_or_a_cell_are_left_out_with_a_note(
    run: Run, frame: pd.DataFrame
) -> None:
    frame.loc[[0, 1], "price"] = np.nan, np.inf
    frame.loc[5, "age"] = np.nan
    frame["empty"] = np.nan
    dataset = Table.from_frame(frame).dataset(features=["size", "age", "empty", "garden"])
    state, store, name = run(dataset)
    found = made(store, name)
    assert len(found) == 117
    assert list(found["row"][:3]) == [3, 4, 5]
    assert 6 not in set(found["row"])
    told = " ".join(state.notes)
    assert "2 rows left out: the target 'price' is missing" in told
    assert "1 row left out: a cell is missing" in told


# ---- what cannot be done ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        ({"price": 7.0}, {}, "'price' has one value only, 7"),
        ({"price": np.nan}, {}, "'price' is missing in every row"),
        ({}, {"target": "dear"}, "'dear' has '.*' in row 1, which is no number"),
        ({}, {"target": "sold"}, "'sold' is a date"),
        ({}, {"target": "nothing"}, "no column 'nothing'"),
        ({}, {"model": "svgp_classifier"}, "'price' has as many classes as rows, 120"),
        ({}, {"time": "street"}, "'street' cannot order the rows"),
        ({"street": "one"}, {"groups": "street"}, "all of one group of 'street'"),
        ({"sold": pd.Timestamp("2020-01-01")}, {"time": "sold"}, "'sold' is the same in all"),
        ({"age": np.where(np.arange(120) < 5, 1.0, np.nan)}, {}, "5 of 120 rows have the target"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(
    run: Run, frame: pd.DataFrame, change: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    state, store, name = run(frame.assign(**change), **asked)
    assert state.status == "failed"
    assert state.error == "DataError"
    assert state.message is not None
    assert pd.Series([state.message]).str.contains(said, regex=True).all(), state.message
    assert not store.get(name).has_model


def test_without_a_column_to_learn_from_it_says_so(run: Run, frame: pd.DataFrame) -> None:
    alone = frame.drop(columns="sold")  # a date would be learned from
    state, _, _ = run(Table.from_frame(alone).dataset(features=["price"]))
    assert state.message is not None
    assert "No column is left to learn" in state.message
    assert "choose further features, such as '" in state.message


@pytest.mark.parametrize("chosen", [False, True])
def test_a_date_is_the_feature_where_no_other_is_left(chosen: bool) -> None:
    months = pd.date_range("1960-01-01", periods=40, freq="MS")
    frame = pd.DataFrame({"month": months, "sold": np.arange(40.0)})
    table = Table.from_frame(frame)
    dataset = table.dataset(features=["month", "sold"] if chosen else ["sold"])
    spec = JobSpec(dataset.digest, "series", "gp_regressor", target="sold", time="month")
    rows = split_for_target(dataset, "number", spec)
    assert list(rows.X) == ["month"]
    np.testing.assert_array_equal(rows.X["month"], np.arange(40))
    np.testing.assert_array_equal(rows.held_out, np.arange(40) >= 32)
    assert rows.date_units == {"month": "months"}
    summary = summarise_target(dataset, "sold")
    assert summary is not None
    assert summary.columns == 1
    note = "Column 'month' is the number of months since 1960-01."
    assert rows.dataset.notes.count(note) == 1
    assert date_scales_of_fit(dataset, "sold") == rows.dataset.date_scales
    late = matching_dataset(
        Table.from_frame(pd.DataFrame({"month": pd.to_datetime(["1961-01-16T12"])})),
        ["month"],
        origin=target_features(dataset, "sold"),
    )
    assert late.X.tolist() == [[12.5]]


def test_a_date_is_no_feature_beside_another_one(frame: pd.DataFrame) -> None:
    dataset = Table.from_frame(frame).dataset()
    spec = JobSpec(dataset.digest, "houses", "gp_regressor", target="price", time="sold")
    assert "sold" not in split_for_target(dataset, "number", spec).X
    assert date_scales_of_fit(dataset, "price") == {}


def test_a_task_and_its_model_have_to_fit(frame: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="draws a map"):
        make_model(JobSpec("0" * 16, "houses", "ppca", target="price"), "target")
    with pytest.raises(ConfigError, match="draws a map"):
        make_model(JobSpec("0" * 16, "houses", "ppca", target="price"), "map")
    with pytest.raises(ConfigError, match="predicts a target and has no map"):
        make_model(JobSpec("0" * 16, "houses", "svgp_regressor"), "map")
    with pytest.raises(ConfigError, match="name the column"):
        make_model(JobSpec("0" * 16, "houses", "svgp_regressor"), "target")
    with pytest.raises(ConfigError, match="choose one of them"):
        JobSpec("0" * 16, "x", "svgp_regressor", target="y", groups="a", time="b")


def test_more_inducing_points_than_rows_are_reduced_with_a_note(
    run: Run, frame: pd.DataFrame
) -> None:
    state, _, _ = run(frame, n_inducing=500, max_iter=2)
    assert state.status == "done"
    assert any("n_inducing reduced from 500 to 96" in note for note in state.notes)


# ---- going on, and looking back -----------------------------------------------------------------


def again(store: Store, name: str) -> JobState:
    """Execute a queued run in this process."""
    folder = store.job_folder(name)
    with folder.lock():
        return run_job(
            folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, on_step=None
        )


@pytest.mark.slow(
    quick=["sod_regressor-interrupted", "svgp_regressor-cancelled", "svgp_regressor-interrupted"]
)
@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
@pytest.mark.parametrize("model", ["svgp_regressor", "sod_regressor"])
def test_one_that_is_stopped_goes_on_and_ends_as_if_it_had_not(
    run: Run, frame: pd.DataFrame, model: str, reason: Reason
) -> None:
    settings: dict[str, Any] = {"max_iter": 12}
    if model == "sod_regressor":
        settings |= {"hidden_dim": 2, "n_samples": 2}
    _, store, whole = run(frame, model=model, **settings)
    state, store, name = run(frame, model=model, stop_at=5, reason=reason, **settings)
    assert state.status == reason
    job = store.get(name)
    assert (job.has_model, job.checkpoint_step, job.resumable) == (True, 5, True)
    # There is no time for predictions where the machine is going away.
    assert store.job_folder(name).files.predictions.exists() == (reason == "cancelled")
    assert ("rmse" in job.metrics) == (reason == "cancelled")
    store.resume(name)
    assert not store.job_folder(name).files.predictions.exists()
    assert again(store, name).status == "done"
    pd.testing.assert_frame_equal(made(store, name), made(store, whole))
    assert store.get(name).elbo == store.get(whole).elbo


def test_more_steps_end_like_a_fit_that_had_them_at_once(run: Run, frame: pd.DataFrame) -> None:
    _, store, short = run(frame, groups="street")
    _, store, whole = run(frame, groups="street", max_iter=50)
    assert store.get(short).still_rising
    longer = store.continue_fit(short, 50)
    spec = store.get(longer).spec
    assert (spec.target, spec.groups, spec.continues) == ("price", "street", short)
    assert again(store, longer).status == "done"
    pd.testing.assert_frame_equal(made(store, longer), made(store, whole))


def test_the_store_tells_targets_apart(run: Run, frame: pd.DataFrame) -> None:
    _, store, name = run(frame, max_iter=2)
    spec = store.get(name).spec
    same = JobSpec(spec.dataset, "houses", spec.model, spec.parameters, target="price")
    other = JobSpec(spec.dataset, "houses", spec.model, spec.parameters, target="age")
    found = store.find(same)
    assert found is not None
    assert found.id == name
    assert store.find(other) is None
    with pytest.raises(DataError, match="no map"):
        store.load_model(name)
    assert JobSpec.from_json(spec.to_json()) == spec


# ---- other rows ---------------------------------------------------------------------------------


def test_rows_of_another_file_are_predicted_by_name(run: Run, frame: pd.DataFrame) -> None:
    dataset = Table.from_frame(frame).dataset(one_hot=["street"])
    _, store, name = run(dataset)
    model = store.load_model(name, "target")
    other = (
        frame.iloc[:6]
        .drop(columns="price")
        .rename(columns={"age": "Age "})[["garden", "street", "Age ", "size"]]
    )
    other.loc[0, "street"] = "a new street"
    other.loc[1, "size"] = np.nan
    rows = matching_dataset(
        Table.from_frame(other), [str(n) for n in model.feature_names_in_], origin=dataset
    )
    unknown = "levels that the model does not know: 'a new street'"
    assert any(unknown in note for note in rows.notes)
    store.datasets.put(rows)
    with store.own(prediction_of(store.get(name), rows)) as folder:
        state = run_job(
            folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, store=store
        )
        found = pd.read_parquet(folder.files.predictions)
        assert state.status == "done", state.message
        assert folder.metrics() == {}
    assert list(found) == ["row_id", "mean", "sd", "q05", "q95"]
    assert found["mean"].isna().tolist() == [False, True, False, False, False, False]
    assert any("1 row has no prediction" in note for note in state.notes)
    fit = made(store, name)
    assert np.allclose(found["mean"][2:], fit["mean"][2:6], rtol=0, atol=1e-9)


def test_other_rows_with_the_target_are_measured(run: Run, frame: pd.DataFrame) -> None:
    _, store, name = run(frame)
    model = store.load_model(name, "target")
    rows = matching_dataset(
        Table.from_frame(frame.rename(columns={"price": "Price"})),
        [str(n) for n in model.feature_names_in_],
    )
    store.datasets.put(rows)
    with store.own(prediction_of(store.get(name), rows)) as folder:
        assert (
            run_job(
                folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, store=store
            ).status
            == "done"
        )
        figures = folder.metrics()
    truth = frame["price"].to_numpy()
    error = truth - made(store, name)["mean"].to_numpy()
    assert figures["rmse"].value == pytest.approx(float(np.sqrt(np.mean(error**2))))


def test_a_prediction_that_is_stopped_keeps_nothing(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    _, store, name = run(frame)
    names = [str(n) for n in store.load_model(name, "target").feature_names_in_]
    rows = matching_dataset(Table.from_frame(frame), names)
    store.datasets.put(rows)
    with store.own(prediction_of(store.get(name), rows)) as folder:
        state = run_job(
            folder,
            lambda: store.datasets.get(folder.spec().dataset),
            lambda: "cancelled",
            store=store,
        )
        assert state.status == "cancelled"
        assert not folder.files.predictions.exists()


# ---- which model --------------------------------------------------------------------------------


def test_columns_are_numbers_or_classes_by_what_they_hold(frame: pd.DataFrame) -> None:
    frame["id"] = [f"house {k}" for k in range(120)]
    assert target_columns(Table.from_frame(frame).dataset()) == {
        "size": "number",
        "age": "number",
        "garden": "class",
        "price": "number",
        "dear": "class",
        "street": "class",
    }


def test_categories_that_are_no_features_are_named(frame: pd.DataFrame) -> None:
    table = Table.from_frame(frame)
    assert unlearned_categories(table.dataset()) == ("dear", "street")
    assert unlearned_categories(table.dataset(label="dear", one_hot=["street"])) == ()


def test_the_proposed_model_fits_the_target(frame: pd.DataFrame) -> None:
    for target, key in (("price", "gp_regressor"), ("dear", "svgp_classifier")):
        shape = summarise_target(Table.from_frame(frame).dataset(), target)
        assert shape is not None
        found = propose_for_target(PREDICTORS, shape)
        assert found.key == key
        assert repr(target) in found.reason
        assert target_obstacle(PREDICTORS[key], shape) is None
        other = {"price": "svgp_classifier", "dear": "gp_regressor"}[target]
        assert target_obstacle(PREDICTORS[other], shape) is not None


def test_settings_are_advised_for_the_rows_of_the_fit(frame: pd.DataFrame) -> None:
    for given in ({}, {"hold_out": 0.25, "hold_out_seed": 1}):
        dataset = Table.from_frame(frame).dataset(**given)  # type: ignore[arg-type]
        shape = summarise_target(dataset, "price")
        assert shape is not None
        split = split_for_target(dataset, "number", JobSpec("0" * 16, "x", "", target="price"))
        assert shape.rows == (~split.held_out).sum()
        suggested = suggested_target_settings(PREDICTORS["svgp_regressor"], shape)
        assert suggested["n_inducing"] == shape.rows


def test_the_mean_is_that_of_a_linear_fit_where_the_truth_is_linear(
    run: Run, frame: pd.DataFrame
) -> None:
    _, store, name = run(frame, max_iter=200)
    found = made(store, name)
    X = frame[["size", "age"]].assign(garden=(frame["garden"] == "yes").astype(float)).to_numpy()
    held = found["held_out"].to_numpy()
    line = LinearRegression().fit(X[~held], frame["price"][~held]).predict(X[held])
    apart = np.sqrt(np.mean(np.square(line - found["mean"][held])))
    assert apart < 3.0  # the sd of the noise


# ---- in other processes, and again --------------------------------------------------------------


@pytest.mark.slow
def test_workers_fit_and_predict(
    store: Store, frame: pd.DataFrame, launch: Callable[..., Any]
) -> None:
    dataset = Table.from_frame(frame).dataset()
    digest = store.datasets.put(dataset)
    fit = store.submit(JobSpec(digest, "houses", "svgp_regressor", QUICK, target="price"))
    launch()
    assert finished(store, fit).status == "done"
    rows = matching_dataset(
        Table.from_frame(frame), [str(n) for n in store.load_model(fit, "target").feature_names_in_]
    )
    store.datasets.put(rows)
    other = store.submit(prediction_of(store.get(fit), rows))
    assert finished(store, other).status == "done"
    assert len(made(store, other)) == 120
    assert store.events(other)[-1].step.iteration == 120
    store.delete(fit)
    with pytest.raises(DataError):
        store.get(other)  # it goes with the run whose model it used


def test_its_cost_is_gauged_on_the_rows_that_it_learns_from(frame: pd.DataFrame) -> None:
    dataset = Table.from_frame(frame).dataset()
    found = probe(JobSpec(dataset.digest, "x", "svgp_regressor", QUICK, target="price"), dataset)
    assert found["step"] > 0
    with pytest.raises(DataError, match="'garden' has"):
        probe(JobSpec(dataset.digest, "x", "svgp_regressor", QUICK, target="garden"), dataset)


def test_the_program_that_repeats_a_run_prints_its_bound(
    run: Run, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    _, store, name = run(frame, groups="street")
    program = snippet(store.get(name), store.home)
    exec(compile(program, "snippet.py", "exec"), {})
    assert float(capsys.readouterr().out) == pytest.approx(store.get(name).elbo)


def test_no_group_and_no_time_takes_the_fit_most_of_its_rows() -> None:
    groups = np.array(["A"] * 54 + ["B"] * 3 + ["C"] * 3, dtype=object)
    for seed in range(6):
        held = hold_out_groups(groups, 0.2, seed, name="g")
        assert set(groups[held]) == {"B", "C"}
    with pytest.raises(DataError, match="all of one group"):
        hold_out_groups(groups[:9], 0.2, 0, name="g")
    times = np.repeat([2020.0, 2021.0, 2022.0], [40, 15, 5])
    assert hold_out_last(times, 0.2, name="year").sum() == 5
    with pytest.raises(DataError, match="90% of the rows are of the last of 'year'"):
        hold_out_last(np.repeat([2020.0, 2021.0], [6, 54]), 0.2, name="year")


def test_another_file_is_compared_with_the_same_columns_of_the_fit(
    run: Run, frame: pd.DataFrame
) -> None:
    wanted = frame[["price", "size", "age"]].assign(size=100 * frame["size"])
    _, store, name = run(wanted)
    model, dataset = store.load_model(name, "target"), Table.from_frame(wanted).dataset()
    found = read_new_table(model, Table.from_frame(wanted), dataset, NewTableRoles())
    assert found.suspicions == ()
    for column in ("size", "age"):
        assert found.medians[column] == pytest.approx((wanted[column].median(),) * 2)


def test_classes_that_the_fit_has_not_seen_are_left_out_of_the_ranking() -> None:
    rows = pd.DataFrame(
        {
            "truth": ["a", "a", "b", "b", "z"],
            "predicted": ["a", "a", "b", "b", "b"],
            "probability of a": [0.9, 0.8, 0.3, 0.2, 0.1],
            "probability of b": [0.1, 0.2, 0.7, 0.8, 0.9],
        }
    )
    known = np.log(rows[["probability of a", "probability of b"]].max(axis=1))
    rows["log_density"] = known.where(rows["truth"] != "z", -np.inf)
    rows["probability"] = known.map(np.exp)
    found = target_metrics(rows, "Here.")["auc"]
    assert found.value == 1.0
    assert "not seen are left out: 1." in found.protocol


def test_held_out_rows_that_all_lack_the_target_are_not_replaced_by_others(
    run: Run, frame: pd.DataFrame
) -> None:
    held = np.arange(120) < 12
    table = frame.assign(price=frame["price"].mask(held))
    dataset = dataclasses.replace(Table.from_frame(table).dataset(), held_out=held)
    state, *_ = run(dataset)
    assert state.status == "failed"
    assert "None of the 12 rows that are held out has the target 'price'" in str(state.message)
