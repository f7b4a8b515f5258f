"""The figures beside the map: relevance bars, and the reconstruction of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.analysis.map.reconstruction import INTERVAL_SD, DecodedLevels, Reconstruction
from app.figures.pictures import add_picture, add_widths
from app.figures.theme import (
    ACCENT,
    escape,
    interval_colour,
    page_colours,
    path_colours,
    template,
)
from app.formatting import number, shortened
from lvmcore.export.picture_pixels import pixel_widths
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["image_figure", "levels_figure", "reconstruction_figure", "relevance_figure"]


#: Most columns with a line each; more columns are drawn as a profile.
MOST_LINES = 40
_LINE_PX, _LEVEL_PX = 26, 20
# Least height of lines, with a legend of two rows and the axis.
_LEAST_PX = 160
_LEGEND_PX = 20
#: Share of a level from which an observed cell has it.
_SEEN = 0.5


def relevance_figure(
    share: Mapping[str, FloatArray], axes: Sequence[int | None], *, dark: bool
) -> go.Figure:
    """Relevance of each latent dimension, one group of bars per path.

    The dimensions on the map are highlighted.

    Args:
        share: share of each dimension in the sum of its path, each [Q].
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
    """The decoded columns ± 2 sd, with the observed row if there is one.

    Columns of different units share one axis: the deviation from the mean of the column, in its sd,
    on the scale of the fit. Hover texts give the values in data units.

    Args:
        names: names of the columns, [D].
        reconstruction: the reconstruction of the point.
        observed: cells of the row in data units, NaN where missing, [D]; None without a row.
        dark: whether the page is dark.
    """
    many = len(names) > MOST_LINES
    centre, scale = reconstruction.centre, reconstruction.scale
    position = (reconstruction.mean - centre) / scale
    above = (reconstruction.upper - reconstruction.mean) / scale
    below = (reconstruction.mean - reconstruction.lower) / scale
    texts = _hover_texts(names, reconstruction, observed)
    order = np.arange(1, len(names) + 1)
    colours = page_colours(dark)
    figure = go.Figure()
    interval = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    interval |= {"width": 0, "thickness": 1.2 if many else 3}
    coordinates = {"x": order, "y": position} if many else {"x": position, "y": order}
    figure.add_scatter(
        **coordinates,
        mode="markers",
        marker={"size": 4 if many else 9, "color": ACCENT},
        **{"error_y" if many else "error_x": {**interval, "color": interval_colour(dark)}},
        hovertext=texts,
        hoverinfo="text",
        name="reconstruction ± 2 sd" if reconstruction.symmetric else "reconstruction, 95 %",
    )
    if observed is not None:
        cells = np.array(observed, dtype=np.float64)
        cells[reconstruction.log1p] = np.log1p(cells[reconstruction.log1p])
        standardised = (cells - centre) / scale
        figure.add_scatter(
            **({"x": order, "y": standardised} if many else {"x": standardised, "y": order}),
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
        vertical = {"range": [len(names) + 0.6, 0.4], "showline": False, "ticks": ""}
        vertical |= {"tickvals": order, "ticktext": [escape(shortened(name, 22)) for name in names]}
        height = max(_LEAST_PX, 96 + _LINE_PX * len(names))
        figure.update_layout(height=height, xaxis=deviation, yaxis=vertical)
    return figure


def levels_figure(
    categories: Sequence[DecodedLevels], observed: FloatArray | None, *, dark: bool
) -> go.Figure:
    """The probabilities of the levels of categories as bars, with the observed level marked.

    Args:
        categories: the decoded categories.
        observed: cells of the row in the units of the fit, NaN where missing, [D]; None without a
            row.
        dark: whether the page is dark.
    """
    titles: list[str] = []
    shares: list[float] = []
    seen: list[int] = []
    for category in categories:
        column = category.column
        cells = None if observed is None else column.probabilities(observed[None])[0]
        for k, (level, p) in enumerate(zip(column.levels, category.probability, strict=True)):
            name = shortened(column.name, 20)
            titles.append(f"{escape(name)}: {escape(shortened(level, 16))}")
            shares.append(float(p))
            if cells is not None and cells[k] > _SEEN:
                seen.append(len(titles))
    figure = go.Figure()
    order = np.arange(1, len(titles) + 1)
    figure.add_bar(
        x=100 * np.array(shares),
        y=order,
        orientation="h",
        marker={"color": interval_colour(dark)},
        text=[f"{share:.0%}" for share in shares],
        textposition="outside",
        cliponaxis=False,
        hovertext=[f"{t}, probability {p:.3f}" for t, p in zip(titles, shares, strict=True)],
        hoverinfo="text",
        name="probability of the level",
    )
    if seen:
        figure.add_scatter(
            x=np.zeros(len(seen)),
            y=seen,
            mode="markers",
            marker={"symbol": "diamond", "size": 9, "color": page_colours(dark).text},
            hoverinfo="skip",
            name="observed",
        )
    figure.update_layout(
        template=template(dark),
        height=70 + _LEVEL_PX * len(titles),
        bargap=0.25,
        showlegend=True,
        hovermode="closest",
        xaxis={"visible": False, "range": [0, 120]},
        yaxis={
            "range": [len(titles) + 0.6, 0.4],
            "showline": False,
            "ticks": "",
            "tickvals": order,
            "ticktext": titles,
        },
    )
    return figure


def image_figure(
    shape: ImageShape,
    reconstruction: Reconstruction,
    observed: FloatArray | None,
    limits: tuple[float, float],
    *,
    dark: bool,
) -> go.Figure:
    """The decoded row as images: observed, reconstruction, and sd with a colour bar.

    For columns fitted as log(1 + x), the last image is the width of the ± 2 sd interval in data
    units. The sd of a pixel in colour is the root of the mean variance over its channels.

    Args:
        shape: (height, width) of the image, or (height, width, 3) in colour.
        reconstruction: the reconstruction of the point.
        observed: pixels of the row; None without a row.
        limits: darkest and lightest value of all images.
        dark: whether the page is dark.
    """
    pictures: list[tuple[str, FloatArray]] = [("reconstruction", reconstruction.value)]
    if observed is not None:
        pictures.insert(0, ("observed", observed))
    last = ("sd", reconstruction.sd)
    if reconstruction.log1p.any():  # the sd is on another scale than the pixels
        last = ("interval width", reconstruction.high - reconstruction.low)
    pictures.append(last)
    titles = [title for title, _ in pictures]
    lines = (len(pictures) + 1) // 2
    figure = make_subplots(rows=lines, cols=2, subplot_titles=titles, vertical_spacing=0.12)
    for i, (title, cells) in enumerate(pictures):
        place = i // 2 + 1, i % 2 + 1
        if title != last[0]:
            add_picture(figure, cells, shape, limits, title=title, place=place, dark=dark)
            continue
        bar = {"title": {"text": title}, "len": 1 / lines, "y": 0.5 / lines}
        widths = pixel_widths(cells, shape)
        add_widths(figure, widths, title=title, place=place, bar=bar, dark=dark)
    for i in range(len(pictures)):
        name = "" if i == 0 else str(i + 1)
        vertical = {"autorange": "reversed", "scaleanchor": f"x{name}", "constraintoward": "top"}
        figure.update_layout({f"yaxis{name}": vertical})
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    height = 40 + 130 * lines
    figure.update_layout(template=template(dark), height=height, margin={"t": 28})
    figure.update_annotations(font={"size": 12, "color": page_colours(dark).muted})
    return figure


def _hover_texts(
    names: Sequence[str], reconstruction: Reconstruction, observed: FloatArray | None
) -> list[str]:
    """Hover text of each column, in data units."""
    r = reconstruction
    texts = []
    for d, name in enumerate(names):
        text = f"<b>{escape(name)}</b><br>reconstruction {r.cell_text(d, r.value[d])}"
        if r.log1p[d]:
            text += f" (median), 2 sd interval {number(r.low[d])} to {number(r.high[d])}"
        elif not np.isclose(r.high[d] - r.value[d], INTERVAL_SD * r.sd[d]):
            text += f", 95 % interval {r.cell_text(d, r.low[d])} to {r.cell_text(d, r.high[d])}"
        else:
            text += f" ± {r.width_text(d, INTERVAL_SD * r.sd[d])}"
        if observed is not None:
            cell = "missing" if np.isnan(observed[d]) else r.cell_text(d, observed[d])
            text += f"<br>observed {cell}"
        texts.append(text)
    return texts
