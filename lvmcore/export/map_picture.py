"""Figures of a map for print, drawn by matplotlib: PNG, SVG and PDF."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lvmcore.errors import ConfigError
from lvmcore.export.categories import class_style
from lvmcore.export.column_colours import DEFAULT_CATEGORIES, CategoryColours
from lvmcore.export.map_markers import (
    FONT,
    HAIRLINE,
    MUTED,
    ONE_AT_A_TIME,
    TEXT,
    draw_rows,
    style_axes,
)
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
#: What a file says of itself, without a date: the same map gives the same file.
_METADATA: dict[PictureFormat, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Creator": "Latentboard"},
}


def map_picture(
    model: LatentVariableModel,
    dataset: Dataset,
    axes: tuple[int, int | None] | LatentProjection,
    form: PictureFormat,
    *,
    sd_behind: bool = False,
    colours: CategoryColours = DEFAULT_CATEGORIES,
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
        colours: colours of the classes.

    Returns:
        The file's content.

    Raises:
        ConfigError: the map has no such dimension.
    """
    points, names = _positions(model.embedding_.mean, axes)
    projected = isinstance(axes, LatentProjection)
    with ONE_AT_A_TIME:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        plot = figure.add_subplot()
        if sd_behind and (isinstance(axes, LatentProjection) or axes[1] is not None):
            _sd(figure, plot, model, dataset, points, axes)
        rasterised = len(points) > MOST_VECTORS
        draw_rows(figure, plot, points, class_style(dataset, colours), rasterised=rasterised)
        style_axes(plot, *names)
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


# ---- background ------------------------------------------------------------------------------


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
