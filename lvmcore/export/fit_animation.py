"""The map forming during a fit, as an animation: GIF or MP4."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

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
from lvmcore.export.map_markers import FONT, MUTED, ONE_AT_A_TIME, draw_rows, style_axes
from lvmcore.results import FitStep, Snapshot

__all__ = ["NO_ANIMATION", "fit_animation"]

WIDTH, HEIGHT, DOTS_PER_INCH = 6.4, 4.8, 100  # inches, and dots of an inch
#: Most frames, evenly spaced from the first map to the last.
MOST_FRAMES = 80
MARGIN = 0.05
#: Why a run has none.
NO_ANIMATION = "The fit recorded fewer than two maps, so there is nothing to animate."


def fit_animation(
    steps: Sequence[FitStep], form: AnimationFormat, classes: CategoryStyle | None = None
) -> bytes:
    """The maps of a fit, one after the other, with the step and the bound above each.

    The axes hold the positions of all steps. They are the two most relevant dimensions of each
    step, which may be others at the next one.

    Args:
        steps: the steps of one start of a fit; those without a map are left out.
        form: "gif" or "mp4".
        classes: classes of the rows of the fit with their colours; None without classes, and for a
            fit to files that stay in place, whose maps have any of their rows.

    Returns:
        The file's content.

    Raises:
        DataError: fewer than two steps have a map.
        UnsupportedError: the package that writes such a file is not installed.
    """
    check_animation(form)
    shown = [
        (step, step.snapshot)
        for step in steps
        if step.snapshot is not None and np.isfinite(step.snapshot.mean).any()
    ]
    if len(shown) < 2:
        raise DataError(NO_ANIMATION)
    places = np.linspace(0, len(shown) - 1, min(len(shown), MOST_FRAMES)).round().astype(int)
    colours = [OKABE_ITO[0]] if classes is None else [colour for colour, _ in classes.looks()]
    with ONE_AT_A_TIME:
        frames = _frames([shown[i] for i in places], classes)
        return animation_file(FrameSequence(frames, colours), form)


def _frames(
    shown: Sequence[tuple[FitStep, Snapshot]], classes: CategoryStyle | None
) -> Iterator[NDArray[np.uint8]]:
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(WIDTH, HEIGHT), dpi=DOTS_PER_INCH, layout="constrained", facecolor="white"
    )
    plot = figure.add_subplot()
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

    def move(number: int) -> None:
        step, snapshot = shown[number]
        whole[:] = np.nan
        whole[snapshot.rows] = snapshot.mean
        for rows, markers in groups:
            markers.set_offsets(whole[rows])
        title.set_text(_title(step))

    yield from drawn_frames(figure, [*(one for _, one in groups), title], move, len(shown))


def _title(step: FitStep) -> str:
    bound = f", bound {step.objective:.6g} nats" if math.isfinite(step.objective) else ""
    return f"step {step.iteration}{bound}"
