"""A run as one HTML file that opens offline: data, settings, map, training curves, scores. Pure.

The file loads nothing from the network, and its content security policy forbids that. The policy
allows two scripts by their digests, plotly's and the report's own, so no name or cell can run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from app.analysis.map import subsampling
from app.analysis.map.row_colours import group_of_rows
from app.figures import latent_map, row_panels, row_traces, training_curve
from app.report.content_policy import content_policy, static_text
from app.report.sections import section_values
from app.report.subject import ReportSubject
from app.templates import render

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["MOST_BYTES", "MOST_ROWS", "report_html"]

#: Most rows on the map of a report, and the most bytes of the file.
MOST_ROWS, MOST_BYTES = 10_000, 15_000_000
_CONFIG = {"displaylogo": False, "responsive": True, "scrollZoom": False}


def report_html(subject: ReportSubject) -> bytes:
    """The report of a run in UTF-8, at most ``MOST_BYTES`` long.

    The map of a long table shows an evenly spaced subsample of the rows, and the report says so.
    """
    rows = MOST_ROWS
    while True:
        page = _page(_subsample(subject, rows)).encode()
        if len(page) <= MOST_BYTES or rows < 2:
            return page
        rows //= 2


def _subsample(subject: ReportSubject, most: int) -> ReportSubject:
    rows = subject.rows
    if len(rows.points) <= most:
        return subject
    chosen = subsampling.evenly_spaced(len(rows.points), most)
    subsample = row_traces.MapRows(
        points=rows.points[chosen],
        number=rows.number[chosen],
        hover=[rows.hover[row] for row in chosen],
        colouring=group_of_rows(rows.colouring, chosen),
        sd=None if rows.sd is None else rows.sd[chosen],
    )
    return replace(subject, rows=subsample)


def _page(subject: ReportSubject) -> str:
    script = static_text("report.js")
    return render(
        "report/document.html",
        policy=content_policy(_plotly(), script),
        title=subject.job.name,
        style=static_text("report.css"),
        figures=_figures(subject),
        plotly=_plotly(),
        script=script,
        **section_values(subject),
    )


@cache
def _plotly() -> str:
    """The script of plotly, without carriage returns: a browser's digest does not include them."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _figures(subject: ReportSubject) -> dict[str, dict[str, Any]]:
    """Every figure, light and dark, by the id of its element."""
    makers: dict[str, Callable[..., go.Figure]] = {"map": partial(_map_figure, subject)}
    if subject.relevance:
        makers["relevance"] = partial(row_panels.relevance_figure, subject.relevance, subject.axes)
    for name, (curves, axis_title) in subject.curves().items():
        makers[name] = partial(training_curve.training_curve_figure, curves, axis_title)
    return {
        name: {
            "light": json.loads(maker(dark=False).to_json()),
            "dark": json.loads(maker(dark=True).to_json()),
            "config": _CONFIG,
        }
        for name, maker in makers.items()
    }


def _map_figure(subject: ReportSubject, *, dark: bool) -> go.Figure:
    """The map, without the grid of clickable positions, which only a page can use."""
    figure = latent_map.map_figure(subject.rows, subject.axes, dark=dark)
    figure.data = tuple(trace for trace in figure.data if trace.name != "ground")
    return figure
