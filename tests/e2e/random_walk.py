"""A random walk over the pages of the dashboard, which looks for errors after each step.

The steps are those of a person at the browser: any control of the page, selections on the map and
on the charts of columns, queries, undo and redo, links, other pages, the back button. After each
of them the page must be there without a traceback. Undo and redo must come back to the same view,
and so must the address of a view in a new page.
"""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
from playwright.sync_api import Error, Locator, Page, TimeoutError, expect

from lvmcore.data import Dataset, read_table
from tests.e2e.dashboard import CANVAS, MAP, Dashboard

__all__ = ["MODELS", "RandomWalk", "table"]

#: The columns of the table, whose names a query must quote.
NAMES = ("width", "and or", 'the "height"', "back`tick", "region 1", "Größe (cm)", "row")
#: The models of the walks, with and without labels, posteriors of rows and hidden dimensions.
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ldgd", {"max_iter": 40}),
    ("ppca", {"n_components": 3}),
    ("bayesian_gplvm", {"max_iter": 40}),
    ("tsne", {}),
)
_PAGES = {
    "Data": "",
    "Fit": "fit",
    "Latent": "latent",
    "Compare": "compare",
    "Generate": "generate",
    "New rows": "new_rows",
    "Missing cells": "impute",
    "Export": "export",
    "Runs": "runs",
    "Papers": "papers",
    "Guide": "guide",
}
#: The buttons as a screen reader says them.
UNDO, REDO = "Undo Shortcut Ctrl + Z", "Redo Shortcut Ctrl + Shift + Z"
#: Buttons that start something long, that end a run, or that leave the walk.
_AVOIDED = re.compile(
    r"^(Fit|Cancel|Stop|Delete|Start|Compare PCA|Measure|Repeat|Run|Score|Resume|More steps|Report|"
    r"Fullscreen|Show/hide|Save the picture|Search|Download|Take|Compute|Add a folder|Open as|"
    r"Impute|Fill|Browse|Show colou?r)"
)
_PATIENCE_MS = 8000
#: Controls of the page that a step may use.
_CONTROLS = (
    '[data-testid="stMain"] :is(button, input, textarea, [role="combobox"], [role="tab"], summary,'
    ' [role="slider"])'
)
_POPOVER_CONTROLS = _CONTROLS.replace("stMain", "stPopoverBody")
# What a control is; null for one that cannot be used.
_ABOUT = """(all) => all.map((one) => one.checkVisibility() && !one.disabled
  && one.getAttribute("aria-disabled") !== "true" && one.tabIndex >= 0
  && !/^(Help|Open$)/.test(one.ariaLabel ?? "")
  && !one.closest('[data-testid="stFileUploader"]')
  ? {tag: one.tagName, role: one.getAttribute("role"), type: one.type,
     inside: !!one.closest('[data-testid="stPopoverBody"]'),
     name: (one.ariaLabel || one.textContent || "").trim().slice(0, 60)} : null)"""
# The scene of the map but for its id, which counts the views that were opened.
_SCENE = f"""(name) => {{
  const {{scene}} = ({CANVAS})(name).latentboard();
  return JSON.stringify(scene, (key, value) => key === "id" ? undefined
    : ArrayBuffer.isView(value) ? [...value] : value);
}}"""
# What the page of a map shows of its view.
_SHOWN = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  const found = {};
  for (const box of main.querySelectorAll('[data-testid="stSelectbox"]')) {
    const name = box.querySelector("label")?.textContent;
    if (["Horizontal", "Vertical", "View", "Colour", "Background", "Decoded column", "Class",
         "Labels"].includes(name)) {
      found[name] = box.querySelector("input")?.value || box.textContent;
    }
  }
  for (const box of main.querySelectorAll('[data-testid="stCheckbox"]')) {
    if (box.textContent.startsWith("Ellipses")) found.ellipses = box.querySelector("input").checked;
  }
  found.tab = main.querySelector('.st-key-map-panel [role="tab"][aria-selected="true"]')
    ?.textContent;
  found.chips = [...main.querySelectorAll(".st-key-condition-chips button")]
    .map((one) => one.textContent + (one.getAttribute("aria-checked") ?? "")
      + (one.getAttribute("kind") ?? ""));
  return found;
}"""

# The fields of the page, by label.
_FIELDS = """() => Object.fromEntries(
  [...document.querySelectorAll(`[data-testid="stMain"] :is([data-testid="stSelectbox"],
    [data-testid="stNumberInput"], [data-testid="stCheckbox"], [data-testid="stTextInput"])`)]
    .map((one) => [one.querySelector("label")?.textContent,
      one.querySelector("input")?.type === "checkbox" ? one.querySelector("input").checked
        : one.querySelector("input")?.value || one.textContent]))"""


def table(seed: int) -> Dataset:
    """A table of numbers, dates, categories and missing cells, with names that need quotes."""
    rng = np.random.default_rng(seed)
    n = 60
    kind = rng.choice(["plain", "it's", 'a "b"', "and"], n)
    X = rng.normal(size=(n, 5)) + (kind == "plain")[:, None]
    X[rng.random(X.shape) < 0.02] = np.nan
    frame = pd.DataFrame(X, columns=list(NAMES[:5]))
    frame[NAMES[5]] = rng.choice(["small", "large", ""], n)
    frame[NAMES[6]] = rng.poisson(3, n)
    frame["day"] = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    frame["kind"] = kind
    found = read_table(frame.to_csv(index=False).encode(), name="walk.csv")
    features = [column.name for column in found.columns if column.name in NAMES[:5]]
    return found.dataset(features=features, label="kind", hold_out=0.1)


def view_of(url: str) -> tuple[str, str]:
    """The run and the text of the view in an address."""
    query = parse_qs(urlsplit(url).query)
    return query.get("run", [""])[0], query.get("view", [""])[0]


class RandomWalk:
    """A walk of random steps; each is written down, for the message of a failure.

    Args:
        dashboard: a page of a dashboard.
        run: the run to begin with.
        random: chooses the steps.
    """

    def __init__(self, dashboard: Dashboard, run: str, random: Random) -> None:
        self.dashboard = dashboard
        self.page: Page = dashboard.page
        self.random = random
        self.steps: list[str] = []
        self.left: tuple[str, str] | None = None
        self.page.context.set_default_timeout(_PATIENCE_MS)
        dashboard.open("latent", run=run)
        self.calm()

    def walk(self, steps: int) -> None:
        """Take so many steps, and look at the page after each."""
        for _ in range(steps):
            self.steps.append("?")
            self.step()
            self.look()

    def step(self) -> None:
        """Take a step that the page offers."""
        on_map = self.at() == "latent" and self.has_map()
        ways: list[tuple[float, Callable[[], str | None]]] = [
            (30, self.control),
            (6, self.other_page),
            (2, self.back),
            (2, self.reload),
        ]
        if on_map:
            ways += [
                (10, self.undo_redo),
                (6, self.link),
                (8, self.drawn),
                (5, self.clicked),
                (8, self.brush),
                (8, self.query),
                (5, self.tab),
                (4, self.saved),
                (3, self.clear),
                (8, self.hasty),
            ]
        else:
            ways += [(5, self.to_map)]
            if self.at() == "":
                ways += [(20, self.column_cell), (6, self.sample)]
            if self.at() == "fit":
                ways += [(20, self.fit_steps)]
        weights, choices = zip(*ways, strict=True)
        (way,) = self.random.choices(choices, weights)
        self.steps[-1] = way.__name__
        try:
            said = way()
        except (TimeoutError, Error) as error:  # drawn anew under the mouse: no step
            said = f"not possible ({str(error).splitlines()[0][:150]})"
        self.steps[-1] = f"{self.at() or 'data'}: {way.__name__} {said or ''}"

    # ---- looks -------------------------------------------------------------------------------

    def at(self) -> str:
        """The page of the address."""
        return urlsplit(self.page.url).path.strip("/")

    def has_map(self) -> bool:
        """Whether the page has a map."""
        return self.page.get_by_role("application", name=MAP, exact=True).count() == 1

    def calm(self) -> None:
        """Wait until neither the page nor the address changes."""
        before = None
        for _ in range(40):
            self.page.wait_for_timeout(150)
            self.dashboard.settled()
            if self.page.url == before:
                return
            before = self.page.url
        raise AssertionError("the address does not come to rest")

    def look(self) -> None:
        """The page must be there without an error."""
        self.calm()
        self.dashboard.no_traceback()
        expect(self.page.get_by_test_id("stMain").locator("h1, h2").first).to_be_visible()
        assert not self.dashboard.log(), "\n".join(self.dashboard.log())

    def shown(self, page: Page | None = None) -> dict[str, Any]:
        """What the page of a map shows of its view."""
        board = self.dashboard if page is None else Dashboard(page, self.dashboard.server)
        board.still()
        found: dict[str, Any] = board.page.evaluate(_SHOWN)
        seen = board.map()
        scene = json.loads(board.page.evaluate(_SCENE, MAP))
        ranges = {axis: seen[axis]["range"] for axis in "xy"}
        return found | {f"scene {name}": part for name, part in scene.items()} | ranges

    def same(self, before: dict[str, Any], after: dict[str, Any], what: str) -> None:
        """Compare two observations of the view.

        Ranges are rounded in the address, and those of axes with one scale have the shape of the
        canvas, which a scroll bar changes a little.
        """
        for name in before.keys() | after.keys():
            one, other = before.get(name), after.get(name)
            if name in ("x", "y"):
                width = abs(one[1] - one[0])
                equal = np.allclose(one, other, rtol=0, atol=0.05 * width)
            else:
                equal = one == other
            assert equal, f"{what}: {name} was {str(one)[:300]} and is {str(other)[:300]}"

    def close_popovers(self) -> None:
        """Close an open popover by its own button."""
        for _ in range(3):
            open_one = self.page.locator('[data-testid="stPopoverButton"][aria-expanded="true"]')
            if not open_one.count():
                return
            open_one.first.click(timeout=_PATIENCE_MS)
            self.calm()

    # ---- steps on every page -----------------------------------------------------------------

    def control(self) -> str:
        """Use any control of the page, rather a field than a button."""
        controls = self.page.locator(f"{_CONTROLS}, {_POPOVER_CONTROLS}")
        found = [
            (k, about)
            for k, about in enumerate(controls.evaluate_all(_ABOUT))
            if about is not None and not _AVOIDED.match(about["name"])
        ]
        if not found:
            return "none"
        weights = [
            (1 if about["tag"] == "BUTTON" else 3) * (4 if about["inside"] else 1)
            for _, about in found
        ]
        ((k, about),) = self.random.choices(found, weights)
        one = controls.nth(k)
        name = f"{about['tag'].lower()} {about['role'] or about['type'] or ''} {about['name']!r}"
        self.steps[-1] += f" {name}"
        one.scroll_into_view_if_needed(timeout=_PATIENCE_MS)
        return f"{name} {self._use(one, about)}"

    def _use(self, one: Locator, about: dict[str, Any]) -> str:
        if about["role"] == "combobox":
            return self._choose(one)
        if about["role"] == "slider":
            key = self.random.choice(["ArrowLeft", "ArrowRight", "Home", "End"])
            one.focus()
            self.page.keyboard.press(key)
            return key
        if about["tag"] in ("INPUT", "TEXTAREA") and about["type"] in ("text", "textarea"):
            return self._type(one, ["", "a", "é" * 30, "1", "**b**", "0.5", "x = 1"])
        if about["type"] == "number":
            return self._type(one, ["", "0", "1", "2", "-1", "1e9", "0.001", "3.5", "1e-300"])
        if about["type"] in ("checkbox", "radio"):
            one.locator("xpath=ancestor::label[1]").click(timeout=_PATIENCE_MS)
            return ""
        one.click(timeout=_PATIENCE_MS)
        return ""

    def _type(self, field: Locator, texts: list[str]) -> str:
        text = self.random.choice(texts)
        field.fill(text, timeout=_PATIENCE_MS)
        field.press("Enter")
        return repr(text)

    def _choose(self, box: Locator) -> str:
        box.click(timeout=_PATIENCE_MS)
        options = self.page.get_by_role("option")
        try:
            expect(options.first).to_be_visible(timeout=_PATIENCE_MS)
        except AssertionError:
            return "without options"
        one = options.nth(self.random.randrange(options.count()))
        said = one.inner_text(timeout=_PATIENCE_MS)
        one.click(timeout=_PATIENCE_MS)
        return f"-> {said!r}"

    def other_page(self) -> str:
        """Go to another page by the sidebar."""
        title = self.random.choice([*_PAGES, "Data", "Data", "Fit", "Fit"])
        if self.at() == "latent" and self.has_map():
            self.left = view_of(self.page.url)
        links = self.page.get_by_test_id("stSidebarNav")
        links.get_by_role("link", name=title, exact=True).click(timeout=_PATIENCE_MS)
        self.calm()
        assert self.at() == _PAGES[title], f"{title} leads to {self.page.url}"
        return title

    def to_map(self) -> str:
        """Go back to the map: the view is that which was left."""
        links = self.page.get_by_test_id("stSidebarNav")
        links.get_by_role("link", name="Latent", exact=True).click(timeout=_PATIENCE_MS)
        self.calm()
        if self.has_map() and self.left is not None:
            self.calm()
            now = view_of(self.page.url)
            if now[0] == self.left[0]:
                assert now == self.left, f"left {self.left}, came back to {now}"
        return ""

    def back(self) -> str:
        """The back button of the browser."""
        before = self.page.url
        if self.page.evaluate("() => history.length") < 3:
            return "nothing before"
        self.page.go_back(timeout=_PATIENCE_MS, wait_until="commit")
        self.calm()
        if not self.page.url.startswith(self.dashboard.server.url):
            self.page.go_forward()
            return "left"
        if self.at() == "latent" and self.has_map():
            self.link()  # what is shown is the view of the address
        return f"from {before} to {self.page.url}"

    def reload(self) -> str:
        """Load the page again: the view of a map is the same."""
        self.left = None  # a new session
        shown = self.at() == "latent" and self.has_map()
        if not shown:
            self.page.reload()
            return ""
        self.close_popovers()
        before, view = self.shown(), view_of(self.page.url)
        self.page.reload()
        self.dashboard.map()
        self.calm()
        assert view_of(self.page.url) == view, f"loaded again, {view} became {self.page.url}"
        if not self.too_long():
            self.same(before, self.shown(), "loaded again")
        return ""

    # ---- steps on the page of a map ----------------------------------------------------------

    def too_long(self) -> bool:
        """Whether the address has no room for the selection."""
        self.dashboard.button("Views").click()
        self.calm()
        found = self.page.get_by_text(re.compile("too long for a link")).count() > 0
        self.close_popovers()
        return found

    def undo_redo(self) -> str:
        """Undo some steps and redo them: the same view again."""
        self.close_popovers()
        undo, redo = self.dashboard.button(UNDO), self.dashboard.button(REDO)
        self.look()
        before, view, times = self.shown(), view_of(self.page.url), 0
        for _ in range(self.random.randint(1, 3)):
            if undo.is_disabled():
                break
            undo.click(timeout=_PATIENCE_MS)
            times += 1
            self.look()
        if self.random.random() < 0.3:
            return f"undone {times} times"
        for _ in range(times):
            assert redo.is_enabled(), f"undone {times} times, not all can be redone"
            redo.click(timeout=_PATIENCE_MS)
            self.look()
        now = view_of(self.page.url)
        assert now == view, f"{times} times undone and redone, {view} became {now}"
        self.same(before, self.shown(), f"{times} times undone and redone")
        return f"{times} times"

    def fit_steps(self) -> str:
        """Undo some choices of a fit and redo them: the same form again."""
        self.close_popovers()
        undo, redo = self.dashboard.button(UNDO), self.dashboard.button(REDO)
        before, times = self.page.evaluate(_FIELDS), 0
        for _ in range(self.random.randint(1, 4)):
            if not undo.count() or undo.is_disabled():
                break
            undo.click(timeout=_PATIENCE_MS)
            times += 1
            self.look()
        for _ in range(times):
            assert redo.is_enabled(), f"undone {times} times, not all can be redone"
            redo.click(timeout=_PATIENCE_MS)
            self.look()
        now = self.page.evaluate(_FIELDS)
        assert now == before, f"{times} times undone and redone, {before} became {now}"
        return f"{times} times"

    def link(self) -> str:
        """Open the address in a new page: the same view."""
        self.close_popovers()
        if self.too_long():
            return "too long"
        before, url = self.shown(), self.page.url
        other = self.page.context.new_page()
        try:
            other.goto(url)
            board = Dashboard(other, self.dashboard.server)
            board.map()
            board.settled()
            other.wait_for_timeout(400)
            board.settled()
            board.no_traceback()
            assert view_of(other.url) == view_of(url), f"{url} became {other.url}"
            self.same(before, self.shown(other), f"opened by {url}")
        finally:
            other.close()
        return view_of(url)[1]

    def drawn(self) -> str:
        """Select rows by a lasso on the map."""
        self.close_popovers()
        x, y = self.random.uniform(0.05, 0.5), self.random.uniform(0.05, 0.5)
        w, h = self.random.uniform(0.05, 0.45), self.random.uniform(0.05, 0.45)
        corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h)]
        self.dashboard.still()
        around = self.page.get_by_role("application", name=MAP, exact=True).locator("..")
        around.get_by_role("button", name="Select by a lasso").click(timeout=_PATIENCE_MS)
        seen = self.dashboard.map()
        path = [
            (
                seen["x"]["origin"] + a * seen["x"]["pixels"],
                seen["y"]["origin"] + (1 - b) * seen["y"]["pixels"],
            )
            for a, b in corners
        ]
        self.page.mouse.move(*path[0])
        self.page.mouse.down()
        for place in (*path[1:], path[0]):
            self.page.mouse.move(*place, steps=5)
        self.page.mouse.up()
        return f"{x:.2f} {y:.2f} {w:.2f} {h:.2f}"

    def clicked(self) -> str:
        """Click a row of the map, or a place without one."""
        self.close_popovers()
        self.dashboard.still()
        around = self.page.get_by_role("application", name=MAP, exact=True).locator("..")
        around.get_by_role("button", name="Click").or_(
            around.get_by_role("button", name=re.compile("point", re.IGNORECASE))
        ).first.click(timeout=_PATIENCE_MS)
        numbers, places = self.dashboard.rows()
        pick = self.random.randrange(len(numbers))
        dx = self.random.choice([0, 0, 15])
        self.page.mouse.click(places[pick][0] + dx, places[pick][1])
        return f"row {numbers[pick]} +{dx} px"

    def brush(self) -> str:
        """Brush a histogram, or click a category."""
        self.close_popovers()
        self.dashboard.tab("Columns")
        canvases = self.page.get_by_role("application", name=re.compile("^Histogram of"))
        if not canvases.count():
            return "no histogram"
        canvas = canvases.nth(self.random.randrange(canvases.count()))
        canvas.scroll_into_view_if_needed(timeout=_PATIENCE_MS)
        box = canvas.bounding_box()
        assert box is not None
        first, last = (box["x"] + self.random.random() * box["width"] for _ in range(2))
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(first, y)
        self.page.mouse.down()
        self.page.mouse.move(last, y, steps=4)
        self.page.mouse.up()
        return f"{canvas.get_attribute('aria-label')!r}"

    def query(self) -> str:
        """Type a query of rows."""
        self.close_popovers()
        self.dashboard.tab("Selection")
        self.dashboard.button("Find rows").click(timeout=_PATIENCE_MS)
        text = self._query(2)
        field = self.page.get_by_role("textbox", name="Query")
        present = field.input_value(timeout=_PATIENCE_MS)
        if present and self.random.random() < 0.3:
            text = f"not ({present})"
        field.fill(text, timeout=_PATIENCE_MS)
        field.press("Enter")
        self.calm()
        self.close_popovers()
        return repr(text)

    def _query(self, depth: int) -> str:
        pick = self.random.random()
        if depth and pick < 0.35:
            word = self.random.choice(["and", "or"])
            return f"({self._query(depth - 1)}) {word} {self._query(depth - 1)}"
        if depth and pick < 0.45:
            return f"not {self._query(depth - 1)}"
        number = self.random.choice(["0", "-1.5", "1e3", "0.25"])
        return self.random.choice(
            [
                f"width >= {number}",
                f'"and or" between -1 and {number}',
                f"`back\\`tick` < {number}",
                '"region 1" is missing',
                'kind in (plain, "it\'s")',
                "kind != 'a \"b\"'",
                "row contains 1",
                '"Größe (cm)" = small',
                '"Größe (cm)" in (large, missing)',
                f'"row" >= {number}',
                "day >= 2024-02-01",
                "day between 2024-01-05 and 2024-02-01",
                "region 1",
                "kind contains AN",
                "width >",
                "",
            ]
        )

    def tab(self) -> str:
        """Open a tab beside the map."""
        name = self.random.choice(["Point", "Selection", "Columns", "Relevance"])
        self.close_popovers()
        self.dashboard.tab(name)
        return name

    def saved(self) -> str:
        """Save the view or the selection, or open one that was saved."""
        self.close_popovers()
        if self.random.random() < 0.5:
            self.dashboard.button("Views").click(timeout=_PATIENCE_MS)
            name, save = "Name of this view", "Save view"
        else:
            self.dashboard.tab("Selection")
            self.dashboard.button("Saved").click(timeout=_PATIENCE_MS)
            name, save = "Name of this selection", "Save"
        self.calm()
        body = self.page.get_by_test_id("stPopoverBody")
        field = body.get_by_role("textbox", name=name)
        saved = body.locator('[class*="saved"] button').filter(has_not_text="Delete")
        if field.count() and (not saved.count() or self.random.random() < 0.4):
            text = self.random.choice(["one", "**two**", "ö", "", "a/b"])
            field.fill(text, timeout=_PATIENCE_MS)
            field.press("Enter")
            self.calm()
            self.dashboard.button(save).click(timeout=_PATIENCE_MS)
            said = f"{save} {text!r}"
        elif saved.count():
            one = saved.nth(self.random.randrange(saved.count()))
            said = f"open {one.inner_text(timeout=_PATIENCE_MS)!r}"
            one.click(timeout=_PATIENCE_MS)
        else:
            said = "nothing"
        self.calm()
        self.close_popovers()
        return said

    def hasty(self) -> str:
        """Some clicks one after the other, without a look at what becomes of them."""
        self.close_popovers()
        said = []
        for _ in range(self.random.randint(2, 4)):
            clicked = self.page.locator(
                '.st-key-map-panel [role="tab"], .st-key-condition-chips button, '
                '[data-testid="stCheckbox"] label:visible, [data-testid="stBaseButton-tertiary"]'
            )
            one = clicked.nth(self.random.randrange(clicked.count()))
            try:
                said.append(one.inner_text(timeout=1000).splitlines()[0])
                one.click(timeout=1000, force=True)
            except (TimeoutError, Error, IndexError):
                said.append("missed")
            self.page.wait_for_timeout(self.random.choice([0, 30, 150]))
        self.calm()
        return f"{said}, then link {self.link()}"

    def clear(self) -> str:
        """Clear the selection by the key."""
        self.close_popovers()
        self.page.keyboard.press("Escape")
        return ""

    # ---- steps on the page of the data -------------------------------------------------------

    def sample(self) -> str:
        """Choose a small sample."""
        box = self.page.get_by_role("combobox", name="Or a sample")
        title = self.random.choice(["Iris", "Wine", "Penguins", "Breast"])
        box.click(timeout=_PATIENCE_MS)
        self.page.get_by_role("option", name=re.compile(f"^{title}")).first.click()
        return title

    def column_cell(self) -> str:
        """Choose another type, transform or likelihood in the table of columns, or tick one."""
        editors = self.page.get_by_test_id("stDataFrame")
        if editors.count() != 2:
            return "no table of columns"
        cells = editors.last.locator(".dvn-scroller")
        rows = int(editors.last.locator('[role="grid"]').get_attribute("aria-rowcount") or 2) - 1
        row = self.random.randrange(min(rows, 8))
        if self.random.random() < 0.4:
            cells.click(position={"x": 50, "y": 33 * (row + 1) + 16}, timeout=_PATIENCE_MS)
            return f"tick of row {row}"
        x = self.random.choice([310, 430, 540])
        cells.click(position={"x": x, "y": 33 * (row + 1) + 16}, timeout=_PATIENCE_MS)
        self.page.keyboard.press("Enter")
        options = self.page.get_by_role("option")
        self.page.locator("#portal").get_by_role("combobox").click(timeout=_PATIENCE_MS)
        one = options.nth(self.random.randrange(max(1, options.count())))
        said = one.inner_text(timeout=_PATIENCE_MS)
        one.click(timeout=_PATIENCE_MS)
        self.page.keyboard.press("Enter")
        return f"row {row}, x {x}: {said!r}"
