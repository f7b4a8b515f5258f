"""The figures of the Data page: the profile of a column, and where cells are missing."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.theme import accent, escape, ink, template
from app.profiles import Missing, Profile
from app.words import shortened

__all__ = ["missing_figure", "profile_figure"]

#: Up to so many columns have their names under the picture.
MOST_NAMED = 40
_TICKS = 6
_BAR_PX = 26


def profile_figure(profile: Profile, *, dark: bool) -> go.Figure:
    """How the cells of a column are spread: a histogram, or a bar a level.

    Args:
        profile: of the column, with at least one bar.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    colour = accent(dark)
    along = {"title": {"text": escape(profile.title)}, "fixedrange": True}
    across = {"title": {"text": "rows"}, "fixedrange": True, "rangemode": "tozero"}
    if profile.edges is None:
        names = [escape(shortened(level, 28)) for level in profile.levels]
        places = np.arange(len(names))
        figure.add_bar(
            x=profile.counts,
            y=places,
            orientation="h",
            marker={"color": colour},
            hovertext=[escape(shortened(level, 80)) for level in profile.levels],
            hovertemplate="%{hovertext}: %{x} rows<extra></extra>",
        )
        upright = {"tickvals": places, "ticktext": names, "ticks": "", "showline": False}
        upright |= {"range": [len(names) - 0.4, -0.6], "fixedrange": True}
        height = 70 + _BAR_PX * len(names)
        figure.update_layout(xaxis=across, yaxis=upright, height=height, bargap=0.25)
    else:
        low, high = profile.edges[:-1], profile.edges[1:]
        middle, width = (low + high) / 2, high - low
        ends: list[list[object]] = np.stack([low, high], axis=1).tolist()
        says = "%{customdata[0]:.4g} to %{customdata[1]:.4g}"
        if profile.dates:
            middle, width = middle * 1000, width * 1000  # plotly counts milliseconds
            ends = [[_date(a), _date(b)] for a, b in ends]
            along["type"] = "date"
            says = "%{customdata[0]} to %{customdata[1]}"
        figure.add_bar(
            x=middle,
            y=profile.counts,
            width=width,
            marker={"color": colour, "line": {"width": 1, "color": ink(dark).panel}},
            customdata=ends,
            hovertemplate=f"{says}: %{{y}} rows<extra></extra>",
        )
        figure.update_layout(xaxis=along, yaxis=across, height=300, bargap=0)
    figure.update_layout(template=template(dark), showlegend=False, hovermode="closest")
    return figure


def _date(seconds: object) -> str:
    return str(np.datetime64(round(float(str(seconds))), "s")).replace("T", " ")


def missing_figure(missing: Missing, *, dark: bool) -> go.Figure:
    """A picture of the table in which missing cells stand out.

    Args:
        missing: where they are.
        dark: whether the page is dark.
    """
    colours = ink(dark)
    rows, columns = _blocks("row", missing.rows), _blocks("column", missing.columns)
    named = len(columns) == len(missing.names)
    if named:
        columns = [escape(name) for name in missing.names]
    look = {"colorbar": {"title": {"text": "share missing"}, "tickformat": ".0%"}}
    says = "%{y}, %{x}: %{z:.0%} missing" if missing.blocks else "%{y}, %{x}"
    figure = go.Figure(
        go.Heatmap(
            z=missing.share,
            x=columns,
            y=rows,
            zmin=0,
            zmax=1,
            colorscale=[colours.panel, accent(dark)],
            showscale=missing.blocks,
            hovertemplate=f"{says}<extra></extra>",
            **look,
        )
    )
    upright = {"autorange": "reversed", "type": "category", "title": {"text": "row"}}
    upright |= _ticks(rows, missing.rows)
    along: dict[str, object] = {"type": "category", "title": {"text": "column"}}
    if named and len(columns) <= MOST_NAMED:
        short = [escape(shortened(name, 18)) for name in missing.names]
        along |= {"tickvals": columns, "ticktext": short, "tickangle": -40, "title": {"text": ""}}
    else:
        along |= _ticks(columns, missing.columns)
    figure.update_layout(template=template(dark), height=360, xaxis=along, yaxis=upright)
    figure.update_xaxes(fixedrange=True, mirror=True)
    figure.update_yaxes(fixedrange=True, mirror=True)
    return figure


def _blocks(noun: str, edges: NDArray[np.intp]) -> list[str]:
    """The name of each block: its row or column, or the first and last of them."""
    return [
        f"{noun} {first + 1}" if last - first == 1 else f"{noun}s {first + 1} to {last}"
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _ticks(blocks: list[str], edges: NDArray[np.intp]) -> dict[str, list[str]]:
    """A few ticks at round numbers, at the blocks that hold them."""
    n = int(edges[-1])
    size = 10 ** np.floor(np.log10(max(1, n / _TICKS)))
    step = next(int(size * by) for by in (1, 2, 5, 10) if size * by * _TICKS >= n)
    numbers = sorted({1, *range(step, n + 1, step)})
    held = [int(np.searchsorted(edges, place, side="left")) - 1 for place in numbers]
    return {"tickvals": [blocks[i] for i in held], "ticktext": [str(place) for place in numbers]}
