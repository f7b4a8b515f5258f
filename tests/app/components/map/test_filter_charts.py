"""Charts that filter: what the browser gets, and what its messages change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from app.analysis.filters.cross_filter import MOST_CHARTS
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.selections import Between, Combination, Not, OneOf, RowFilter
from app.components.map import filter_charts
from app.services import fitted_maps, row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key
from tests.app.conftest import OpenPage
from tests.scenes import unpacked


@pytest.fixture
def fitted_map(fitted: str, session_state: dict[str, object]) -> FittedMap:
    return FittedMap(fitted, fitted_maps.model(fitted), fitted_maps.fitted_dataset(fitted))


def names_of(fitted_map: FittedMap) -> tuple[str, str]:
    """A column of classes and one of numbers."""
    label = fitted_map.dataset.label_name
    assert label is not None
    return label, "alcohol"


def test_a_brush_and_clicks_become_conditions(fitted_map: FittedMap) -> None:
    run, (label, number) = fitted_map.run, names_of(fitted_map)
    bins = row_analysis.column_bins(fitted_map.dataset, number)
    filter_charts.handle_brush(fitted_map, {"column": number, "first": 2, "last": 5})
    interval = bins.interval(2, 5)
    assert session.selection[run] == interval
    filter_charts.handle_brush(fitted_map, {"column": label, "bar": 1})
    levels = row_analysis.column_bins(fitted_map.dataset, label).levels
    assert session.selection[run] == Combination("and", (interval, OneOf(label, (levels[1],))))
    filter_charts.handle_brush(fitted_map, {"column": label, "bar": 0})
    both = OneOf(label, (levels[1], levels[0]))
    assert session.selection[run] == Combination("and", (interval, both))
    filter_charts.handle_brush(fitted_map, {"column": number})
    assert session.selection[run] == both
    session.selection[run] = Not(both)
    filter_charts.handle_brush(fitted_map, {"column": label, "bar": 1})
    assert session.selection[run] == Not(OneOf(label, (levels[0],)))
    filter_charts.handle_brush(fitted_map, {"column": label, "bar": 0})
    assert session.selection[run] is None


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"column": "gone", "bar": 0},
        {"column": 3, "bar": 0},
        {"column": "alcohol", "bar": 0},
        {"column": "alcohol", "first": 4, "last": 2},
        {"column": "alcohol", "first": 0, "last": 999},
    ],
)
def test_a_message_of_another_table_does_nothing(
    fitted_map: FittedMap, message: dict[str, Any]
) -> None:
    before = RowFilter("alcohol", "at least", 14.0)
    session.selection[fitted_map.run] = before
    filter_charts.handle_brush(fitted_map, message)
    assert session.selection[fitted_map.run] == before


def test_the_browser_gets_the_bar_of_each_row_and_what_it_meets(
    fitted_map: FittedMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    label, number = names_of(fitted_map)
    bins = row_analysis.column_bins(fitted_map.dataset, number)
    interval = bins.interval(2, 5)
    assert interval is not None
    session.selection[fitted_map.run] = Combination(
        "or", (interval, RowFilter("hue", "at least", 1.0), OneOf(label, ("gone",)))
    )
    found = row_analysis.cross_filter(fitted_map, (label, number))
    sent = json.loads(json.dumps(filter_charts.filter_data(found, dark=False), allow_nan=False))
    classes, numbers = sent["charts"]
    np.testing.assert_array_equal(unpacked(numbers["codes"], "u1"), bins.codes)
    np.testing.assert_array_equal(unpacked(sent["met"], "<u2"), found.met)
    assert (numbers["range"], numbers["active"], classes["range"]) == ([2, 5], True, None)
    assert (classes["chosen"], classes["active"]) == ([], True)
    assert classes["clickable"] == list(range(len(classes["bars"])))
    assert (sent["operator"], sent["hasOthers"]) == ("or", True)
    assert MOST_CHARTS == 8  # OTHERS_BIT of static/filter_charts.js
    monkeypatch.setattr(filter_charts, "MOST_LIVE_ROWS", 10)
    sent = filter_charts.filter_data(found, dark=False)
    assert sent["met"] is None
    assert sent["charts"][0]["codes"] is None


def test_a_typed_interval_is_drawn_where_it_is(fitted_map: FittedMap) -> None:
    session.selection[fitted_map.run] = Between("alcohol", 13.0123, 99.0)
    found = row_analysis.cross_filter(fitted_map, ("alcohol",))
    (chart,) = filter_charts.filter_data(found, dark=False)["charts"]
    assert chart["range"] is None
    low, high = chart["span"]
    assert 0 < low < high == 1


def test_the_columns_tab_draws_the_charts_of_the_chosen_columns(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    assert sent_charts(page) == []
    opened = FittedMap(fitted, fitted_maps.model(fitted), fitted_maps.fitted_dataset(fitted))
    page.session_state[map_widget_key(opened, "panel")] = "Columns"
    page.run()
    assert not page.exception
    first = [opened.dataset.label_name, *opened.dataset.feature_names[:3]]
    assert sent_charts(page) == first
    (choice,) = page.multiselect
    choice.set_value(["hue"]).run()
    assert sent_charts(page) == ["hue"]
    page.session_state[map_widget_key(opened, "panel")] = "Point"
    page.run()
    assert sent_charts(page) == []
    page.session_state[map_widget_key(opened, "panel")] = "Columns"
    page.run()
    assert sent_charts(page) == ["hue"]


def sent_charts(page: Any) -> list[str]:
    """The columns whose charts the page shows."""
    return [
        chart["column"]
        for element in page.get("bidi_component")
        if element.proto.component_name == "latentboard.filter_charts"
        for chart in json.loads(json.loads(element.proto.json)["charts"])["charts"]
    ]
