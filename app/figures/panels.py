"""The figures beside the map: relevance bars, and what a point looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from app.axes import Axes
from app.exploring import INTERVAL_SD, Reconstruction
from app.figures.theme import ACCENT, escape, ink, path_colours, ramp, template, veil
from app.words import number, shortened

__all__ = ["image_figure", "reconstruction_figure", "relevance_figure"]

FloatArray = NDArray[np.float64]

#: Up to so many columns get a line each; more are drawn as a profile.
MOST_LINES = 40
_LINE_PX = 26
_LEGEND_PX = 20


def relevance_figure(share: Mapping[str, FloatArray], axes: Axes, *, dark: bool) -> go.Figure:
    """Relevance of each latent dimension, one group of bars per path; those on the map stand out.

    Args:
        share: of each dimension in its path's sum, each [Q].
        axes: the dimensions on the map.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    colours = path_colours(len(share), dark)
    for (path, values), colour in zip(share.items(), colours, strict=True):
        dimensions = np.arange(1, len(values) + 1)
        on_map = np.isin(dimensions - 1, [axis for axis in axes if axis is not None])
        figure.add_bar(
            x=dimensions,
            y=100 * values,
            name=f"{escape(shortened(path, 60))} path",
            customdata=(dimensions[:, None] - 1).tolist(),
            marker={"color": colour, "opacity": np.where(on_map, 1.0, 0.4)},
            hovertemplate="latent dimension %{x}: %{y:.3g} %<extra></extra>",
        )
    figure.update_layout(
        template=template(dark),
        height=210 + _LEGEND_PX * max(0, len(share) - 2),
        bargap=0.25,
        hovermode="closest",
        showlegend=len(share) > 1,
        xaxis={"title": {"text": "latent dimension"}, "dtick": 1, "fixedrange": True},
        yaxis={"title": {"text": "share, %"}, "range": [0, 100], "fixedrange": True},
    )
    return figure


def reconstruction_figure(
    names: Sequence[str],
    reconstruction: Reconstruction,
    observed: FloatArray | None,
    *,
    dark: bool,
) -> go.Figure:
    """The decoded columns ± 2 sd, beside the observed row where there is one.

    Columns of different units share one axis: distance from the column's mean, in its own standard
    deviations, on the scale that the model learned. Values are named in the data's units.

    Args:
        names: of the columns, [D].
        reconstruction: what the point decodes to.
        observed: the row's own cells in the data's units, NaN where missing, [D]; None on open
            ground.
        dark: whether the page is dark.
    """
    many = len(names) > MOST_LINES
    centre, scale = reconstruction.centre, reconstruction.scale
    position = (reconstruction.mean - centre) / scale
    reach = INTERVAL_SD * reconstruction.sd / scale
    texts = _cells(names, reconstruction, observed)
    along = np.arange(1, len(names) + 1)
    colours = ink(dark)
    figure = go.Figure()
    interval = {"type": "data", "array": reach, "width": 0, "thickness": 1.2 if many else 3}
    across = {"x": along, "y": position} if many else {"x": position, "y": along}
    figure.add_scatter(
        **across,
        mode="markers",
        marker={"size": 4 if many else 9, "color": ACCENT},
        **{"error_y" if many else "error_x": {**interval, "color": veil(dark)}},
        hovertext=texts,
        hoverinfo="text",
        name="reconstruction ± 2 sd",
    )
    if observed is not None:
        learned = np.array(observed, dtype=np.float64)
        learned[reconstruction.log1p] = np.log1p(learned[reconstruction.log1p])
        seen = (learned - centre) / scale
        figure.add_scatter(
            **({"x": along, "y": seen} if many else {"x": seen, "y": along}),
            mode="markers",
            marker={
                "symbol": "circle-open" if many else "line-ns-open",
                "size": 5 if many else 15,
                "color": colours.text,
                "line": {"width": 1 if many else 2},
            },
            hovertext=texts,
            hoverinfo="text",
            name="observed",
        )
    figure.update_layout(template=template(dark), hovermode="closest", showlegend=True)
    deviation = {"title": {"text": "sd from the mean"}, "zeroline": True}
    deviation["zerolinecolor"] = colours.hairline
    if many:
        figure.update_layout(height=260, yaxis=deviation, xaxis={"title": {"text": "column"}})
    else:
        upright = {"range": [len(names) + 0.6, 0.4], "showline": False, "ticks": ""}
        upright |= {"tickvals": along, "ticktext": [escape(shortened(name, 22)) for name in names]}
        height = 96 + _LINE_PX * len(names)
        figure.update_layout(height=height, xaxis=deviation, yaxis=upright)
    return figure


def image_figure(
    shape: tuple[int, int],
    reconstruction: Reconstruction,
    observed: FloatArray | None,
    limits: tuple[float, float],
    *,
    dark: bool,
) -> go.Figure:
    """The decoded row as an image: observed, reconstruction, and its sd with a colour bar.

    Where columns were learned as log(1 + x) the last one is the width of the interval of ± 2 sd,
    which is in the data's units.

    Args:
        shape: height and width of the image.
        reconstruction: what the point decodes to.
        observed: the row's own pixels; None on open ground.
        limits: darkest and lightest value of all images.
        dark: whether the page is dark.
    """
    pictures: list[tuple[str, FloatArray]] = [("reconstruction", reconstruction.value)]
    if observed is not None:
        pictures.insert(0, ("observed", observed))
    last = ("sd", reconstruction.sd)
    if reconstruction.log1p.any():  # whose sd is on another scale than the pixels
        last = ("interval width", reconstruction.high - reconstruction.low)
    pictures.append(last)
    titles = [title for title, _ in pictures]
    lines = (len(pictures) + 1) // 2
    figure = make_subplots(rows=lines, cols=2, subplot_titles=titles, vertical_spacing=0.12)
    for i, (title, cells) in enumerate(pictures):
        look: dict[str, Any] = {"zmin": limits[0], "zmax": limits[1], "colorscale": "Greys_r"}
        if title == last[0]:
            look = {"zmin": 0.0, "colorscale": ramp(sure_is_low=True, dark=dark)}
            look["colorbar"] = {"title": {"text": title}, "len": 1 / lines, "y": 0.5 / lines}
        figure.add_heatmap(
            z=cells.reshape(shape),
            showscale=title == last[0],
            hovertemplate=f"{title}: %{{z:.3g}}<extra>row %{{y}}, column %{{x}}</extra>",
            row=i // 2 + 1,
            col=i % 2 + 1,
            **look,
        )
        figure.data[-1].update(name=title)
    for i in range(len(pictures)):
        name = "" if i == 0 else str(i + 1)
        upright = {"autorange": "reversed", "scaleanchor": f"x{name}", "constraintoward": "top"}
        figure.update_layout({f"yaxis{name}": upright})
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    height = 40 + 130 * lines
    figure.update_layout(template=template(dark), height=height, margin={"t": 28})
    figure.update_annotations(font={"size": 12, "color": ink(dark).muted})
    return figure


def _cells(
    names: Sequence[str], reconstruction: Reconstruction, observed: FloatArray | None
) -> list[str]:
    """Hover text of each column, in the data's units."""
    r = reconstruction
    texts = []
    for d, name in enumerate(names):
        text = f"<b>{escape(name)}</b><br>reconstruction {number(r.value[d])} "
        if r.log1p[d]:
            text += f"(median), 2 sd interval {number(r.low[d])} to {number(r.high[d])}"
        else:
            text += f"± {number(INTERVAL_SD * r.sd[d], 2)}"
        if observed is not None:
            seen = "missing" if np.isnan(observed[d]) else number(observed[d])
            text += f"<br>observed {seen}"
        texts.append(text)
    return texts
