"""Options that the ECharts charts have in common.

Streamlit updates ECharts in place while a page polls. User text (names of classes) appears only in
legends, which draw plain text; no tooltip contains it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Options", "plot_grid", "scrolling_legend", "value_axis"]

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
