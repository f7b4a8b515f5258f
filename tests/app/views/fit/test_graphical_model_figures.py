"""Graphical models as SVG: what the drawing encloses, joins and shades."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest

from app.analysis.graphical_models.graphical_model import GraphicalModel
from app.analysis.graphical_models.model_families import FAMILIES
from app.figures.theme import page_colours
from app.views.fit.graphical_model_figures import graphical_model_svg

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = pytest.mark.parametrize("model", [model for _, model in FAMILIES], ids=lambda m: m.title)

Point = tuple[float, float]
Box = tuple[float, float, float, float]


def drawn(model: GraphicalModel) -> ET.Element:
    return ET.fromstring(graphical_model_svg(model, dark=False))


def numbers(element: ET.Element, *names: str) -> tuple[float, ...]:
    return tuple(float(element.attrib[name]) for name in names)


def boxes(svg: ET.Element) -> list[Box]:
    """Left, top, right and bottom of the frames of the plates."""
    found = []
    for one in svg.iter(f"{SVG}rect"):
        if one.attrib["fill"] == "none":
            x, y, width, height = numbers(one, "x", "y", "width", "height")
            found.append((x, y, x + width, y + height))
    return found


def centres(model: GraphicalModel, svg: ET.Element) -> dict[str, Point]:
    """Centres of the nodes, by the places of the circles and squares in the order of drawing."""
    found: list[Point] = []
    for one in svg:
        if one.tag == f"{SVG}circle":
            cx, cy = numbers(one, "cx", "cy")
            found.append((cx, cy))
        elif one.tag == f"{SVG}rect" and one.attrib["fill"] != "none":
            x, y, side = numbers(one, "x", "y", "width")
            found.append((x + side / 2, y + side / 2))
    distinct = list(dict.fromkeys(found))  # an observed node is two circles
    return dict(zip((one.symbol for one in model.variables), distinct, strict=True))


def is_inside(point: Point, box: Box, margin: float = 0.0) -> bool:
    (x, y), (left, top, right, bottom) = point, box
    return left + margin <= x <= right - margin and top + margin <= y <= bottom - margin


@DRAWN
def test_a_frame_holds_the_variables_of_its_plate_and_no_other(model: GraphicalModel) -> None:
    svg = drawn(model)
    at = centres(model, svg)
    for plate, box in zip(model.plates, boxes(svg), strict=True):
        own = set(plate.symbols)
        radius = 21
        assert all(is_inside(at[symbol], box, radius) for symbol in own)
        for one in model.variables:
            if one.symbol not in own:
                reach = 4 if one.kind == "parameter" else radius
                assert not is_inside(at[one.symbol], box, -reach), (plate.label, one.symbol)


@DRAWN
def test_arrows_join_nodes_without_crossing_others(model: GraphicalModel) -> None:
    svg = drawn(model)
    at = centres(model, svg)
    lines = [numbers(one, "x1", "y1", "x2", "y2") for one in svg.iter(f"{SVG}line")]
    edges = (*model.edges, *model.inference_edges)
    assert len(lines) == len(edges)
    for (start, end), (x0, y0, x1, y1) in zip(edges, lines, strict=True):
        whole = math.dist(at[start], at[end])
        assert 0 < math.dist((x0, y0), (x1, y1)) < whole
        for symbol, (x, y) in at.items():
            steps = [k / 50 for k in range(51)]
            nearest = min(
                math.dist((x, y), (x0 + t * (x1 - x0), y0 + t * (y1 - y0))) for t in steps
            )
            reach = 4 if model[symbol].kind == "parameter" else 19
            assert nearest > reach, (start, end, symbol)


@DRAWN
def test_all_of_it_is_in_the_picture(model: GraphicalModel) -> None:
    svg = drawn(model)
    left, top, width, height = (float(part) for part in svg.attrib["viewBox"].split())
    assert numbers(svg, "width", "height") == (width, height)
    picture = (left, top, left + width, top + height)
    for box in boxes(svg):
        assert is_inside(box[:2], picture, 1)
        assert is_inside(box[2:], picture, 1)
    for text in svg.iter(f"{SVG}text"):
        x, y = numbers(text, "x", "y")
        assert is_inside((x, y), picture, 7)


@DRAWN
def test_observed_variables_alone_are_shaded(model: GraphicalModel) -> None:
    shaded = [one for one in drawn(model) if one.attrib.get("fill-opacity") == "0.35"]
    assert len(shaded) == sum(one.kind == "observed" for one in model.variables)


def test_the_colours_are_those_of_the_page() -> None:
    _, model = FAMILIES[0]
    for dark in (False, True):
        svg = ET.fromstring(graphical_model_svg(model, dark=dark))
        assert svg.attrib["color"] == page_colours(dark).text
        assert {one.attrib["fill"] for one in svg.iter(f"{SVG}text")} == {
            "currentColor",
            page_colours(dark).muted,
        }


def test_a_reader_of_the_screen_hears_the_description() -> None:
    _, model = FAMILIES[0]
    title = drawn(model).find(f"{SVG}title")
    assert title is not None
    assert title.text == model.description
