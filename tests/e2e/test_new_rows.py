"""New rows on a fitted map, in a real browser: a second CSV in disorder, placed and exported."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from lvmcore import cli
from lvmcore.data import load_sample
from tests.e2e.dashboard import PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(600)

NEW_MAP = "Map of the fit with the new rows"


def test_a_second_table_is_checked_placed_and_exported(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    page = dashboard.page
    frame = load_sample("wine").frame.iloc[::4].iloc[:, ::-1].reset_index(drop=True)
    frame["proline"] *= 1000
    frame = frame.assign(batch="=b1")
    file = tmp_path / "second.csv"
    frame.to_csv(file, index=False)

    run = dashboard.fitted(load_sample("wine").dataset(label="cultivar"), "ldgd", max_iter=60)
    dashboard.open("new_rows", run=run)
    dashboard.says("The file needs the columns of the fit")
    dashboard.settled()
    dashboard.upload(file)
    dashboard.says("second: 45 rows, 13 of 13 columns found")
    dashboard.says("'proline' looks 1000 times larger")
    dashboard.says("Not used, since the model has no such features: 'batch'")
    dashboard.button("Infer positions").click()
    plot = dashboard.plot(NEW_MAP)
    new = [trace for trace in plot["traces"] if trace["name"].startswith("new: ")]
    assert sum(len(trace["x"]) for trace in new) == 45
    dashboard.says("45 unusual")

    content = dashboard.download("New rows as CSV")
    out = tmp_path / "out.csv"
    folder = dashboard.store().job_folder(run).path
    assert cli.main(["transform", str(folder), str(file), "--out", str(out)]) == 0
    found, expected = pd.read_csv(io.BytesIO(content)), pd.read_csv(out)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-6, atol=1e-6)
    assert np.isfinite(found["surprise"]).all()

    page.reload()
    dashboard.says("45 unusual")
    dashboard.figure(NEW_MAP)
    expect(page.get_by_role("button", name="Back to the columns")).to_have_count(0)
    expect(page.get_by_text("looks 1000 times larger")).to_be_visible(timeout=PATIENCE_MS)
    dashboard.no_traceback()
