"""A fit as an animated GIF: the map at the steps that recorded it, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np

from lvmcore.data.dataset import Dataset
from lvmcore.errors import DataError
from lvmcore.export.categories import CategoryStyle, class_style
from lvmcore.export.column_colours import DEFAULT_CATEGORIES, OKABE_ITO, CategoryColours
from lvmcore.export.map_markers import (
    FONT,
    HAIRLINE,
    MUTED,
    ONE_AT_A_TIME,
    TEXT,
    draw_rows,
    style_axes,
)
from lvmcore.results import FitStep, Snapshot

__all__ = ["fit_gif"]

WIDTH, HEIGHT, DOTS_PER_INCH = 6.4, 4.8, 100  # inches, and dots of an inch
#: Most pictures, evenly spaced from the first map to the last.
MOST_PICTURES = 80
#: Time of a picture and of the last one, milliseconds.
PICTURE, LAST = 100, 2500
MARGIN = 0.05
#: Mixtures of each colour with white.
MIXTURES = 10


def fit_gif(
    steps: Sequence[FitStep], dataset: Dataset, colours: CategoryColours = DEFAULT_CATEGORIES
) -> bytes:
    """The maps of a fit, one after the other, with the step and the bound above each.

    The axes hold the positions of all steps. They are the two most relevant dimensions of each
    step, which may be others at the next one.

    Args:
        steps: the steps of one start of a fit; those without a map are left out.
        dataset: the rows of the fit, or a sample of them: rows of files have no colours.
        colours: colours of the classes.

    Returns:
        A GIF that repeats.

    Raises:
        DataError: fewer than two steps have a map.
    """
    shown = [
        (step, step.snapshot)
        for step in steps
        if step.snapshot is not None and np.isfinite(step.snapshot.mean).any()
    ]
    if len(shown) < 2:
        raise DataError("The fit recorded fewer than two maps, so there is nothing to animate.")
    places = np.linspace(0, len(shown) - 1, min(len(shown), MOST_PICTURES)).round().astype(int)
    with ONE_AT_A_TIME:
        return _drawn([shown[i] for i in places], dataset, colours)


def _drawn(
    shown: Sequence[tuple[FitStep, Snapshot]], dataset: Dataset, colours: CategoryColours
) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(
        figsize=(WIDTH, HEIGHT), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white"
    )
    FigureCanvasAgg(figure)
    plot = figure.add_subplot()
    # Of files that stay in place the dataset is a sample, and the maps have any of their rows.
    classes = None if dataset.files is not None else class_style(dataset, colours)
    last = max(int(snapshot.rows.max()) for _, snapshot in shown)
    whole = np.full((last + 1 if classes is None else len(classes.codes), 2), np.nan)
    groups = draw_rows(figure, plot, whole, classes)
    style_axes(plot, "most relevant latent dimension", "second most relevant dimension")
    title = plot.set_title(_title(shown[-1][0]), size=9, family=FONT, color=MUTED, loc="left")
    positions = np.concatenate([snapshot.mean for _, snapshot in shown])
    positions = positions[np.isfinite(positions).all(axis=1)]
    low, high = positions.min(axis=0), positions.max(axis=0)
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    plot.set_xlim(low[0] - margin[0], high[0] + margin[0])
    plot.set_ylim(low[1] - margin[1], high[1] + margin[1])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes stay where they are
    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette(classes))
    pictures = []
    for step, snapshot in shown:
        whole[:] = np.nan
        whole[snapshot.rows] = snapshot.mean
        for rows, markers in groups:
            markers.set_offsets(whole[rows])
        title.set_text(_title(step))
        drawn = io.BytesIO()
        figure.savefig(drawn, format="rgba")
        size = (round(WIDTH * DOTS_PER_INCH), round(HEIGHT * DOTS_PER_INCH))
        picture = Image.frombytes("RGBA", size, drawn.getvalue()).convert("RGB")
        pictures.append(picture.quantize(palette=palette, dither=Image.Dither.NONE))
    sink = io.BytesIO()
    pictures[0].save(
        sink,
        "GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[*[PICTURE] * (len(pictures) - 1), LAST],
        loop=0,
    )
    return sink.getvalue()


def _palette(classes: CategoryStyle | None) -> list[int]:
    """The colours of the figures, each in some mixtures with white: red, green, blue, and so on."""
    of_rows = [OKABE_ITO[0]] if classes is None else [colour for colour, _ in classes.looks()]
    colours = list(dict.fromkeys((*of_rows, "#000000", TEXT, MUTED, HAIRLINE)))
    pure = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in colours])
    share = np.linspace(0.0, 1.0, MIXTURES)[:, None, None]
    mixed: list[int] = np.round(255 + share * (pure - 255)).astype(int).ravel().tolist()
    return mixed


def _title(step: FitStep) -> str:
    bound = f", bound {step.objective:.6g} nats" if math.isfinite(step.objective) else ""
    return f"step {step.iteration}{bound}"
