"""A curve through the latent space as an animation: the point on the map, and its decoded row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.export.animation import (
    AnimationFormat,
    FrameSequence,
    animation_file,
    check_animation,
    drawn_frames,
)
from lvmcore.export.categories import CategoryStyle
from lvmcore.export.column_colours import OKABE_ITO
from lvmcore.export.map_markers import (
    FONT,
    HAIRLINE,
    MUTED,
    ONE_AT_A_TIME,
    TEXT,
    draw_rows,
    drawable,
    style_axes,
)
from lvmcore.export.picture_pixels import picture_colours, pixel_widths
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.picture_shape import ImageShape

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["AnimatedCurve", "AnimatedPictures", "path_animation"]

DOTS_PER_INCH = 100
#: Width of the map without and with a legend, of the decoded rows, and the height, inches.
MAP, MAP_WITH_LEGEND, DECODED, HEIGHT = 4.6, 6.0, 5.0, 4.8
#: Height of a line of columns, and columns in one, of few columns and of many.
LINE, PER_LINE, PER_LONG_LINE, FEW = 1.25, 2, 3, 8
#: Line of the decoded values, and the interval around it.
CURVE, INTERVAL = "#0E7C7B", "#CFE5E4"
#: Colours of the interval widths of pixels: light is a small width.
WIDTHS = "cividis_r"

#: The artists of a part of a figure that move, and what moves them to a frame.
_Moving = tuple[list["Artist"], Callable[[int], None]]


@dataclass(frozen=True)
class AnimatedPictures:
    """How rows that are pictures are drawn.

    Attributes:
        shape: (height, width), or (height, width, 3) in colour.
        limits: darkest and lightest value of all pictures.
    """

    shape: ImageShape
    limits: tuple[float, float]


@dataclass(frozen=True)
class AnimatedCurve:
    """A curve through the latent space with its decoded rows, on a map.

    Attributes:
        rows: positions of the rows of the fit on the map, [N, 2].
        points: positions of the curve's points on the map, [P, 2]; [P, 1] on a map of one
            dimension, whose vertical axis is the row's number.
        axes: titles of the axes of the map.
        at: the place of each point along the curve, [P].
        title: what ``at`` measures.
        value: decoded columns that are drawn, in data units, [P, D].
        low: lower ends of their intervals, [P, D].
        high: upper ends, [P, D].
        names: names of these columns.
        interval: what the intervals are, such as "± 2 sd".
        classes: classes of the rows of the fit with their colours; None without.
        ends: letters of the first and the last point; None for no letters.
        pictures: how the rows are drawn as pictures; None for curves of the columns.
    """

    rows: FloatArray
    points: FloatArray
    axes: tuple[str, str]
    at: FloatArray
    title: str
    value: FloatArray
    low: FloatArray
    high: FloatArray
    names: Sequence[str]
    interval: str
    classes: CategoryStyle | None = None
    ends: tuple[str, str] | None = None
    pictures: AnimatedPictures | None = None


def path_animation(curve: AnimatedCurve, form: AnimationFormat) -> bytes:
    """A frame for each point of a curve: the point on the map, and beside it the decoded row.

    A row is drawn as a picture with the interval widths of its pixels, or as the curves of its
    columns with their intervals and the value at the point.

    Args:
        curve: the curve with its decoded rows.
        form: "gif" or "mp4".

    Returns:
        The file's content.

    Raises:
        DataError: the curve has fewer than two points, or no column is drawn.
        UnsupportedError: the package that writes such a file is not installed.
    """
    check_animation(form)
    if len(curve.at) < 2:
        raise DataError("The path has fewer than two points, so there is nothing to animate.")
    if not len(curve.names):
        raise DataError("No column is chosen, so there is nothing to animate: choose a column.")
    looks = [] if curve.classes is None else curve.classes.looks()
    colours = [colour for colour, _ in looks] or [OKABE_ITO[0]]
    pixels = None if curve.pictures is None else _pixels(curve, curve.pictures)
    with ONE_AT_A_TIME:
        figure, (moving, move) = curve_figure(curve)
        frames = drawn_frames(figure, moving, move, len(curve.at))
        return animation_file(FrameSequence(frames, [*colours, CURVE, INTERVAL], pixels), form)


def _pixels(curve: AnimatedCurve, pictures: AnimatedPictures) -> NDArray[np.uint8]:
    """The colours of all pixels of the decoded pictures and of their widths, [n, 3]."""
    from matplotlib import colormaps

    decoded = [_picture(row, pictures).reshape(-1, 3) for row in curve.value]
    widths = np.round(255 * colormaps[WIDTHS](np.linspace(0, 1, 32))[:, :3]).astype(np.uint8)
    return np.concatenate([*decoded, widths])


def _picture(row: FloatArray, pictures: AnimatedPictures) -> NDArray[np.uint8]:
    return picture_colours(row, pictures.shape, pictures.limits, hidden=HAIRLINE)


# ---- the figure ------------------------------------------------------------------------------


def curve_figure(curve: AnimatedCurve) -> tuple[Figure, _Moving]:
    """The figure of a curve: the map, and beside it the decoded rows.

    Returns:
        The figure; and the artists that move with what moves them to a point, by its number.
    """
    from matplotlib.figure import Figure

    width = MAP if curve.classes is None else MAP_WITH_LEGEND
    lines = 0 if curve.pictures is not None else -(-len(curve.names) // _per_line(curve))
    figure = Figure(
        figsize=(width + DECODED, max(HEIGHT, LINE * lines)),
        dpi=DOTS_PER_INCH,
        layout="constrained",
        facecolor="white",
    )
    sides: Any = figure.subfigures(1, 2, width_ratios=[width, DECODED])
    left, right = sides
    drawn = _pictures(right, curve, curve.pictures) if curve.pictures else _columns(right, curve)
    parts = [_map(left, curve), drawn]

    def move(number: int) -> None:
        for _, part in parts:
            part(number)

    move(0)
    return figure, ([artist for artists, _ in parts for artist in artists], move)


def _per_line(curve: AnimatedCurve) -> int:
    return PER_LINE if len(curve.names) <= FEW else PER_LONG_LINE


def _map(figure: SubFigure, curve: AnimatedCurve) -> _Moving:
    """The rows, the curve with its ends, and the point that moves along it."""
    plot = figure.add_subplot()
    draw_rows(figure, plot, curve.rows, curve.classes)
    style_axes(plot, *curve.axes)
    place = plot.set_title(_at(curve, -1), size=9, family=FONT, color=MUTED, loc="left")
    if curve.points.shape[1] == 1:
        line = plot.axvline(0.0, color=TEXT, linewidth=1.5)

        def move_line(number: int) -> None:
            line.set_xdata([curve.points[number, 0]] * 2)
            place.set_text(_at(curve, number))

        return [line, place], move_line
    across, up = curve.points.T
    plot.plot(across, up, color="white", linewidth=3.5, solid_capstyle="round")
    plot.plot(across, up, color=TEXT, linewidth=1.5, solid_capstyle="round")
    letters = () if curve.ends is None else zip(curve.ends, (0, -1), strict=True)
    for letter, end in letters:
        plot.annotate(
            letter,
            (across[end], up[end]),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            size=10,
            weight="bold",
            family=FONT,
            color=TEXT,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0},
        )
    (point,) = plot.plot([], [], "o", color=TEXT, markersize=9, markeredgecolor="white")

    def move(number: int) -> None:
        point.set_data([across[number]], [up[number]])
        place.set_text(_at(curve, number))

    return [point, place], move


def _at(curve: AnimatedCurve, number: int) -> str:
    return f"{curve.title}: {curve.at[number]:.3g}"


def _columns(figure: SubFigure, curve: AnimatedCurve) -> _Moving:
    """The columns along the whole curve with their intervals, and the values at the point."""
    per_line, count = _per_line(curve), len(curve.names)
    lines = -(-count // per_line)
    plots = figure.subplots(lines, per_line, sharex=True, squeeze=False).ravel()
    markers: list[tuple[Artist, Artist]] = []
    moving = []
    for plot, d in zip(plots, range(count), strict=False):
        low, value, high = (one[:, d] for one in (curve.low, curve.value, curve.high))
        plot.fill_between(curve.at, low, high, color=INTERVAL, linewidth=0)
        plot.plot(curve.at, value, color=CURVE, linewidth=1.5)
        _column_axes(plot, curve.names[d])
        line = plot.axvline(curve.at[0], color=MUTED, linewidth=0.8)
        (dot,) = plot.plot([], [], "o", color=TEXT, markersize=5)
        moving.append((line, dot, value))
        markers.append((line, dot))
    for number, plot in enumerate(plots):
        plot.set_visible(number < count)
        plot.tick_params(labelbottom=count - per_line <= number < count)
    figure.supxlabel(f"{curve.title}; bands: {curve.interval}", size=8, family=FONT, color=MUTED)

    def move(number: int) -> None:
        for line, dot, value in moving:
            line.set_xdata([curve.at[number]] * 2)
            dot.set_data([curve.at[number]], [value[number]])

    return [artist for pair in markers for artist in pair], move


def _column_axes(plot: Axes, name: str) -> None:
    style_axes(plot, "", "")
    plot.tick_params(labelsize=7)
    plot.locator_params(nbins=4)
    title = plot.set_title(drawable(name), size=8, family=FONT, color=TEXT, loc="left")
    title.set_parse_math(False)  # a dollar sign in a name is a dollar sign


def _pictures(figure: SubFigure, curve: AnimatedCurve, pictures: AnimatedPictures) -> _Moving:
    """The decoded picture at the point, and the widths of the intervals of its pixels."""
    (above, unused), (below, scale) = figure.subplots(2, 2, width_ratios=[1, 0.03])
    unused.set_axis_off()
    widths = [
        pixel_widths(high - low, pictures.shape)
        for low, high in zip(curve.low, curve.high, strict=True)
    ]
    decoded = above.imshow(_picture(curve.value[0], pictures), interpolation="nearest")
    most = max(float(one.max()) for one in widths)
    uncertain = below.imshow(
        widths[0], cmap=WIDTHS, vmin=0.0, vmax=most or 1.0, interpolation="nearest"
    )
    for plot, title in ((above, "decoded"), (below, f"width of the interval, {curve.interval}")):
        plot.set_axis_off()
        plot.set_title(title, size=8, family=FONT, color=TEXT)
    bar = figure.colorbar(uncertain, cax=scale)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, labelfontfamily=FONT, color=HAIRLINE, labelcolor=MUTED)

    def move(number: int) -> None:
        decoded.set_data(_picture(curve.value[number], pictures))
        uncertain.set_data(widths[number])

    return [decoded, uncertain], move
