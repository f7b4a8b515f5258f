"""The content security policy in a real browser: the pages work within it, and others stay out."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from playwright.sync_api import ConsoleMessage, Page, Request, expect

from app import navigation
from app.__main__ import first_free_port
from tests.e2e.dashboard import PATIENCE_MS, Dashboard
from tests.e2e.server import Server, running
from tests.e2e.test_hostile import hover, taken

# Violations in the page and its workers, as the browser itself reports them.
_NOTE = """() => {
  window.latentboardViolations = [];
  document.addEventListener("securitypolicyviolation", (event) => window.latentboardViolations.push(
    `${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
}"""
# Streamlit's numbers of 64 bits look for WebAssembly, and do without it where it is not allowed.
_PROBE = re.compile(r"script-src wasm-eval \S+/static/js/protobuf\.[\w-]+\.js:1")
ROWS = 240


class Watch:
    """What the pages asked for elsewhere, and what the policy forbade."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.home = urlsplit(home).netloc
        self.elsewhere: list[str] = []
        self.forbidden: list[str] = []
        page.add_init_script(f"({_NOTE})()")
        page.on("request", self._request)
        page.on("websocket", lambda socket: self._address(socket.url))
        page.on("console", self._console)

    def _request(self, request: Request) -> None:
        self._address(request.url)

    def _address(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self.home:
            self.elsewhere.append(url)

    def _console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Content-Security-Policy" in message.text:
            self.forbidden.append(message.text)

    def quiet(self) -> None:
        """Nothing was asked for elsewhere, and nothing was forbidden."""
        found = self.page.evaluate("() => window.latentboardViolations")
        assert [one for one in found if not _PROBE.fullmatch(one)] == []
        assert self.forbidden == []
        assert self.elsewhere == []


def table(path: Path, rows: int) -> Path:
    """A table of two groups, with a label and some missing cells."""
    rng = np.random.default_rng(5)
    group = np.arange(rows) % 2
    values = rng.normal(size=(rows, 5)) + 2.0 * group[:, None]
    values[rng.random(values.shape) < 0.02] = np.nan
    frame = pd.DataFrame(values, columns=[f"gauge_{number}" for number in range(5)])
    frame["group"] = np.where(group, "one", "another")
    frame.to_csv(path, index=False)
    return path


def test_all_pages_work_within_the_policy(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.page
    watch = Watch(page, dashboard.server.url)
    dashboard.open()
    dashboard.upload(table(tmp_path / "gauges.csv", ROWS))
    dashboard.says(re.compile("^240 rows, "))
    dashboard.to_fit()
    dashboard.choose("ppca")
    dashboard.says("Settings of Probabilistic PCA")
    run = dashboard.start()
    dashboard.says("done in")
    watch.quiet()
    seen = {}
    for name in navigation.PAGES:
        dashboard.open("" if name == "data" else name, run=run)
        dashboard.settled()
        if name == "compare":
            dashboard.button("PCA").click()
            expect(page.locator("table.comparison tbody tr")).to_have_count(2, timeout=PATIENCE_MS)
        if name == "new_rows":
            dashboard.upload(tmp_path / "gauges.csv")
            dashboard.button("Infer positions").click()
            expect(dashboard.button("New rows as CSV")).to_be_visible(timeout=PATIENCE_MS)
        if name == "impute":
            dashboard.button("Impute the missing cells").click()
            expect(dashboard.button("Completed table as CSV")).to_be_visible(timeout=PATIENCE_MS)
        if name == "runs":
            dashboard.tick(0)
            dashboard.says("Open the map")
            page.get_by_role("button", name="Export").click()
            expect(dashboard.button("Map as SVG")).to_be_visible(timeout=PATIENCE_MS)
        dashboard.settled()
        hover(page)
        dashboard.settled()
        dashboard.no_traceback()
        seen |= taken(dashboard)
        watch.quiet()
    assert {"Embedding as CSV", "New rows as CSV", "Completed table as CSV", "Report"} <= set(seen)


@contextmanager
def foreign_page(html: str) -> Iterator[str]:
    """The address of a page on another port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_on_another_port_can_neither_frame_nor_ask(
    app_server: Server, page: Page, page_errors: list[str]
) -> None:
    home = app_server.url
    # A favicon and a script are loaded without an Origin header; the socket and fetch have one.
    html = f"""<iframe src="{home}/"></iframe><script>
    const note = (name, outcome) => {{ (window.seen ??= {{}})[name] = outcome; }};
    const image = new Image();
    image.onload = () => note("image", "came"); image.onerror = () => note("image", "refused");
    image.src = "{home}/favicon.png";
    fetch("{home}/_stcore/health", {{mode: "no-cors"}}).then(
      () => note("fetch", "came"), () => note("fetch", "refused"));
    const socket = new WebSocket("{home.replace("http", "ws")}/_stcore/stream", ["streamlit"]);
    socket.onopen = () => note("socket", "came"); socket.onerror = () => note("socket", "refused");
    </script>"""
    with foreign_page(html) as address:
        page.goto(address)
        page.wait_for_function("() => Object.keys(window.seen ?? {}).length === 3")
        assert page.evaluate("() => window.seen") == {
            "image": "refused",
            "fetch": "refused",
            "socket": "refused",
        }
        (frame,) = page.frames[1:]
        assert frame.get_by_test_id("stApp").count() == 0
        assert not frame.url.startswith(home)
    page_errors.clear()  # the browser says what it refused

    page.goto(home)  # the same page by its own address
    expect(page.get_by_role("heading", name="Data", exact=True)).to_be_visible()
    printed = app_server.log.read_text(encoding="utf-8").splitlines()
    assert [line for line in printed if line and not line.startswith("Latentboard is at")] == []


def test_the_printed_address_opens_a_dashboard_with_a_token(
    page: Page, page_errors: list[str], tmp_path: Path
) -> None:
    port = first_free_port(0)
    home = f"http://maps.localhost:{port}"  # a name that the browser itself takes to this machine
    with running(tmp_path, port=port, arguments=["--public-address", home]) as server:
        answer = page.goto(f"{home}/latent")
        assert answer is not None
        assert answer.status == 403
        assert "needs its access token" in page.inner_text("body")
        page_errors.clear()  # the refusal

        found = re.search(r"(\S+token=(\S+)) ", server.log.read_text(encoding="utf-8"))
        assert found is not None
        page.goto(found[1])
        expect(page.get_by_role("heading", name="Data", exact=True)).to_be_visible()
        assert found[2] not in page.url
        assert "token" not in page.evaluate("() => document.cookie")
        page.goto(f"{home}/guide")
        expect(page.get_by_role("heading", name="Guide", exact=True)).to_be_visible()
        page.goto("about:blank")
