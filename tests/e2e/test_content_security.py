"""Other sites and other machines in a real browser: they can neither frame the pages nor ask."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page, expect

from app.__main__ import first_free_port
from tests.e2e.server import Server, running


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
