"""From a long-tailed column and a category to a measured fit that speaks in the data's units."""

from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import expect

from lvmcore.runs import Store
from tests.e2e.dashboard import Dashboard

_FEATURE_X, _TRANSFORM_X, _ROW_PX = 48, 405, 33
MISSING = "Missing cells by row and column"
PROFILE = "Histogram of the column"


def _table(folder: Path) -> Path:
    rng = np.random.default_rng(12)
    hidden = rng.standard_normal((120, 2))
    frame = pd.DataFrame(hidden @ rng.standard_normal((2, 3)), columns=["a", "b", "c"])
    frame += 0.3 * rng.standard_normal((120, 3))
    frame["amount"] = np.exp(3 + hidden[:, 0]).round(2)
    frame["tissue"] = np.tile(["liver", "lung", "skin"], 40)
    frame["kind"] = np.where(hidden[:, 1] > 0, "x", "y")
    frame.loc[5:14, ["a", "b"]] = np.nan
    path = folder / "amounts.csv"
    frame.to_csv(path, index=False)
    return path


def _click(dashboard: Dashboard, row: int, x: int) -> None:
    dashboard.settled()
    cells = dashboard.page.get_by_test_id("stDataFrame").last.locator(".dvn-scroller")
    cells.click(position={"x": x, "y": _ROW_PX * (row + 1) + _ROW_PX // 2})


def _transform(dashboard: Dashboard, row: int, what: str) -> None:
    dashboard.choose_in_cell(row, _TRANSFORM_X, what)


def test_columns_are_transformed_and_rows_held_out(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.upload(_table(tmp_path))
    dashboard.says("120 rows, 4 features, label with 2 classes")
    dashboard.says("20 cells of 720 (2.8 %) in 2 of 6 columns. 110 rows of 120 are complete.")
    for name in (PROFILE, MISSING):
        expect(page.get_by_label(name, exact=True).locator(".js-plotly-plot")).to_be_visible()

    _transform(dashboard, 3, "log(1 + x)")
    dashboard.says("Transformed by log(1 + x): 'amount'.")
    _click(dashboard, 4, _FEATURE_X)
    dashboard.says("120 rows, 7 features, label with 2 classes")
    _transform(dashboard, 0, "log(1 + x)")
    dashboard.says("Column 'a' cannot be transformed by log(1 + x): row")
    dashboard.number("Hold out, % of rows", 20)
    dashboard.says("120 rows, 7 features, label with 2 classes, 24 rows held out")
    expect(page.get_by_role("alert")).to_have_count(0)
    for key, held_out in (("Control+z", 0), ("Control+Shift+Z", 20)):
        dashboard.settled()
        page.get_by_role("heading", name="Columns", exact=True).click()
        page.keyboard.press(key)
        expect(page.get_by_role("spinbutton", name="Hold out")).to_have_value(str(held_out))
    page.get_by_role("spinbutton", name="Hold out").press("Control+z")  # of the field alone
    page.wait_for_timeout(1000)
    dashboard.settled()
    dashboard.says("120 rows, 7 features, label with 2 classes, 24 rows held out")

    dashboard.to_fit()
    dashboard.choose("ppca")
    dashboard.settled()
    run = dashboard.start()
    dashboard.follow("Explore the map")
    dashboard.says("held out, to measure the fit with.")
    store = Store(dashboard.server.home)
    rows = pd.read_parquet(store.job_folder(run).files.embedding)["row_id"]
    dataset = store.datasets.get(store.get(run).spec.dataset)
    assert dataset.held_out.sum() == 24
    assert not set(rows) & set(dataset.row_ids[dataset.held_out])
    dashboard.tab("Point")
    lookup = page.get_by_role("combobox", name="Row", exact=True)
    lookup.fill(rows.iloc[0])
    lookup.press("Enter")
    dashboard.says("1 column of these was fitted as log(1 + x), which is the scale of the figure.")
    page.get_by_text("Scores of this map").click()
    dashboard.says("of the 24 rows held out of the fit")
