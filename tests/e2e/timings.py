"""How fast the pages are, in a real browser: `python -m tests.e2e.timings [--json FILE]`.

Every figure is the median of several trials, with its ceiling beside it. The machine's yardstick is
measured in the same run, and its load is printed: on a busy machine the seconds mean little.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from app.shell.tour import STEPS
from lvmcore.bench.harness.machine import matrix_product_seconds
from lvmcore.bench.harness.report import BenchmarkRow, Report
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from tests.e2e import browser as chromium
from tests.e2e.dashboard import Dashboard
from tests.e2e.server import running

__all__ = ["main"]

FIRST_PAGE, START, CANCEL, REFRESH, TOUR = 2.0, 3.0, 1.0, 2.0, 60.0
#: A map of so many rows by its link; the server's memory before a model is needed, MB.
ROWS, COLUMNS, FIRST_MAP, MEMORY = 100_000, 10, 2.5, 500.0
COLD_TRIALS = 3
FIT_TRIALS = 3
#: More steps than a fit comes to before it is cancelled.
ENDLESS = 50_000
OIL_FLOW = "oil_flow_train.csv.gz"
#: How long a new server may take to load torch, here and in its spare worker.
SETTLING_SECONDS = 8.0

_INTERACTIVE = """() => {
  const app = document.querySelector('[data-testid="stApp"][data-test-script-state="notRunning"]');
  const way = [...document.querySelectorAll("a")].find(
    (one) => one.innerText.trim() === "Fit a model");
  return app && way
    && document.querySelector('[data-testid="stDataFrame"] canvas');
}"""
_CANCELLED = """() => [...document.querySelectorAll('[data-testid="stMain"] p')].some(
  (one) => one.innerText.includes("cancelled in"))"""
_ENABLED = """() => [...document.querySelectorAll("button")].some(
  (one) => one.innerText.trim() === "Cancel" && !one.disabled)"""

#: What the Data page says of a table, and how it comes there.
Bring = tuple[str, Callable[[Dashboard], None]]


class Trials:
    """Runs every trial once, when the first figure is asked for.

    Attributes:
        seconds: what each trial took, by figure.
        missing: figures that could not be measured, and why.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.missing: dict[str, str] = {}
        self._ran = False

    def row(self, name: str, ceiling: float | None, unit: str = "s") -> BenchmarkRow:
        """The median of a figure.

        Raises:
            DataError: it could not be measured here.
        """
        if not self._ran:
            self._ran = True
            self._run()
        for part, why in self.missing.items():
            if part in name:
                raise DataError(why)
        values = self.seconds[name]
        spread = statistics.stdev(values) if unit == "s" and len(values) > 1 else None
        return BenchmarkRow(
            name, statistics.median(values), unit, spread, ceiling=ceiling,
            settings={"trials": [round(value, 3) for value in values]},
        )  # fmt: skip

    def _run(self) -> None:
        program = chromium.find()
        if program is None:
            raise DataError("No Chromium was found: `python -m tests.e2e.browser` gets one.")
        self.seconds["yardstick"].append(matrix_product_seconds())
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=program, args=chromium.launch_arguments()
            )
            for trial in range(COLD_TRIALS):
                self._pages(browser, Path(folder, f"server {trial}"))
                self._tour(browser, Path(folder, f"tour {trial}"))
                self._large_map(browser, Path(folder, f"map {trial}"))
            self._fits(browser, Path(folder, "fits"))
            browser.close()
        self.seconds["yardstick"].append(matrix_product_seconds())

    def _pages(self, browser: Browser, folder: Path) -> None:
        """The first page of a new server in a new browser, then once more."""
        began = time.perf_counter()
        with running(folder) as server, browser.new_context() as context:
            page = context.new_page()
            self.seconds["first page, cold"].append(_interactive(page, server.url))
            self.seconds["command to first page"].append(time.perf_counter() - began)
            time.sleep(SETTLING_SECONDS)
            self.seconds["first page, warm"].append(_interactive(page, server.url))

    def _large_map(self, browser: Browser, folder: Path) -> None:
        """The map of a long table, by its link: first on a new server, then once more."""
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 5, ROWS)
        X = rng.normal(size=(ROWS, COLUMNS)) + 3 * rng.normal(size=(5, COLUMNS))[groups]
        dataset = Dataset.from_arrays(X, groups.astype(str), name="long", label_name="group")
        with running(folder) as server, browser.new_context() as context:
            dashboard = Dashboard(context.new_page(), server)
            run = dashboard.fitted(dataset, "pca", n_components=2)
        with running(folder) as server, browser.new_context() as context:
            dashboard = Dashboard(context.new_page(), server)
            for name in ("first", "again"):
                began = time.perf_counter()
                dashboard.page.goto(f"{server.url}/latent?run={run}", wait_until="commit")
                dashboard.all_rows(ROWS)
                self.seconds[f"map of 100,000 rows, {name}"].append(time.perf_counter() - began)
                memory = psutil.Process(server.process.pid).memory_info().rss / 1e6
                self.seconds[f"server's memory, map of 100,000 rows, {name}"].append(memory)

    def _tour(self, browser: Browser, folder: Path) -> None:
        """The first-run tour on a new server, by somebody who reads nothing on the way."""
        with running(folder) as server, browser.new_context() as context:
            dashboard = Dashboard(context.new_page(), server)
            began = time.perf_counter()
            dashboard.open()
            dashboard.button("Take the tour").click()
            for place, step in enumerate(STEPS):
                dashboard.says(re.compile(f"^Tour, {place + 1} of"))
                if step.page == "fit":
                    dashboard.says("done in")
                dashboard.settled()
                if step.page == "compare":
                    dashboard.says("From one map to another")
                    dashboard.settled()
                onward = dashboard.button(step.onward)
                if onward.count():
                    onward.click()
                else:
                    dashboard.follow(step.onward)
            dashboard.button(STEPS[-1].onward).wait_for(state="detached")
            self.seconds["first-run tour"].append(time.perf_counter() - began)

    def _fits(self, browser: Browser, folder: Path) -> None:
        data = os.environ.get("LVMCORE_DATA")
        digits: Bring = "1\u202f797 rows", lambda one: one.sample("Digits (1797 rows)")
        tables = {"digits": digits}
        if data and Path(data, OIL_FLOW).is_file():
            tables["oil flow"] = "1\u202f000 rows", lambda one: one.upload(Path(data, OIL_FLOW))
        else:
            self.missing["oil flow"] = f"LVMCORE_DATA names no folder with {OIL_FLOW}."
        with (
            running(folder) as server,
            browser.new_context(viewport={"width": 1280, "height": 1600}) as context,
        ):
            dashboard = Dashboard(context.new_page(), server)
            for name, (says, bring) in tables.items():
                dashboard.open()
                bring(dashboard)
                dashboard.says(says)
                dashboard.to_fit()
                time.sleep(SETTLING_SECONDS)
                for _ in range(FIT_TRIALS):
                    self._fit(dashboard, name)

    def _fit(self, dashboard: Dashboard, name: str) -> None:
        """Start a fit, watch it, find it again after a refresh, and cancel it."""
        page = dashboard.page
        dashboard.number("Steps at most", ENDLESS)
        began = time.perf_counter()
        dashboard.start()
        dashboard.first_point()
        self.seconds[f"start to first point, {name}"].append(time.perf_counter() - began)

        seen = dashboard.grows(6)
        self.seconds["live chart remounted"].append(seen.remounts)

        began = time.perf_counter()
        page.reload(wait_until="commit")
        page.wait_for_function(_ENABLED, polling="raf")
        dashboard.passes(seen.steps[-1])
        self.seconds[f"refresh to live again, {name}"].append(time.perf_counter() - began)

        dashboard.grows(2)
        began = time.perf_counter()
        dashboard.button("Cancel").click()
        page.wait_for_function(_CANCELLED, polling="raf")
        self.seconds[f"cancel, {name}"].append(time.perf_counter() - began)
        dashboard.settled()
        time.sleep(SETTLING_SECONDS)  # the worker measures its map, and a new spare gets ready


def _interactive(page: Page, url: str) -> float:
    """Seconds from asking for the page until its table is drawn and its button can be clicked."""
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_function(_INTERACTIVE, polling="raf")
    return time.perf_counter() - began


def _rows(trials: Trials) -> Iterator[Callable[[], BenchmarkRow]]:
    yield partial(trials.row, "first page, cold", FIRST_PAGE)
    yield partial(trials.row, "first page, warm", FIRST_PAGE)
    yield partial(trials.row, "command to first page", None)
    yield partial(trials.row, "first-run tour", TOUR)
    for name, ceiling in (("first", FIRST_MAP), ("again", FIRST_MAP)):
        yield partial(trials.row, f"map of 100,000 rows, {name}", ceiling)
        yield partial(trials.row, f"server's memory, map of 100,000 rows, {name}", MEMORY, "MB")
    for name in ("oil flow", "digits"):
        yield partial(trials.row, f"start to first point, {name}", START)
        yield partial(trials.row, f"refresh to live again, {name}", REFRESH)
        yield partial(trials.row, f"cancel, {name}", CANCEL)
    yield partial(trials.row, "live chart remounted", 0, "times")
    yield partial(trials.row, "yardstick", None)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the pages and print the figures beside their ceilings.

    Returns:
        0 where every ceiling holds, 1 otherwise.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.timings", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep the results")
    arguments = parser.parse_args(argv)
    report = Report(arguments.json)
    before = os.getloadavg()[0]
    report.measure("pages", _rows(Trials()))
    status = report.finish()
    after = os.getloadavg()[0]
    report.console.print(f"Load of the machine: {before:.1f} before, {after:.1f} after.")
    return status


if __name__ == "__main__":
    sys.exit(main())
