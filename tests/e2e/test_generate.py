"""The Generate page in a browser: the cursor, what it decodes to, and an end set where it is."""

import csv
import io

import numpy as np
from playwright.sync_api import expect

from lvmcore.data import load_sample
from tests.e2e.dashboard import PATIENCE_MS, Dashboard


def test_the_row_under_the_cursor_follows_it(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = dashboard.fitted(load_sample("iris").dataset(label="species"), "ppca")
    dashboard.open("generate", run=run)
    dashboard.says("The row at the centre of the map")
    first, _ = dashboard.cursor_at()
    canvas = dashboard.cursor_map()
    canvas.hover(position={"x": 200, "y": 150})
    moved, _ = dashboard.cursor_at(first)
    dashboard.says("The row under the cursor")
    canvas.click(position={"x": 330, "y": 300})
    dashboard.says("Fixed: latent dimension")
    held, place = dashboard.cursor_at(moved)
    canvas.hover(position={"x": 150, "y": 100})  # it stays where it is held

    canvas.press("ArrowRight")
    said, beside = dashboard.cursor_at(held)
    assert beside[0] > place[0]
    assert beside[1] == place[1]

    dashboard.button("Set A here").click()
    dashboard.says("The row under the cursor")
    chosen = page.get_by_role("combobox", name="Start (A)")
    expect(chosen).to_have_value("the point set on the map", timeout=PATIENCE_MS)
    dashboard.settled()  # the path is drawn after the choice of its ends
    assert dashboard.cursor_at()[0] == said

    dashboard.figure("Decoded rows along the path")
    rows = list(csv.DictReader(io.StringIO(dashboard.download("Rows of the path as CSV").decode())))
    start = np.array([float(rows[0][f"latent_{q + 1}"]) for q in range(4)])
    model = dashboard.model(run)
    on_map = [int(one) - 1 for one in _dimensions(said)]
    np.testing.assert_allclose(start[on_map], beside, rtol=1e-3, atol=1e-3)
    decoded = model.decode([start]).mean[0]
    names = dashboard.store().datasets.get(dashboard.store().get(run).spec.dataset).feature_names
    np.testing.assert_allclose([float(rows[0][name]) for name in names], decoded, rtol=1e-9)
    dashboard.no_traceback()


def _dimensions(said: str) -> list[str]:
    return [part.split(" at ")[0] for part in said.split("dimension ")[1:]]
