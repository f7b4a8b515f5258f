"""The dashboard as a person at the browser knows it: what the tests and the timings do and read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Error, Locator, Page, TimeoutError, expect

from app.formatting import count
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset
from lvmcore.models import MODELS
from lvmcore.runs import Store
from tests.e2e.server import Server
from tests.unit.lvmcore.runs.fitting import ran

__all__ = ["CANVAS", "CLEAR", "LIVE", "PATIENCE_MS", "Dashboard", "Growth"]

#: For what a busy machine may take long to do: a fit, or the first import of torch.
PATIENCE_MS = 120_000
BOUND = "The bound at each step of the fit"
#: The charts of a fit under way.
LIVE = (
    BOUND,
    "The terms of the bound at each step",
    "Latent means of the rows on the two most relevant dimensions",
    "Share of the kernel weights of each latent dimension",
)
MAP = "Map of the rows in two latent dimensions"
#: The button that clears a selection, as a screen reader says it.
CLEAR = "Clear the selection Shortcut Esc"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
BACKGROUND: dict[str, str] = {"light": "rgb(250, 250, 247)", "dark": "rgb(16, 20, 24)"}
_NAME_X = 150  # where the names are in the table of columns, in pixels from its left edge

# The option of an ECharts chart, from the React component that draws it.
_SPEC = """(node) => {
  const key = Object.keys(node).find((name) => name.startsWith("__reactFiber"));
  for (let fiber = node[key]; fiber; fiber = fiber.return) {
    const element = fiber.memoizedProps && fiber.memoizedProps.element;
    if (element && element.spec) return JSON.parse(element.spec);
  }
  return null;
}"""
_STEPS = f"""(chart) => {{
  const spec = ({_SPEC})(chart);
  return spec ? spec.series[0].data.map((point) => point[0]) : [];
}}"""
# Called again and again: notes each step at which the chart has grown, and whether its canvas is
# still the one that was marked at the first call.
_GROWTH = f"""([name, times]) => {{
  const chart = document.querySelector(`[aria-label="${{name}}"]`);
  const canvas = chart && chart.querySelector("canvas");
  const seen = (window.latentboardGrowth ??= {{steps: [], remounts: 0, canvas}});
  if (!canvas) return false;
  if (!seen.canvas) seen.canvas = canvas;
  seen.canvas.latentboardMark = true;
  if (!canvas.latentboardMark) [seen.remounts, seen.canvas] = [seen.remounts + 1, canvas];
  const step = ({_STEPS})(chart).at(-1);
  if (step !== undefined && step !== seen.steps.at(-1)) seen.steps.push(step);
  return seen.steps.length > times ? {{steps: seen.steps, remounts: seen.remounts}} : false;
}}"""
_PLOT = """(plot) => {
  plot.scrollIntoView({block: "nearest", behavior: "instant"});
  const layout = plot._fullLayout, box = plot.getBoundingClientRect();
  const axis = (a, origin) => ({title: a.title.text, range: a.range, origin: origin + a._offset,
    pixels: a._length});
  return {
    x: axis(layout.xaxis, box.x), y: axis(layout.yaxis, box.y),
    traces: plot._fullData.map((t) => ({name: t.name, type: t.type, x: Array.from(t.x ?? []),
      y: Array.from(t.y ?? [])})),
  };
}"""
# A map on a canvas, by its name: it is drawn behind a shadow root.
CANVAS = """(name) => [...document.querySelectorAll("*")].map((one) => one.shadowRoot)
    .map((root) => root && root.querySelector(`canvas[aria-label="${name}"]`)).find(Boolean)"""
_MAP = f"""([name, digest]) => {{
  const canvas = ({CANVAS})(name), seen = canvas && canvas.latentboard();
  if (!seen || !seen.view || seen.digest === digest) return false;
  canvas.scrollIntoView({{block: "nearest", behavior: "instant"}});
  const {{scene, view, box}} = seen, edge = canvas.getBoundingClientRect();
  return {{
    digest: seen.digest, titles: scene.titles, outlines: scene.outlines, marked: scene.marked,
    x: {{range: view.x, origin: edge.x + box.x, pixels: box.w}},
    y: {{range: view.y, origin: edge.y + box.y, pixels: box.h}},
    rows: [...scene.number], places: [...scene.px].map((x, i) => [x, scene.py[i]]),
    selected: scene.selected ? [...scene.number].filter((_, i) => scene.selected[i]) : null,
    names: [...scene.code].map((code) => (scene.legend[0]?.entries ?? [])
      .find((entry) => entry.code === code)?.text ?? null),
    heat: scene.heat &&
      {{size: scene.heat.size, value: [...scene.heatValue], x: scene.x, y: scene.y}},
  }};
}}"""


@dataclass(frozen=True)
class Growth:
    """What was seen of a live chart.

    Attributes:
        steps: the last step drawn, each time that it changed.
        remounts: how often the chart's canvas was replaced.
    """

    steps: list[int]
    remounts: int


class Dashboard:
    """A page of the dashboard, with the server and the store behind it.

    Args:
        page: of the browser.
        server: the dashboard's process.
    """

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server

    # ---- going about -------------------------------------------------------------------------

    def open(self, path: str = "", run: str | None = None) -> None:
        """Open a page by its address."""
        self.page.goto(f"{self.server.url}/{path}" + ("" if run is None else f"?run={run}"))
        name = path.partition("?")[0]
        title = {"": "Data", "impute": "Missing cells"}.get(
            name, name.replace("_", " ").capitalize()
        )
        expect(self.page.get_by_role("heading", name=title, exact=True)).to_be_visible()

    def button(self, name: str) -> Locator:
        """A button, by its whole name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def way(self, name: str) -> Locator:
        """The link that leads on to another page, by its whole name."""
        return self.page.get_by_test_id("stMain").get_by_role("link", name=name, exact=True)

    def follow(self, name: str) -> None:
        """Follow the link that leads on to another page.

        A click is lost where the page is drawn anew between its two halves: the link is clicked
        until the address is another.
        """
        before = urlsplit(self.page.url).path
        for tries_left in reversed(range(8)):
            expect(self.way(name)).to_be_visible(timeout=PATIENCE_MS)
            self.settled()
            self.way(name).click()
            try:
                self.page.wait_for_url(lambda url: urlsplit(url).path != before, timeout=8000)
                break
            except TimeoutError:
                if not tries_left:
                    raise

    def says(self, text: str | re.Pattern[str]) -> None:
        """Wait until the page says something."""
        shown = self.page.get_by_test_id("stMain").get_by_text(text).first
        expect(shown).to_be_visible(timeout=PATIENCE_MS)

    def settled(self) -> None:
        """Wait until the server has drawn what was asked for; not on a page that polls."""
        idle = self.page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]')
        expect(idle).to_be_attached(timeout=PATIENCE_MS)

    def in_scheme(self, scheme: Scheme) -> None:
        """Have the page in light or dark colours, as a system that changes its own."""
        self.page.emulate_media(color_scheme=scheme)
        app = self.page.get_by_test_id("stApp")
        expect(app).to_have_css("background-color", BACKGROUND[scheme])

    @staticmethod
    def into_view(shown: Locator) -> None:
        """Scroll to a part of the page, also where React is just putting another in its place."""
        for tries_left in reversed(range(10)):
            try:
                shown.scroll_into_view_if_needed()
                break
            except Error as error:
                if "not attached" not in error.message or not tries_left:
                    raise

    # ---- the Data page -----------------------------------------------------------------------

    def upload(self, file: Path) -> None:
        """Upload a file."""
        self.page.locator('input[type="file"]').set_input_files(file)

    def sample(self, title: str) -> None:
        """Pick a sample, by its title with its rows in brackets, and wait until it is there.

        A change of page right after the choice would win over it.
        """
        self.page.get_by_role("combobox", name="Or a sample").click()
        self.page.get_by_role("option", name=title).click()
        rows = re.search(r"\((\d+) rows\)", title)
        assert rows is not None, title
        self.says(re.compile(rf"^{count(int(rows[1]), 'row')}, "))

    def choose_in_cell(self, row: int, x: int, what: str) -> None:
        """Choose in a cell of the table of columns.

        Args:
            row: of the cell, from 0.
            x: where its column is, in pixels from the table's left edge.
            what: the option.
        """
        self.settled()
        cells = self.page.get_by_test_id("stDataFrame").last.locator(".dvn-scroller")
        editor = self.page.locator("#portal").get_by_role("combobox")
        option = self.page.get_by_role("option", name=what, exact=True)
        for tries_left in reversed(range(10)):
            # The table takes keys only a moment after the click. A second Enter would close a list
            # that opens late and go a row down, so every try begins from another cell of the row.
            self.page.keyboard.press("Escape")
            for at in (_NAME_X, x):
                cells.click(position={"x": at, "y": 33 * (row + 1) + 16})  # waits until it is still
            self.page.keyboard.press("Enter")
            try:
                expect(editor).to_be_visible(timeout=4000)
                # The table may take the focus back from the editor, which then closes its list.
                editor.click(timeout=4000)
                option.click(timeout=4000)
                # Enter in a list that is still open would choose the option under the pointer.
                expect(option).to_be_hidden(timeout=4000)
                break
            except (AssertionError, TimeoutError):
                if not tries_left:
                    raise
        if editor.is_visible():
            self.page.keyboard.press("Enter")

    def to_fit(self) -> None:
        """Go from the data to the Fit page."""
        self.follow("Fit a model")
        expect(self.button("Fit")).to_be_visible(timeout=PATIENCE_MS)

    # ---- the Fit page ------------------------------------------------------------------------

    def settings(self) -> None:
        """Unfold the advanced settings of the chosen model."""
        folded = self.page.get_by_test_id("stExpander").filter(has_text="Advanced settings")
        expect(folded).to_be_visible(timeout=PATIENCE_MS)
        self.settled()
        for tries_left in reversed(range(8)):  # a click is lost where the page is just drawn anew
            if folded.locator("details[open]").count():
                break
            folded.locator("summary").click()
            try:
                expect(folded.locator("details[open]")).to_be_attached(timeout=4000)
            except AssertionError:
                if not tries_left:
                    raise

    def number(self, name: str, value: int) -> None:
        """Type a number into a field of the form."""
        field = self.page.get_by_role("spinbutton", name=name)
        if self.page.locator(".st-key-fit-start").count() and not field.is_visible():
            self.settings()
        field.fill(str(value))
        field.press("Enter")
        self.settled()

    def choose(self, model: str) -> None:
        """Choose a model by its key."""
        self.settled()
        self.page.locator(".st-key-fit-model").get_by_role("combobox").click()
        title = MODELS[model].title
        self.page.get_by_role("option", name=re.compile(f"^(★ )?{re.escape(title)}: ")).click()
        expect(self.page.get_by_text(f"Settings of {title}", exact=True)).to_be_visible()

    def start(self) -> str:
        """Start the fit.

        Returns:
            The id of its run.
        """
        self.page.evaluate(
            "() => document.querySelectorAll('canvas').forEach((one) => { one.old = true; })"
        )
        before = self.page.url
        self.button("Fit").click()
        self.page.wait_for_function("(url) => location.href !== url", arg=before)
        return self.run()

    def first_point(self) -> None:
        """Wait for the first point of the curve of the fit that was just started."""
        self._until_curve(
            f"!chart.querySelector('canvas')?.old && ({_STEPS})(chart).length > value", 0
        )

    def run(self) -> str:
        """The id of the run in the address."""
        found = re.search(r"[?&]run=([0-9a-f]{32})", self.page.url)
        assert found is not None, f"no run in {self.page.url}"
        return found[1]

    def chart(self, name: str = BOUND) -> Locator:
        """A live chart, once it is drawn."""
        chart = self.page.get_by_label(name, exact=True)
        expect(chart.locator("canvas").first).to_be_visible(timeout=PATIENCE_MS)
        return chart

    def curve(self, name: str = BOUND) -> list[list[float]]:
        """Steps and values of the first line of a live chart."""
        return next(iter(self.curves(name).values()))

    def curves(self, name: str) -> dict[str, list[list[float]]]:
        """Steps and values of the lines of a chart, by their names."""
        # React may be putting another chart in this one's place: a node let go of has no option.
        spec = self.page.wait_for_function(
            f"""(name) => {{
              const chart = document.querySelector(`[aria-label="${{name}}"]`);
              return chart && chart.querySelector("canvas") && ({_SPEC})(chart);
            }}""",
            arg=name,
            timeout=PATIENCE_MS,
        ).json_value()
        return {line["name"]: line["data"] for line in spec["series"]}

    def along(self, name: str, title: str) -> None:
        """Wait until the horizontal axis of a chart is called so."""
        self.page.wait_for_function(
            f"""([name, title]) => {{
              const chart = document.querySelector(`[aria-label="${{name}}"]`);
              const spec = chart && ({_SPEC})(chart);
              return spec && spec.xAxis.name === title;
            }}""",
            arg=[name, title],
            timeout=PATIENCE_MS,
        )

    def grows(self, times: int, name: str = BOUND) -> Growth:
        """Watch a live chart until it has grown so many times."""
        self.page.evaluate("() => { delete window.latentboardGrowth; }")
        seen = self.page.wait_for_function(
            _GROWTH, arg=[name, times], polling=50, timeout=PATIENCE_MS
        ).json_value()
        return Growth(seen["steps"], seen["remounts"])

    def passes(self, step: float) -> None:
        """Wait until the live curve has gone beyond a step."""
        self._until_curve(f"({_STEPS})(chart).at(-1) > value", step)

    def begins_from(self, step: float) -> None:
        """Wait until the live curve leaves out what is before a step."""
        self._until_curve(f"({_STEPS})(chart)[0] >= value", step)

    def _until_curve(self, holds: str, value: float) -> None:
        self.page.wait_for_function(
            f"""([name, value]) => {{
              const chart = document.querySelector(`[aria-label="${{name}}"]`);
              return chart && chart.querySelector("canvas") && {holds};
            }}""",
            arg=[BOUND, value],
            polling="raf",
            timeout=PATIENCE_MS,
        )

    def explore(self) -> None:
        """Go from a fit that has ended to its map."""
        self.follow("Explore the map")
        self.map()

    # ---- the Latent page ---------------------------------------------------------------------

    def tab(self, name: str) -> None:
        """Open a tab of the panel beside the map.

        A click is lost where the page is just being drawn anew: it is repeated.
        """
        tab = self.page.locator(".st-key-map-panel").get_by_role("tab", name=name, exact=True)
        for tries_left in reversed(range(8)):
            self.settled()
            tab.click()
            try:
                expect(tab).to_have_attribute("aria-selected", "true", timeout=4000)
                self.settled()
                expect(tab).to_have_attribute("aria-selected", "true", timeout=4000)
                break
            except AssertionError:
                if not tries_left:
                    raise

    def figure(self, name: str) -> Locator:
        """A plotly figure, once it is drawn."""
        figure = self.page.get_by_role("figure", name=name)
        expect(figure.locator(".main-svg").first).to_be_visible(timeout=PATIENCE_MS)
        return figure

    def plot(self, name: str) -> dict[str, Any]:
        """Axes and traces of a plotly figure, scrolled into view."""
        plot: dict[str, Any] = self.read(name, _PLOT)
        return plot

    def read(self, name: str, function: str) -> Any:
        """What a JavaScript function makes of a figure's plot, once it makes something of it.

        The plot is looked for and read in one go: React may put another one in its place at any
        moment in between.

        Args:
            name: of the figure.
            function: of the plot's element.
        """
        return self.page.wait_for_function(
            f"""(name) => {{
              const plot = document.querySelector(`[aria-label="${{name}}"] .js-plotly-plot`);
              return plot && plot._fullLayout && plot.querySelector(".main-svg") &&
                ({function})(plot);
            }}""",
            arg=name,
            timeout=PATIENCE_MS,
        ).json_value()

    def map(self, name: str = MAP, other: str = "") -> dict[str, Any]:
        """What a map on a canvas shows, scrolled into view.

        Args:
            name: of the map.
            other: digest of a scene: wait for another one.
        """
        seen: dict[str, Any] = self.page.wait_for_function(
            _MAP, arg=[name, other], timeout=PATIENCE_MS
        ).json_value()
        return seen

    def redrawn(self, digest: str) -> str:
        """Wait until the map shows something else.

        Args:
            digest: of what it showed before.

        Returns:
            That of what it shows now.
        """
        return str(self.map(other=digest)["digest"])

    def cleared_by_key(self, digest: str) -> str:
        """Clear the selection by Esc, and wait until the map shows so.

        The key is lost where the button that listens to it is just being drawn anew: it is pressed
        until the map follows.

        Args:
            digest: of what it showed before.

        Returns:
            That of what it shows now.
        """
        expect(self.button(CLEAR)).to_be_visible(timeout=PATIENCE_MS)
        for tries_left in reversed(range(8)):
            self.settled()
            if self.button(CLEAR).is_visible():
                self.page.keyboard.press("Escape")
            try:
                self.page.wait_for_function(_MAP, arg=[MAP, digest], timeout=8000)
                break
            except TimeoutError:
                if not tries_left:
                    raise
        return self.redrawn(digest)

    def still(self, name: str = MAP) -> None:
        """Wait until a map has been drawn and has stayed in its place for half a second."""
        self.page.evaluate("() => { delete window.latentboardPlace; }")
        self.page.wait_for_function(
            f"""(name) => {{
              const canvas = ({CANVAS})(name), seen = canvas && canvas.latentboard();
              if (!seen) return false;
              const box = canvas.getBoundingClientRect(), now = performance.now();
              const place = [seen.digest, box.x, box.y, box.width].join();
              if ((window.latentboardPlace ??= {{place, since: now}}).place !== place) {{
                window.latentboardPlace = {{place, since: now}};
              }}
              return now - window.latentboardPlace.since > 500;
            }}""",
            arg=name,
            polling="raf",
            timeout=PATIENCE_MS,
        )

    def all_rows(self, n: int, name: str = MAP) -> None:
        """Wait until a map has loaded all n rows of a large table."""
        self.page.wait_for_function(
            f"([name, n]) => ({CANVAS})(name)?.latentboard()?.allRows === n",
            arg=[name, n],
            timeout=PATIENCE_MS,
        )

    def colour_at(self, place: tuple[float, float], name: str = MAP) -> list[int]:
        """Red, green and blue of a map at a place on the page, without what follows the mouse."""
        found: list[int] = self.page.evaluate(
            f"""([name, x, y]) => {{
              const canvas = ({CANVAS})(name), edge = canvas.getBoundingClientRect();
              const base = canvas.parentElement.querySelector("canvas");
              const ratio = base.width / edge.width;
              const at = [(x - edge.x) * ratio, (y - edge.y) * ratio].map(Math.round);
              return [...base.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3);
            }}""",
            [name, *place],
        )
        return found

    def rows(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The rows drawn on the map: their numbers, [n], and their places in pixels, [n, 2]."""
        seen = self.map()
        places = np.array([self.pixel(seen, *place) for place in seen["places"]])
        return np.array(seen["rows"]), places

    @staticmethod
    def pixel(plot: dict[str, Any], x: float, y: float) -> tuple[float, float]:
        """Where on the page a place of the map is."""
        across, up = (
            (value - axis["range"][0]) / (axis["range"][1] - axis["range"][0])
            for value, axis in ((x, plot["x"]), (y, plot["y"]))
        )
        return (
            plot["x"]["origin"] + across * plot["x"]["pixels"],
            plot["y"]["origin"] + (1 - up) * plot["y"]["pixels"],
        )

    def click(self, place: tuple[float, float], entry: int, name: str) -> None:
        """Point at something in a plotly figure, and click it once the figure knows what it is.

        Args:
            place: on the page, in pixels.
            entry: what the thing carries first in its custom data, as a row its number.
            name: of the figure.
        """
        x, y = place
        self.page.mouse.move(x - 12, y - 12)
        self.page.mouse.move(x, y, steps=4)
        self.page.wait_for_function(
            """([name, entry]) => {
              const plot = document.querySelector(`[aria-label="${name}"] .js-plotly-plot`);
              return (plot._hoverdata ?? []).some((one) => one.customdata?.[0] === entry);
            }""",
            arg=[name, entry],
            polling="raf",
        )
        self.page.mouse.click(x, y)

    def lasso(self, corners: Sequence[tuple[float, float]], name: str = MAP) -> NDArray[np.float64]:
        """Draw a lasso on a map.

        Args:
            corners: in shares of the map's width and height, from its lower left.
            name: of the map.

        Returns:
            The polygon that was drawn, in the map's units, [K, 2].
        """
        self.still(name)
        around = self.page.get_by_role("application", name=name, exact=True).locator("..")
        around.get_by_role("button", name="Select by a lasso").click()
        seen = self.map(name)
        x, y = seen["x"], seen["y"]
        path = [
            (x["origin"] + a * x["pixels"], y["origin"] + (1 - b) * y["pixels"]) for a, b in corners
        ]
        self.page.mouse.move(*path[0])
        self.page.mouse.down()
        for place in (*path[1:], path[0]):
            self.page.mouse.move(*place, steps=8)
        self.page.mouse.up()
        (drawn,) = self.map(name)["outlines"]
        return np.array(drawn)

    def table(self, name: str) -> Locator:
        """A table, by its name."""
        named = self.page.get_by_role("region", name=name, exact=True)
        return self.page.get_by_test_id("stDataFrame").filter(has=named)

    def has_rows(self, table: Locator, rows: int) -> None:
        """Wait until a table has so many rows below its header."""
        grid = table.locator('[role="grid"]')
        expect(grid).to_have_attribute("aria-rowcount", str(rows + 1), timeout=PATIENCE_MS)

    def cells(self, table: Locator) -> list[list[str]]:
        """The cells that a table shows, row by row, as a screen reader gets them."""
        rows: list[list[str]] = table.locator('[role="row"]').evaluate_all(
            """(rows) => rows.map((row) => [...row.querySelectorAll('[role="gridcell"]')]
                .map((cell) => cell.textContent)).filter((cells) => cells.length)"""
        )
        return rows

    def download(self, name: str) -> bytes:
        """Click a button that downloads a file, and return its content."""
        with self.page.expect_download() as started:
            self.button(name).click()
        return Path(started.value.path()).read_bytes()

    # ---- the Generate page -------------------------------------------------------------------

    def cursor_map(self) -> Locator:
        """The map of the Generate page, whose cursor follows the mouse."""
        return self.page.get_by_role("application", name="Map of the rows with a cursor")

    def cursor_at(self, otherwise: str = "") -> tuple[str, tuple[float, ...]]:
        """What the page says of where the cursor is, once it says something else.

        Args:
            otherwise: what it said before.

        Returns:
            The words, and the two coordinates in them.
        """
        said: str = self.page.wait_for_function(
            """(before) => [...document.querySelectorAll('[data-testid="stMain"] p')]
                .map((one) => one.textContent)
                .find((text) => /atent dimension .* at /.test(text) && text !== before)""",
            arg=otherwise,
            timeout=PATIENCE_MS,
        ).json_value()
        found = re.findall(r" at (\S+?)[,.](?: |$)", said)
        return said, tuple(float(one.replace("\N{MINUS SIGN}", "-")) for one in found)

    # ---- the Runs page -----------------------------------------------------------------------

    def tick(self, row: int, table: str = "") -> None:
        """Tick a row, or take its tick away, by its place in a table, by default the first one."""
        self.settled()
        found = self.table(table) if table else self.page.get_by_test_id("stDataFrame").first
        expect(found.locator('[role="grid"]')).to_be_attached(timeout=PATIENCE_MS)
        self.into_view(found)
        self.settled()
        found.locator(".dvn-scroller").click(position={"x": 14, "y": 33 * (row + 1) + 16})

    # ---- behind the page ---------------------------------------------------------------------

    def store(self) -> Store:
        """The dashboard's store, read from outside."""
        return Store(self.server.home)

    def fitted(self, dataset: Dataset, model: str, **settings: Any) -> str:
        """Fit a model in the test's own process, for a test that begins with its map.

        Returns:
            The run's id.
        """
        run = ran(self.store(), dataset, model, **settings)
        job = self.store().get(run)
        assert job.status == "done", job.message
        return run

    def model(self, run: str) -> LatentVariableModel:
        """The fitted model of a run."""
        return self.store().load_model(run)

    def log(self) -> list[str]:
        """What the server printed beside its address."""
        lines = self.server.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if line and not line.startswith("Latentboard is at http")]

    def worker_log(self, run: str) -> str:
        """What the run's process printed."""
        path = self.store().job_folder(run).files.log
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def no_traceback(self) -> None:
        """The page shows no traceback."""
        expect(self.page.get_by_test_id("stException")).to_have_count(0)
        expect(self.page.get_by_text("Traceback")).to_have_count(0)
