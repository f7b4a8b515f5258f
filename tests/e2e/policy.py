"""What the content security policy forbade on a page, and what the page asked for elsewhere."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request

__all__ = ["PolicyWatch"]

# Violations in the page and its workers, as the browser itself reports them.
_NOTE = """() => {
  window.latentboardViolations = [];
  document.addEventListener("securitypolicyviolation", (event) => window.latentboardViolations.push(
    `${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
}"""
# Streamlit's numbers of 64 bits look for WebAssembly, and do without it where it is not allowed.
_PROBE = re.compile(r"script-src wasm-eval \S+/static/js/protobuf\.[\w-]+\.js:1")


class PolicyWatch:
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
