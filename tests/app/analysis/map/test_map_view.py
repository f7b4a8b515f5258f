"""The view of a map as a text and as JSON: any view comes back, any text opens to something."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis.map import view_text as module
from app.analysis.map.map_view import (
    BEST,
    DECODED_MEAN,
    NO_BACKGROUND,
    OF_ONE_COLUMN,
    MapOptions,
    MapView,
    available_view,
    without_map_parts,
)
from app.analysis.map.regions import Region
from app.analysis.map.selections import RowFilter
from app.analysis.map.view_text import (
    LONGEST_TEXT,
    OpenedView,
    left_out_sentence,
    open_view_json,
    open_view_text,
    view_json,
    view_text,
)
from lvmcore.projection import LatentProjection

PROJECTION = LatentProjection.from_arrays(
    np.array([[0.1, 0.0], [1 / 3, 0.2], [0.0, 2.5]]),
    np.array([[1.0, 0.0], [0.0, 0.7], [0.3, 1.0]]),
    np.array([0.1, -0.2, 1e-7]),
)
NEW = MapView((0, 2), "label", OF_ONE_COLUMN, ellipses=True, tab="Relevance")
OPTIONS = MapOptions(
    new=NEW,
    dimensions=3,
    best=PROJECTION,
    colours={"label": "label: town", "column höhe <b>": "höhe <b>", "": "one colour"},
    backgrounds={
        NO_BACKGROUND: 0,
        OF_ONE_COLUMN: 0,
        DECODED_MEAN: 0,
        "class probability": 3,
        "class entropy": 1,
    },
    drawn=(OF_ONE_COLUMN, DECODED_MEAN, "class probability"),
    columns=4,
    sizes=["width", "höhe <b>"],
    shapes=["town"],
    rows=20,
    ellipses=True,
    inducing=True,
    held_out=True,
    tabs=("Point", "Selection", "Columns", "Relevance"),
    pictures=True,
)

coordinates = st.floats(-1e3, 1e3)
polygons = st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=8).map(tuple)
axes = st.sampled_from([(0, 1), (2, 0), (1, 2)])
ranges = st.tuples(coordinates, st.floats(1e-3, 9.0)).map(lambda at: (at[0], at[0] + at[1]))
selections = (
    st.none()
    | st.builds(
        Region,
        axes | st.just(PROJECTION),
        st.lists(polygons, min_size=1, max_size=2).map(tuple),
    )
    | st.builds(RowFilter, st.none() | st.text(), st.just("contains"), st.text())
    | st.builds(RowFilter, st.text(), st.just("at least"), st.floats(-1e99, 1e99))
)
views = st.builds(
    MapView,
    axes=axes | st.just(BEST),
    colour=st.sampled_from([*OPTIONS.colours]),
    background=st.sampled_from([*OPTIONS.backgrounds]),
    column=st.none() | st.integers(0, 3),
    noise=st.booleans(),
    contours=st.booleans(),
    group_labels=st.booleans(),
    pictures=st.booleans(),
    label=st.integers(0, 2),
    at_point=st.booleans(),
    ellipses=st.booleans(),
    size=st.sampled_from([None, *OPTIONS.sizes]),
    shape=st.sampled_from([None, *OPTIONS.shapes]),
    inducing=st.booleans(),
    held_out=st.booleans(),
    tab=st.sampled_from([*OPTIONS.tabs]),
    row=st.none() | st.integers(0, 19),
    place=st.none() | st.tuples(coordinates, coordinates, coordinates),
    zoom=st.none() | st.tuples(ranges, ranges),
    selection=selections,
).map(lambda view: available_view(view, OPTIONS)[0])


@given(views)
def test_any_view_comes_back_from_its_text_and_its_json(view: MapView) -> None:
    text, without = view_text(view, OPTIONS)
    assert len(text) <= LONGEST_TEXT
    expected = view if without == () else replace(view, selection=None)
    assert without in ((), ("selection",))
    assert open_view_text(text, OPTIONS) == OpenedView(expected)
    stored = json.loads(json.dumps(view_json(view, OPTIONS)))
    assert open_view_json(stored, OPTIONS) == OpenedView(view)


@given(st.text(max_size=60) | st.from_regex(r"[0-9]\.[A-Za-z0-9_-]*", fullmatch=True))
def test_any_text_opens_to_a_view_that_the_map_has(text: str) -> None:
    opened = open_view_text(text, OPTIONS)
    assert available_view(opened.view, OPTIONS) == (opened.view, ())
    if opened.view == NEW and text:
        assert opened.left_out or text == "1,3"
    sentence = left_out_sentence(opened)
    assert sentence is None or sentence.startswith("The view ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*asdict(NEW), "attempt", "more"]), json_values))
def test_any_json_opens_to_a_view_that_the_map_has(content: dict[str, Any]) -> None:
    opened = open_view_json(content, OPTIONS)
    assert available_view(opened.view, OPTIONS) == (opened.view, ())


@settings(max_examples=50)
@given(views, st.data())
def test_a_text_that_was_cut_opens_with_what_comes_first(
    view: MapView, data: st.DataObject
) -> None:
    text, without = view_text(replace(view, selection=None), OPTIONS)
    if not text.startswith("1.") or without:
        return
    cut = text[: data.draw(st.integers(2, len(text) - 1))]
    opened = open_view_text(cut, OPTIONS)
    assert opened.left_out in (("end",), ("all",))
    assert open_view_text(f"{text}).", OPTIONS) == OpenedView(
        replace(view, selection=None), ("end",)
    )


def test_texts_are_short_and_those_of_the_axes_are_the_old_ones() -> None:
    assert view_text(NEW, OPTIONS) == ("", ())
    assert view_text(replace(NEW, axes=(2, 0)), OPTIONS) == ("3,1", ())
    assert view_text(replace(NEW, axes=BEST), OPTIONS) == ("best", ())
    for text, expected in (("", NEW.axes), ("3,1", (2, 0)), ("best", BEST)):
        assert open_view_text(text, OPTIONS) == OpenedView(replace(NEW, axes=expected))
    coloured = replace(NEW, axes=(2, 0), colour="column höhe <b>", tab="Columns")
    assert len(view_text(coloured, OPTIONS)[0]) < 70


def test_what_the_map_lacks_is_left_out_and_named() -> None:
    content = {
        "axes": [1, 1],
        "colour": "column <script>",
        "column": 9,
        "zoom": [[2, 1], [0, 1]],
        "row": 20,
        "shape": None,
        "plumage": True,
        "selection": {"column": "a", "test": "smells of", "value": 1},
        "inducing": True,
    }
    opened = open_view_json(content, OPTIONS)
    assert opened.view == replace(NEW, inducing=True)
    assert left_out_sentence(opened) == (
        "The view was opened without: zoom, shape, what a newer version added, selection, axes, "
        "colour, decoded column, point."
    )
    flat = replace(OPTIONS, new=replace(NEW, axes=None), dimensions=1, best=None)
    assert open_view_text("2,1", flat) == OpenedView(replace(NEW, axes=None), ("axes",))


def test_a_newer_text_opens_what_is_known() -> None:
    text, _ = view_text(replace(NEW, noise=True), OPTIONS)
    opened = open_view_text(f"2{text[1:]}", OPTIONS)
    assert opened == OpenedView(replace(NEW, noise=True), ("newer",))


@pytest.mark.parametrize(
    "written",
    [
        "[" * 50_000,
        '{"place":' + "[" * 50_000,
        '{"place":[1e999,0,0]}',
        '{"place":[NaN,0,0]}',
        '{"row":' + "9" * 5000 + "}",
        '{"selection":{"axes":[0,1],"polygons":[[[1e300,0],[0,1],[1,1]]]}}',
        '{"selection":{"axes":"best","polygons":' + "[" * 900 + "]" * 900 + "}}",
        '{"zoom":[[0,1e99],[0,1]]}',
        '{"colour":"' + "x" * 200_000 + '"}',
        "[]",
        "",
    ],
)
def test_hostile_json_is_left_out(written: str) -> None:
    packed = module.zlib.compressobj(9, module.zlib.DEFLATED, -15, zdict=module._DICTIONARY)
    data = packed.compress(written.encode()) + packed.flush()
    opened = open_view_text(f"1.{module.base64.urlsafe_b64encode(data).decode()}", OPTIONS)
    assert opened.view == NEW
    assert opened.left_out


def test_a_selection_that_is_too_long_is_in_the_json_alone() -> None:
    rng = np.random.default_rng(0)
    corners = tuple(map(tuple, rng.normal(size=(400, 2)).tolist()))
    view = replace(NEW, noise=True, selection=Region((0, 1), (corners,)))
    text, without = view_text(view, OPTIONS)
    assert without == ("selection",)
    assert open_view_text(text, OPTIONS).view == replace(NEW, noise=True)
    assert open_view_json(view_json(view, OPTIONS), OPTIONS).view == view
    names = {f"column {rng.bytes(2000).hex()}": "long"}
    wide = replace(OPTIONS, colours={**OPTIONS.colours, **names})
    text, without = view_text(replace(view, colour=next(iter(names)), axes=BEST), wide)
    assert (text, without) == ("best", ("colour", "noise", "selection"))


def test_positions_on_the_map_of_another_attempt_are_left_out() -> None:
    drawn = Region((0, 1), (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),))
    view = replace(NEW, noise=True, place=(1.0, 2.0, 3.0), zoom=((0, 1), (0, 1)), selection=drawn)
    text, _ = view_text(view, OPTIONS)
    resumed = replace(OPTIONS, attempt=1)
    opened = open_view_text(text, resumed)
    assert opened == OpenedView(replace(NEW, noise=True), ("place", "zoom", "selection"))
    assert without_map_parts(view) == replace(NEW, noise=True)
    again, _ = view_text(view, resumed)
    assert open_view_text(again, resumed) == OpenedView(view)
    found = replace(NEW, row=3, selection=RowFilter("a", "missing"))
    assert open_view_text(view_text(found, OPTIONS)[0], resumed) == OpenedView(found)
    assert without_map_parts(found) == found
