"""The row under the cursor as ECharts options, which Streamlit updates in place. Pure.

User text (names of columns) is drawn as plain text on the axis; no tooltip is built from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.exploring import INTERVAL_SD, Reconstruction
from app.figures import palette
from app.figures.theme import accent, ink, ramp, veil
from app.words import shortened, told_apart

__all__ = ["MOST_LINES", "height", "images", "row_chart"]

Options = dict[str, Any]

#: Up to so many columns get a line each; more are drawn as a profile.
MOST_LINES = 40
_LINE_PX = 24
#: Images are shown about so many pixels wide.
_IMAGE_PX = 190


def height(columns: int) -> int:
    """Height of the chart of a row, in pixels."""
    return 70 + _LINE_PX * columns if columns <= MOST_LINES else 300


def row_chart(
    names: Sequence[str], row: Reconstruction, reach: tuple[float, float], *, dark: bool
) -> Options:
    """Decoded columns ± 2 sd, in sd from each column's mean, on the scale that the model learned.

    Args:
        names: of the columns, [D].
        row: what the place decodes to.
        reach: ends of the axis of values, the same for every place so that it stands still.
        dark: whether the page is dark.
    """
    many = len(names) > MOST_LINES
    middle = (row.mean - row.centre) / row.scale
    wide = INTERVAL_SD * row.sd / row.scale
    colours = ink(dark)
    quiet = {"color": colours.muted, "fontFamily": "Inter, sans-serif"}
    value = {
        "type": "value",
        "min": reach[0],
        "max": reach[1],
        "name": "sd from the mean",
        "nameLocation": "middle",
        "nameGap": 26 if not many else 34,
        "nameTextStyle": quiet,
        "axisLabel": quiet,
        "splitLine": {"show": False},
    }
    which: Options = {
        "type": "category",
        "data": [str(d + 1) for d in range(len(names))]
        if many
        else told_apart(shortened(name, 18) for name in names),
        "axisTick": {"show": False},
        "axisLine": {"show": False, "onZero": False},
        "axisLabel": {**quiet, "color": colours.text if not many else colours.muted},
    }
    if many:
        which |= {"name": "column", "nameLocation": "middle", "nameGap": 26, "nameTextStyle": quiet}
    else:
        which["inverse"] = True
    low, high = np.clip(middle - wide, *reach), np.clip(middle + wide, *reach)
    stack = {"stack": "interval", "stackStrategy": "all", "silent": True, "animation": False}
    if many:
        base = {**stack, "type": "line", "symbol": "none", "lineStyle": {"opacity": 0}}
        series = [
            {**base, "data": _short(low)},
            {**base, "data": _short(high - low), "areaStyle": {"color": veil(dark), "opacity": 1}},
            {
                "type": "line",
                "symbol": "none",
                "lineStyle": {"width": 1.4},
                "data": _short(np.clip(middle, *reach)),
            },
        ]
    else:
        base = {**stack, "type": "bar", "barWidth": 5}
        series = [
            {**base, "data": _short(low), "itemStyle": {"color": "transparent"}},
            {**base, "data": _short(high - low), "itemStyle": {"color": veil(dark)}},
            {
                "type": "scatter",
                "symbolSize": 9,
                "data": [[v, d] for d, v in enumerate(_short(np.clip(middle, *reach)))],
            },
        ]
    return {
        "animation": False,
        "color": [accent(dark)] * 3,
        "grid": {"left": 8, "right": 16, "top": 8, "bottom": 34, "containLabel": True},
        "xAxis": which if many else value,
        "yAxis": value if many else which,
        "series": series,
    }


def images(
    row: Reconstruction, shape: tuple[int, int], limits: tuple[float, float], *, dark: bool
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], float]:
    """A decoded image, the widths of its pixels' intervals, and the largest of them.

    Returns:
        Both as images of red, green and blue, each pixel some pixels wide.
    """
    low, high = limits
    share = ((row.value - low) / max(high - low, 1e-300)).clip(0, 1).reshape(shape)
    grey = np.repeat((255 * share)[..., None], 3, axis=-1)
    width = (row.high - row.low).reshape(shape)
    most = float(width.max())
    colours = np.array(palette.steps(ramp(sure_is_low=True, dark=dark), palette.LEVELS))
    doubt = colours[(width / max(most, 1e-300) * (palette.LEVELS - 1)).round().astype(int)]
    times = max(1, _IMAGE_PX // shape[1])
    grown = (
        np.repeat(np.repeat(part, times, axis=0), times, axis=1).astype(np.uint8)
        for part in (grey, doubt)
    )
    first, second = grown
    return first, second, most


def _short(values: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.round(values, 4).tolist()
    return found
