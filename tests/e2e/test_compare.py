"""Comparing maps in a real browser: PCA, t-SNE and UMAP at once, one selection on all maps."""

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

PCA, TSNE, UMAP = "Map of PCA", "Map of t-SNE", "Map of UMAP"
#: A quadrangle about the middle of the map, in shares of its width and height.
CORNERS = ((0.12, 0.2), (0.55, 0.25), (0.5, 0.8), (0.2, 0.85))
# The rows that stand out, once they are as many as they should be.


def _places(dashboard: Dashboard, name: str) -> NDArray[np.float64]:
    """Where a map draws each row, [N, 2], in its own coordinates."""
    seen = dashboard.map(name)
    return np.array(seen["places"])[np.argsort(seen["rows"])]


def test_one_selection_on_all_maps(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = dashboard.fitted(load_sample("wine").dataset(label="cultivar"), "pca")
    dashboard.open("compare", run=run)
    for name in (PCA, TSNE, UMAP):
        dashboard.map(name)
    table = page.locator("table.comparison")
    expect(table.locator("tbody tr")).to_have_count(3, timeout=PATIENCE_MS)
    dashboard.settled()
    named = re.search(r"[?&]runs=([0-9a-f]{32}(?:(?:,|%2C)[0-9a-f]{32})*)", page.url)
    assert named is not None
    runs = re.findall("[0-9a-f]{32}", named[1])
    assert [dashboard.model(one).key for one in runs] == ["pca", "tsne", "umap"]
    assert runs[0] == run
    model = dashboard.model(runs[1])

    # The second map is the fit's own, turned, scaled and shifted: distances keep their ratios.
    places, own = _places(dashboard, TSNE), model.embedding_.mean
    ratio = (
        np.linalg.norm(places - places[0], axis=1)[1:] / np.linalg.norm(own - own[0], axis=1)[1:]
    )
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)  # places come in single precision

    inside = Outline(dashboard.lasso(CORNERS, TSNE)).contains_points(places)
    assert 5 < inside.sum() < 173
    dashboard.says(re.compile(rf"^{count(int(inside.sum()), 'row')} of .*, drawn on the map of"))
    for name in (PCA, TSNE, UMAP):
        assert dashboard.map(name)["selected"] == np.flatnonzero(inside).tolist()
    ids = dashboard.store().datasets.get(dashboard.store().get(run).spec.dataset).row_ids
    file = pd.read_csv(io.BytesIO(dashboard.download("Selection as CSV")), dtype={"row_id": str})
    assert file["row_id"].tolist() == ids[inside].tolist()
    dashboard.has_rows(dashboard.table("Selected rows"), int(inside.sum()))

    metrics = dashboard.store().get(runs[1]).metrics
    assert metrics["knn_accuracy"].value is not None
    shown = table.locator("tbody tr").nth(1).locator("td").first
    expect(shown).to_have_text(f"{metrics['knn_accuracy'].value:.3f}")
    expect(shown).to_have_attribute("title", metrics["knn_accuracy"].protocol)

    # PCA has ten dimensions: the score of the picture, and that of all of them below it.
    metrics = dashboard.store().get(run).metrics
    picture, every = metrics["shown_knn_accuracy"], metrics["knn_accuracy"]
    assert picture.value is not None
    assert every.value is not None
    shown = table.locator("tbody tr").nth(0).locator("td").first
    expect(shown).to_have_text(f"{picture.value:.3f}all 10: {every.value:.3f}")
    expect(shown).to_have_attribute("title", picture.protocol)
    expect(shown.locator("small")).to_have_attribute("title", every.protocol)

    # A refresh keeps the maps, and another visit starts nothing.
    page.reload()
    for name in (PCA, TSNE, UMAP):
        dashboard.map(name)
    dashboard.open("compare", run=run)
    dashboard.map(UMAP)
    assert len(dashboard.store().list(None)) == 3
    dashboard.button(CLEAR).wait_for(state="detached", timeout=PATIENCE_MS)
    dashboard.no_traceback()
