"""The row under the cursor as ECharts options, which Streamlit updates in place. Pure.

User text (names of columns) is drawn as plain text on the axis; no tooltip contains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.reconstruction import DecodedLevels, Reconstruction
from app.figures import palette
from app.figures.pictures import enlarged
from app.figures.theme import accent, heatmap_colours, interval_colour, page_colours
from app.formatting import distinct_titles, shortened
from lvmcore.export.picture_pixels import picture_colours, pixel_widths
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["MOST_LINES", "height", "images", "level_chart", "level_height", "row_chart"]

Options = dict[str, Any]

#: Most columns with a line each; more columns are drawn as a profile.
MOST_LINES = 40
_LINE_PX, _LEVEL_PX = 24, 20
#: Approximate width of the images in pixels.
_IMAGE_PX = 190


def height(columns: int) -> int:
    """Height of the chart of a row, in pixels."""
    return 70 + _LINE_PX * columns if columns <= MOST_LINES else 300


def level_height(categories: Sequence[DecodedLevels]) -> int:
    """Height of the chart of the levels, in pixels."""
    return 30 + _LEVEL_PX * sum(len(one.column.levels) for one in categories)


def row_chart(
    names: Sequence[str], row: Reconstruction, limits: tuple[float, float], *, dark: bool
) -> Options:
    """Decoded columns with intervals, in sd from the mean of each column, on the scale of the fit.

    Args:
        names: names of the columns, [D].
        row: the decoded latent point.
        limits: ends of the axis of values, which do not depend on the point.
        dark: whether the page is dark.
    """
    many = len(names) > MOST_LINES
    mean = (row.mean - row.centre) / row.scale
    colours = page_colours(dark)
    muted = {"color": colours.muted, "fontFamily": "Inter, sans-serif"}
    value = {
        "type": "value",
        "min": limits[0],
        "max": limits[1],
        "name": "sd from the mean",
        "nameLocation": "middle",
        "nameGap": 26 if not many else 34,
        "nameTextStyle": muted,
        "axisLabel": muted,
        "splitLine": {"show": False},
    }
    column: Options = {
        "type": "category",
        "data": [str(d + 1) for d in range(len(names))]
        if many
        else distinct_titles(shortened(name, 18) for name in names),
        "axisTick": {"show": False},
        "axisLine": {"show": False, "onZero": False},
        "axisLabel": {**muted, "color": colours.text if not many else colours.muted},
    }
    if many:
        column |= {
            "name": "column",
            "nameLocation": "middle",
            "nameGap": 26,
            "nameTextStyle": muted,
        }
    else:
        column["inverse"] = True
    low, high = (np.clip((end - row.centre) / row.scale, *limits) for end in (row.lower, row.upper))
    stack = {"stack": "interval", "stackStrategy": "all", "silent": True, "animation": False}
    if many:
        base = {**stack, "type": "line", "symbol": "none", "lineStyle": {"opacity": 0}}
        series = [
            {**base, "data": _rounded(low)},
            {
                **base,
                "data": _rounded(high - low),
                "areaStyle": {"color": interval_colour(dark), "opacity": 1},
            },
            {
                "type": "line",
                "symbol": "none",
                "lineStyle": {"width": 1.4},
                "data": _rounded(np.clip(mean, *limits)),
            },
        ]
    else:
        base = {**stack, "type": "bar", "barWidth": 5}
        series = [
            {**base, "data": _rounded(low), "itemStyle": {"color": "transparent"}},
            {**base, "data": _rounded(high - low), "itemStyle": {"color": interval_colour(dark)}},
            {
                "type": "scatter",
                "symbolSize": 9,
                "data": [[v, d] for d, v in enumerate(_rounded(np.clip(mean, *limits)))],
            },
        ]
    return {
        "animation": False,
        "color": [accent(dark)] * 3,
        "grid": {"left": 8, "right": 16, "top": 8, "bottom": 34, "containLabel": True},
        "xAxis": column if many else value,
        "yAxis": value if many else column,
        "series": series,
    }


def level_chart(categories: Sequence[DecodedLevels], *, dark: bool) -> Options:
    """Probabilities of the levels of categories as bars, in per cent.

    Args:
        categories: the decoded categories.
        dark: whether the page is dark.
    """
    colours = page_colours(dark)
    text = {"color": colours.text, "fontFamily": "Inter, sans-serif"}
    titles = [
        f"{shortened(one.column.name, 14)}: {shortened(level, 12)}"
        for one in categories
        for level in one.column.levels
    ]
    shares = np.concatenate([one.probability for one in categories])
    return {
        "animation": False,
        "color": [interval_colour(dark)],
        "grid": {"left": 8, "right": 44, "top": 8, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "value", "min": 0, "max": 100, "show": False},
        "yAxis": {
            "type": "category",
            "data": distinct_titles(titles),
            "inverse": True,
            "axisTick": {"show": False},
            "axisLine": {"show": False},
            "axisLabel": text,
        },
        "series": [
            {
                "type": "bar",
                "barWidth": 12,
                "data": np.round(100 * shares, 1).tolist(),
                "label": {"show": True, "position": "right", "formatter": "{c} %", **text},
            }
        ],
    }


def images(
    row: Reconstruction, shape: ImageShape, limits: tuple[float, float], *, dark: bool
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], float]:
    """A decoded image, the interval widths of its pixels, and the largest width.

    The width of a pixel in colour is the root mean square over its channels.

    Returns:
        Both as RGB images, each pixel enlarged.
    """
    decoded = picture_colours(row.value, shape, limits, hidden=accent(dark))
    width = pixel_widths(row.high - row.low, shape)
    most = float(width.max())
    colours = np.array(
        palette.ramp_steps(heatmap_colours(low_is_certain=True, dark=dark), palette.LEVELS)
    )
    widths = colours[(width / max(most, 1e-300) * (palette.LEVELS - 1)).round().astype(int)]
    return enlarged(decoded, _IMAGE_PX), enlarged(widths.astype(np.uint8), _IMAGE_PX), most


def _rounded(values: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.round(values, 4).tolist()
    return found
