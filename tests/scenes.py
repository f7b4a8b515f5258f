"""What is drawn on a canvas, unpacked from what a page sends to the browser."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from app.figures.canvas_scene import Scene, scene_data

__all__ = ["Drawn", "drawn", "scenes"]


@dataclass(frozen=True)
class Drawn:
    """A map as the browser gets it."""

    data: dict[str, Any]

    def array(self, name: str) -> NDArray[Any]:
        """One of the rows' arrays: x, y, number, code, selected, hollow, size, symbol, sx, sy."""
        kinds = {"number": "<u4"} | dict.fromkeys(("code", "selected", "hollow", "symbol"), "u1")
        return unpacked(self.data["points"][name], kinds.get(name, "<f4"))

    @property
    def points(self) -> NDArray[np.float64]:
        """Where the rows are, [n, 2]."""
        return np.column_stack([self.array("x"), self.array("y")]).astype(np.float64)

    @property
    def heat(self) -> NDArray[np.float64]:
        """Values behind the rows, [size, size]."""
        size = self.data["heat"]["size"]
        return unpacked(self.data["heat"]["value"], "<f4").reshape(size, size)

    @property
    def looks(self) -> list[tuple[str, str]]:
        """Colour and marker of each row."""
        looks = [(look["colour"], look["shape"]) for look in self.data["looks"]]
        return [looks[code] for code in self.array("code")]

    @property
    def legend(self) -> list[str]:
        """Everything that the legend says."""
        said = []
        for line in self.data["legend"]:
            said += [line[name] for name in ("title", "low", "high") if name in line]
            said += [entry["text"] for entry in line.get("entries", ())]
        return said


def unpacked(text: str, kind: str) -> NDArray[Any]:
    """An array from base64 of its bytes."""
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def drawn(scene: Scene, *, dark: bool = False) -> Drawn:
    """A scene as the browser would get it."""
    return Drawn(json.loads(json.dumps(scene_data(scene, dark=dark))))


def scenes(page: AppTest) -> list[Drawn]:
    """The maps of a page, in its order."""
    return [
        Drawn(json.loads(json.loads(element.proto.json)["scene"]))
        for element in page.get("bidi_component")
        if element.proto.component_name == "latentboard.map"
    ]
