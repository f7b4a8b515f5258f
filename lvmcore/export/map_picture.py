"""Figures of a map for print, drawn by matplotlib: PNG, SVG and PDF."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.errors import ConfigError
from lvmcore.export.categories import MISSING, OKABE_ITO, OTHER, SHAPES, category_style
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.projection import LatentProjection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset

__all__ = ["PictureFormat", "map_picture"]

PictureFormat = Literal["png", "svg", "pdf"]

WIDTH, HEIGHT, DOTS_PER_INCH = 6.4, 4.8, 300  # inches, and dots of the PNG
#: Most rows drawn as vectors in an SVG or a PDF; more are rasterised, to limit the file's size.
MOST_VECTORS = 10_000
GRID = 80
#: Cells in a chunk of decoding; bounds memory, does not change results.
CELLS = 4_000_000
MARGIN = 0.05
FONT = "DejaVu Sans"  # comes with matplotlib
LONGEST_NAME = 40
TEXT, MUTED, HAIRLINE = "#1A1D21", "#6B7280", "#9AA3AD"
#: What a file says of itself, without a date: the same map gives the same file.
_METADATA: dict[PictureFormat, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Creator": "Latentboard"},
}
_MARKERS = dict(zip(SHAPES, ("o", "D", "s", "^"), strict=True))
# Figures share font caches, which matplotlib does not guarantee to be thread-safe.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class _MarkerGroup:
    """Rows with the same marker: their positions, [n], and the marker's style."""

    name: str
    rows: NDArray[np.intp]
    colour: str
    marker: str = "o"
    hollow: bool = False


def map_picture(
    model: LatentVariableModel,
    dataset: Dataset,
    axes: tuple[int, int | None] | LatentProjection,
    form: PictureFormat,
    *,
    sd_behind: bool = False,
) -> bytes:
    """Draw the map of a fit, its rows coloured by label, for a paper or a slide.

    Text in an SVG is drawn as outlines, so that it does not depend on installed fonts; a PDF brings
    its font along, so that its text can be edited and searched.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to, in the order of its map.
        axes: the horizontal and the vertical latent dimension, from 0; None for the vertical one
            shows the row's number, as for a map of one dimension. Or a projection, which is drawn
            with the same unit on both axes.
        form: "png" (300 dots per inch), "svg" or "pdf".
        sd_behind: whether to draw the predictive sd as background, the other dimensions at 0, or
            the other directions of a projection at their mean.
            Omitted if the model has none, or if it is constant.

    Returns:
        The file's content.

    Raises:
        ConfigError: the map has no such dimension.
    """
    points, names = _positions(model.embedding_.mean, axes)
    projected = isinstance(axes, LatentProjection)
    with _ONE_AT_A_TIME:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        plot = figure.add_subplot()
        if sd_behind and (isinstance(axes, LatentProjection) or axes[1] is not None):
            _sd(figure, plot, model, dataset, points, axes)
        _rows(figure, plot, points, dataset)
        _style_axes(plot, *names)
        if projected:
            plot.set_aspect("equal", adjustable="datalim")
        content = io.BytesIO()
        with rc_context({"pdf.fonttype": 42}):  # TrueType
            figure.savefig(content, format=form, dpi=DOTS_PER_INCH, metadata=_METADATA[form])
    return content.getvalue()


def _positions(
    mean: FloatArray, axes: tuple[int, int | None] | LatentProjection
) -> tuple[FloatArray, tuple[str, str]]:
    """Positions of the rows, [N, 2], and the titles of the axes.

    Raises:
        ConfigError: the map has no such dimension.
    """
    if isinstance(axes, LatentProjection):
        return axes.points(mean), ("first axis of the best view", "second axis, in the same unit")
    for dimension in axes:
        if dimension is not None and not 0 <= dimension < mean.shape[1]:
            raise ConfigError(
                f"The map has no latent dimension {dimension + 1}: it has {mean.shape[1]}."
            )
    first, second = axes
    upright = np.arange(1.0, len(mean) + 1) if second is None else mean[:, second]
    across, up = ("row" if q is None else f"latent dimension {q + 1}" for q in axes)
    return np.column_stack([mean[:, first], upright]), (across, up)


# ---- the rows --------------------------------------------------------------------------------


def _rows(figure: Figure, plot: Axes, points: FloatArray, dataset: Dataset) -> None:
    for group in _marker_groups(dataset, len(points)):
        positions = points[group.rows]
        plot.scatter(
            positions[:, 0],
            positions[:, 1],
            s=16,
            marker=group.marker,
            facecolors="none" if group.hollow else group.colour,
            edgecolors=group.colour if group.hollow else "white",
            linewidths=0.8 if group.hollow else 0.35,
            label=group.name,
            rasterized=len(points) > MOST_VECTORS,
        )
    if dataset.labels is None:
        return
    title = _drawable(dataset.label_name or "label")
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


def _marker_groups(dataset: Dataset, n: int) -> Iterator[_MarkerGroup]:
    """The groups of rows in a legend, one per class; then other classes and missing labels."""
    if dataset.labels is None:
        yield _MarkerGroup("rows", np.arange(n), OKABE_ITO[0])
        return
    found = category_style(pd.Series(dataset.labels, dtype=object), dataset.label_name or "label")
    colours = (*OKABE_ITO, "#000000")
    for code, name in enumerate(found.names):
        shape = SHAPES[code // len(colours) % len(SHAPES)]
        rows = np.flatnonzero(found.codes == code)
        yield _MarkerGroup(_drawable(name), rows, colours[code % len(colours)], _MARKERS[shape])
    others = f"{found.others} others"
    for code, name, hollow in ((OTHER, others, False), (MISSING, "(missing)", True)):
        rows = np.flatnonzero(found.codes == code)
        if len(rows):
            yield _MarkerGroup(name, rows, HAIRLINE, hollow=hollow)


def _drawable(text: object) -> str:
    """``text`` on one line, shortened; characters that the font lacks become empty boxes."""
    from matplotlib.font_manager import findfont, get_font

    line = " ".join(str(text).split())
    if len(line) > LONGEST_NAME:
        line = line[: LONGEST_NAME - 1].rstrip() + "…"
    known = get_font(findfont(FONT)).get_charmap()
    # A leading underscore would keep a name out of the legend.
    line = f"\u200a{line}" if line.startswith("_") else line
    return "".join(letter if ord(letter) in known else "□" for letter in line)


# ---- background and axes ---------------------------------------------------------------------


def _sd(
    figure: Figure,
    plot: Axes,
    model: LatentVariableModel,
    dataset: Dataset,
    points: FloatArray,
    axes: tuple[int, int | None] | LatentProjection,
) -> None:
    can = model.capabilities
    if not (can.decoding and can.uncertainty):
        return
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    low, high = low - MARGIN * width, high + MARGIN * width
    x, y = (np.linspace(*ends, GRID) for ends in zip(low, high, strict=True))
    grid = np.column_stack([np.tile(x, GRID), np.repeat(y, GRID)])
    if isinstance(axes, LatentProjection):
        latent = axes.latent(grid)
    else:
        latent = np.zeros((GRID**2, model.embedding_.mean.shape[1]))
        latent[:, [q for q in axes if q is not None]] = grid
    value = _mean_sd(model, dataset, latent).reshape(GRID, GRID)
    if np.ptp(value) <= 1e-9 * np.abs(value).max():
        return
    image = plot.imshow(
        value,
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        aspect="auto",
        interpolation="bilinear",
        cmap="cividis_r",  # light: small sd; dark: large sd
        alpha=0.78,
    )
    bar = figure.colorbar(image, ax=plot, pad=0.02, fraction=0.05)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, labelfontfamily=FONT, color=HAIRLINE, labelcolor=MUTED)
    title = "predictive sd, mean over columns (sd of a column)"
    bar.set_label(title, size=7, family=FONT, color=TEXT)


def _mean_sd(model: LatentVariableModel, dataset: Dataset, latent: FloatArray) -> FloatArray:
    """Mean over columns of the predictive sd in units of the column's sd, at latent points."""
    standard = Standardiser.fit(dataset.X, list(dataset.feature_names))
    varies = ~standard.constant
    step = max(1, CELLS // dataset.X.shape[1])
    parts = []
    for start in range(0, len(latent), step):
        variance = model.decode(latent[start : start + step]).variance[:, varies]
        parts.append((np.sqrt(variance) / standard.scale[varies]).mean(axis=1))
    return np.concatenate(parts)


def _style_axes(plot: Axes, across: str, up: str) -> None:
    """Set titles, ticks and frame of the axes."""
    plot.set_xlabel(across, size=9, family=FONT, color=TEXT)
    plot.set_ylabel(up, size=9, family=FONT, color=TEXT)
    plot.tick_params(labelsize=8, labelfontfamily=FONT, color=HAIRLINE, labelcolor=MUTED)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        plot.spines[side].set_color(HAIRLINE)
