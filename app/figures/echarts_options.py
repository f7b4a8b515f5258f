"""Options that the ECharts charts have in common.

Streamlit updates ECharts in place while a page polls. User text (names of classes) appears only in
legends, which draw plain text; no tooltip contains it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Options", "plot_grid", "scrolling_legend", "small_chart", "value_axis"]

Options = dict[str, Any]


def value_axis(name: str, *, grid: bool = True, vertical: bool = False) -> Options:
    """An axis of numbers with a title, with or without grid lines."""
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 56 if vertical else 28,
        "axisLabel": {"formatter": "{value}"},
        "scale": True,
        "axisLine": {"onZero": False},
        "splitLine": {"show": grid},
    }


def plot_grid() -> Options:
    """The margins of the plot."""
    return {"left": 76, "right": 20, "top": 36, "bottom": 48, "outerBoundsMode": "none"}


def scrolling_legend() -> Options:
    """A legend in one line above the plot."""
    return {"type": "scroll", "top": 0, "left": 64, "right": 8, "itemHeight": 10, "itemWidth": 14}


def small_chart(options: Options, *, numbers: bool = True) -> Options:
    """A chart for a narrow panel: without axis titles and legend, with narrow margins.

    Args:
        options: of the chart.
        numbers: whether the axes keep their numbers.
    """
    axes = {
        axis: {
            **options[axis],
            "name": "",
            "axisLabel": {**options[axis]["axisLabel"], "show": numbers},
        }
        for axis in ("xAxis", "yAxis")
    }
    left, bottom = (56, 24) if numbers else (8, 8)
    grid = {**options["grid"], "left": left, "right": 12, "top": 10, "bottom": bottom}
    return {**options, **axes, "grid": grid, "legend": {"show": False}}
