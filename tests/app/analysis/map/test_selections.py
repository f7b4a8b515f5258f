"""Selections: what they hold against brute force, kept and read back, undone, on the page."""

from __future__ import annotations

import json
from datetime import datetime
from operator import eq, ge, gt, le, lt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from streamlit.testing.v1 import AppTest

from app.analysis.map.map_axes import positions
from app.analysis.map.regions import Region
from app.analysis.map.selection_masks import selected_rows
from app.analysis.map.selections import (
    MOST_CONDITIONS,
    MOST_NESTED,
    Between,
    Combination,
    Not,
    OneOf,
    RowFilter,
    Selection,
    describe_selection,
    from_json,
    to_json,
)
from app.components.map import row_focus, selection_panel
from app.services import fitted_maps, row_analysis, server
from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from tests.app.analysis.filters.selections import MEAN, TABLE, selections
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import frame_with, texts

HOSTILE = '<img src=x onerror="alert(1)">![i](http://evil.example)'


@pytest.fixture
def table() -> Dataset:
    frame = pd.DataFrame(
        {
            "height": [1.5, 2.5, np.nan, 2.5],
            "town": ["Ulm", "ulmen", None, "a.b"],
            "day": pd.to_datetime(["2020-01-05", "2020-01-06", "2021-01-05", None]),
            "wet": [True, False, True, True],
        }
    )
    X = np.arange(8.0).reshape(4, 2)
    named = Dataset.from_arrays(X, row_ids=["r1", "r2", "s1", "s2"])
    return Dataset(X, named.feature_names, named.row_ids, named.rows, frame)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RowFilter("height", "at least", 2.5), [1, 3]),
        (RowFilter("height", "at most", 2.0), [0]),
        (RowFilter("height", "equal to", 2.5), [1, 3]),
        (RowFilter("height", "missing"), [2]),
        (RowFilter("height", "contains", "2"), [1, 3]),
        (RowFilter("town", "contains", "ULM"), [0, 1]),
        (RowFilter("town", "contains", "."), [3]),
        (RowFilter("town", "is", "Ulm"), [0]),
        (RowFilter("town", "missing"), [2]),
        (RowFilter("town", "at least", 1.0), []),
        (RowFilter("day", "contains", "2020-01"), [0, 1]),
        (RowFilter("wet", "is", "True"), [0, 2, 3]),
        (RowFilter(None, "contains", "R"), [0, 1]),
        (RowFilter(None, "is", "s1"), [2]),
        (RowFilter("gone", "is", "s1"), []),
        (RowFilter("height", "more than", 1.5), [1, 3]),
        (RowFilter("height", "less than", 2.5), [0]),
        (RowFilter("day", "at least", datetime(2020, 1, 6)), [1, 2]),
        (RowFilter("day", "at least", 3.0), []),
        (RowFilter("height", "at least", datetime(2020, 1, 6)), []),
        (Between("height", 1.5, 2.0), [0]),
        (Between("day", datetime(2020, 1, 5), datetime(2020, 1, 6)), [0, 1]),
        (Between("town", 1.0, 2.0), []),
        (Between("gone", 1.0, 2.0), []),
        (OneOf("town", ("Ulm", "a.b", "b")), [0, 3]),
        (OneOf("town", (None,)), [2]),
        (OneOf("height", (1.5, None)), [0, 2]),
        (OneOf("height", ("2.5",)), [1, 3]),
        (OneOf("wet", ("False",)), [1]),
    ],
)
def test_rows_are_found_by_their_cells(
    table: Dataset, found: RowFilter | Between | OneOf, expected: list[int]
) -> None:
    assert np.flatnonzero(selected_rows(found, np.zeros((4, 2)), table)).tolist() == expected


def test_a_region_holds_the_rows_on_its_own_axes(table: Dataset) -> None:
    mean = np.array([[0.0, 9.0, 0.5], [0.0, 9.0, 2.0], [5.0, 0.0, 0.5], [0.5, -9.0, 0.5]])
    corners = ((-1.0, 0.0), (1.0, 0.0), (1.0, 1.0), (-1.0, 1.0))
    chosen = selected_rows(Region((0, 2), (corners,)), mean, table)
    assert chosen.tolist() == [True, False, False, True]


def in_row(selection: Selection, row: int) -> bool:
    """Whether a row is selected, a cell at a time."""
    match selection:
        case Region(axes):
            return bool(selection.members(positions(MEAN, axes))[row])
        case Not(condition):
            return not in_row(condition, row)
        case Combination(operator, conditions):
            held = [in_row(one, row) for one in conditions]
            return all(held) if operator == "and" else any(held)
    return _meets(selection, row)


def _meets(selection: RowFilter | Between | OneOf, row: int) -> bool:
    if selection.column is None:
        cell: Any = TABLE.row_ids[row]
    else:
        cell = TABLE.frame[selection.column].iloc[row]
    if isinstance(selection, OneOf):
        return any(_is_value(selection.column, cell, value) for value in selection.values)
    if pd.isna(cell):
        return isinstance(selection, RowFilter) and selection.test == "missing"
    if isinstance(selection, Between):
        return bool(selection.low <= cell <= selection.high)
    wanted: Any = selection.value
    if selection.test in ("is", "contains"):
        text = _text(selection.column, cell)
        return text == wanted if selection.test == "is" else wanted.casefold() in text.casefold()
    ordered = {"at least": ge, "at most": le, "more than": gt, "less than": lt, "equal to": eq}
    return selection.test != "missing" and bool(ordered[selection.test](cell, wanted))


def _text(column: str | None, cell: Any) -> str:
    """A cell as its column is written."""
    if column is None:
        return str(cell)
    known = TABLE.frame[column].dropna()
    return str(known.astype(str)[known == cell].iloc[0])


def _is_value(column: str, cell: Any, value: str | float | None) -> bool:
    if pd.isna(cell) or value is None:
        return bool(pd.isna(cell)) and value is None
    return _text(column, cell) == value if isinstance(value, str) else bool(cell == value)


@given(selections)
def test_masks_agree_with_a_row_at_a_time(selection: Selection) -> None:
    mask = selected_rows(selection, MEAN, TABLE)
    assert mask.tolist() == [in_row(selection, row) for row in range(len(TABLE))]


SELECTIONS: list[Selection] = [
    Region((2, 0), (((0.1, 0.2), (1.0, 0.0), (0.3, 1.0)), ((5.0, 5.0), (6.0, 5.0), (5.0, 6.0)))),
    Region((0, None), (((0.1, 0.2), (1.0, 0.0), (0.3, 1.0)),)),
    RowFilter("height", "at least", 2.5),
    RowFilter(None, "contains", HOSTILE),
    RowFilter("town", "missing"),
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_selection_survives_json(selection: Selection) -> None:
    assert from_json(json.loads(json.dumps(to_json(selection))), 3) == selection


@given(selections)
def test_a_combined_selection_survives_json(selection: Selection) -> None:
    assert from_json(json.loads(json.dumps(to_json(selection))), 3) == selection


def test_selections_of_earlier_versions_are_read() -> None:
    """What versions before the combinations wrote."""
    stored = json.loads(
        '[{"column": "height", "test": "at least", "value": 2},'
        ' {"column": null, "test": "contains", "value": "a"},'
        ' {"column": "town", "test": "missing", "value": null},'
        ' {"axes": [0, null], "polygons": [[[0, 0], [1, 0], [1, 1]]]}]'
    )
    assert [from_json(one, 3) for one in stored] == [
        RowFilter("height", "at least", 2.0),
        RowFilter(None, "contains", "a"),
        RowFilter("town", "missing"),
        Region((0, None), (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),)),
    ]


def test_json_of_any_depth_and_length_is_no_danger() -> None:
    one: dict[str, Any] = {"column": "a", "test": "missing", "value": None}
    deep = one
    for _ in range(MOST_NESTED):
        deep = {"not": deep}
    with pytest.raises(DataError, match="nested in more than 30 levels"):
        from_json(deep, 3)
    with pytest.raises(DataError, match="more than 200 conditions"):
        from_json({"or": [one] * (MOST_CONDITIONS + 1)}, 3)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"axes": [0, 3], "polygons": [[[0, 0], [1, 0], [1, 1]]]},
        {"axes": [0, 1], "polygons": [[[0, 0], [1, 0]]]},
        {"axes": [0, 1], "polygons": []},
        {"axes": [0, 1], "polygons": [[["a", 0], [1, 0], [1, 1]]]},
        {"column": "a", "test": "looks like", "value": "b"},
        {"column": "a", "test": "at least", "value": "b"},
        {"column": "a", "test": "is", "value": 3},
        {"column": 3, "test": "is", "value": "b"},
        {"column": "a", "test": "at least", "value": True},
        {"column": "a", "test": "at least", "value": {"date": "soon"}},
        {"column": "a", "between": [1]},
        {"column": "a", "between": [1, float("nan")]},
        {"column": "a", "one of": []},
        {"column": "a", "one of": "b"},
        {"column": "a", "one of": [[]]},
        {"column": "a"},
        {"and": [{"column": "a", "test": "missing", "value": None}]},
        {"or": 3},
        {"not": 3},
    ],
)
def test_nonsense_is_no_selection(stored: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="selection is invalid"):
        from_json(stored, 3)


def test_a_selection_says_how_it_was_made() -> None:
    drawn, on_one, number, text, missing = map(describe_selection, SELECTIONS)
    assert drawn == "drawn on dimensions 3 and 1"
    assert on_one == "drawn on dimension 1"
    assert number == "whose height is at least 2.5"
    assert text.startswith("whose name contains “<img")
    assert len(text) < 80
    assert missing == "whose town is missing"
    combined = Combination(
        "or",
        (
            Not(OneOf("town", ("Ulm", None))),
            Combination("and", (Between("h", -1.5, 2.0), SELECTIONS[1])),
        ),
    )
    assert describe_selection(combined) == (
        "without those whose town is one of “Ulm”, missing, or (whose h is between −1.5 and 2, and "
        "drawn on dimension 1)"
    )


# ---- kept with a run -------------------------------------------------------------------------


def test_selections_are_kept_with_the_run_and_read_back(fitted: str) -> None:
    row_analysis.save_selection(fitted, "  strong \n wines ", {"column": "alcohol"})
    row_analysis.save_selection(fitted, "a", {"column": "hue"})
    row_analysis.save_selection(fitted, "a", {"column": "ash"})
    kept = server.store().selections.list(fitted)
    assert [(one.name, one.content["column"]) for one in kept] == [
        ("a", "ash"),
        ("strong wines", "alcohol"),
    ]
    row_analysis.delete_selection(fitted, "a")
    row_analysis.delete_selection(fitted, "never there")
    row_analysis.delete_selection(fitted, "strong wines")
    assert row_analysis.saved_selections(fitted) == ()


@pytest.mark.parametrize("name", ["", "  ", "x" * 61])
def test_a_name_is_asked_for(fitted: str, name: str) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 60"):
        row_analysis.save_selection(fitted, name, {})


def test_a_run_keeps_so_many_and_no_giants(fitted: str) -> None:
    with pytest.raises(ConfigError, match="too many corners"):
        row_analysis.save_selection(fitted, "giant", {"polygons": "x" * 600_000})
    for i in range(50):
        row_analysis.save_selection(fitted, f"name {i}", {})
    with pytest.raises(ConfigError, match="50 selections at most"):
        row_analysis.save_selection(fitted, "one more", {})
    for i in range(50):
        row_analysis.delete_selection(fitted, f"name {i}")


def test_what_cannot_be_read_is_left_out(fitted: str) -> None:
    path = server.store().job_folder(fitted).files.selections
    path.write_text('{"good": {"column": null}, "bad": 3, "": {}}')
    assert [one.name for one in row_analysis.saved_selections(fitted)] == ["good"]
    path.write_text("no JSON")
    assert row_analysis.saved_selections(fitted) == ()
    path.unlink()


def test_saved_selections_are_counted_once_until_one_changes(
    fitted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = fitted_maps.model(fitted).embedding_.mean
    corner = float(np.median(mean[:, 0]))
    box = Region((0, 1), (((corner, -99.0), (99.0, -99.0), (99.0, 99.0), (corner, 99.0)),))
    right = int((mean[:, 0] >= corner).sum())
    row_analysis.save_selection(fitted, "right", to_json(box))
    row_analysis.save_selection(fitted, "nonsense", {"column": 3})
    first = row_analysis.saved_selections(fitted)
    assert [(one.name, one.selection, one.rows) for one in first] == [
        ("nonsense", None, 0),
        ("right", box, right),
    ]
    asked: list[Selection] = []

    def count(selection: Selection, *rest: Any) -> Any:
        asked.append(selection)
        return selected_rows(selection, *rest)

    monkeypatch.setattr("app.analysis.map.selection_masks.selected_rows", count)
    assert row_analysis.saved_selections(fitted) == first
    assert asked == []
    row_analysis.delete_selection(fitted, "nonsense")
    strong = RowFilter("alcohol", "at least", 14.0)
    row_analysis.save_selection(fitted, "strong", to_json(strong))
    rows = int((fitted_maps.fitted_dataset(fitted).frame["alcohol"] >= 14).sum())
    assert [(one.name, one.rows) for one in row_analysis.saved_selections(fitted)] == [
        ("right", right),
        ("strong", rows),
    ]
    assert asked == [box, strong]
    for name in ("right", "strong"):
        row_analysis.delete_selection(fitted, name)


def test_a_long_cell_is_cut_on_the_page_and_numbers_stay() -> None:
    frame = pd.DataFrame({"words": ["w" * 10_000, "short", None], "number": [1.5, np.nan, 3.0]})
    shown = selection_panel._truncated(frame)
    assert shown["words"].tolist()[:2] == ["w" * 199 + "…", "short"]
    assert pd.isna(shown["words"][2])
    pd.testing.assert_series_equal(shown["number"], frame["number"])
    assert len(frame["words"][0]) == 10_000


def test_columns_of_any_name_can_be_cut() -> None:
    frame = pd.DataFrame({"self": ["w" * 300], "kwargs": ["short"]})
    assert selection_panel._truncated(frame)["self"].tolist() == ["w" * 199 + "…"]


# ---- the page --------------------------------------------------------------------------------


def named(elements: Any, label: str) -> Any:
    (found,) = [one for one in elements if one.label == label]
    return found


def find_strong(page: AppTest) -> None:
    """Ask for the wines with at least 14 per cent of alcohol."""
    column = named(page.selectbox, "Column")
    column.set_value(1).run()
    named(page.number_input, "Value").set_value(14.0).run()
    assert not page.exception


def test_found_rows_become_the_selection_and_undo_goes_back(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    dataset = fitted_maps.fitted_dataset(fitted)
    assert dataset.frame.columns[0] == "alcohol"
    strong = dataset.frame["alcohol"].to_numpy() >= 14
    assert named(page.main.button, "Undo").disabled
    find_strong(page)
    assert "No rows are selected" in texts(page)
    named(page.main.button, f"Select {strong.sum()} rows").click().run()
    assert not page.exception
    assert frame_with(page, "row_id")["row_id"].tolist() == dataset.row_ids[strong].tolist()
    assert "whose alcohol is at least 14" in texts(page)
    named(page.main.button, "Clear the selection").click().run()
    assert page.session_state["latent.selection"] == {fitted: None}
    named(page.main.button, "Undo").click().run()
    assert page.session_state["latent.selection"] == {
        fitted: RowFilter("alcohol", "at least", 14.0)
    }
    named(page.main.button, "Undo").click().run()
    assert page.session_state["latent.selection"] == {fitted: None}
    assert named(page.main.button, "Undo").disabled


def test_a_click_on_a_selected_row_looks_at_it(session_state: dict[str, object]) -> None:
    looked: list[int] = []
    told = SimpleNamespace(selection=SimpleNamespace(cells=[(1, "alcohol")]))
    session_state["key"] = told
    row_focus.on_row_click(np.array([4, 9, 17]), "key", looked.append)
    told.selection.cells = []
    row_focus.on_row_click(np.array([4, 9, 17]), "key", looked.append)
    assert looked == [9]


def chip_labels(page: AppTest) -> list[str]:
    return [one.label for one in page.main.button if one.key and ":remove " in one.key]


def negate(page: AppTest, position: int) -> None:
    (button,) = [one for one in page.main.button if one.key and f":negate {position}" in one.key]
    button.click().run()


def test_conditions_are_added_negated_combined_and_removed(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    dataset = fitted_maps.fitted_dataset(fitted)
    assert chip_labels(page) == []
    find_strong(page)
    strong = dataset.frame["alcohol"].to_numpy() >= 14
    named(page.main.button, f"Select {strong.sum()} rows").click().run()
    named(page.selectbox, "Column").set_value(0).run()
    named(page.text_input, "Text").set_value("1").run()
    (add,) = [one for one in page.main.button if one.label.startswith("Add: ")]
    add.click().run()
    assert not page.exception
    one = np.array(["1" in name for name in dataset.row_ids.tolist()])
    assert chip_labels(page) == ["alcohol \\>\\= 14", 'row contains "1"']
    assert f"{(strong & one).sum()} rows of" in texts(page)
    assert "by 2 conditions" in texts(page)

    def selected() -> int:
        return int(row_analysis.selection_mask(fitted, selection_of(page, fitted)).sum())

    negate(page, 1)
    assert selected() == (strong & ~one).sum()
    (choice,) = [one for one in page.segmented_control if one.options == ["AND", "OR"]]
    choice.set_value("or").run()
    assert not page.exception
    assert selected() == (strong | ~one).sum()
    assert named(page.text_input, "Query").value == 'alcohol >= 14 or row not contains "1"'
    (chip,) = [one for one in page.main.button if one.label.startswith("alcohol")]
    chip.click().run()
    assert selected() == (~one).sum()
    assert chip_labels(page) == ['row contains "1"']
    named(page.main.button, "Undo").click().run()
    assert selected() == (strong | ~one).sum()


def selection_of(page: AppTest, run: str) -> Selection:
    found: Selection = page.session_state["latent.selection"][run]
    return found


def test_a_query_is_edited_and_what_is_wrong_is_told(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    corners = ((0.0, -99.0), (99.0, -99.0), (99.0, 99.0), (0.0, 99.0))
    region = Region((0, 1), (corners,))
    page.session_state["latent.selection"] = {fitted: region}
    page.run()
    query = named(page.text_input, "Query")
    assert query.value == "region 1"
    query.set_value("not region 1 and alcohol between 13 and 14").run()
    assert not page.exception
    expected = Combination("and", (Not(region), Between("alcohol", 13.0, 14.0)))
    assert selection_of(page, fitted) == expected
    assert chip_labels(page) == ["region 1", "alcohol between 13 and 14"]
    wrong = f"alcohol >= 13 and {HOSTILE}"
    named(page.text_input, "Query").set_value(wrong).run()
    assert not page.exception
    (problem,) = page.main.error
    assert problem.value.startswith("Character 49 of the query")
    assert named(page.text_input, "Query").value == wrong
    assert selection_of(page, fitted) == expected
    named(page.text_input, "Query").set_value("").run()
    assert not page.main.error
    assert selection_of(page, fitted) is None


def test_a_region_among_conditions_keeps_its_probabilities(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    region = Region((0, 1), (((-9.0, -9.0), (0.0, -9.0), (0.0, 9.0), (-9.0, 9.0)),))
    strong = RowFilter("alcohol", "at least", 13.0)
    page.session_state["latent.selection"] = {fitted: Combination("and", (strong, region))}
    page.run()
    assert not page.exception
    mask = row_analysis.selection_mask(fitted, strong)
    found = row_analysis.probability_in_region(fitted, region, strong)
    assert found.considered == mask.sum()
    assert np.isnan(found.probability[~mask]).all()
    assert found.expected == pytest.approx(found.probability[mask].sum())
    assert "rows that meet the other conditions lie inside" in texts(page)
    assert selection_panel.INSIDE in frame_with(page, "row_id")


def test_the_cache_distinguishes_and_from_or(fitted: str) -> None:
    parts = (RowFilter("alcohol", "at least", 14.0), RowFilter("alcohol", "less than", 14.0))
    assert not row_analysis.selection_mask(fitted, Combination("and", parts)).any()
    assert row_analysis.selection_mask(fitted, Combination("or", parts)).all()


def test_nothing_found_is_said_and_not_selected(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    named(page.text_input, "Text").set_value(HOSTILE).run()
    assert not page.exception
    assert "There is no row whose name contains" in texts(page)
    assert "![i](http" not in texts(page)
    assert named(page.main.button, "Select 0 rows").disabled


def test_a_saved_selection_is_there_in_a_new_session(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    find_strong(page)
    (select,) = [one for one in page.main.button if one.label.startswith("Select ")]
    select.click().run()
    named(page.main.button, "Save").click().run()
    assert "expected 1 to 60" in page.main.error[0].value
    named(page.text_input, "Name of this selection").set_value(HOSTILE).run()
    named(page.main.button, "Save").click().run()
    assert not page.main.error
    selected = page.session_state["latent.selection"]

    page = open_page("latent", run=fitted)
    (saved,) = [one for one in page.main.button if "evil" in one.label]
    assert "![i](http" not in saved.label
    saved.click().run()
    assert not page.exception
    assert page.session_state["latent.selection"] == selected
    named(page.main.button, "Delete").click().run()
    assert not [one for one in page.main.button if "evil" in one.label]
    assert page.session_state["latent.selection"] == selected
