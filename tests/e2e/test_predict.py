"""A target in a real browser: a small CSV uploaded, a column learned, its predictions looked at."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from lvmcore import GPRegressor, load
from tests.e2e.dashboard import Dashboard

pytestmark = pytest.mark.timeout(600)

HELD_OUT = "Mean negative log density of held-out rows at each step"
SCATTER = "Predicted values with 90 % intervals over the true values of the held-out rows"

TABS = {
    "Relevance": "Share of relevance of each input",
    "Calibration": "true values inside it over level of the interval, of the held-out rows",
    "Curve": "Predicted mean over one column with a 90 % band",
    "Slice": "Prediction over two columns, the others at their median",
}

SERIES_TABS = {
    "Forecast": "Prediction along the column and beyond the data, with a 90 % band",
    "Components": "Component 2 of the prediction with a 90 % band",
}


@pytest.fixture
def csv(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Eighty houses, the price linear in size and age but for a little noise."""
    size, age = rng.uniform(0, 10, 80), rng.uniform(0, 50, 80)
    price = 100 + 8 * size - age + rng.standard_normal(80)
    path = tmp_path / "houses.csv"
    pd.DataFrame({"size": size, "age": age, "price": price}).to_csv(path, index=False)
    return path


def test_a_column_of_a_csv_is_learned_and_its_predictions_are_shown(
    dashboard: Dashboard, csv: Path
) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.upload(csv)
    dashboard.says("80 rows, 3 features")
    dashboard.to_fit()
    page.get_by_role("combobox", name="Target", exact=True).click()
    page.get_by_role("option", name="price", exact=True).click()
    dashboard.says("Recommended here: 'price' is a number")
    dashboard.settled()
    dashboard.number("Steps at most", 60)
    run = dashboard.start()
    dashboard.says("done in")
    measured = dashboard.curve(HELD_OUT)
    assert measured[-1][0] <= 60  # the exact process converges in fewer steps
    assert np.isfinite([density for _, density in measured]).all()
    dashboard.follow("See the predictions")
    plot = dashboard.plot(SCATTER)
    found = pd.read_parquet(dashboard.store().job_folder(run).path / "predictions.parquet")
    held = found[found["held_out"]]
    drawn = [trace for trace in plot["traces"] if trace["name"] != "exact"]
    truth = np.concatenate([np.asarray(trace["x"]) for trace in drawn])
    np.testing.assert_allclose(np.sort(truth), np.sort(held["truth"]))
    dashboard.says("held-out rows")
    for tab, drawn in TABS.items():
        page.get_by_role("tab", name=tab, exact=True).click()
        dashboard.figure(drawn)
    content = pd.read_csv(io.BytesIO(dashboard.download("Predictions as CSV")))
    np.testing.assert_allclose(content["mean"], found["mean"], rtol=1e-9)

    page.reload()
    dashboard.figure(SCATTER)
    dashboard.settled()
    dashboard.upload(csv)
    dashboard.button("Predict").click()
    dashboard.says("80 rows predicted")
    dashboard.no_traceback()


@pytest.fixture
def series(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Eight years of months: a trend, a period of a year and noise."""
    month = np.arange(96)
    sold = 20 + 0.1 * month + 5 * np.sin(2 * np.pi * month / 12) + 0.5 * rng.standard_normal(96)
    path = tmp_path / "sales.csv"
    pd.DataFrame({"month": month + 0.5, "sold": sold}).to_csv(path, index=False)
    return path


def by_keyboard(dashboard: Dashboard, field: str, typed: str) -> None:
    """Choose the first entry of a menu that has a text, by keyboard alone.

    What is typed is lost where the page is just drawn anew: it is typed until the menu shows it.
    """
    menu = dashboard.page.get_by_role("combobox", name=field, exact=True)
    for tries_left in reversed(range(8)):
        dashboard.settled()
        menu.press("ArrowDown")
        dashboard.page.keyboard.type(typed)
        try:
            expect(dashboard.page.get_by_role("option", name=typed).first).to_be_visible(
                timeout=6000
            )
            break
        except AssertionError:
            if not tries_left:
                raise
            dashboard.page.keyboard.press("Escape")
    dashboard.page.keyboard.press("Enter")
    dashboard.page.keyboard.press("Tab")
    dashboard.settled()


def test_a_kernel_is_typed_refused_with_its_mistake_built_and_fitted(
    dashboard: Dashboard, series: Path
) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.upload(series)
    dashboard.says("96 rows, 2 features")
    dashboard.to_fit()
    page.get_by_role("combobox", name="Target", exact=True).click()
    page.get_by_role("option", name="sold", exact=True).click()
    dashboard.says("Recommended here: 'sold' is a number")
    dashboard.settings()
    by_keyboard(dashboard, "Kernel", "another")
    field = page.get_by_role("textbox", name="Kernel, typed")
    for typed, refusal in {
        "linear + rbf * perodic(month)": "did you mean periodic?",
        "linear + rbf * periodic(mnth)": "did you mean 'month'?",
    }.items():
        field.fill(typed)
        field.press("Enter")
        dashboard.settled()
        dashboard.button("Fit").click()
        dashboard.says(refusal)
    for name, typed in {
        "Kernel": "built",
        "Kernel of component 1": "linear",
        "Kernel of component 2": "RBF",
        "Kernel of component 3": "periodic",
        "Sign of component 3": "×",
        "Columns of component 3": "month",
    }.items():
        by_keyboard(dashboard, name, typed)
    dashboard.says("linear + rbf * periodic(month)")
    dashboard.figure("Functions drawn from the prior of linear + rbf * periodic(month)")
    run = dashboard.start()
    dashboard.says("done in")
    dashboard.follow("See the predictions")
    dashboard.figure(SCATTER)
    for tab, figure in SERIES_TABS.items():
        page.get_by_role("tab", name=tab, exact=True).click()
        dashboard.figure(figure)
    dashboard.no_traceback()
    model = load(dashboard.store().job_folder(run).path / "model.safetensors")
    assert isinstance(model, GPRegressor)
    assert model.kernel_ == "linear + rbf * periodic(month)"
    component: Any = model._function.gp.kernel.summands[1].factors[1]
    period = float(component.component.period.detach()) * model._standardiser.scale[0]
    assert period == pytest.approx(12, rel=0.02)
