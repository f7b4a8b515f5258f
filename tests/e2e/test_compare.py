"""Comparing maps in a real browser: a method added with one click, one selection on both maps."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.path import Path as Outline
from numpy.typing import NDArray
from playwright.sync_api import expect

from app.formatting import count
from lvmcore.data import load_sample
from tests.e2e.dashboard import CLEAR, PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(600)

PCA, TSNE = "Map of PCA", "Map of t-SNE"
#: A quadrangle about the middle of the map, in shares of its width and height.
CORNERS = ((0.12, 0.2), (0.55, 0.25), (0.5, 0.8), (0.2, 0.85))
# The rows that stand out, once they are as many as they should be.


def _places(dashboard: Dashboard, name: str) -> NDArray[np.float64]:
    """Where a map draws each row, [N, 2], in its own coordinates."""
    seen = dashboard.map(name)
    return np.array(seen["places"])[np.argsort(seen["rows"])]


def test_one_selection_on_two_maps(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = dashboard.fitted(load_sample("wine").dataset(label="cultivar"), "pca")
    dashboard.open("compare", run=run)
    dashboard.map(PCA)
    dashboard.button("t-SNE").click()
    dashboard.map(TSNE)
    dashboard.settled()
    both = re.search(r"[?&]runs=([0-9a-f]{32})(?:,|%2C)([0-9a-f]{32})", page.url)
    assert both is not None
    assert both[1] == run
    model = dashboard.model(both[2])
    assert model.key == "tsne"

    # The second map is the fit's own, turned, scaled and shifted: distances keep their ratios.
    places, own = _places(dashboard, TSNE), model.embedding_.mean
    ratio = (
        np.linalg.norm(places - places[0], axis=1)[1:] / np.linalg.norm(own - own[0], axis=1)[1:]
    )
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)  # places come in single precision

    inside = Outline(dashboard.lasso(CORNERS, TSNE)).contains_points(places)
    assert 5 < inside.sum() < 173
    dashboard.says(re.compile(rf"^{count(int(inside.sum()), 'row')} of .*, drawn on the map of"))
    for name in (PCA, TSNE):
        assert dashboard.map(name)["selected"] == np.flatnonzero(inside).tolist()
    ids = dashboard.store().datasets.get(dashboard.store().get(run).spec.dataset).row_ids
    file = pd.read_csv(io.BytesIO(dashboard.download("Selection as CSV")), dtype={"row_id": str})
    assert file["row_id"].tolist() == ids[inside].tolist()
    dashboard.has_rows(dashboard.table("Selected rows"), int(inside.sum()))

    table = page.locator("table.comparison")
    expect(table.locator("tbody tr")).to_have_count(2)
    metrics = dashboard.store().get(both[2]).metrics
    assert metrics["knn_accuracy"].value is not None
    shown = table.locator("tbody tr").nth(1).locator("td").first
    expect(shown).to_have_text(f"{metrics['knn_accuracy'].value:.3f}")
    expect(shown).to_have_attribute("title", metrics["knn_accuracy"].protocol)

    # A refresh keeps the maps.
    page.reload()
    dashboard.map(PCA)
    dashboard.map(TSNE)
    dashboard.button(CLEAR).wait_for(state="detached", timeout=PATIENCE_MS)
    dashboard.no_traceback()
