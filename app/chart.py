"""The map itself: draws it, takes clicks, boxes and lassos from it, and says what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import agreeing, canvas, figures, fitting, services, state
from app.appearance import Appearance, appearance
from app.atlas import label_colour
from app.axes import Axes, extent, place, positions
from app.colouring import Colouring, Numbers, part_of
from app.exploring import Ask, Choices, Grid, Point
from app.figures import ELLIPSE_SD, Scene
from app.opened import Opened
from app.regions import Region
from app.words import count, markdown, number, shortened
from lvmcore.data import Dataset

__all__ = ["MOST_DRAWN", "SEED", "axis_titles", "draw", "hover", "look_of", "picked"]

#: Rows drawn one by one at most; of more, so many are picked by a seed, over a picture of how many
#: lie where. A selection is decided over all rows, drawn or not.
MOST_DRAWN, PICKED, SEED = 20_000, 5000, 0
#: Rows with an ellipse at most.
MOST_ELLIPSES = 1000


def draw(opened: Opened, choices: Choices) -> None:
    """Draw the map."""
    grid = None if choices.ask is None else services.heatmap(opened.run, choices.ask)
    looks = appearance(opened.dataset, choices.size, choices.shape)
    key, turn = opened.key("map"), f"{opened.run} {choices.axes}"
    points = positions(opened.mean, choices.axes)
    ranges = extent(points)
    seen = canvas.closer(key, turn) or ranges
    rows = _rows(opened, choices, looks, picked(points, seen))
    canvas.draw(
        Scene(
            rows=rows,
            ranges=ranges,
            titles=axis_titles(choices.axes),
            alt="Map of the rows in two latent dimensions",
            turn=turn,
            grid=grid,
            density=_density(opened, choices, points, seen),
            inducing=_inducing(opened, choices),
            outlines=_outlines(choices),
            marked=_marked(opened, choices.axes, state.point(opened.run)),
        ),
        key=key,
        dark=choices.dark,
        take=partial(_take, opened, choices),
    )
    st.caption(_caption(opened, choices, grid, rows, looks))


def axis_titles(axes: Axes) -> tuple[str, str]:
    """What the axes show."""
    horizontal, vertical = (figures.axis_title(dimension).capitalize() for dimension in axes)
    return horizontal, vertical


def _take(opened: Opened, choices: Choices, what: canvas.Picked) -> None:
    """What a click, a box, a lasso or a double click on the map does."""
    match what:
        case canvas.Outline(corners):
            state.set_selection(opened.run, Region(choices.axes, (corners,)))
        case canvas.Row(row) if row < len(opened.mean):
            state.set_point(opened.run, Point(tuple(opened.mean[row].tolist()), row))
        case canvas.Ground(x, y):
            held = choices.ask.held if choices.ask is not None else (0.0,) * opened.dimensions
            state.set_point(opened.run, Point(place(held, choices.axes, x, y)))
        case _:
            state.set_point(opened.run, None)


# ---- what is drawn ---------------------------------------------------------------------------


def _rows(
    opened: Opened, choices: Choices, looks: Appearance, chosen: NDArray[np.intp]
) -> figures.Rows:
    """The rows that are drawn one by one."""
    measured = _measured(opened, choices.colour)
    look = _look(opened, choices)
    more = [name for name in (choices.size, choices.shape) if name is not None]
    lines = hover(opened.dataset, look, chosen, more)
    if measured is not None:
        title = measured.title.partition(",")[0]
        for line, value in zip(lines, measured.values[chosen], strict=True):
            line.append(f"{title}: {number(float(value), 2)}")
    selected = opened.selected()
    sd = None
    if choices.ellipses:
        sd = np.sqrt(opened.model.embedding_.variance[chosen][:, _pair(choices.axes)])
        if choices.axes[1] is None:  # its upright is the row's number, which is sure
            sd = np.column_stack([sd, np.zeros(len(sd))])
        bare = np.ones(len(chosen), dtype=bool)
        bare[figures.evenly(len(chosen), MOST_ELLIPSES)] = False
        sd[bare] = np.nan
    return figures.Rows(
        points=positions(opened.mean, choices.axes)[chosen],
        number=chosen,
        hover=lines,
        colouring=part_of(look, chosen),
        selected=None if selected is None else selected[chosen],
        sd=sd,
        size=None if looks.size is None else looks.size[chosen],
        shape=None
        if looks.shape is None
        else replace(looks.shape, symbol=looks.shape.symbol[chosen]),
    )


def picked(points: NDArray[np.float64], seen: figures.Ranges, among: int = 1) -> NDArray[np.intp]:
    """The rows that are drawn one by one: all, or some of those that lie where somebody looks.

    Args:
        points: of all rows, [N, 2].
        seen: the ranges that are looked at.
        among: how many maps there are side by side.
    """
    if len(points) <= MOST_DRAWN // among:
        return np.arange(len(points))
    inside = np.ones(len(points), dtype=np.bool_)
    for axis, (low, high) in enumerate(seen):
        inside &= (points[:, axis] >= low) & (points[:, axis] <= high)
    there = np.flatnonzero(inside)
    return there[figures.sampled(len(there), PICKED // among, SEED)]


def _look(opened: Opened, choices: Choices) -> Colouring:
    return _measured(opened, choices.colour) or look_of(opened.dataset, choices.colour)


def _density(
    opened: Opened, choices: Choices, points: NDArray[np.float64], seen: figures.Ranges
) -> tuple[str, figures.Ranges] | None:
    """How many of all rows lie where, for a map that cannot draw them all."""
    if len(points) <= MOST_DRAWN:
        return None
    look, selected = _look(opened, choices), opened.selected()
    return figures.density_picture(points, look, seen, selected=selected, dark=choices.dark), seen


def _measured(opened: Opened, colour: str | None) -> Numbers | None:
    """A colour that is no column of the table, but was measured about its rows."""
    if colour == agreeing.BY_STARTS:
        return agreeing.look(opened.run)
    return fitting.look(opened) if colour == fitting.BY_RESIDUAL else None


def look_of(dataset: Dataset, colour: str | None) -> Colouring:
    """How to colour the rows of a dataset by what was chosen among ``atlas.colours``."""
    if colour is None:
        return None
    for label in dataset.label_columns:
        if colour == label_colour(dataset, label):
            return services.colours(dataset, label)
    return services.colours(dataset, colour.removeprefix("column "))


def hover(
    dataset: Dataset, look: Colouring, chosen: NDArray[np.intp], more: Sequence[str] = ()
) -> list[list[str]]:
    """Lines about some of the rows, in the data's own names and units.

    Args:
        dataset: all rows.
        look: how they are coloured.
        chosen: positions of the rows to name.
        more: further columns to tell of.
    """
    shown: list[tuple[str, list[object]]] = []
    for label, labels in dataset.label_columns.items():
        shown.append((label, labels[chosen].tolist()))
    named = dataset.label_columns
    for name in dict.fromkeys([*([] if look is None else [look.title]), *more]):
        if name not in named and name in dataset.frame:
            shown.append((name, dataset.frame[name].iloc[chosen].tolist()))
    names = [f"row {shortened(name, 60)}" for name in dataset.row_ids[chosen]]
    return [
        [name, *(f"{shortened(title)}: {_cell(cells[i])}" for title, cells in shown)]
        for i, name in enumerate(names)
    ]


def _cell(cell: object) -> str:
    if pd.isna(cell):  # type: ignore[call-overload]
        return "(missing)"
    return number(cell, 6) if isinstance(cell, float) else shortened(cell, 60)


def _inducing(opened: Opened, choices: Choices) -> dict[str, NDArray[np.float64]]:
    if not choices.inducing:
        return {}
    return {path: Z[:, _pair(choices.axes)] for path, Z in opened.model.inducing_inputs_.items()}


def _pair(axes: Axes) -> list[int]:
    return [dimension for dimension in axes if dimension is not None]


def _outlines(choices: Choices) -> tuple[tuple[tuple[float, float], ...], ...]:
    drawn = choices.selection
    return drawn.polygons if isinstance(drawn, Region) and drawn.axes == choices.axes else ()


def _marked(opened: Opened, axes: Axes, point: Point | None) -> tuple[float, float] | None:
    if point is None:
        return None
    if point.row is not None:
        x, y = positions(opened.mean, axes)[point.row].tolist()
        return x, y
    upright = 0.0 if axes[1] is None else point.latent[axes[1]]
    return point.latent[axes[0]], upright


# ---- what is said ----------------------------------------------------------------------------


def _caption(
    opened: Opened, choices: Choices, grid: Grid | None, rows: figures.Rows, looks: Appearance
) -> str:
    """What the map shows and does not show, in a few plain sentences."""
    said = []
    if grid is not None and grid.flat:
        said.append(
            f"Nothing is drawn behind the rows: the value is {number(float(grid.value[0, 0]), 3)} "
            "everywhere on this map."
        )
    if len(rows.points) < len(opened.mean):
        said.append(
            "Every row is in the picture behind, which is denser where more of them lie; of "
            f"{count(len(opened.mean), 'row')} {count(len(rows.points), 'row')}, picked at random "
            f"(seed {SEED}) among those in sight, are drawn one by one. Selections are taken from "
            "all rows."
        )
    said += map(markdown, looks.said)
    if choices.colour == fitting.BY_RESIDUAL:
        said += fitting.about(opened)
    if choices.ask is not None and choices.ask.kind == "magnification":
        said.append(_magnified(opened, choices.ask))
    if choices.ellipses:
        several = len(figures.evenly(len(rows.points), MOST_ELLIPSES))
        what = f"{count(several, 'row')}, evenly spaced"
        if several == len(rows.points):
            what = "each row"
        said.append(f"Ellipses: posterior of {what}, {ELLIPSE_SD:g} sd.")
    if opened.model.capabilities.labels != "none":
        said.append(
            "Positions are those of the fit, which has seen the labels: how well the classes part "
            "here is no measure of accuracy on new rows."
        )
    said.append(
        "Click a row or any place to see what it looks like. Box, lasso and zoom are in the bar on "
        "the map; Shift and a drag is a lasso, Ctrl and the wheel zooms."
    )
    return " ".join(said)


def _magnified(opened: Opened, ask: Ask) -> str:
    """How to read the magnification factor."""
    size = "a unit square" if ask.axes[1] is not None else "a unit of length"
    said = (
        f"Magnification: how far the columns move over {size} of the map, in sd of the columns; "
        "rows that lie near each other where it is large differ more than it looks."
    )
    far = services.far_away(opened.run, ask)
    if far is None:
        return said
    return f"{said} Far from all rows, where the model knows nothing, it is {number(far, 3)}."
