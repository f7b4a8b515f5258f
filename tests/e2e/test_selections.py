"""Selections in a real browser: drawn, cleared by a key, had back, found, kept over a reload."""

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
    dashboard.button("Undo").click()
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
    page.reload()
    dashboard.map()
    dashboard.tab("Selection")
    expect(nothing).to_be_visible()
    dashboard.button("Saved").click()
    dashboard.button("elevens (11 rows)").click()
    dashboard.says(re.compile("^11 rows of 120 rows, whose name contains"))
    dashboard.no_traceback()
