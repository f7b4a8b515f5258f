"""The running dashboard and a page of a real browser, watched for errors."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e import browser as chromium
from tests.e2e.dashboard import Dashboard
from tests.e2e.server import Server, empty, is_up, running
from tests.needs import unavailable

# Streamlit asks for its health and host configuration below the page's own path first when a page
# other than the first is opened by its address, and falls back when they are not there.
HARMLESS = ("_stcore/health", "_stcore/host-config")
PAGE_SECONDS = 60.0
expect.set_options(timeout=1000 * PAGE_SECONDS)  # a busy machine is no error of a page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder. All but the walk are slow."""
    for item in items:
        if item.nodeid.startswith("tests/e2e/"):
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("walk") is None:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the dashboard's log to the report of a test that failed."""
    report = yield
    server = getattr(item, "funcargs", {}).get("app_server")
    if isinstance(server, Server) and report.failed:
        text = server.log.read_text(errors="replace")
        report.sections.append(("Dashboard log", text[-20_000:]))
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium or Chrome without a window."""
    program = chromium.find()
    if program is None:
        unavailable(
            "no Chromium or Chrome was found: `python -m tests.e2e.browser` gets one or says how"
        )
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(
            executable_path=program, args=chromium.launch_arguments()
        )
        yield instance
        instance.close()


class _SharedServer:
    """A dashboard that tests use one after the other; another one takes the place of a dead one."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._server: Server | None = None
        self._running = ExitStack()

    def get(self) -> Server:
        """The dashboard, without runs, datasets and printed lines of an earlier test."""
        if self._server is not None and is_up(self._server):
            empty(self._server)
            return self._server
        self.close()
        self._server = self._running.enter_context(running(self._folders.mktemp("dashboard")))
        return self._server

    def close(self) -> None:
        """Stop the dashboard."""
        self._running.close()


@pytest.fixture(scope="session")
def _shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_SharedServer]:
    shared = _SharedServer(tmp_path_factory)
    yield shared
    shared.close()


@pytest.fixture
def app_server(_shared_server: _SharedServer) -> Server:
    """The dashboard on a free port of this machine, with an empty home.

    Its process is that of the tests before; a test that looks at the start has its own.
    """
    return _shared_server.get()


@pytest.fixture
def page_errors() -> list[str]:
    """The errors seen on the page so far; a test that provokes some looks at them and clears it."""
    return []


@pytest.fixture
def page(browser: Browser, page_errors: list[str]) -> Iterator[Page]:
    """A new page, tall enough for a whole view. Errors left in `page_errors` fail the test."""

    def on_console(message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        if message.type == "error" and not any(part in where for part in HARMLESS):
            page_errors.append(f"console: {message.text} ({where})")

    context = browser.new_context(
        viewport={"width": 1280, "height": 1600}, accept_downloads=True, color_scheme="light"
    )
    context.set_default_timeout(1000 * PAGE_SECONDS)
    new = context.new_page()
    new.on("console", on_console)
    new.on("pageerror", lambda error: page_errors.append(f"page: {error}"))
    yield new
    context.close()
    assert not page_errors, "errors in the browser:\n" + "\n".join(page_errors)


@pytest.fixture
def dashboard(app_server: Server, page: Page) -> Iterator[Dashboard]:
    """A page of a running dashboard, whose server has nothing to complain about."""
    opened = Dashboard(page, app_server)
    yield opened
    assert not opened.log(), "the server printed:\n" + "\n".join(opened.log())
