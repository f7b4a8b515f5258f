"""Selections and views in a real browser: drawn, undone by keys, found, saved, opened by links."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from lvmcore.data import Dataset
from tests.e2e.dashboard import Dashboard

pytestmark = pytest.mark.timeout(300)

CORNERS = ((0.1, 0.1), (0.6, 0.1), (0.6, 0.9), (0.1, 0.9))


def _fitted(dashboard: Dashboard) -> str:
    """A run that was fitted in this process."""
    rng = np.random.default_rng(1)
    dataset = Dataset.from_arrays(rng.normal(size=(120, 4)), feature_names=list("abcd"))
    return dashboard.fitted(dataset, "ppca", n_components=2)


def test_a_selection_is_cleared_had_back_found_and_kept(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open("latent", run=run)
    drawn = dashboard.map()["digest"]
    nothing = page.get_by_text("No rows are selected.")

    dashboard.lasso(CORNERS)
    drawn = dashboard.redrawn(drawn)
    dashboard.says(re.compile("drawn on dimensions"))
    drawn = dashboard.cleared_by_key(drawn)
    expect(nothing).to_be_visible()
    dashboard.settled()
    page.keyboard.press("Control+z")
    drawn = dashboard.redrawn(drawn)
    dashboard.says(re.compile("drawn on dimensions"))

    dashboard.button("Find rows").click()
    page.get_by_role("textbox", name="Text").fill("11")
    page.keyboard.press("Enter")
    dashboard.button("Select 11 rows").click()  # 11 and 110 to 119
    dashboard.redrawn(drawn)
    dashboard.says(re.compile("^11 rows of 120 rows, whose name contains"))
    dashboard.has_rows(dashboard.table("Selected rows"), 11)

    page.keyboard.press("Escape")  # closes the popover, and nothing else
    dashboard.button("Saved").click()
    page.get_by_role("textbox", name="Name of this selection").fill("elevens")
    page.keyboard.press("Enter")
    dashboard.button("Save").click()
    expect(dashboard.button("elevens (11 rows)")).to_be_visible()
    page.keyboard.press("Escape")
    page.reload()
    drawn = dashboard.map()["digest"]
    dashboard.says(re.compile("^11 rows of 120 rows, whose name contains"))
    dashboard.cleared_by_key(drawn)
    expect(nothing).to_be_visible()
    dashboard.button("Saved").click()
    dashboard.button("elevens (11 rows)").click()
    dashboard.says(re.compile("^11 rows of 120 rows, whose name contains"))
    dashboard.no_traceback()


def test_a_zoomed_view_is_saved_undone_by_keys_and_opened_by_its_link(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open("latent", run=run)
    whole = dashboard.map()
    dashboard.settled()
    page.get_by_role("button", name="Zoom in (or Ctrl and the wheel)").click()
    expect(page).to_have_url(re.compile(r"[?&]view=1\."))  # of the zoom alone
    zoomed = dashboard.map()
    assert zoomed["digest"] == whole["digest"]  # nothing was drawn anew for it
    page.get_by_role("combobox", name="Colour").click()
    page.get_by_role("option", name="b", exact=True).click()
    coloured = dashboard.redrawn(whole["digest"])
    assert dashboard.map()["x"]["range"] == zoomed["x"]["range"]

    dashboard.settled()
    page.keyboard.press("Control+z")
    assert dashboard.redrawn(coloured) == whole["digest"]
    dashboard.settled()
    dashboard.button("Views").click()
    name = page.get_by_role("textbox", name="Name of this view")
    name.press_sequentially("nea")
    name.press("Control+z")  # of the field: the view stays as it is
    expect(name).not_to_have_value("nea")
    name.fill("near")
    name.press("Enter")
    dashboard.button("Save view").click()
    expect(dashboard.button("near")).to_be_visible()
    page.keyboard.press("Escape")
    dashboard.settled()
    page.keyboard.press("Control+Shift+Z")
    assert dashboard.redrawn(whole["digest"]) == coloured

    link = page.url
    page.goto(link)
    again = dashboard.map()
    assert again["digest"] == coloured
    np.testing.assert_allclose(again["x"]["range"], zoomed["x"]["range"], rtol=1e-3, atol=1e-3)
    dashboard.settled()
    assert page.url == link
    dashboard.button("Views").click()
    dashboard.button("near").click()
    dashboard.redrawn(coloured)
    np.testing.assert_allclose(
        dashboard.map()["y"]["range"], zoomed["y"]["range"], rtol=1e-3, atol=1e-3
    )
    dashboard.no_traceback()
