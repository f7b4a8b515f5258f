"""A run as one HTML file that opens offline: its data, settings, map, curves and figures. Pure.

The page asks the network for nothing, and its policy forbids that: plotly's script and the page's
own are allowed by their digests alone, so that nothing in a name or a cell can run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from app import figures
from app.colouring import Categories, Numbers
from app.report_sections import escaped, sections
from app.report_subject import Subject
from app.words import shortened

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["MOST_BYTES", "MOST_ROWS", "make"]

#: Rows that the map of a report holds at most, and the size that it stays below.
MOST_ROWS, MOST_BYTES = 10_000, 15_000_000
_CONFIG = {"displaylogo": False, "responsive": True, "scrollZoom": False}


def make(subject: Subject) -> bytes:
    """The report of a run, UTF-8: one file below ``MOST_BYTES``.

    Where the table is long, the map holds an even subsample of its rows and says so.
    """
    most = MOST_ROWS
    while True:
        page = _page(_thinned(subject, most)).encode()
        if len(page) <= MOST_BYTES or most < 2:
            return page
        most //= 2


def _thinned(subject: Subject, most: int) -> Subject:
    rows = subject.rows
    if len(rows.points) <= most:
        return subject
    kept = figures.evenly(len(rows.points), most)
    look = rows.colouring
    if isinstance(look, Categories):
        look = replace(look, codes=look.codes[kept])
    elif isinstance(look, Numbers):
        look = replace(look, values=look.values[kept])
    thinned = figures.Rows(
        points=rows.points[kept],
        number=rows.number[kept],
        hover=[rows.hover[row] for row in kept],
        colouring=look,
        sd=None if rows.sd is None else rows.sd[kept],
    )
    return replace(subject, rows=thinned)


def _page(subject: Subject) -> str:
    drawn = _figures(subject)
    script = files("app").joinpath("static/report.js").read_text(encoding="utf-8")
    style = files("app").joinpath("static/report.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src {_allowed(_plotly())} {_allowed(script)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = escaped(shortened(subject.job.name, 120))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{sections(subject)}\n"
        f'</main>\n<script type="application/json" id="figures">{_json(drawn)}</script>\n'
        f"<script>{_plotly()}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def _plotly() -> str:
    """plotly's script; without carriage returns, which a browser would not count."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _allowed(script: str) -> str:
    """The policy's word for one inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _figures(subject: Subject) -> dict[str, dict[str, Any]]:
    """Every figure, light and dark, by the id of its place."""
    makers: dict[str, Callable[..., go.Figure]] = {"map": partial(_drawn, subject)}
    if subject.relevance:
        makers["relevance"] = partial(figures.relevance_figure, subject.relevance, subject.axes)
    for place, (curves, upright) in subject.courses().items():
        makers[place] = partial(figures.course_figure, curves, upright)
    return {
        place: {
            "light": json.loads(maker(dark=False).to_json()),
            "dark": json.loads(maker(dark=True).to_json()),
            "config": _CONFIG,
        }
        for place, maker in makers.items()
    }


def _drawn(subject: Subject, *, dark: bool) -> go.Figure:
    """The map, without the places on open ground, which only a page can answer for.

    As SVG: to draw by WebGL plotly makes code as it goes, which the report's policy forbids.
    """
    figure = figures.map_figure(subject.rows, subject.axes, dark=dark, svg=True)
    figure.data = tuple(trace for trace in figure.data if trace.name != "ground")
    return figure


def _json(value: object) -> str:
    """JSON for the inside of a script element, which nothing in it can end."""
    text = json.dumps(value, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
