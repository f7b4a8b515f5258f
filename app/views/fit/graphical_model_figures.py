"""A graphical model as SVG, in plate notation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from app.analysis.graphical_models.graphical_model import (
    GraphicalModel,
    Kind,
    Plate,
    Variable,
    parse_symbol,
)
from app.figures.theme import page_colours

__all__ = ["graphical_model_svg"]

Point = tuple[float, float]

#: Distances of columns and of rows, in pixels.
_COLUMN, _ROW = 96, 96
#: Distance of the edge of the picture from the centres of nodes, and from frames.
_REACH, _EDGE = 30, 2
#: Distance from a node's centre to the start or the end of an arrow.
_RADIUS: dict[Kind, float] = {"observed": 21, "latent": 21, "function": 19, "parameter": 4}
#: Distance of a plate from the centres of its nodes, of the innermost one and for each inside it.
_INNER, _STEP = 31, 7
_LABEL = 15  # height of the label below the nodes of a plate
_HEAD = 8  # length of an arrow head


class Box(NamedTuple):
    """A rectangle: its left upper corner and its sides, in pixels."""

    x: float
    y: float
    width: float
    height: float


def graphical_model_svg(model: GraphicalModel, *, dark: bool) -> str:
    """Draw a graphical model.

    Observed variables are shaded circles, latent ones open circles, parameters dots, and functions
    of other variables squares. Arrows of the inference are dashed.

    Args:
        model: the model.
        dark: whether the page is dark.

    Returns:
        The picture as SVG text, in the colours of the page.
    """
    colours = page_colours(dark)
    centre = {one.symbol: (one.at[0] * _COLUMN, one.at[1] * _ROW) for one in model.variables}
    frames = [_frame(plate, model.plates, centre) for plate in model.plates]
    left, top, width, height = _bounds(centre, frames)
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": f"{width:g}",
            "height": f"{height:g}",
            "viewBox": f"{left:g} {top:g} {width:g} {height:g}",
            "role": "img",
            "color": colours.text,
            "font-family": "Inter, Helvetica, Arial, sans-serif",
        },
    )
    ET.SubElement(svg, "title").text = model.description
    for plate, frame in zip(model.plates, frames, strict=True):
        _draw_plate(svg, plate.label, frame, colours.muted, inner=not _depth(model.plates, plate))
    for dashed, edges in ((False, model.edges), (True, model.inference_edges)):
        for start, end in edges:
            radii = _RADIUS[model[start].kind], _RADIUS[model[end].kind]
            _draw_arrow(svg, centre[start], centre[end], radii, dashed=dashed)
    for one in model.variables:
        rises = any(
            centre[end][1] < centre[start][1] for start, end in model.edges if start == one.symbol
        )
        _draw_variable(svg, one, centre[one.symbol], (colours.panel, colours.muted), rises=rises)
    return ET.tostring(svg, encoding="unicode")


def _frame(plate: Plate, plates: Sequence[Plate], centre: Mapping[str, Point]) -> Box:
    """The frame of a plate: around its nodes, and around the frames of plates that it overlaps."""
    space = _INNER + _STEP * _depth(plates, plate)
    xs, ys = zip(*(centre[symbol] for symbol in plate.symbols), strict=True)
    width, height = max(xs) - min(xs) + 2 * space, max(ys) - min(ys) + 2 * space + _LABEL
    return Box(min(xs) - space, min(ys) - space, width, height)


def _depth(plates: Sequence[Plate], plate: Plate) -> int:
    """How many frames are inside that of a plate: later plates with a variable of its own."""
    own = set(plate.symbols)
    later = plates[plates.index(plate) + 1 :]
    return max((1 + _depth(plates, one) for one in later if own & set(one.symbols)), default=0)


def _bounds(centre: Mapping[str, Point], frames: Sequence[Box]) -> Box:
    """The whole picture: the frames, and the nodes with their symbols."""
    xs, ys = zip(*centre.values(), strict=True)
    left = min(*(x - _REACH for x in xs), *(one.x - _EDGE for one in frames))
    top = min(*(y - _REACH for y in ys), *(one.y - _EDGE for one in frames))
    right = max(*(x + _REACH for x in xs), *(one.x + one.width + _EDGE for one in frames))
    bottom = max(*(y + _REACH for y in ys), *(one.y + one.height + _EDGE for one in frames))
    return Box(left, top, right - left, bottom - top)


def _draw_plate(svg: ET.Element, label: str, frame: Box, colour: str, *, inner: bool) -> None:
    """A frame with its label: below at the right, or at the left if it holds other frames."""
    sides = {name: f"{value:g}" for name, value in frame._asdict().items()}
    ET.SubElement(svg, "rect", sides | {"rx": "6", "fill": "none", "stroke": colour})
    anchor, x = ("end", frame.x + frame.width - 7) if inner else ("start", frame.x + 7)
    at = {"x": f"{x:g}", "y": f"{frame.y + frame.height - 6:g}", "text-anchor": anchor}
    ET.SubElement(svg, "text", at | {"font-size": "11", "fill": colour}).text = label


def _draw_arrow(
    svg: ET.Element,
    start: Point,
    end: Point,
    radii: tuple[float, float],
    *,
    dashed: bool,
) -> None:
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0)
    across, down = (x1 - x0) / length, (y1 - y0) / length
    first = (x0 + across * (radii[0] + 2), y0 + down * (radii[0] + 2))
    tip = (x1 - across * (radii[1] + 2), y1 - down * (radii[1] + 2))
    base = (tip[0] - across * _HEAD, tip[1] - down * _HEAD)
    line = dict(zip(("x1", "y1", "x2", "y2"), (*first, *base), strict=True))
    looks = {"stroke": "currentColor", "stroke-width": "1.3"}
    if dashed:
        looks["stroke-dasharray"] = "4 3"
    ET.SubElement(svg, "line", {name: f"{value:.1f}" for name, value in line.items()} | looks)
    side = _HEAD * 0.42
    corners = (
        tip,
        (base[0] - down * side, base[1] + across * side),
        (base[0] + down * side, base[1] - across * side),
    )
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    ET.SubElement(svg, "polygon", {"points": points, "fill": "currentColor"})


def _draw_variable(
    svg: ET.Element,
    one: Variable,
    centre: Point,
    fills: tuple[str, str],
    *,
    rises: bool,
) -> None:
    """Draw a node and its symbol; that of a parameter stands below it if its arrow rises."""
    x, y = centre
    inside, shade = fills
    r = _RADIUS[one.kind]
    if one.kind == "parameter":
        circle = {"cx": f"{x:g}", "cy": f"{y:g}", "r": f"{r:g}", "fill": "currentColor"}
        ET.SubElement(svg, "circle", circle)
        _draw_symbol(svg, one.symbol, x, y + 21 if rises else y - 11)
        return
    outline = {"stroke": "currentColor", "stroke-width": "1.3"}
    for fill in fills if one.kind == "observed" else (inside,):  # the shade is translucent
        look = outline | {"fill": fill, "fill-opacity": "0.35" if fill == shade else "1"}
        if one.kind == "function":
            box = {"x": x - r, "y": y - r, "width": 2 * r, "height": 2 * r, "rx": 3.0}
            ET.SubElement(svg, "rect", {name: f"{v:g}" for name, v in box.items()} | look)
        else:
            ET.SubElement(svg, "circle", {"cx": f"{x:g}", "cy": f"{y:g}", "r": f"{r:g}"} | look)
    _draw_symbol(svg, one.symbol, x, y + 5)


def _draw_symbol(svg: ET.Element, text: str, x: float, y: float) -> None:
    """A symbol with its subscript and superscript, centred at a point of its base line."""
    symbol = parse_symbol(text)
    style = "italic" if len(symbol.base) == 1 else "normal"
    size = "16" if len(symbol.base) == 1 else "13"
    look = {"font-size": size, "font-style": style, "text-anchor": "middle", "fill": "currentColor"}
    drawn = ET.SubElement(svg, "text", {"x": f"{x:g}", "y": f"{y:g}"} | look)
    drawn.text = symbol.base
    raised = 0
    for part, shift in ((symbol.above, -6), (symbol.below, 4)):
        if part:
            small = ET.SubElement(drawn, "tspan", {"dy": f"{shift - raised}", "font-size": "11"})
            small.text = part
            raised = shift
