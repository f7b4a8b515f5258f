"""A map of rows with a cursor on it that follows the mouse: where it is, comes back as it moves.

Streamlit's charts tell the server of clicks only. This one is drawn by ``static/cursor.js`` on a
canvas: rows, a heatmap behind them, a curve and lettered marks, and the cursor. The arrow keys move
it too; a click holds it in its place until the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.colouring import Colouring
from app.exploring import Grid
from app.figures import palette
from app.figures.theme import accent, ink, ramp

__all__ = ["HEIGHT", "At", "Scene", "draw", "heard"]

FloatArray = NDArray[np.float64]

HEIGHT = 520
#: Digits of coordinates that are sent: a tenth of a pixel.
_DIGITS = 4

_map = st.components.v2.component(
    "latentboard.cursor", js=(Path(__file__).parent / "static" / "cursor.js").read_text("utf-8")
)


@dataclass(frozen=True)
class At:
    """Where the cursor is on the map.

    Attributes:
        x: horizontal coordinate.
        y: vertical coordinate.
        held: whether a click or a key holds it there.
    """

    x: float
    y: float
    held: bool


@dataclass(frozen=True)
class Scene:
    """What is drawn.

    Attributes:
        points: the rows, [n, 2].
        colouring: of these rows.
        ranges: of both axes.
        titles: of both axes.
        alt: what it shows, for a screen reader.
        grid: the heatmap behind.
        selected: which rows stand out, [n]; None for all.
        path: a curve, [P, 2].
        marks: letters and where they are.
        start: where the cursor is put; None shows none.
        turn: a scene of another turn puts the cursor back to ``start``.
    """

    points: FloatArray
    colouring: Colouring
    ranges: tuple[tuple[float, float], tuple[float, float]]
    titles: tuple[str, str]
    alt: str
    grid: Grid | None = None
    selected: NDArray[np.bool_] | None = None
    path: FloatArray | None = None
    marks: Mapping[str, tuple[float, float]] | None = None
    start: tuple[float, float] | None = None
    turn: str = ""


def draw(scene: Scene, *, key: str, dark: bool) -> At | None:
    """Draw the map, and return where the cursor is; None before it has moved."""
    found = _map(key=key, data=_data(scene, dark), default={"at": None}, on_at_change=lambda: None)
    return heard(found.at, scene)


def heard(said: object, scene: Scene) -> At | None:
    """Where the browser says that the cursor is; None where that is of another scene."""
    if not isinstance(said, Mapping) or said.get("turn") != scene.turn:
        return None
    return At(float(said["x"]), float(said["y"]), bool(said["held"]))


def _data(scene: Scene, dark: bool) -> dict[str, Any]:
    looks, codes = palette.of_rows(scene.colouring, len(scene.points), dark=dark)
    n = len(scene.points)
    shown: dict[str, Any] = {
        "x": list(scene.ranges[0]),
        "y": list(scene.ranges[1]),
        "titles": list(scene.titles),
        "alt": scene.alt,
        "height": HEIGHT,
        "radius": 4 if n <= 500 else 3.2 if n <= 2000 else 2.2,
        "looks": [{"colour": colour, "shape": shape} for colour, shape in looks],
        "points": {"x": _short(scene.points[:, 0]), "y": _short(scene.points[:, 1]), "c": codes},
        "marks": [{"text": t, "x": x, "y": y} for t, (x, y) in (scene.marks or {}).items()],
        "at": None if scene.start is None else list(scene.start),
        "turn": scene.turn,
        "ink": {**vars(ink(dark)), "accent": accent(dark)},
        "path": None,
        "heat": None,
    }
    if scene.selected is not None:
        shown["points"]["s"] = scene.selected.astype(int).tolist()
    if scene.path is not None:
        shown["path"] = {"x": _short(scene.path[:, 0]), "y": _short(scene.path[:, 1])}
    if scene.grid is not None and not scene.grid.flat:
        shown["heat"] = _heat(scene.grid, dark)
    return shown


def _heat(grid: Grid, dark: bool) -> dict[str, Any]:
    low, high = grid.limits or (float(grid.value.min()), float(grid.value.max()))
    share = ((grid.value - low) / max(high - low, 1e-300)).clip(0, 1)
    colours = palette.steps(ramp(sure_is_low=grid.sure_is_low, dark=dark), palette.LEVELS)
    levels = (share * (palette.LEVELS - 1)).round().astype(int)
    return {"size": len(grid.x), "value": levels.ravel().tolist(), "ramp": colours}


def _short(values: Sequence[float] | FloatArray) -> list[float]:
    found: list[float] = np.round(values, _DIGITS).tolist()
    return found
