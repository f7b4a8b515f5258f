"""The map as it is drawn on a page: on a canvas, which says what is clicked, drawn and pointed at.

Streamlit's own charts are drawn anew for every selection, and tell the server of clicks only. This
one (``static/map.js``) keeps its zoom, sends outlines in place of the rows in them, and can have a
cursor that follows the mouse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import streamlit as st

from app import state
from app.figures.scene import Ranges, Scene, scene_data

__all__ = [
    "At",
    "Ground",
    "Nothing",
    "Outline",
    "Picked",
    "Row",
    "closer",
    "cursor",
    "draw",
    "heard",
    "picked",
]

_STATIC = Path(__file__).parent / "static"

_map = st.components.v2.component(
    "latentboard.map",
    js="".join((_STATIC / name).read_text("utf-8") for name in ("canvas.js", "map.js")),
    css=(_STATIC / "map.css").read_text("utf-8"),
)


@dataclass(frozen=True)
class Row:
    """A row was clicked: its position among the fitted rows."""

    number: int


@dataclass(frozen=True)
class Ground:
    """A place without a row was clicked."""

    x: float
    y: float


@dataclass(frozen=True)
class Outline:
    """A box or a lasso was drawn: its corners."""

    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Nothing:
    """A double click let go of what was clicked."""


Picked = Row | Ground | Outline | Nothing


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


def draw(scene: Scene, *, key: str, dark: bool, take: Callable[[Picked], None]) -> None:
    """Draw a map to click and to draw on.

    Args:
        scene: what is drawn.
        key: of the map.
        dark: whether the page is dark.
        take: called with what somebody did, before the page is drawn again.
    """
    _map(
        key=key,
        data=_sent(scene, dark),
        default={"view": None},
        on_view_change=lambda: None,
        on_pick_change=partial(_take, key, scene.turn, take),
    )


def closer(key: str, turn: str) -> Ranges | None:
    """The ranges that a map is zoomed into; None where all of it is seen, or all can be drawn.

    Only a scene with a picture of density asks the server for what lies where it is zoomed into.

    Args:
        key: of the map.
        turn: of the scene that is to be shown.
    """
    said = state.value(key)
    where = None if said is None else said.get("view")
    if not isinstance(where, Mapping) or where.get("turn") != turn:
        return None
    (left, right), (low, high) = ((float(v) for v in where[axis]) for axis in "xy")
    return (left, right), (low, high)


def _take(key: str, turn: str, take: Callable[[Picked], None]) -> None:
    said = state.value(key)
    found = None if said is None else picked(said.get("pick"), turn)
    if found is not None:
        take(found)


def picked(said: object, turn: str) -> Picked | None:
    """What was clicked or drawn; None where that is of another scene, or encloses nothing.

    Args:
        said: what the browser says.
        turn: of the scene that is shown.
    """
    if not isinstance(said, Mapping) or said.get("turn") != turn:
        return None
    match said.get("kind"):
        case "row":
            return Row(int(said["row"]))
        case "place":
            return Ground(float(said["x"]), float(said["y"]))
        case "box" | "lasso":
            corners = tuple((float(x), float(y)) for x, y in said["polygon"])
            return Outline(corners) if len(corners) > 2 else None
        case _:
            return Nothing()


def cursor(scene: Scene, *, key: str, dark: bool) -> At | None:
    """Draw a map with a cursor, and return where that is; None before it has moved."""
    found = _map(key=key, data=_sent(scene, dark), default={"at": None}, on_at_change=lambda: None)
    return heard(found.at, scene.turn)


def heard(said: object, turn: str) -> At | None:
    """Where the browser says that the cursor is; None where that is of another scene."""
    if not isinstance(said, Mapping) or said.get("turn") != turn:
        return None
    return At(float(said["x"]), float(said["y"]), bool(said["held"]))


def _sent(scene: Scene, dark: bool) -> dict[str, str]:
    """The scene as text, with a digest by which the browser knows whether anything changed."""
    text = json.dumps(scene_data(scene, dark=dark), allow_nan=False)
    return {"digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), "scene": text}
