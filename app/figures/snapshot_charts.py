"""The map and the kernel weights during a fit, as ECharts options. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle
from app.figures.echarts_options import Options, plot_grid, scrolling_legend, value_axis
from app.figures.theme import category, page_colours, path_colours
from app.formatting import distinct_titles, shortened

if TYPE_CHECKING:
    from lvmcore.results import Snapshot

__all__ = ["kernel_weight_chart", "map_chart"]

#: Names in ECharts of the markers of categories.
SYMBOLS = {"circle": "circle", "diamond": "diamond", "square": "rect", "triangle-up": "triangle"}


def map_chart(snapshot: Snapshot, labels: CategoryStyle | None, *, dark: bool = False) -> Options:
    """The map during the fit: latent means on the two most relevant dimensions.

    Args:
        snapshot: the current map.
        labels: the class of every row of the fit, [N]; None without labels.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    first, second = (dimension + 1 for dimension in snapshot.dimensions)
    series = []
    groups = list(_row_groups(snapshot, labels, dark))
    layered = labels is not None and labels.layers is not None
    for place, group in enumerate(groups):
        style = {"color": group.colour}
        if group.hollow:
            style = {"color": "transparent", "borderColor": group.colour}
        series.append(
            {
                "type": "scatter",
                "name": group.name,
                "data": np.round(snapshot.mean[group.rows], 6).tolist(),
                "symbol": group.symbol,
                "symbolSize": 6,
                "itemStyle": {**style, "opacity": 0.85},
                "silent": True,
                "z": 2 + (len(groups) - place if layered else 0),
            }
        )
    return {
        "animation": False,
        "grid": plot_grid(),
        "legend": scrolling_legend() if labels is not None else {"show": False},
        "tooltip": {"show": False},
        "xAxis": value_axis(f"latent dimension {first}", grid=False),
        "yAxis": value_axis(f"latent dimension {second}", grid=False, vertical=True),
        "series": series,
    }


def kernel_weight_chart(snapshot: Snapshot, *, dark: bool = False) -> Options:
    """Kernel weight of each latent dimension in per cent, for each path of the model.

    Args:
        snapshot: the current map.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    paths = list(snapshot.relevance)
    titles = distinct_titles(shortened(path, 60) for path in paths)
    size = max((len(share) for share in snapshot.relevance.values()), default=0)
    bars = [
        {
            "type": "bar",
            "name": title,
            "data": [float(f"{100 * value:.3g}") for value in snapshot.relevance[path]],
            "color": colour,
            "barMaxWidth": 28,
        }
        for path, title, colour in zip(paths, titles, path_colours(len(paths), dark), strict=True)
    ]
    category = {**value_axis("latent dimension", grid=False), "type": "category"}
    category["data"] = [str(dimension + 1) for dimension in range(size)]
    return {
        "animation": False,
        "grid": plot_grid(),
        "legend": scrolling_legend() if len(paths) > 1 else {"show": False},
        "tooltip": {"trigger": "axis", "valueFormatter": "%.3g %%"},
        "xAxis": category,
        "yAxis": {**value_axis("share of weights, %", vertical=True), "min": 0, "max": 100},
        "series": bars,
    }


@dataclass(frozen=True)
class _RowGroup:
    """Rows of a snapshot with one marker: their positions in it, [n], and the marker."""

    name: str
    rows: NDArray[np.intp]
    colour: str
    symbol: str = "circle"
    hollow: bool = False


def _row_groups(
    snapshot: Snapshot, labels: CategoryStyle | None, dark: bool
) -> Iterator[_RowGroup]:
    """Groups of rows, each class with its marker on the map of the fitted model."""
    if labels is None:
        yield _RowGroup("rows", np.arange(len(snapshot.rows)), category(0, dark)[0])
        return
    codes, grey = labels.codes[snapshot.rows], page_colours(dark).muted
    looks = labels.looks(dark=dark)
    for code in labels.in_order:
        colour, shape = looks[code]
        rows = np.flatnonzero(codes == code)
        yield _RowGroup(shortened(labels.names[code], 24), rows, colour, SYMBOLS[shape])
    for code, name, hollow in ((OTHER, "other", False), (MISSING, "(missing)", True)):
        if (labels.codes == code).any():
            yield _RowGroup(name, np.flatnonzero(codes == code), grey, hollow=hollow)
