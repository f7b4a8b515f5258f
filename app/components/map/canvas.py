"""The canvas that draws a map, with its events: clicks, boxes, lassos and a cursor.

Streamlit redraws its own charts at every selection, and reports only clicks. The canvas
(``static/map.js``) keeps its zoom, sends polygons instead of the rows inside them, and can have a
cursor that follows the mouse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import streamlit as st

from app.figures.canvas_scene import Ranges, Scene, scene_data
from app.figures.density import all_rows_files
from app.state.widgets import widget_value
from app.web import row_files

__all__ = [
    "Cleared",
    "ClickedPoint",
    "ClickedRow",
    "CursorPosition",
    "DrawnPolygon",
    "MapEvent",
    "MovedCategories",
    "cursor",
    "draw_canvas",
    "parse_cursor",
    "parse_event",
    "zoomed_ranges",
]

_STATIC = Path(str(files("app"))) / "static"

_SCRIPTS = (
    "markers.js",
    "scene.js",
    "all_rows.js",
    "canvas.js",
    "legend.js",
    "toolbar.js",
    "minimap.js",
    "map.js",
)
_map = st.components.v2.component(
    "latentboard.map",
    js="".join((_STATIC / name).read_text("utf-8") for name in _SCRIPTS),
    css=(_STATIC / "map.css").read_text("utf-8"),
)


@dataclass(frozen=True)
class ClickedRow:
    """A click on a row, by its position among the fitted rows."""

    number: int


@dataclass(frozen=True)
class ClickedPoint:
    """A click on a point without a row."""

    x: float
    y: float


@dataclass(frozen=True)
class DrawnPolygon:
    """A box or a lasso, by its corners."""

    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Cleared:
    """A double click, which clears the clicked point."""


@dataclass(frozen=True)
class MovedCategories:
    """Another order of the categories in the legend, by their positions among the names."""

    codes: tuple[int, ...]


MapEvent = ClickedRow | ClickedPoint | DrawnPolygon | MovedCategories | Cleared


@dataclass(frozen=True)
class CursorPosition:
    """Position of the cursor on the map.

    Attributes:
        x: horizontal coordinate.
        y: vertical coordinate.
        held: whether the cursor is fixed by a click or a key.
    """

    x: float
    y: float
    held: bool


def draw_canvas(
    scene: Scene,
    *,
    key: str,
    dark: bool,
    on_event: Callable[[MapEvent], None],
    zoom: Ranges | None = None,
) -> None:
    """Draw a map with clicks, boxes and lassos.

    Args:
        scene: the map to draw.
        key: key of the component.
        dark: whether the page is dark.
        on_event: called with each event, before the page is rerun.
        zoom: ranges that a scene with a new id opens with; None for the whole map. Another scene
            keeps the ranges that it has.
    """
    _map(
        key=key,
        data=_payload(scene, dark, zoom),
        default={"view": None},
        on_view_change=lambda: None,
        on_pick_change=partial(_handle_event, key, scene.id, on_event),
    )


def zoomed_ranges(key: str, scene_id: str, initial: Ranges | None = None) -> Ranges | None:
    """The ranges of a zoomed map; None for the whole map.

    Only a scene that asks for it, or has more rows than markers, reports its zoom.

    Args:
        key: key of the component.
        scene_id: id of the scene to draw.
        initial: the ranges that the scene opens with, until it reports others.
    """
    state = widget_value(key)
    view = None if state is None else state.get("view")
    if not isinstance(view, Mapping) or view.get("scene") != scene_id:
        return initial
    if view.get("x") is None:
        return None
    (left, right), (low, high) = ((float(v) for v in view[axis]) for axis in "xy")
    return (left, right), (low, high)


def _handle_event(key: str, scene_id: str, on_event: Callable[[MapEvent], None]) -> None:
    state = widget_value(key)
    event = None if state is None else parse_event(state.get("pick"), scene_id)
    if event is not None:
        on_event(event)


def parse_event(message: object, scene_id: str) -> MapEvent | None:
    """The event of a message; None for another scene, or a polygon of fewer than three corners.

    Args:
        message: the message of the browser.
        scene_id: id of the displayed scene.
    """
    if not isinstance(message, Mapping) or message.get("scene") != scene_id:
        return None
    match message.get("kind"):
        case "row":
            return ClickedRow(int(message["row"]))
        case "place":
            return ClickedPoint(float(message["x"]), float(message["y"]))
        case "box" | "lasso":
            corners = tuple((float(x), float(y)) for x, y in message["polygon"])
            return DrawnPolygon(corners) if len(corners) > 2 else None
        case "order":
            return MovedCategories(tuple(int(code) for code in message["codes"]))
        case _:
            return Cleared()


def cursor(scene: Scene, *, key: str, dark: bool) -> CursorPosition | None:
    """Draw a map with a cursor, and return its position; None before the first movement."""
    state = _map(
        key=key, data=_payload(scene, dark), default={"at": None}, on_at_change=lambda: None
    )
    return parse_cursor(state.at, scene.id)


def parse_cursor(message: object, scene_id: str) -> CursorPosition | None:
    """The cursor position of a message; None for another scene."""
    if not isinstance(message, Mapping) or message.get("scene") != scene_id:
        return None
    return CursorPosition(float(message["x"]), float(message["y"]), bool(message["held"]))


def _payload(scene: Scene, dark: bool, zoom: Ranges | None = None) -> dict[str, Any]:
    """The scene as JSON, with a digest that tells the browser whether it has changed."""
    found = scene_data(scene, dark=dark, addresses=_addresses(scene, dark))
    text = json.dumps(found, allow_nan=False)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return {"digest": digest, "scene": text, "zoom": zoom}


def _addresses(scene: Scene, dark: bool) -> dict[str, str]:
    """Addresses of the files with all rows of a large map and with pictures, by name."""
    found = {} if scene.all_rows is None else all_rows_files(scene.all_rows, dark=dark)
    if scene.pictures is not None:
        found["pictures"] = scene.pictures.content
    return {name: row_files.add(content) for name, content in found.items()}
