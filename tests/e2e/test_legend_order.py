"""The order of the categories in the legend of a map in a real browser, by a drag and by keys."""

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from lvmcore.data import Dataset
from tests.e2e.dashboard import MAP, Dashboard

pytestmark = pytest.mark.timeout(300)

NAMES = ["ash", "elm", "oak"]


def _fitted(dashboard: Dashboard) -> str:
    """A run of three classes, drawn over one another."""
    rng = np.random.default_rng(4)
    labels = np.array(NAMES * 40, dtype=object)
    X = rng.normal(size=(120, 4))
    dataset = Dataset.from_arrays(X, labels, feature_names=list("abcd"), label_name="kind")
    return dashboard.fitted(dataset, "ppca", n_components=2)


def _names(around: Locator) -> list[str]:
    return around.locator(".legend button.movable").all_inner_texts()


def _drawn(canvas: Locator) -> list[str]:
    """The names of the layers, that on top first."""
    codes = canvas.evaluate("(canvas) => canvas.latentboard().scene.layers")
    return [NAMES[code] for code in reversed(codes) if code < len(NAMES)]


def test_a_category_is_moved_by_keys_and_by_a_drag(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open("latent", run=run)
    dashboard.still()
    canvas = page.get_by_role("application", name=MAP, exact=True)
    around = canvas.locator("..").locator("..")
    digest = dashboard.map()["digest"]
    picture = canvas.evaluate(PICTURE)
    assert _names(around) == NAMES

    oak = around.get_by_role("button", name="oak", exact=True)
    oak.focus()
    for _ in range(3):  # the last one has no place to go to
        page.keyboard.press("Alt+ArrowUp")
    expect(around.get_by_role("status")).to_have_text("oak is 1 of 3, on top")
    assert _names(around) == _drawn(canvas) == ["oak", "ash", "elm"]
    dashboard.redrawn(digest)
    dashboard.settled()
    assert _names(around) == _drawn(canvas) == ["oak", "ash", "elm"]
    expect(oak).to_be_focused()
    expect(oak).to_have_attribute("aria-pressed", "true")
    assert canvas.evaluate(PICTURE) != picture  # others are on top

    page.keyboard.press("Enter")  # keys of a button go on hiding its rows
    expect(oak).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Enter")
    ends = [around.get_by_role("button", name=name, exact=True) for name in ("oak", "elm")]
    start, end = (one.bounding_box() for one in ends)
    assert start is not None
    assert end is not None
    middle = start["y"] + start["height"] / 2
    page.mouse.move(start["x"] + 10, middle)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] - 3, middle, steps=8)
    page.mouse.up()
    expect(around.get_by_role("status")).to_have_text("oak is 3 of 3")
    assert _names(around) == _drawn(canvas) == ["ash", "elm", "oak"]
    expect(oak).to_have_attribute("aria-pressed", "true")  # a drag is no click
    dashboard.settled()
    page.keyboard.press("Escape")

    page.reload()
    dashboard.map()
    assert _names(around) == _drawn(canvas) == ["ash", "elm", "oak"]
    dashboard.no_traceback()


#: The pixels of the canvas below that of the cursor.
PICTURE = "(canvas) => canvas.parentElement.querySelector('canvas').toDataURL()"
