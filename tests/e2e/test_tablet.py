"""A tablet's width: no page scrolls sideways, and rows move from one map to another by the keys."""

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from app import navigation
from lvmcore.data import Dataset
from tests.e2e.dashboard import Dashboard
from tests.unit.lvmcore.runs.fitting import ran

pytestmark = pytest.mark.timeout(300)

WIDTH, HEIGHT = 820, 1180
# What is wider than the page lets be seen, once the page is drawn; a table may scroll in its box.
_TOO_WIDE = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  const found = [...main.querySelectorAll("button, input, p, h1, h2, h3, [data-testid=stColumn]")]
    .filter((one) => !one.closest(".comparison-box, [data-testid=stSlider]"))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => one.tagName + " " + one.textContent.slice(0, 40));
  return main.scrollWidth > main.clientWidth + 1 ? ["the page", ...found] : found;
}"""


def _drawn(canvas: Locator) -> str:
    drawn: str = canvas.evaluate("(node) => node.toDataURL()")
    return drawn


def test_every_page_fits_a_tablet_and_rows_move_between_maps(dashboard: Dashboard) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) + 3 * np.repeat(rng.normal(size=(2, 6)), 20, axis=0)
    dataset = Dataset.from_arrays(X, ["one", "another"] * 20, name="tablet")
    store, page = dashboard.store(), dashboard.page
    runs = [ran(store, dataset, key, n_components=2) for key in ("ppca", "factor_analysis")]
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    for name in navigation.PAGES:
        dashboard.open("" if name == "data" else name, run=runs[0])
        dashboard.settled()
        assert page.evaluate(_TOO_WIDE) == [], name

    page.goto(f"{dashboard.server.url}/compare?runs={','.join(runs)}")
    dashboard.says("From one map to another")
    dashboard.settled()
    assert page.evaluate(_TOO_WIDE) == []
    slider = page.get_by_role("slider", name="Position between")
    canvas = page.get_by_role("img", name="Trajectories of rows from")
    expect(slider).to_have_value("0")
    expect(canvas).to_be_visible()
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "100 % of the way")
    end = _drawn(canvas)
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "0 % of the way")
    assert _drawn(canvas) != end
    dashboard.no_traceback()
