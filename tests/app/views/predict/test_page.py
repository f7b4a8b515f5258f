"""A target on the pages: chosen, fitted, looked at, and predicted for another file."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.formatting import number
from app.services import prediction, progress, runs, server, tables
from app.state.choices import ReadingChoices, SampleChoice, TargetChoice
from app.state.widgets import widget_key
from app.views.predict import baseline_scores
from lvmcore.data import Table
from lvmcore.evaluation.target_scores import MethodScores, verdict
from lvmcore.runs import Job
from tests.app.conftest import OpenPage, Wait, fitted_run, follow, ways
from tests.app.controls import unexplained

GONE = "d" * 32


def fit(model: str, aim: TargetChoice, **settings: Any) -> str:
    table = tables.table(SampleChoice("wine"), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    return fitted_run(dataset, model, settings, aim)


@pytest.fixture(scope="module")
def single(shared_home: Path) -> str:
    """A single layer to a number."""
    return fit("svgp_regressor", TargetChoice("alcohol"), max_iter=60)


@pytest.fixture(scope="module")
def deep(shared_home: Path) -> str:
    """Two hidden layers of two units to a number."""
    return fit("sod_regressor", TargetChoice("alcohol"), max_iter=20, n_inducing=20, hidden_dim=2)


@pytest.fixture(scope="module")
def classes(shared_home: Path) -> str:
    """Classes of the label."""
    return fit("svgp_classifier", TargetChoice("cultivar"), max_iter=40)


def texts(page: AppTest) -> str:
    kinds = ("markdown", "caption", "warning", "error", "info")
    found = (element for kind in kinds for element in getattr(page.main, kind))
    return "\n".join(str(element.value).replace("\\", "") for element in found)


def box(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.main.selectbox if element.label == label]
    return found


def charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


def numbers(array: Any) -> np.ndarray:
    """An array of a figure, which plotly sends as text."""
    if isinstance(array, dict):
        return np.frombuffer(base64.b64decode(array["bdata"]), dtype=array["dtype"])
    return np.asarray(array)


def chart(page: AppTest, name: str) -> dict[str, Any]:
    """The chart in which a trace is called so."""
    (found,) = [c for c in charts(page) if name in {trace.get("name") for trace in c["data"]}]
    return found


@pytest.fixture(scope="module")
def series(shared_home: Path) -> str:
    """A trend and a period along one column."""
    t = 2000 + np.arange(60) / 12
    y = 5 * (t - 2000) + 3 * np.sin(2 * np.pi * t) + np.random.default_rng(0).normal(size=60)
    table = Table.from_frame(pd.DataFrame({"year": t, "sold": y}), name="series")
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    kernel = {"kernel": "linear(year) + periodic(year, period=1)", "max_iter": 30}
    return fitted_run(dataset, "gp_regressor", kernel, TargetChoice("sold"))


@pytest.fixture(scope="module")
def months(shared_home: Path) -> str:
    """A trend and a yearly wave over months, which the dataset has as a column of dates alone."""
    t = np.arange(60)
    sold = 20 + 0.5 * t + 6 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).normal(size=60)
    when = pd.date_range("1960-01-01", periods=60, freq="MS")
    table = Table.from_frame(pd.DataFrame({"Month": when, "Sold": sold}), name="sales")
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    kernel = {"kernel": "linear(Month) + periodic(Month, period=12)", "max_iter": 30}
    return fitted_run(dataset, "gp_regressor", kernel, TargetChoice("Sold", time="Month"))


# ---- without predictions ---------------------------------------------------------------------


def test_without_a_run_it_says_what_it_is_for(open_page: OpenPage) -> None:
    page = open_page("predict")
    assert not page.exception
    assert "After a fit to a target this page shows" in texts(page)
    follow(page, "Choose a column to predict")
    assert page.title[0].value == "Fit"


def test_a_run_that_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = open_page("predict", run=GONE)
    assert not page.exception
    assert "does not exist" in page.warning[0].value


def test_a_map_predicts_nothing(open_page: OpenPage, fitted: str) -> None:
    page = open_page("predict", run=fitted)
    assert not page.exception
    assert "predicts no column" in texts(page)
    assert "Explore the map" in ways(page)


@pytest.mark.slow(quick=["generate", "latent", "new_rows"])
@pytest.mark.parametrize("name", ["latent", "new_rows", "impute", "generate"])
def test_a_page_about_maps_leads_to_the_predictions(
    open_page: OpenPage, single: str, name: navigation.PageName
) -> None:
    page = open_page(name, run=single)
    assert not page.exception
    assert "This run predicts alcohol" in texts(page)
    follow(page, "See the predictions")
    assert page.title[0].value == "Predict"
    assert not page.exception


def test_a_comparison_holds_maps_alone(open_page: OpenPage, single: str, fitted: str) -> None:
    page = open_page("compare", run=single)
    assert not page.exception
    (maps,) = [one for one in page.main.multiselect if one.label.startswith("Maps of")]
    named = server.store().get(single).name
    assert named not in maps.options
    page.query_params["runs"] = f"{fitted},{single}"
    page.run()
    assert not page.exception
    assert "1 run left out: a model that predicts a target has no map." in texts(page)


@pytest.mark.slow
def test_one_that_failed_says_why(open_page: OpenPage) -> None:
    run = fit("svgp_regressor", TargetChoice("cultivar", groups="cultivar"))
    assert server.store().get(run).status == "failed"
    for name in ("predict", "fit"):
        page = open_page(name, run=run)
        assert not page.exception
        assert "'cultivar' has" in texts(page)
        assert "no number" in texts(page)


# ---- numbers ---------------------------------------------------------------------------------


def test_numbers_lie_beside_the_truth_with_their_intervals(
    open_page: OpenPage, single: str
) -> None:
    page = open_page("predict", run=single)
    assert not page.exception
    found = prediction.predictions(single).query("held_out")
    cards = {metric.label: metric for metric in page.metric}
    assert list(cards) == ["NLPP", "RMSE", "MAE", "R²", "90 % coverage"]
    rmse = float(np.sqrt(np.mean((found["truth"] - found["mean"]) ** 2)))
    assert cards["RMSE"].value == f"{rmse:.3f}"
    assert "36 rows" in cards["RMSE"].help.replace("\\", "")
    scatter = chart(page, "exact")
    marks = [trace for trace in scatter["data"] if trace["name"] != "exact"]
    assert sorted(np.concatenate([numbers(trace["x"]) for trace in marks])) == pytest.approx(
        sorted(found["truth"])
    )
    assert sum(len(numbers(trace["error_y"]["array"])) for trace in marks) == 36
    assert scatter["layout"]["yaxis"]["title"]["text"] == "alcohol, predicted"
    assert "All 36 held-out rows." in texts(page)


def test_a_series_has_a_forecast_and_its_kernel_components(
    open_page: OpenPage, series: str
) -> None:
    page = open_page("predict", run=series)
    assert not page.exception
    assert [tab.label for tab in page.tabs] == [
        "Forecast",
        "Components",
        "Baselines",
        "Calibration",
        "Learning curve",
    ]
    forecast = chart(page, "held-out rows")
    (ahead,) = [trace for trace in forecast["data"] if trace["name"] == "beyond the data"]
    assert ahead["line"]["dash"] == "dash"
    assert numbers(ahead["x"])[0] == pytest.approx(2000 + 59 / 12)
    line, wave, noise = prediction.component_curves(series)
    shown = texts(page)
    for part in (line, wave, noise):
        assert f"{part.summary.share:.0%}" in shown
    assert "A linear trend in year" in shown
    assert "A period of 1.00 in year" in shown
    drawn = [c for c in charts(page) if {t.get("name") for t in c["data"]} >= {"mean"}]
    assert len(drawn) == 3  # the forecast and two summands
    assert line.curve is not None
    np.testing.assert_allclose(
        numbers(drawn[1]["data"][1]["y"]), line.curve.mean[line.curve.x <= line.curve.last]
    )


def test_a_series_of_months_is_forecast_in_dates(open_page: OpenPage, months: str) -> None:
    page = open_page("predict", run=months)
    assert not page.exception
    forecast = chart(page, "held-out rows")
    assert forecast["layout"]["xaxis"]["type"] == "date"
    (ahead,) = [trace for trace in forecast["data"] if trace["name"] == "beyond the data"]
    assert ahead["x"][0] == "1964-12-01T00:00:00"
    assert ahead["x"][-1].startswith("1965-11")
    shown = texts(page)
    assert "A period of 12.0 months in Month" in shown
    assert "Column 'Month' is the number of months since 1960-01." in shown
    page = upload(page, months, pd.DataFrame({"month": ["1965-01", "1965-01-16T12:00", "1970-01"]}))
    assert not page.exception
    assert not page.error
    assert "3 rows, 1 of 1 column found" in texts(page)
    assert "other units" not in texts(page)
    page = upload(page, months, pd.DataFrame({"Month": ["1965-01", "soon"]}))
    assert "'Month' cannot be a feature: row 2 has 'soon', which is no date" in texts(page)


@pytest.mark.parametrize(
    ("transform", "words"),
    [("log", "in units of the target they multiply"), ("yeo-johnson", "Yeo-Johnson scale")],
)
def test_the_scale_of_a_transformed_target_is_named(
    open_page: OpenPage, shared_home: Path, transform: str, words: str
) -> None:
    t = np.arange(40.0) / 7
    y = np.exp(2 + 0.35 * t + 0.2 * np.random.default_rng(0).normal(size=40))
    table = Table.from_frame(pd.DataFrame({"day": t, "sold": y}), name="growth")
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    settings = {"kernel": "linear + rbf", "max_iter": 10, "target_transform": transform}
    run = fitted_run(dataset, "gp_regressor", settings, TargetChoice("sold"))
    page = open_page("predict", run=run)
    assert not page.exception
    assert words in texts(page)
    titles = {c["layout"]["yaxis"]["title"]["text"] for c in charts(page) if "yaxis" in c["layout"]}
    assert ("factor of sold" if transform == "log" else "sold, transformed") in titles


def test_baselines_stand_beside_the_model(open_page: OpenPage, single: str) -> None:
    page = open_page("predict", run=single)
    found = prediction.comparison(single)
    assert found is not None
    assert verdict(found, lambda value: number(value, 3)).partition(".")[0] in texts(page)
    (shown,) = [one.value for one in page.dataframe if "method" in one.value]
    assert shown["method"].tolist() == [
        "the model",
        "linear model",
        "histogram boosting",
        "random forest",
    ]
    assert shown["RMSE"].tolist() == [one.values["rmse"] for one in found.methods]
    metric = server.store().get(single).metrics["nlpp"]
    assert shown["NLPP"][0] == metric.value
    assert "All methods learned from the same 142 rows." in texts(page)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (MethodScores("linear", {}, better=("error", "density")), "better in both"),
        (MethodScores("linear", {}, ("error",), ("density",)), "better in RMSE, worse in NLPP"),
        (MethodScores("linear", {}, worse=("density",)), "worse in NLPP"),
        (MethodScores("linear", {}), "within the error"),
        (MethodScores("model", {}), ""),
    ],
)
def test_a_method_is_compared_with_the_model_in_words(scores: MethodScores, words: str) -> None:
    assert baseline_scores._against(scores, ["RMSE", "NLPP", "coverage"]) == words


def test_a_run_without_baselines_opens_and_says_why(
    open_page: OpenPage, single: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an earlier version; one whose baselines are being fitted; one with a damaged file."""
    path = server.store().job_folder(single).files.comparison
    kept = path.read_bytes()
    try:
        path.unlink()
        page = open_page("predict", run=single)
        assert not page.exception
        assert "before baselines were part of a fit" in texts(page)
        assert [metric.label for metric in page.metric][1] == "RMSE"
        job = dataclasses.replace(server.store().get(single), stage="measuring")
        with monkeypatch.context() as patched:
            patched.setattr(runs, "job", lambda run: job)
            page = open_page("predict", run=single)
            assert not page.exception
            assert "Baselines are being fitted to the same rows." in texts(page)
        path.write_text("{}")
        page = open_page("predict", run=single)
        assert not page.exception
        assert "The comparison with baselines is damaged" in page.error[0].value
    finally:
        path.write_bytes(kept)


def test_coverage_is_drawn_at_every_level(open_page: OpenPage, single: str) -> None:
    page = open_page("predict", run=single)
    (curve,) = [t for t in chart(page, "observed")["data"] if t["name"] == "observed"]
    found = prediction.predictions(single).query("held_out")
    inside = (found["q05"] <= found["truth"]) & (found["truth"] <= found["q95"])
    levels, shares = numbers(curve["x"]), numbers(curve["y"])
    assert len(levels) == 19
    assert shares[np.isclose(levels, 90)] == pytest.approx(100 * inside.mean())


def test_a_single_layer_says_that_nothing_is_hidden(open_page: OpenPage, single: str) -> None:
    assert "has no hidden layer" in texts(open_page("predict", run=single))


def test_a_slice_is_what_the_model_says_there(open_page: OpenPage, single: str) -> None:
    page = open_page("predict", run=single)
    across, upright = box(page, "Horizontal column").value, box(page, "Vertical column").value
    assert "alcohol" not in (across, upright)
    (heat,) = [t for t in chart(page, "background")["data"] if t["name"] == "background"]
    rows = prediction.training_rows(single)
    X = rows.X[~rows.held_out].median().to_frame().T
    X[across], X[upright] = numbers(heat["x"])[-1], numbers(heat["y"])[0]
    z = heat["z"]
    cells = numbers(z).reshape([int(n) for n in z["shape"].split(",")]) if "shape" in z else z
    said = prediction.predictor(single).predict(X)  # type: ignore[attr-defined]
    assert np.asarray(cells)[0][-1] == pytest.approx(said[0])
    box(page, "Horizontal column").select("magnesium").run()
    assert not page.exception
    assert chart(page, "background")["layout"]["xaxis"]["title"]["text"] == "magnesium"
    box(page, "Show").select("sd of the prediction").run()
    assert not page.exception
    (heat,) = [t for t in chart(page, "background")["data"] if t["name"] == "background"]
    assert "sd of the prediction" in heat["colorbar"]["title"]["text"]


def test_a_curve_over_a_column_has_its_band_and_the_rows(open_page: OpenPage, single: str) -> None:
    page = open_page("predict", run=single)
    column = box(page, "Column of the curve").value
    box(page, "Column of the curve").select("magnesium").run()
    assert not page.exception
    assert column != "magnesium"
    drawn = chart(page, "90 % band")
    assert drawn["layout"]["xaxis"]["title"]["text"] == "magnesium"
    curve = prediction.column_curve(single, "magnesium")
    (mean,) = [trace for trace in drawn["data"] if trace["name"] == "mean"]
    np.testing.assert_allclose(numbers(mean["y"]), curve.mean)
    rows = [t for t in drawn["data"] if t["name"] in ("rows of the fit", "held-out rows")]
    assert [len(numbers(trace["x"])) for trace in rows] == [142, 36]
    assert "with a probability of 90 %" in texts(page)


def test_the_relevance_of_each_column_is_a_bar(open_page: OpenPage, single: str) -> None:
    page = open_page("predict", run=single)
    (bars,) = chart(page, "relevance")["data"]
    effects = prediction.column_effects(single)
    assert effects.sum() == pytest.approx(1)
    assert numbers(bars["x"]) == pytest.approx(np.sort(100 * effects)[::-1])
    box(page, "Relevance of the inputs of").select("layer1").run()
    assert not page.exception
    (bars,) = chart(page, "relevance")["data"]
    model = prediction.predictor(single)
    share = model.relevance_["layer1"] / model.relevance_["layer1"].sum()
    assert numbers(bars["x"]) == pytest.approx(np.sort(100 * share)[::-1])


# ---- hidden layers ---------------------------------------------------------------------------


def test_two_units_of_a_layer_are_a_map(open_page: OpenPage, deep: str) -> None:
    page = open_page("predict", run=deep)
    assert not page.exception
    assert box(page, "Layer").value == 2
    found = prediction.hidden_units(deep)
    assert found is not None
    for look in ("target", "error", "uncertainty"):
        box(page, "Colour").select(look).run()
        assert not page.exception
        drawn = next(
            c for c in charts(page) if "unit" in c["layout"]["xaxis"]["title"].get("text", "")
        )
        names = [drawn["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
        assert sorted(names) == ["layer 2 unit 1", "layer 2 unit 2"]
        points = np.concatenate([numbers(trace["x"]) for trace in drawn["data"]])
        assert np.sort(points) == pytest.approx(np.sort(found[names[0]]))
    frame = prediction.predictions(deep)
    colours = drawn["data"][0]["marker"]["color"]
    sd = np.sort(frame["sd"].to_numpy())
    assert np.sort(numbers(colours)) == pytest.approx((sd - sd[0]) / (sd[-1] - sd[0]))
    box(page, "Layer").select(1).run()
    assert not page.exception
    assert [box(page, "Relevance of the inputs of").options[-1]] == [
        "kernel of the layer to the target, 3"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["dsvi_regressor", "iwvi_regressor"])
def test_a_layer_of_one_unit_is_drawn_with_what_is_predicted(
    open_page: OpenPage, model: str
) -> None:
    run = fit(model, TargetChoice("ash"), max_iter=3, n_inducing=8, hidden_dim=1, n_layers=1)
    page = open_page("predict", run=run)
    assert not page.exception
    drawn = next(c for c in charts(page) if "unit" in c["layout"]["xaxis"]["title"].get("text", ""))
    points = np.concatenate([numbers(trace["y"]) for trace in drawn["data"]])
    assert np.sort(points) == pytest.approx(np.sort(prediction.predictions(run)["mean"]))


@pytest.mark.slow
def test_a_target_whose_functions_are_drawn_has_a_curve_and_no_bound(open_page: OpenPage) -> None:
    run = fit("sghmc_regressor", TargetChoice("ash"), max_iter=20, n_inducing=8, hidden_dim=2)
    page = open_page("fit", run=run)
    assert not page.exception
    assert "Log likelihood of the draws" in texts(page)
    assert "Map" not in [text.value.strip("*") for text in page.markdown]
    page = open_page("predict", run=run)
    assert not page.exception
    assert "bound (ELBO)" not in texts(page)
    assert np.isfinite(prediction.predictions(run)["sd"]).all()


@pytest.mark.slow
def test_a_network_has_features_and_weights(open_page: OpenPage) -> None:
    run = fit("cnn_classifier", TargetChoice("cultivar"), max_iter=60, hidden_dim=2)
    for name in ("fit", "predict"):
        page = open_page(name, run=run)
        assert not page.exception
        assert not page.error
    assert box(page, "Layer").value == 1
    assert box(page, "Relevance of the inputs of").options[1:] == [
        "weights of hidden layer 1",
        "weights of the layer to the target, 2",
    ]
    drawn = next(c for c in charts(page) if "unit" in c["layout"]["xaxis"]["title"].get("text", ""))
    found = prediction.hidden_units(run)
    points = np.concatenate([numbers(trace["x"]) for trace in drawn["data"]])
    name = drawn["layout"]["xaxis"]["title"]["text"]
    assert np.sort(points) == pytest.approx(np.sort(found[name]))


@pytest.mark.slow
def test_a_fit_that_was_cut_short_before_it_predicted_still_opens(open_page: OpenPage) -> None:
    run = fit("svgp_regressor", TargetChoice("hue"), max_iter=3)
    server.store().job_folder(run).files.predictions.unlink()
    page = open_page("predict", run=run)
    assert not page.exception
    assert "before its rows were predicted" in texts(page)
    assert page.get("file_uploader")


# ---- classes ---------------------------------------------------------------------------------


def test_classes_are_counted_against_the_truth(open_page: OpenPage, classes: str) -> None:
    page = open_page("predict", run=classes)
    assert not page.exception
    found = prediction.predictions(classes).query("held_out")
    cards = {metric.label: metric.value for metric in page.metric}
    assert list(cards) == ["accuracy", "macro F1", "log loss", "AUC", "calibration (ECE)"]
    (heat,) = [t for c in charts(page) for t in c["data"] if t.get("texttemplate")]
    counts = pd.crosstab(found["truth"], found["predicted"])
    text = heat["text"]
    cells = numbers(text).reshape([int(n) for n in text["shape"].split(",")])
    assert np.diag(cells).tolist() == [
        counts.loc[name, name] for name in prediction.predictor(classes).classes_
    ]
    assert cells.sum() == len(found)
    assert "Rows in 10 bins" in texts(page)
    assert box(page, "Show").options[0].startswith("probability of ")
    curves = chart(page, "rows of class_0")
    lines = {t["name"]: numbers(t["y"]) for t in curves["data"] if t["mode"] == "lines"}
    assert list(lines) == list(prediction.predictor(classes).classes_)
    np.testing.assert_allclose(sum(lines.values()), 1)


# ---- from the Fit page -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_target_puts_other_models_on_the_fit_page(open_page: OpenPage, wait: Wait) -> None:
    page = open_page("fit")
    assert box(page, "Target").value == ""
    box(page, "Target").select("proline").run()
    assert not page.exception
    said = texts(page)
    assert "Recommended here: 'proline' is a number" in said
    assert "Predicts classes, and 'proline' has" in said
    assert "LDGD" not in said
    (steps,) = [one for one in page.main.number_input if one.label == "Steps at most"]
    steps.set_value(20).run()
    page.button(widget_key("fit", "start")).click().run()
    assert not page.exception
    job = wait(page.query_params["run"])
    assert (job.spec.target, job.status) == ("proline", "done")
    page.run()
    assert not page.exception
    assert box(page, "Target").value == "proline"
    assert "**Held-out rows**" in texts(page)
    steps = progress.progress(job.id).steps
    assert {s.iteration for s in steps if np.isfinite(s.held_out)} == {steps[-1].iteration}
    follow(page, "See the predictions")
    assert page.title[0].value == "Predict"
    assert not page.exception


@pytest.mark.slow
def test_groups_and_time_are_chosen_there(open_page: OpenPage, wait: Wait) -> None:
    page = open_page("fit")
    box(page, "Target").select("alcohol").run()
    box(page, "Scored on").select("groups").run()
    assert not page.exception
    assert "cultivar" in box(page, "By the column").options
    box(page, "By the column").select("cultivar").run()
    (steps,) = [one for one in page.main.number_input if one.label == "Steps at most"]
    steps.set_value(10).run()
    page.button(widget_key("fit", "start")).click().run()
    job = wait(page.query_params["run"])
    assert (job.spec.target, job.spec.groups, job.status) == ("alcohol", "cultivar", "done")


def test_a_category_that_is_not_learned_from_is_named(open_page: OpenPage) -> None:
    frame = pd.DataFrame({"x": np.arange(40) * 1.5, "y": np.arange(40.0) % 7})
    frame["kind"] = ["red", "green", "blue", "red"] * 10
    dataset = Table.from_frame(frame, name="kinds").dataset()
    page = open_page("fit", run=runs.start_fit(dataset, "svgp_regressor", {}, TargetChoice("y")))
    assert not page.exception
    assert "kind is a category and not used" in texts(page)
    box(page, "Target").select("kind").run()
    assert "a category and not used" not in texts(page)


def test_classes_of_the_label_have_models_of_classes(open_page: OpenPage) -> None:
    page = open_page("fit")
    box(page, "Target").select("cultivar").run()
    assert "Predicts numbers, and 'cultivar' holds classes." in texts(page)
    box(page, "Target").select("").run()
    assert not page.exception
    assert any("LDGD" in option for option in box(page, "Model").options)


# ---- another file ----------------------------------------------------------------------------


def upload(page: AppTest, run: str, frame: pd.DataFrame) -> AppTest:
    content = frame.to_csv(index=False).encode()
    key = widget_key("predict", run, "upload")
    return page.file_uploader(key).set_value(("second.csv", content, "text/csv")).run()


def predict(page: AppTest, wait: Wait) -> tuple[AppTest, Job]:
    (button,) = [one for one in page.main.button if one.label == "Predict"]
    button.click().run()
    assert not page.exception
    job = wait(page.query_params["rows"])
    return page.run(), job


@pytest.mark.slow
def test_a_second_file_is_predicted_and_handed_out(
    open_page: OpenPage, single: str, wait: Wait
) -> None:
    frame = tables.table(SampleChoice("wine"), ReadingChoices()).frame.iloc[:30]
    page = upload(open_page("predict", run=single), single, frame.drop(columns="alcohol"))
    assert not page.exception
    assert "12 of 12 columns found" in texts(page)
    page, job = predict(page, wait)
    assert job.status == "done"
    assert "30 rows predicted" in texts(page)
    content = prediction.predictions_csv(job.id).decode().splitlines()
    assert content[0] == "row_id,mean,sd,q05,q95"
    assert len(content) == 31
    assert not job.metrics
    assert unexplained(page) == set()
    again = open_page("predict", run=single)
    again.query_params["rows"] = job.id
    again.run()
    assert "30 rows predicted" in texts(again)  # by its address
    (button,) = [one for one in page.main.button if one.label == "Predict another file"]
    button.click().run()
    assert not page.exception
    assert "The file needs the columns of the fit" in texts(page)


@pytest.mark.slow
def test_a_second_file_with_the_target_is_measured(
    open_page: OpenPage, classes: str, wait: Wait
) -> None:
    frame = tables.table(SampleChoice("wine"), ReadingChoices()).frame.iloc[::4]
    page = upload(open_page("predict", run=classes), classes, frame)
    page, job = predict(page, wait)
    assert job.metrics["accuracy"].value is not None
    assert "accuracy: " in texts(page)


@pytest.mark.slow
def test_a_file_without_a_column_is_refused_by_name(open_page: OpenPage, single: str) -> None:
    frame = tables.table(SampleChoice("wine"), ReadingChoices()).frame.drop(columns="magnesium")
    page = upload(open_page("predict", run=single), single, frame)
    assert not page.exception
    assert "lacks 'magnesium'" in texts(page)
    assert "Predict" not in [one.label for one in page.main.button]


# ---- among the runs --------------------------------------------------------------------------


def test_the_runs_page_lists_opens_and_exports_it(open_page: OpenPage, single: str) -> None:
    page = open_page("runs")
    page.session_state["runs.chosen"] = (single,)
    page.run()
    assert not page.exception
    (table,) = [one.value for one in page.main.dataframe if "R²" in one.value]
    row = table[table["Name"].str.startswith("Sparse GP (SVGP) on alcohol")].iloc[0]
    assert row["Model"] == "Sparse GP (SVGP)"
    follow(page, "Open the predictions")
    assert page.title[0].value == "Predict"
    page = open_page("export", run=single)
    labels = [element.proto.label for element in page.get("download_button")]
    assert "Predictions as CSV" in labels
    assert "Embedding as CSV" not in labels


@pytest.mark.slow(quick=["classes"])
@pytest.mark.parametrize("kind", ["single", "deep", "classes"])
def test_every_control_is_explained(
    open_page: OpenPage, request: pytest.FixtureRequest, kind: str
) -> None:
    run = request.getfixturevalue(kind)
    for name in ("predict", "fit", "runs"):
        page = open_page(name, run=run)
        assert not page.exception
        assert unexplained(page) == set()
