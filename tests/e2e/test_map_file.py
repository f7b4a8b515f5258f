"""The map in a file of its own, opened from the disk in a browser without a server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.analysis.map.row_colours import CategoryStyle
from app.figures.row_traces import MapRows
from app.report.map_document import MapSubject, map_html

#: Counts the pixels of the canvas that have the colour of a class, of light pages.
_PIXELS = """(colour) => {
  const canvas = document.getElementById("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const near = colour.every((part, k) => Math.abs(data[i + k] - part) < 8);
    if (near && data[i + 3] > 200) count += 1;
  }
  return count;
}"""
BLUE, ORANGE = [0, 114, 178], [230, 159, 0]


@pytest.fixture
def map_page(page: Page, tmp_path: Path) -> Page:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    rows = MapRows(
        points=points,
        number=np.arange(4),
        hover=[["row <b>one</b>"], ["row two"], ["row three"], ["row four"]],
        colouring=CategoryStyle("kind", ("a", "b"), np.array([0, 0, 1, 1])),
    )
    file = tmp_path / "map.html"
    file.write_bytes(map_html(MapSubject("a map", "PCA", ("one", "two"), rows, 4)))
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto(file.as_uri())
    page.wait_for_function(f"() => ({_PIXELS})({BLUE}) > 0")
    return page


def pixels(page: Page, colour: list[int]) -> int:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    return int(page.evaluate(_PIXELS, colour))


def test_rows_are_named_hidden_found_and_zoomed(map_page: Page) -> None:
    page = map_page
    blue, orange = pixels(page, BLUE), pixels(page, ORANGE)
    assert blue > 10
    assert orange > 10

    canvas = page.locator("#canvas")
    box = canvas.bounding_box()
    assert box is not None
    width, height = box["width"] - 72, box["height"] - 60
    at = {"x": 56 + width * 0.05 / 1.1, "y": 16 + height * 1.05 / 1.1}  # of the first row
    canvas.hover(position=at)  # type: ignore[arg-type]
    expect(page.locator("#tip")).to_have_text("row <b>one</b>")
    page.mouse.move(2, 2)
    expect(page.locator("#tip")).to_be_hidden()

    page.get_by_role("button", name="b").click()
    assert pixels(page, ORANGE) == 0
    page.get_by_role("button", name="b").click()
    assert pixels(page, ORANGE) == orange

    page.get_by_label("Find rows").fill("TWO")
    expect(page.get_by_role("status")).to_have_text("1 of 4 rows")
    assert 0 < pixels(page, BLUE) < blue
    page.get_by_label("Find rows").fill("")
    expect(page.get_by_role("status")).to_have_text("")

    canvas.hover(position={"x": 56, "y": 16})
    for _ in range(12):
        page.mouse.wheel(0, -400)
    assert pixels(page, BLUE) == 0  # the corner has no row of the first class
    canvas.dblclick(position={"x": 300, "y": 300})
    assert pixels(page, BLUE) == blue
    canvas.press("ArrowLeft")
    canvas.press("0")
    assert pixels(page, BLUE) == blue
