"""Names and cells that try to do something: every page, chart, report and file keeps them inert.

The pages, with their charts and files, work within the content security policy.
"""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Error, Locator, Page, expect

from tests.e2e.dashboard import PATIENCE_MS, Dashboard
from tests.e2e.hostile import EVERYWHERE, EVIL, PAYLOADS, Watch, formulas, frame
from tests.e2e.policy import PolicyWatch

pytestmark = pytest.mark.timeout(900)

TITLE = f"<img src=x onerror=canary(0)>![0](http_{EVIL})"
# Where each chart is on the page.
_CHARTS = f"""() => ({EVERYWHERE})("canvas, .js-plotly-plot")
  .map((one) => one.getBoundingClientRect())
  .filter((box) => box.width > 60 && box.height > 60)
  .map((box) => [box.x, box.y, box.width, box.height])"""
_SCROLL = """(top) => {
  const main = document.querySelector('[data-testid="stMain"]') ?? document.scrollingElement;
  main.scrollTop = top;
  return main.scrollHeight;
}"""
_OPEN = """() => document.querySelectorAll(
    '[data-testid="stMain"] details:not([open]) > summary').forEach((one) => one.click())"""


def hover(page: Page) -> None:
    """Move over every chart of the page, top to bottom."""
    top, height = 0, page.evaluate(_SCROLL, 0)
    while top < height:
        page.evaluate(_SCROLL, top)
        for x, y, wide, high in page.evaluate(_CHARTS):
            for a, b in ((0.2, 0.3), (0.5, 0.5), (0.62, 0.4), (0.8, 0.75), (0.15, 0.02)):
                at = x + a * wide, y + b * high
                if 0 < at[1] < 1600:
                    page.mouse.move(*at)
                    page.wait_for_timeout(15)
        top += 1400
    page.evaluate(_SCROLL, 0)


def away(page: Page) -> None:
    """Close what is open by a click elsewhere: the Esc key would clear the selection."""
    page.get_by_test_id("stMain").get_by_role("heading", level=1).click()


def look(dashboard: Dashboard, watch: Watch, policy: PolicyWatch) -> None:
    """Open what is folded, and move over the charts: nothing runs, and nothing is forbidden."""
    page = dashboard.page
    dashboard.settled()
    page.evaluate(_OPEN)
    dashboard.settled()
    hover(page)
    dashboard.settled()
    dashboard.no_traceback()
    watch.quiet(page)
    policy.quiet()


def pick(dashboard: Dashboard, name: str, words: str) -> None:
    """Choose in a list what contains some words.

    A list that is drawn anew loses its choice: the page is still before the list is opened.
    """
    page = dashboard.page
    dashboard.settled()
    page.get_by_test_id("stMain").get_by_role("combobox", name=name, exact=True).click()
    page.keyboard.type(words)
    page.get_by_role("option").first.click()
    expect(page.get_by_role("option")).to_have_count(0)
    dashboard.settled()


def taken(dashboard: Dashboard) -> dict[str, bytes]:
    """Every file that the page offers at the moment, by the words of its button."""
    buttons = dashboard.page.get_by_test_id("stDownloadButton").get_by_role("button")
    found: dict[str, bytes] = {}
    for place in range(buttons.count()):
        button = buttons.nth(place)
        if button.is_enabled() and button.is_visible():
            found[button.inner_text()] = _downloaded(dashboard, button)
    dashboard.settled()
    return found


def _downloaded(dashboard: Dashboard, button: Locator) -> bytes:
    """The file of a button. One that the page just replaces is cancelled: it is asked for again."""
    for _ in range(4):
        dashboard.settled()
        with dashboard.page.expect_download() as started:
            button.click()
        with suppress(Error):
            return Path(started.value.path()).read_bytes()
    raise AssertionError(f"{button.inner_text()!r} was cancelled four times.")


def inert(files: dict[str, bytes]) -> None:
    """What the files hold is what they say, and nothing that runs."""
    for name, content in files.items():
        if name.endswith("CSV"):
            assert list(formulas(content)) == [], name
            text = content.decode()
            assert len(text) > 20, name
        elif name.endswith("Parquet"):
            assert len(pd.read_parquet(io.BytesIO(content))), name
        elif name.endswith("SVG"):
            for element in ET.fromstring(content).iter():
                assert not element.tag.endswith(("script", "foreignObject", "image"))
                assert not any(name.startswith("on") for name in element.attrib)
        elif name.endswith(".py"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                compile(content, "run.py", "exec")


def test_the_watch_sees_what_runs_and_what_is_asked_for(page: Page, page_errors: list[str]) -> None:
    watch = Watch(("file:",))
    watch.over(page.context)
    page.goto("data:text/html,<h1>here</h1>")
    page.set_content("".join(PAYLOADS))
    page.wait_for_function("() => document.querySelector('img[src=x]')?.complete")
    with pytest.raises(AssertionError):
        watch.quiet(page)
    assert any("CANARY 2" in one for one in watch.ran)
    assert any(EVIL in one for one in watch.asked)
    watch.ran.clear()
    watch.asked.clear()
    with pytest.raises(AssertionError):  # for the links alone
        watch.quiet(page)
    page_errors.clear()  # addresses that lead nowhere


def test_thirty_payloads_do_nothing_within_the_policy(dashboard: Dashboard, tmp_path: Path) -> None:
    page, watch = dashboard.page, Watch((f"{dashboard.server.url}/", "file:"))
    watch.over(page.context)
    policy = PolicyWatch(page, dashboard.server.url)
    table = frame()
    sink = io.BytesIO()
    table.to_parquet(sink)
    file = {"name": f"{TITLE}.parquet", "mimeType": "application/octet-stream"}

    dashboard.open()
    page.locator('input[type="file"]').set_input_files({**file, "buffer": sink.getvalue()})
    dashboard.says("90 rows, 30 features, label with 30 classes")
    pick(dashboard, "Row id", "id <img")
    pick(dashboard, "Column", "kind <svg")
    look(dashboard, watch, policy)

    dashboard.to_fit()
    dashboard.says("Settings of LDGD")
    dashboard.number("Steps at most", 25)
    run = dashboard.start()
    dashboard.first_point()
    hover(page)
    watch.quiet(page)
    dashboard.says("done in")
    look(dashboard, watch, policy)

    dashboard.open("latent", run=run)
    dashboard.says("Relevance")
    dashboard.tab("Point")
    pick(dashboard, "Row", "script>canary(1)")
    dashboard.says(re.compile("^Row "))
    for colour in ("script>canary(30)", "kind <svg"):
        pick(dashboard, "Colour", colour)
        hover(page)
    pick(dashboard, "Background", "class probability")
    dashboard.tab("Columns")
    dashboard.tab("Selection")
    page.get_by_role("button", name="Find rows").click()
    page.get_by_role("textbox", name="Text").fill("canary")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^Select [1-9]")).click()
    dashboard.says("Contrast to the other rows")
    page.get_by_role("button", name="Saved").click()
    page.get_by_role("textbox", name="Name of this selection").fill(PAYLOADS[1])
    page.keyboard.press("Enter")
    dashboard.button("Save").click()
    dashboard.settled()
    away(page)
    look(dashboard, watch, policy)
    files = taken(dashboard)
    assert {"Embedding as CSV", "Embedding as Parquet", "Report", "Selection as CSV"} <= set(files)
    inert(files)
    kept = pd.read_parquet(io.BytesIO(files["Embedding as Parquet"])).iloc[:, 0]
    assert [one.split() for one in kept] == [one.split() for one in table.iloc[:, 0]]

    dashboard.open("compare", run=run)
    expect(page.locator("table.comparison tbody tr")).to_have_count(4, timeout=PATIENCE_MS)
    pick(dashboard, "Colour", "script>canary(30)")
    look(dashboard, watch, policy)

    dashboard.open("generate", run=run)
    dashboard.says("The row at the centre of the map")
    for kind in ("Path", "Sweep", "Sample rows"):
        page.get_by_text(kind, exact=True).first.click()
        dashboard.settled()
        look(dashboard, watch, policy)
        inert(taken(dashboard))

    dashboard.open("new_rows", run=run)
    dashboard.says("The file needs the columns")
    dashboard.settled()
    page.locator('input[type="file"]').set_input_files({**file, "buffer": sink.getvalue()})
    dashboard.says("30 of 30 columns found")
    look(dashboard, watch, policy)
    dashboard.button("Infer positions").click()
    expect(dashboard.button("New rows as CSV")).to_be_visible(timeout=PATIENCE_MS)
    look(dashboard, watch, policy)
    inert(taken(dashboard))

    dashboard.open("impute", run=run)
    dashboard.button("Impute the missing cells").click()
    expect(dashboard.button("Completed table as CSV")).to_be_visible(timeout=PATIENCE_MS)
    look(dashboard, watch, policy)
    inert(taken(dashboard))

    dashboard.open("runs", run=run)
    dashboard.store().rename(run, f"{TITLE} {PAYLOADS[4]}"[:100])
    dashboard.store().annotate(run, "\n".join(PAYLOADS)[:2000])
    dashboard.tick(1)
    dashboard.says("Open the map")
    look(dashboard, watch, policy)
    dashboard.open("export", run=run)
    expect(dashboard.button("Map as SVG")).to_be_visible(timeout=PATIENCE_MS)
    look(dashboard, watch, policy)
    files |= taken(dashboard)
    inert(files)
    for path in ("", "guide", "fit", "predict"):
        dashboard.open(path, run=run)
        look(dashboard, watch, policy)

    report = tmp_path / "report.html"
    report.write_bytes(files["Report"])
    assert EVIL.encode() in files["Report"]
    page.goto(report.as_uri())
    page.wait_for_function("() => document.querySelectorAll('.figure .main-svg').length >= 4")
    page.evaluate(
        "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    hover(page)
    watch.quiet(page)
