"""What is in view in a window of 1280 by 800, from the choice of a model to a selection."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.dashboard import LIVE, PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(300)

RECONSTRUCTION = "Reconstruction and observed row"
CORNERS = ((0.22, 0.25), (0.72, 0.18), (0.66, 0.8), (0.3, 0.7))
_SCROLLED = """() => document.querySelector('[data-testid="stMain"]').scrollTop"""


def test_a_sample_is_fitted_and_its_map_read_without_scrolling(dashboard: Dashboard) -> None:
    page = dashboard.page
    page.set_viewport_size({"width": 1280, "height": 800})
    dashboard.open()
    dashboard.says("178 rows, 13 features, label with 3 classes")
    dashboard.to_fit()
    for shown in (
        page.get_by_text("Recommended here: the label has 3 classes to learn from."),
        page.locator(".st-key-fit-model").get_by_role("combobox"),
        dashboard.button("Fit"),
    ):
        _in_view(shown)

    dashboard.start()
    dashboard.first_point()
    _in_view(dashboard.button("Cancel"))
    dashboard.says(re.compile("The fit has converged"))
    dashboard.settled()
    _in_view(dashboard.way("Explore the map"))
    for name in LIVE:
        _in_view(dashboard.chart(name))

    dashboard.explore()
    dashboard.lasso(CORNERS)
    dashboard.says(re.compile("drawn on dimensions"))
    panel = page.get_by_role("tabpanel", name="Selection")
    _in_view(panel.get_by_text("Contrast to the other rows"))
    expect(dashboard.table("Selected rows")).to_be_in_viewport(ratio=0.2)
    dashboard.still()
    _, places = dashboard.rows()
    page.mouse.click(*places[40])
    _in_view(page.get_by_test_id("stMain").get_by_text(re.compile("^Row 41, ")))
    expect(dashboard.figure(RECONSTRUCTION)).to_be_in_viewport(ratio=0.2)
    assert page.evaluate(_SCROLLED) == 0
    dashboard.no_traceback()


def test_the_filter_stays_open_while_several_traits_are_chosen(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.open("fit")
    dashboard.settled()
    dashboard.button("Filter").click()
    for trait in ("counts", "missing cells"):
        page.get_by_test_id("stPopoverBody").get_by_text(trait, exact=True).click()
        dashboard.settled()
    expect(dashboard.button("Filter (2)")).to_be_visible()
    page.keyboard.press("Escape")
    dashboard.choose("srflvm")
    dashboard.button("★ Use LDGD, recommended here: the label has 3 classes to learn from").click()
    _in_view(page.get_by_text("Recommended here: the label has 3 classes to learn from."))
    dashboard.no_traceback()


def _in_view(shown: Locator) -> None:
    """Wait until all of it is in view, and nothing was scrolled for it."""
    expect(shown).to_be_in_viewport(ratio=1, timeout=PATIENCE_MS)
    assert shown.page.evaluate(_SCROLLED) == 0
