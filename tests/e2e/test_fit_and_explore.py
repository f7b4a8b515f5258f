"""From a table to its map, in a real browser: a sample that ships, and an uploaded CSV."""

import io
import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from playwright.sync_api import expect

from app.formatting import count
from lvmcore.relevance import leading_dimensions
from tests.e2e.dashboard import CLEAR, LIVE, PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(600)

#: More steps than any fit here comes to: it ends when it is cancelled.
ENDLESS = 50_000
RELEVANCE = "Relevance of each latent dimension"
RECONSTRUCTION = "Reconstruction and observed row"
#: A quadrangle about the middle of the map, in shares of its width and height.
CORNERS = ((0.22, 0.25), (0.72, 0.18), (0.66, 0.8), (0.3, 0.7))


def _fits_a_sample(dashboard: Dashboard) -> None:
    dashboard.open()
    dashboard.sample("Wine (178 rows)")
    dashboard.says("178 rows, 13 features, label with 3 classes")
    dashboard.to_fit()


def _fits_an_upload(dashboard: Dashboard, file: Path) -> None:
    dashboard.open()
    dashboard.upload(file)
    dashboard.says("1\u202f000 rows, 12 features, label with 3 classes")
    dashboard.to_fit()


# ---- watching --------------------------------------------------------------------------------


def test_a_fit_is_watched_found_again_and_cancelled(dashboard: Dashboard) -> None:
    page = dashboard.page
    _fits_a_sample(dashboard)
    dashboard.number("Steps at most", ENDLESS)
    run = dashboard.start()
    # What there is to watch is above the button.
    expect(dashboard.button("Cancel")).to_be_in_viewport(timeout=PATIENCE_MS)

    seen = dashboard.grows(10)
    assert seen.remounts == 0
    assert seen.steps == sorted(set(seen.steps))
    assert dashboard.curve()[0][0] == 1
    for name in LIVE:
        dashboard.chart(name)

    _leaves_out_five_steps(dashboard)
    zoomed = dashboard.grows(3)
    assert zoomed.remounts == 0
    assert dashboard.curve()[0][0] >= 6

    page.reload()
    assert dashboard.run() == run
    expect(dashboard.button("Cancel")).to_be_enabled(timeout=PATIENCE_MS)
    dashboard.passes(zoomed.steps[-1])
    assert dashboard.curve()[0][0] == 1, "the curve is there from its first step"
    assert [job.id for job in dashboard.store().list()] == [run]

    dashboard.button("Cancel").click()
    dashboard.says(re.compile("cancelled in"))
    dashboard.says("Stopped on request. The map of the last step can be explored.")
    expect(page.get_by_test_id("stSidebar").get_by_text("cancelled", exact=True)).to_be_visible()
    assert dashboard.store().get(run).status == "cancelled"

    dashboard.explore()
    numbers, _ = dashboard.rows()
    assert len(numbers) == len(dashboard.model(run).embedding_.mean)
    dashboard.no_traceback()
    assert dashboard.worker_log(run) == ""


def _leaves_out_five_steps(dashboard: Dashboard) -> None:
    """Move the lower end of "Steps shown" up by five, while the fit goes on."""
    thumb = dashboard.page.get_by_role("slider").first
    thumb.focus()
    for _ in range(5):
        thumb.press("ArrowRight")
    expect(thumb).to_have_value("6")
    dashboard.begins_from(6)


# ---- exploring -------------------------------------------------------------------------------


def test_a_map_is_explored_and_taken_away(dashboard: Dashboard, data_dir: Path) -> None:
    _fits_an_upload(dashboard, data_dir / "oil_flow_train.csv.gz")
    run = dashboard.start()
    dashboard.explore()
    assert dashboard.store().get(run).status == "done"

    _shows_what_the_model_says(dashboard, run)
    _exports_the_embedding(dashboard, run)
    _selects_exactly_the_encircled_rows(dashboard, run)
    _reconstructs_a_clicked_row(dashboard, run)
    _puts_a_clicked_dimension_on_the_map(dashboard, run)
    dashboard.no_traceback()
    assert dashboard.worker_log(run) == ""


def _points(dashboard: Dashboard, run: str) -> NDArray[np.float64]:
    """Latent means on the dimensions that the map shows first, [N, 2]."""
    model = dashboard.model(run)
    first, second = leading_dimensions(model.variance_shares())
    assert second is not None
    return model.embedding_.mean[:, [first, second]]


def _shows_what_the_model_says(dashboard: Dashboard, run: str) -> None:
    """Every row in its place, a heatmap of the sd behind, and the relevance beside."""
    points, model = _points(dashboard, run), dashboard.model(run)
    seen = dashboard.map()
    assert seen["rows"] == list(range(len(points)))
    np.testing.assert_allclose(seen["places"], points, rtol=1e-6)
    assert set(seen["names"]) == set(map(str, model.classes_))

    heat = seen["heat"]
    z = np.array(heat["value"]).reshape(heat["size"], heat["size"])
    assert np.isfinite(z).all()
    assert z.min() > 0
    # The model knows more where there are rows than at the edge of the map.
    across, up = (np.linspace(*heat[name], heat["size"]) for name in "xy")
    columns = np.abs(across[:, None] - points[:, 0]).argmin(axis=0)
    lines = np.abs(up[:, None] - points[:, 1]).argmin(axis=0)
    edge = np.concatenate([z[0], z[-1], z[:, 0], z[:, -1]])
    assert z[lines, columns].mean() < edge.mean()

    bars = dashboard.plot(RELEVANCE)["traces"]
    assert [bar["name"] for bar in bars] == ["data path", "labels path"]
    for bar, share in zip(bars, model.variance_shares().values(), strict=True):
        np.testing.assert_allclose(bar["y"], 100 * share, rtol=1e-9)


def _exports_the_embedding(dashboard: Dashboard, run: str) -> None:
    model = dashboard.model(run)
    posterior, job = model.embedding_, dashboard.store().get(run)
    dataset = dashboard.store().datasets.get(job.spec.dataset)
    assert dataset.labels is not None
    means = [f"z{q + 1}" for q in range(posterior.mean.shape[1])]
    csv = pd.read_csv(io.BytesIO(dashboard.download("Embedding as CSV")), dtype=str)
    numbers = csv.columns.drop(["row_id", "label"])
    csv[numbers] = csv[numbers].map(float)
    parquet = pd.read_parquet(io.BytesIO(dashboard.download("Embedding as Parquet")))
    for frame in (csv, parquet):
        assert list(frame) == ["row_id", "label", *means, *(f"{name}_sd" for name in means)]
        assert frame["row_id"].astype(str).tolist() == dataset.row_ids.tolist()
        assert frame["label"].astype(str).tolist() == [str(label) for label in dataset.labels]
        np.testing.assert_array_equal(frame[means], posterior.mean)
        sd = frame[[f"{name}_sd" for name in means]]
        np.testing.assert_array_equal(sd, np.sqrt(posterior.variance))
    with h5py.File(io.BytesIO(dashboard.download("Embedding as H5AD"))) as file:
        np.testing.assert_array_equal(file[f"obsm/X_{job.spec.model}"][:], posterior.mean)
        np.testing.assert_array_equal(file["X"][:], dataset.X)


def _selects_exactly_the_encircled_rows(dashboard: Dashboard, run: str) -> None:
    page, points = dashboard.page, _points(dashboard, run)
    drawn = dashboard.map()["digest"]
    inside = _encircled(points, dashboard.lasso(CORNERS))
    drawn = dashboard.redrawn(drawn)
    assert 0 < inside.sum() < len(points)
    dashboard.says(re.compile(rf"^{count(int(inside.sum()), 'row')} of .*, drawn on dimensions"))
    job = dashboard.store().get(run)
    ids = dashboard.store().datasets.get(job.spec.dataset).row_ids
    file = pd.read_csv(io.BytesIO(dashboard.download("Selection as CSV")), dtype={"row_id": str})
    assert file["row_id"].tolist() == ids[inside].tolist()
    table = dashboard.table("Selected rows")
    dashboard.into_view(table)
    dashboard.has_rows(table, int(inside.sum()))
    shown = [cells[0] for cells in dashboard.cells(table)]
    assert shown
    assert shown == ids[inside].tolist()[: len(shown)]

    dashboard.button(CLEAR).click()
    dashboard.redrawn(drawn)
    expect(page.get_by_text("No rows are selected.")).to_be_visible()


def _encircled(points: NDArray[np.float64], polygon: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points [N, 2] a polygon [K, 2] encircles: rays to the right that cross it oddly."""
    inside = np.zeros(len(points), dtype=bool)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        between = (y0 > points[:, 1]) != (y1 > points[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = x0 + (points[:, 1] - y0) * (x1 - x0) / (y1 - y0)
        inside ^= between & (points[:, 0] < crossing)
    return inside


def _reconstructs_a_clicked_row(dashboard: Dashboard, run: str) -> None:
    """The row farthest from all others, so that the click is about no other."""
    model = dashboard.model(run)
    dashboard.still()
    numbers, places = dashboard.rows()
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    pick = int(apart.min(axis=1).argmax())
    row = int(numbers[pick])
    job = dashboard.store().get(run)
    dataset = dashboard.store().datasets.get(job.spec.dataset)
    assert dataset.labels is not None
    told = f"Row {dataset.row_ids[row]}, {dataset.label_name}: {dataset.labels[row]}"
    dashboard.page.mouse.click(*places[pick])
    dashboard.says(told)
    dashboard.figure(RECONSTRUCTION)
    dashboard.settled()
    decoded = model.decode(model.embedding_.mean[[row]])
    table = dashboard.table("Values of the point")
    dashboard.into_view(table)
    dashboard.has_rows(table, len(dataset.feature_names))
    shown = dashboard.cells(table)
    assert shown
    for d, (name, observed, mean, interval) in enumerate(shown):
        assert name == dataset.feature_names[d]
        np.testing.assert_allclose(float(observed), dataset.X[row, d], rtol=1e-3)
        np.testing.assert_allclose(float(mean), decoded.mean[0, d], rtol=1e-3)
        sd = np.sqrt(decoded.variance[0, d])
        np.testing.assert_allclose(float(interval), 2 * sd, rtol=0.06)


def _puts_a_clicked_dimension_on_the_map(dashboard: Dashboard, run: str) -> None:
    """A click on a relevance bar puts its dimension on the horizontal axis."""
    dashboard.tab("Relevance")
    before = dashboard.map()["digest"]
    axes = leading_dimensions(dashboard.model(run).variance_shares())
    other = axes[1]
    assert other is not None
    bars = dashboard.plot(RELEVANCE)
    share, bar = max((trace["y"][other], i) for i, trace in enumerate(bars["traces"]))
    spot = dashboard.pixel(bars, other + 0.8 + 0.4 * bar, 0.4 * share)
    dashboard.click(spot, other, RELEVANCE)
    after = dashboard.map(other=before)
    assert after["titles"] == [f"Latent dimension {one + 1}" for one in (other, axes[0])]
