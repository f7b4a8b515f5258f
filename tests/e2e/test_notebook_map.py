"""The script of the map in a notebook, drawn in a browser with the state that Python gives it."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import lvmcore
from lvmcore.data import load_sample
from lvmcore.notebook.map_widget import MapWidget

#: A page with the widget, and a model of its state as a notebook has it.
_PAGE = """<!doctype html><html><body style="margin: 20px; color: COLOUR; background: GROUND">
<div id="widget"></div><style>CSS</style><script type="module">
const state = STATE, listeners = {};
for (const name of ["_points", "_sd", "_codes", "_values"]) {
  const bytes = Uint8Array.from(atob(state[name]), (one) => one.charCodeAt(0));
  const padded = new Uint8Array(bytes.length + 3);  // at an odd offset, as a message has it
  padded.set(bytes, 3);
  state[name] = new DataView(padded.buffer, 3, bytes.length);
}
window.model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; for (const call of listeners["change:" + name] ?? []) call(); },
  save_changes: () => { window.saved = state.selected; },
  on: (event, call) => (listeners[event] ??= []).push(call),
  off: () => {},
};
const { default: widget } = await import(URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" })));
widget.render({ model: window.model, el: document.getElementById("widget") });
window.ready = true;
</script></body></html>"""  # noqa: E501
_INK = """() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = {};
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 220) continue;
    const colour = [data[i], data[i + 1], data[i + 2]].map((part) => Math.round(part / 8)).join();
    colours[colour] = (colours[colour] ?? 0) + 1;
  }
  return colours;
}"""


def open_widget(page: Page, widget: MapWidget, *, dark: bool = False) -> None:
    state = {
        "_content": widget._content,
        "selected": widget.selected,
        **{
            name: base64.b64encode(getattr(widget, name)).decode()
            for name in ("_points", "_sd", "_codes", "_values")
        },
    }
    html = _PAGE.replace("COLOUR", "#eee" if dark else "#111")
    html = html.replace("GROUND", "#111" if dark else "#fff").replace("CSS", widget._css)
    html = html.replace("SCRIPT", json.dumps(widget._esm)).replace("STATE", json.dumps(state))
    page.set_viewport_size({"width": 900, "height": 640})
    page.set_content(html)
    page.wait_for_function("window.ready")


def ink(page: Page, colour: str) -> int:
    """Pixels of a colour, #RRGGBB, up to the rounding of an eighth."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    key = ",".join(str(round(int(colour[i : i + 2], 16) / 8)) for i in (1, 3, 5))
    return int(page.evaluate(_INK).get(key, 0))


@pytest.fixture(scope="module")
def widget() -> MapWidget:
    iris = load_sample("iris").dataset(label="species")
    model = lvmcore.ProbabilisticPCA(n_components=2).fit(iris.X)
    names = [f"flower {row}" for row in range(len(iris.X))]
    return lvmcore.show(model, iris.labels, names=names, height=420)


def place_of(page: Page, widget: MapWidget, row: int) -> tuple[float, float]:
    """Where a row is in the whole map, in pixels of the page."""
    points = np.frombuffer(widget._points, "<f4").reshape(-1, 2)
    box = page.locator("canvas").bounding_box()
    assert box is not None
    low, high = points.min(axis=0), points.max(axis=0)
    share = (points[row] - low + 0.05 * (high - low)) / (1.1 * (high - low))
    width, height = box["width"] - 68, box["height"] - 54
    return (
        box["x"] + 56 + float(share[0]) * width,
        box["y"] + 12 + (1 - float(share[1])) * height,
    )


@pytest.mark.parametrize("dark", [False, True])
def test_rows_are_drawn_hovered_selected_and_hidden(
    page: Page, widget: MapWidget, *, dark: bool
) -> None:
    open_widget(page, widget, dark=dark)
    looks = widget._content["dark" if dark else "light"]
    first, second = looks[0][0], looks[1][0]
    drawn = ink(page, first)
    assert drawn > 200

    points = np.frombuffer(widget._points, "<f4").reshape(-1, 2)
    row = int(points[:, 0].argmin())  # at the edge, apart from the others
    x, y = place_of(page, widget, row)
    page.mouse.move(x, y)
    expect(page.locator(".lvmcore-tip")).to_contain_text(f"flower {row}")
    expect(page.locator(".lvmcore-tip")).to_contain_text("setosa")

    page.mouse.click(x, y)
    assert page.evaluate("window.saved") == [row]
    expect(page.get_by_role("status")).to_contain_text("1 row selected")
    assert ink(page, second) == 0  # faint beside the selected row
    page.keyboard.press("Escape")
    assert page.evaluate("window.saved") == []
    assert ink(page, second) > 200

    page.get_by_role("button", name="setosa").click()
    assert ink(page, first) == 0
    expect(page.get_by_role("button", name="setosa")).to_have_attribute("aria-pressed", "false")


def test_a_lasso_selects_the_rows_inside(page: Page, widget: MapWidget) -> None:
    open_widget(page, widget)
    box = page.locator("canvas").bounding_box()
    assert box is not None
    middle = box["x"] + 56 + (box["width"] - 68) / 2
    corners = [(middle, 2), (box["x"] + 20, 2), (box["x"] + 20, 415), (middle, 415)]
    page.keyboard.down("Shift")
    page.mouse.move(corners[0][0], box["y"] + corners[0][1])
    page.mouse.down()
    for x, y in [*corners[1:], corners[0]]:
        page.mouse.move(x, box["y"] + y, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    points = np.frombuffer(widget._points, "<f4").reshape(-1, 2)
    half = (points[:, 0].min() + points[:, 0].max()) / 2
    assert page.evaluate("window.saved") == np.flatnonzero(points[:, 0] < half).tolist()


def test_rows_that_python_selects_are_marked(page: Page, widget: MapWidget) -> None:
    open_widget(page, widget)
    page.evaluate("window.model.set('selected', [0, 1, 2])")
    expect(page.get_by_role("status")).to_contain_text("3 rows selected")
    assert ink(page, widget._content["light"][1][0]) == 0


def test_the_map_zooms_by_keys_and_shows_all_rows_again(page: Page, widget: MapWidget) -> None:
    open_widget(page, widget)
    whole = page.evaluate(_INK)
    page.locator("canvas").focus()
    for _ in range(6):
        page.keyboard.press("+")
    zoomed = ink(page, widget._content["light"][0][0])
    page.keyboard.press("0")
    first = widget._content["light"][0][0]
    assert ink(page, first) != zoomed
    assert page.evaluate(_INK) == whole
