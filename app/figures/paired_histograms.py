"""Paired histograms as HTML: distributions of columns in the selected and the other rows.

They are redrawn at every selection, so they have to be fast: a plotly figure takes longer to make
and to draw than the page's own computation. (Streamlit removes SVG from HTML.)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from app.analysis.map.selection_contrast import PairedHistogram
from app.figures.theme import accent, page_colours
from app.formatting import number, shortened
from app.templates import render

__all__ = ["paired_histograms_html"]


#: Distances between ticks of the vertical axis, all of them whole or half per cents.
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_DAY = 86_400.0
#: Characters for the names of all levels of a histogram together.
_CHARACTERS = 40


def paired_histograms_html(
    pairs: Sequence[PairedHistogram], distances: Sequence[float], *, dark: bool
) -> str:
    """Draw columns as small histograms, the selected rows against the other rows.

    Args:
        pairs: at least one column.
        distances: Kolmogorov–Smirnov distance of each column, for its title.
        dark: whether the page is dark.

    Returns:
        HTML for the classes of the page's style sheet: a legend, and a histogram per column.
        The tooltip of a bin gives its shares.
    """
    return render(
        "paired_histograms.html",
        legend=(("the others", page_colours(dark).muted), ("selected", accent(dark))),
        histograms=[
            _histogram(pair, distance, dark)
            for pair, distance in zip(pairs, distances, strict=True)
        ],
    )


def _histogram(pair: PairedHistogram, distance: float, dark: bool) -> dict[str, object]:
    """Values of the template for one column; lengths in per cent of the plot."""
    most = max(float(pair.inside.max()), float(pair.outside.max()), 1e-9)
    step = next((step for step in _STEPS if step * 4 >= most), _STEPS[-1])
    top = step * float(np.ceil(most / step))
    left, width = _bin_extents(pair)
    return {
        "title": f"{shortened(pair.name, 26)} · {distance:.2f}",
        "levels": pair.edges is None,
        "ticks": [
            {"height": 100 * tick / top, "label": f"{100 * tick:.3g}%"}
            for tick in np.arange(0.0, top + step / 2, step)
        ],
        "bars": [
            bar for i in range(len(left)) for bar in _bars(pair, i, left[i], width[i], top, dark)
        ],
        "bins": [
            {"left": left[i], "width": width[i], "label": _tooltip(pair, i)}
            for i in range(len(left))
        ],
        "axis_labels": _axis_labels(pair),
    }


def _bin_extents(pair: PairedHistogram) -> tuple[list[float], list[float]]:
    """Left ends and widths of the bins, in per cent of the plot."""
    edges = np.arange(len(pair.inside) + 1.0) if pair.edges is None else pair.edges
    width = 100 * np.diff(edges) / (edges[-1] - edges[0] if edges[-1] > edges[0] else 1.0)
    left = np.concatenate([[0.0], np.cumsum(width)[:-1]])
    return left.tolist(), width.tolist()


def _bars(
    pair: PairedHistogram, i: int, left: float, width: float, top: float, dark: bool
) -> list[dict[str, object]]:
    """The two bars of a bin: side by side for levels, one over the other for numbers."""
    extents = ((left, width),) * 2
    if pair.edges is None:
        extents = ((left + 0.1 * width, 0.4 * width), (left + 0.5 * width, 0.4 * width))
    shares = (pair.outside[i], page_colours(dark).muted), (pair.inside[i], accent(dark))
    return [
        {"left": x, "width": w, "height": 100 * share / top, "colour": colour}
        for (share, colour), (x, w) in zip(shares, extents, strict=True)
    ]


def _tooltip(pair: PairedHistogram, i: int) -> str:
    shares = f"{pair.inside[i]:.1%} of the selected, {pair.outside[i]:.1%} of the others"
    return f"{_bin_name(pair, i)}: {shares}"


def _bin_name(pair: PairedHistogram, i: int) -> str:
    if pair.edges is None:
        return shortened(pair.levels[i], 60)
    return f"{_edge_label(pair.edges[i], pair)} to {_edge_label(pair.edges[i + 1], pair)}"


def _axis_labels(pair: PairedHistogram) -> list[str]:
    """Labels of the horizontal axis: the levels, or the ends and the middle of the range."""
    if pair.edges is None:
        length = max(3, _CHARACTERS // len(pair.levels))
        return [shortened(level, length) for level in pair.levels]
    middle = (pair.edges[0] + pair.edges[-1]) / 2
    return [_edge_label(value, pair) for value in (pair.edges[0], middle, pair.edges[-1])]


def _edge_label(value: float, pair: PairedHistogram) -> str:
    assert pair.edges is not None
    if not pair.dates:
        return number(float(value), 3)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(value))
    short_range = pair.edges[-1] - pair.edges[0] < 3 * _DAY
    return moment.strftime("%m-%d %H:%M" if short_range else "%Y-%m-%d")
