"""Figures of the Data page: the histogram of a column, and the missing cells."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.analysis.tables.column_profiles import ColumnProfile, MissingCells
from app.figures.theme import accent, escape, page_colours, template
from app.formatting import shortened

__all__ = ["missing_figure", "profile_figure"]

#: Most columns with their names under the picture.
MOST_NAMED = 40
_TICKS = 6
_BAR_PX = 26


def profile_figure(profile: ColumnProfile, *, dark: bool) -> go.Figure:
    """Draw a histogram of a column, or a bar for each level.

    Args:
        profile: profile of the column, with at least one bin.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    colour = accent(dark)
    value_axis = {"title": {"text": escape(profile.title)}, "fixedrange": True}
    count_axis = {"title": {"text": "rows"}, "fixedrange": True, "rangemode": "tozero"}
    if profile.edges is None:
        names = [escape(shortened(level, 28)) for level in profile.levels]
        positions = np.arange(len(names))
        figure.add_bar(
            x=profile.counts,
            y=positions,
            orientation="h",
            marker={"color": colour},
            hovertext=[escape(shortened(level, 80)) for level in profile.levels],
            hovertemplate="%{hovertext}: %{x} rows<extra></extra>",
        )
        level_axis = {"tickvals": positions, "ticktext": names, "ticks": "", "showline": False}
        level_axis |= {"range": [len(names) - 0.4, -0.6], "fixedrange": True}
        height = 70 + _BAR_PX * len(names)
        figure.update_layout(xaxis=count_axis, yaxis=level_axis, height=height, bargap=0.25)
    else:
        low, high = profile.edges[:-1], profile.edges[1:]
        middle, width = (low + high) / 2, high - low
        ends: list[list[object]] = np.stack([low, high], axis=1).tolist()
        label = "%{customdata[0]:.4g} to %{customdata[1]:.4g}"
        if profile.dates:
            middle, width = middle * 1000, width * 1000  # plotly counts milliseconds
            ends = [[_date(a), _date(b)] for a, b in ends]
            value_axis["type"] = "date"
            label = "%{customdata[0]} to %{customdata[1]}"
        figure.add_bar(
            x=middle,
            y=profile.counts,
            width=width,
            marker={"color": colour, "line": {"width": 1, "color": page_colours(dark).panel}},
            customdata=ends,
            hovertemplate=f"{label}: %{{y}} rows<extra></extra>",
        )
        figure.update_layout(xaxis=value_axis, yaxis=count_axis, height=300, bargap=0)
    figure.update_layout(template=template(dark), showlegend=False, hovermode="closest")
    return figure


def _date(seconds: object) -> str:
    return str(np.datetime64(round(float(str(seconds))), "s")).replace("T", " ")


def missing_figure(missing: MissingCells, *, dark: bool) -> go.Figure:
    """Draw the missing cells of a table.

    Args:
        missing: the pattern of missing cells.
        dark: whether the page is dark.
    """
    colours = page_colours(dark)
    rows, columns = _blocks("row", missing.rows), _blocks("column", missing.columns)
    named = len(columns) == len(missing.names)
    if named:
        columns = [escape(name) for name in missing.names]
    colorbar = {"colorbar": {"title": {"text": "share missing"}, "tickformat": ".0%"}}
    label = "%{y}, %{x}: %{z:.0%} missing" if missing.blocks else "%{y}, %{x}"
    figure = go.Figure(
        go.Heatmap(
            z=missing.share,
            x=columns,
            y=rows,
            zmin=0,
            zmax=1,
            colorscale=[colours.panel, accent(dark)],
            showscale=missing.blocks,
            hovertemplate=f"{label}<extra></extra>",
            **colorbar,
        )
    )
    row_axis = {"autorange": "reversed", "type": "category", "title": {"text": "row"}}
    row_axis |= _ticks(rows, missing.rows)
    column_axis: dict[str, object] = {"type": "category", "title": {"text": "column"}}
    if named and len(columns) <= MOST_NAMED:
        short = [escape(shortened(name, 18)) for name in missing.names]
        column_axis |= {
            "tickvals": columns,
            "ticktext": short,
            "tickangle": -40,
            "title": {"text": ""},
        }
    else:
        column_axis |= _ticks(columns, missing.columns)
    figure.update_layout(template=template(dark), height=360, xaxis=column_axis, yaxis=row_axis)
    figure.update_xaxes(fixedrange=True, mirror=True)
    figure.update_yaxes(fixedrange=True, mirror=True)
    return figure


def _blocks(noun: str, edges: NDArray[np.intp]) -> list[str]:
    """Name of each block: its row or column, or the first and last of several."""
    return [
        f"{noun} {first + 1}" if last - first == 1 else f"{noun}s {first + 1} to {last}"
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _ticks(blocks: list[str], edges: NDArray[np.intp]) -> dict[str, list[str]]:
    """Ticks at round numbers, at the blocks that contain them."""
    n = int(edges[-1])
    size = 10 ** np.floor(np.log10(max(1, n / _TICKS)))
    step = next(int(size * by) for by in (1, 2, 5, 10) if size * by * _TICKS >= n)
    numbers = sorted({1, *range(step, n + 1, step)})
    block = [int(np.searchsorted(edges, n, side="left")) - 1 for n in numbers]
    return {"tickvals": [blocks[i] for i in block], "ticktext": [str(n) for n in numbers]}
