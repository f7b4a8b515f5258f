"""Choices on the Fit page in a real browser: undone and redone by keys and buttons."""

import re

from playwright.sync_api import Locator, expect

from tests.e2e.dashboard import PATIENCE_MS, Dashboard

#: The buttons as a screen reader says them.
UNDO, REDO = "Undo Shortcut Ctrl + Z", "Redo Shortcut Ctrl + Shift + Z"


def _pressed(dashboard: Dashboard, keys: str) -> None:
    """Press keys outside any field, on a page that has been drawn."""
    dashboard.settled()
    dashboard.page.get_by_role("heading", name=re.compile("^Fit")).last.click()
    dashboard.page.keyboard.press(keys)
    dashboard.settled()


def _says_model(dashboard: Dashboard, title: str) -> None:
    expanded = dashboard.page.get_by_text(f"Settings of {title}", exact=True)
    expect(expanded).to_be_visible(timeout=PATIENCE_MS)


def _number(dashboard: Dashboard, name: str) -> Locator:
    """A field of the settings."""
    return dashboard.page.get_by_role("spinbutton", name=name, exact=True)


def test_a_model_and_its_settings_are_undone_by_keys(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.open("fit")
    expect(dashboard.button("Fit")).to_be_visible(timeout=PATIENCE_MS)
    expect(dashboard.button(UNDO)).to_be_disabled()
    dashboard.choose("bayesian_gplvm")
    dashboard.number("Steps at most", 20)
    dashboard.number("Dimensions", 3)
    dashboard.choose("ppca")
    _pressed(dashboard, "Control+z")
    _says_model(dashboard, "Bayesian GPLVM")
    expect(_number(dashboard, "Dimensions")).to_have_value("3")
    _pressed(dashboard, "Control+z")
    expect(_number(dashboard, "Dimensions")).to_have_value("2")
    _pressed(dashboard, "Control+Shift+Z")
    expect(_number(dashboard, "Dimensions")).to_have_value("3")

    steps = _number(dashboard, "Steps at most")
    steps.press("Control+a")
    steps.press_sequentially("77")
    steps.press("Control+z")  # of the field: no step of the page
    expect(steps).not_to_have_value("77")
    _says_model(dashboard, "Bayesian GPLVM")
    steps.fill("")
    steps.press("Enter")
    expect(steps).to_have_attribute("placeholder", "900")
    expect(steps).to_have_value("")
    _pressed(dashboard, "Control+z")
    expect(_number(dashboard, "Steps at most")).to_have_value("20")

    run = dashboard.start()
    assert dashboard.store().get(run).spec.parameters["max_iter"] == 20
    expect(dashboard.way("Explore the map")).to_be_visible(timeout=PATIENCE_MS)
    dashboard.settled()
    page.get_by_test_id("stSidebar").get_by_role("link", name="Runs").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.get_by_test_id("stSidebar").get_by_role("link", name="Fit").click()
    expect(page.get_by_role("heading", name="Fit again")).to_be_visible(timeout=PATIENCE_MS)
    dashboard.settled()
    dashboard.button(UNDO).click()
    expect(_number(dashboard, "Dimensions")).to_have_value("2")
    dashboard.button(REDO).click()
    expect(_number(dashboard, "Dimensions")).to_have_value("3")
    dashboard.no_traceback()


def test_a_task_is_undone_by_keys(dashboard: Dashboard) -> None:
    page = dashboard.page
    dashboard.open("fit")
    expect(dashboard.button("Fit")).to_be_visible(timeout=PATIENCE_MS)
    for box, option in (("Target", "alcohol"), ("Scored on", "the last rows by a column")):
        dashboard.settled()
        page.get_by_role("combobox", name=box).click()
        page.get_by_role("option", name=option, exact=True).click()
    by = page.get_by_test_id("stSelectbox").filter(has_text="By the column")
    expect(by).to_be_visible()
    _pressed(dashboard, "Control+z")
    expect(by).to_be_hidden()
    _pressed(dashboard, "Control+z")
    _says_model(dashboard, "LDGD")
    expect(page.get_by_text("Scored on")).to_be_hidden()
    _pressed(dashboard, "Control+Shift+Z")
    _pressed(dashboard, "Control+Shift+Z")
    expect(by).to_be_visible()
    dashboard.no_traceback()
