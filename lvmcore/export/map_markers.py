"""The rows of a map in a figure of matplotlib: markers by class, the legend, and the axes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.export.categories import MISSING, OTHER, CategoryStyle
from lvmcore.export.column_colours import OKABE_ITO, SHAPES
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure, SubFigure


__all__ = [
    "FONT",
    "HAIRLINE",
    "MUTED",
    "ONE_AT_A_TIME",
    "TEXT",
    "draw_rows",
    "drawable",
    "style_axes",
]

FONT = "DejaVu Sans"  # comes with matplotlib
LONGEST_NAME = 40
TEXT, MUTED, HAIRLINE = "#1A1D21", "#6B7280", "#9AA3AD"
_MARKERS = dict(zip(SHAPES, ("o", "D", "s", "^"), strict=True))
#: Held while a figure is drawn: matplotlib does not guarantee its font caches to be thread-safe.
ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class _MarkerGroup:
    """Rows with the same marker: their positions, [n], and the marker's style."""

    name: str
    rows: NDArray[np.intp]
    colour: str
    marker: str = "o"
    hollow: bool = False
    layer: float = 1.0


def draw_rows(
    figure: Figure | SubFigure,
    plot: Axes,
    points: FloatArray,
    classes: CategoryStyle | None,
    *,
    rasterised: bool = False,
) -> list[tuple[NDArray[np.intp], PathCollection]]:
    """Draw a marker for each row, and a legend where the rows have labels.

    Args:
        figure: what the legend is drawn in, right of the axes.
        plot: the axes.
        points: positions of the rows, [N, 2].
        classes: classes of the same rows with their colours; None without classes.
        rasterised: whether a file of vectors holds the markers as one image.

    Returns:
        The rows of each class, [n], and their markers.
    """
    drawn = []
    for group in _marker_groups(classes, len(points)):
        positions = points[group.rows]
        markers = plot.scatter(
            positions[:, 0],
            positions[:, 1],
            s=16,
            marker=group.marker,
            facecolors="none" if group.hollow else group.colour,
            edgecolors=group.colour if group.hollow else "white",
            linewidths=0.8 if group.hollow else 0.35,
            label=group.name,
            zorder=group.layer,
            rasterized=rasterised,
        )
        drawn.append((group.rows, markers))
    if classes is None:
        return drawn
    title = drawable(classes.title)
    legend = figure.legend(
        loc="outside right upper",
        title=title,
        frameon=False,
        prop={"family": FONT, "size": 8},
        title_fontproperties={"family": FONT, "size": 9},
        alignment="left",
        handletextpad=0.3,
    )
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)  # a dollar sign in a name is a dollar sign
        text.set_color(TEXT)
    return drawn


def _marker_groups(classes: CategoryStyle | None, n: int) -> Iterator[_MarkerGroup]:
    """The groups of rows in a legend, one per class; then other classes and missing labels."""
    if classes is None:
        yield _MarkerGroup("rows", np.arange(n), OKABE_ITO[0])
        return
    looks, layers = classes.looks(), classes.layers or []
    for code in classes.in_order:
        colour, shape = looks[code]
        rows = np.flatnonzero(classes.codes == code)
        # Between those of markers, 1, and of lines, 2.
        layer = 1 + layers.index(code) / len(layers) if layers else 1.0
        name = drawable(classes.names[code])
        yield _MarkerGroup(name, rows, colour, _MARKERS[shape], layer=layer)
    others = f"{classes.others} others"
    for code, name, hollow in ((OTHER, others, False), (MISSING, "(missing)", True)):
        rows = np.flatnonzero(classes.codes == code)
        if len(rows):
            yield _MarkerGroup(name, rows, HAIRLINE, hollow=hollow)


def drawable(text: object) -> str:
    """``text`` on one line, shortened; characters that the font lacks become empty boxes."""
    from matplotlib.font_manager import findfont, get_font

    line = " ".join(str(text).split())
    if len(line) > LONGEST_NAME:
        line = line[: LONGEST_NAME - 1].rstrip() + "…"
    known = get_font(findfont(FONT)).get_charmap()
    # A leading underscore would keep a name out of the legend.
    line = f"\u200a{line}" if line.startswith("_") else line
    return "".join(letter if ord(letter) in known else "□" for letter in line)


def style_axes(plot: Axes, across: str, up: str) -> None:
    """Set titles, ticks and frame of the axes."""
    plot.set_xlabel(across, size=9, family=FONT, color=TEXT)
    plot.set_ylabel(up, size=9, family=FONT, color=TEXT)
    plot.tick_params(labelsize=8, labelfontfamily=FONT, color=HAIRLINE, labelcolor=MUTED)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        plot.spines[side].set_color(HAIRLINE)
