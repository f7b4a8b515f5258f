"""Another type and likelihood for a column, chosen in the table of columns."""

from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import expect

from lvmcore import load
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from tests.e2e.dashboard import Dashboard

# Where the column of likelihoods is, in pixels from the table's left edge.
LIKELIHOOD_X = 540


def _choose_type(dashboard: Dashboard, row: int, kind: str) -> None:
    """Choose a type in the third column of the editor."""
    page = dashboard.page
    dashboard.settled()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)  # the preview and the editor
    dashboard.choose_in_cell(row, 310, kind)


def test_a_column_gets_another_type(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.sample("Iris (150 rows)")
    dashboard.says("150 rows, 4 features, label with 3 classes")
    _choose_type(dashboard, 1, "category")
    dashboard.says("150 rows, 3 features, label with 3 classes")
    dashboard.says("Not used: sepal width (cm) (category, not ticked).")
    editor = page.get_by_test_id("stDataFrame").last
    expect(editor.get_by_test_id("glide-cell-2-1")).to_have_text("category")

    _choose_type(dashboard, 4, "numeric")
    dashboard.says("Column 'species' cannot be numeric: its cells are not numbers")
    dashboard.says("150 rows, 3 features, label with 3 classes")

    _choose_type(dashboard, 1, "numeric")
    dashboard.says("150 rows, 4 features, label with 3 classes")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_likelihood_is_chosen_refused_and_fitted(
    dashboard: Dashboard, tmp_path: Path, rng: np.random.Generator
) -> None:
    page = dashboard.page
    place = rng.standard_normal(60)
    frame = pd.DataFrame(
        {
            "height": 170.5 + 8 * place,
            "visits": rng.negative_binomial(2, 1 / (1 + np.exp(place))),
            "smoker": np.where(place > 0.3, "yes", "no"),
        }
    )
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    dashboard.open()
    dashboard.upload(tmp_path / "clinic.csv")
    dashboard.says("60 rows, 2 features")
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)
    editor = page.get_by_test_id("stDataFrame").last
    expect(editor.get_by_test_id("glide-cell-4-1")).to_have_text("negative binomial")
    dashboard.choose_in_cell(1, LIKELIHOOD_X, "Poisson")
    expect(editor.get_by_test_id("glide-cell-4-1")).to_have_text("Poisson")
    dashboard.choose_in_cell(0, LIKELIHOOD_X, "Poisson")
    dashboard.says("Column 'height' cannot have the likelihood poisson: row 1 has")
    dashboard.to_fit()
    dashboard.choose("bayesian_gplvm")
    dashboard.settings()
    menu = page.get_by_role("combobox", name="Likelihood of columns")
    menu.click()
    page.get_by_role("option", name="another, typed").click()
    field = page.get_by_role("textbox", name="Likelihood of columns, typed")
    field.fill("gaussian, poison")
    field.press("Enter")
    dashboard.settled()
    dashboard.button("Fit").click()
    dashboard.says("did you mean 'poisson'?")
    menu.fill("by column")
    menu.press("Enter")
    dashboard.settled()
    dashboard.number("Steps at most", 30)
    run = dashboard.start()
    dashboard.says("done in")
    model = load(dashboard.store().job_folder(run).path / "model.safetensors")
    assert isinstance(model, BayesianGPLVM)
    assert model.column_likelihood_ == "gaussian, poisson"
    dashboard.no_traceback()
