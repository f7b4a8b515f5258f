"""Selections and views in a real browser: drawn, brushed, found, undone, saved, opened by links."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from app.analysis.filters.column_bins import column_bins
from app.analysis.map.selection_masks import selected_rows
from lvmcore.data import Dataset
from tests.e2e.dashboard import Dashboard

pytestmark = pytest.mark.timeout(300)

CORNERS = ((0.1, 0.1), (0.6, 0.1), (0.6, 0.9), (0.1, 0.9))


def _fitted(dashboard: Dashboard) -> str:
    """A run that was fitted in this process."""
    return dashboard.fitted(_dataset(), "ppca", n_components=2)


def _dataset() -> Dataset:
    rng = np.random.default_rng(1)
    return Dataset.from_arrays(rng.normal(size=(120, 4)), feature_names=list("abcd"))


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
    dashboard.button("Add: 11 rows").click()  # 11 and 110 to 119
    drawn = dashboard.redrawn(drawn)
    dashboard.says(re.compile("rows of 120 rows, by 2 conditions"))
    page.keyboard.press("Escape")  # closes the popover, and nothing else
    page.get_by_role("button", name="region 1").click()
    dashboard.redrawn(drawn)
    dashboard.says(re.compile("^11 rows of 120 rows, whose name contains"))
    dashboard.has_rows(dashboard.table("Selected rows"), 11)

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


def test_the_buttons_of_the_browser_show_the_views_of_their_addresses(
    dashboard: Dashboard,
) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open(run=run)
    page.get_by_test_id("stSidebarNav").get_by_role("link", name="Latent").click()
    seen = [(dashboard.map()["digest"], "")]
    for name in "bcd":
        dashboard.settled()
        page.get_by_role("combobox", name="Colour").click()
        page.get_by_role("option", name=name, exact=True).click()
        digest = dashboard.redrawn(seen[-1][0])
        expect(page).to_have_url(re.compile("view=1[.]"))
        dashboard.settled()
        seen.append((digest, name))
    steps = [*zip([page.go_back] * 3, (2, 1, 0), strict=True), (page.go_forward, 1)]
    present = 3
    for step, position in steps:
        step()
        expect(page.get_by_role("combobox", name="Colour")).to_have_value(
            seen[position][1] or "one colour"
        )
        dashboard.redrawn(seen[present][0])
        dashboard.settled()
        present = position
    page.go_back()
    page.go_back()  # all views were left in three steps
    expect(page.get_by_role("heading", name="Data", exact=True)).to_be_visible()
    dashboard.no_traceback()


def _state(histogram: Locator) -> dict[str, Any]:
    found: dict[str, Any] = histogram.evaluate("(canvas) => canvas.latentboard()")
    return found


def test_a_brush_filters_the_other_charts_at_once_and_the_map_at_release(
    dashboard: Dashboard,
) -> None:
    page, dataset = dashboard.page, _dataset()
    dashboard.open("latent", run=_fitted(dashboard))
    drawn = dashboard.map()["digest"]
    dashboard.tab("Columns")
    first, second = (
        page.get_by_role("application", name=re.compile(f"^Histogram of {name},")) for name in "ab"
    )
    expect(first).to_be_visible()
    bins, others = (column_bins(dataset, name) for name in "ab")
    low, high = bins.bars // 4, bins.bars // 2
    brushed = (bins.codes >= low) & (bins.codes <= high)
    expected = np.bincount(others.codes[brushed], minlength=others.bars).tolist()

    box = first.bounding_box()
    assert box is not None
    x, y = box["x"], box["y"] + 30
    bar = box["width"] / bins.bars
    page.mouse.move(x + (low + 0.5) * bar, y)
    page.mouse.down()
    page.mouse.move(x + (high + 0.5) * bar, y, steps=6)
    page.wait_for_function(
        "([canvas, rows]) => canvas.latentboard().selected === rows",
        arg=[first.element_handle(), int(brushed.sum())],
    )
    assert _state(second)["passing"] == expected
    assert dashboard.map()["digest"] == drawn  # it follows at release
    page.mouse.up()
    seen = dashboard.map(other=drawn)
    condition = bins.interval(low, high)
    assert condition is not None
    chosen = np.flatnonzero(selected_rows(condition, np.zeros((120, 2)), dataset))
    assert chosen.tolist() == np.flatnonzero(brushed).tolist()
    assert seen["selected"] == chosen.tolist()
    assert _state(second)["passing"] == expected

    # A lasso is added to the condition, whose charts stay in view.
    dashboard.lasso(CORNERS)
    seen = dashboard.map(other=seen["digest"])
    assert set(seen["selected"]) < set(chosen.tolist())
    expect(first).to_be_visible()

    # Escape removes the condition of the chart in focus, and no other.
    first.focus()
    page.keyboard.press("Escape")
    seen = dashboard.map(other=seen["digest"])
    assert set(seen["selected"]) - set(chosen.tolist())
    expect(page.get_by_role("button", name="region 1")).to_have_count(1)

    # The keyboard selects a bar.
    first.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    dashboard.redrawn(seen["digest"])
    assert _state(first)["range"] == [1, 2]
    dashboard.no_traceback()
