"""The map on its canvas in a real browser: pointed at, zoomed, hidden in part, used by keys."""

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from lvmcore.data import Dataset
from tests.e2e.dashboard import MAP, PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(300)

NASTY = "<img src=x onerror=document.title='run'>"


def _fitted(dashboard: Dashboard) -> str:
    """A run of two classes that was fitted in this process."""
    rng = np.random.default_rng(2)
    labels = np.array([NASTY, "plain"] * 20, dtype=object)
    X = rng.normal(size=(40, 4)) + 3 * (labels == "plain")[:, None]
    dataset = Dataset.from_arrays(X, labels, feature_names=list("abcd"), label_name="kind")
    return dashboard.fitted(dataset, "ppca", n_components=2)


def _hidden(canvas: Locator) -> list[int]:
    found: list[int] = canvas.evaluate("(canvas) => canvas.latentboard().hidden")
    return found


def test_the_map_is_pointed_at_zoomed_and_used_by_keys(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open("latent", run=run)
    dashboard.still()
    canvas = page.get_by_role("application", name=MAP, exact=True)
    around = canvas.locator("..").locator("..")
    numbers, places = dashboard.rows()
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + 1e9 * np.eye(len(places))
    pick = int(apart.min(axis=1).argmax())
    row = int(numbers[pick])
    page.mouse.move(*places[pick])
    expect(around.locator(".tip b")).to_have_text(f"row {row + 1}")
    expect(around.locator(".tip span")).to_have_text(f"kind: {NASTY if row % 2 == 0 else 'plain'}")

    # What was zoomed into stays when something is clicked, and a digest tells of the new mark.
    whole = dashboard.map()
    around.get_by_role("button", name="Zoom in").click()
    expect(around.get_by_role("button", name="Zoom out")).to_be_visible()
    zoomed = dashboard.map()["x"]["range"]
    assert np.ptp(zoomed) == pytest.approx(np.ptp(whole["x"]["range"]) / 1.5)
    canvas.focus()
    for key in ("ArrowLeft", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    after = dashboard.map(other=whole["digest"])
    assert after["marked"] is not None
    assert after["x"]["range"] == zoomed
    expect(page.get_by_role("spinbutton", name="Latent dimension 1")).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.keyboard.press("Control+0")  # the browser's own
    assert dashboard.map()["x"]["range"] == zoomed
    page.keyboard.press("0")
    assert dashboard.map()["x"]["range"] == whole["x"]["range"]

    around.get_by_role("button", name="plain", exact=True).click()
    assert _hidden(canvas) == [1]
    around.get_by_role("button", name="plain", exact=True).click()
    assert _hidden(canvas) == []
    assert page.title() != "run"
    dashboard.no_traceback()
