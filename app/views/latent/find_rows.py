"""The query and conditions on columns, and saved selections."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from app.analysis.filters.selection_terms import with_term
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.selections import (
    TEXT_TESTS,
    Between,
    RowFilter,
    Selection,
    Test,
    describe_selection,
    is_number,
    to_json,
)
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import row_analysis
from app.services.row_analysis import LoadedSelection
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from app.views.latent.row_query import query_input
from lvmcore.errors import LatentboardError
from lvmcore.runs.saved_items import LONGEST_ITEM_NAME

__all__ = ["find_rows_panel"]

_NAME = ""  # option of the row name, among the names of columns
_LONGEST_TEXT = 200
_NumberTest = Test | Literal["between"]
_NUMBER_TESTS: tuple[_NumberTest, ...] = ("at least", "at most", "between", "equal to", "missing")


def find_rows_panel(fitted_map: FittedMap) -> None:
    """Draw the query and a form for conditions, and the saved selections."""
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Find rows", key=map_widget_key(fitted_map, "find"), width="content"):
            query_input(fitted_map)
            _condition_form(fitted_map)
        with st.popover("Saved", key=map_widget_key(fitted_map, "saved"), width="content"):
            _saved_selections(fitted_map)


def _condition_form(fitted_map: FittedMap) -> None:
    """Choice of a column, condition and value, with the number of rows and a button."""
    found = _condition(fitted_map)
    selection = session.selection[fitted_map.run]
    if found is None:
        st.caption(
            "The rows that satisfy the condition become the selection."
            if selection is None
            else "The condition is added to those of the selection."
        )
        return
    n = int(row_analysis.selection_mask(fitted_map.run, found).sum())
    if n == 0:
        st.markdown(markdown(f"There is no row {describe_selection(found)}."))
    st.button(
        f"Select {count(n, 'row')}" if selection is None else f"Add: {count(n, 'row')}",
        type="primary",
        disabled=n == 0,
        on_click=_add,
        args=(fitted_map, found),
        help="Selects these rows on the map and lists them here."
        if selection is None
        else "Adds the condition to the selection, by AND unless OR is chosen.",
        key=map_widget_key(fitted_map, "select found"),
    )


def _add(fitted_map: FittedMap, found: Selection) -> None:
    run = fitted_map.run
    session.selection[run] = with_term(session.selection[run], found)


def _condition(fitted_map: FittedMap) -> RowFilter | Between | None:
    """The condition; None without a value."""
    frame = fitted_map.dataset.frame
    names = [_NAME, *map(str, frame.columns)]
    titles = distinct_titles(["row name", *(shortened(name, 60) for name in names[1:])])
    position = st.selectbox(
        "Column",
        range(len(names)),
        format_func=titles.__getitem__,
        help="The column of the condition.",
        key=map_widget_key(fitted_map, "find column"),
    )
    name = names[position]
    numbers = name != _NAME and is_number(frame[name].dtype)
    tests: tuple[_NumberTest, ...] = _NUMBER_TESTS if numbers else TEXT_TESTS
    # Row names are never missing.
    tests = tests if name != _NAME else tests[:-1]
    test = st.segmented_control(
        "Cells that are" if numbers else "Text that",
        tests,
        default=tests[0],
        required=True,
        format_func=lambda one: "is missing" if one == "missing" and not numbers else one,
        help="“Contains” is not case-sensitive."
        if not numbers
        else "Numbers are compared in data units.",
        key=map_widget_key(fitted_map, f"find test {position}"),
    )
    column = name or None
    if test == "missing":
        return RowFilter(column, test)
    key = map_widget_key(fitted_map, f"find value {position}")
    if test == "between":
        low, high = (
            _number(f"{end} value", f"{key} {end.lower()}") for end in ("Lowest", "Highest")
        )
        return None if low is None or high is None else Between(name, low, high)
    if numbers:
        value = _number("Value", key)
        return None if value is None else RowFilter(column, test, value)
    text = st.text_input(
        "Text", max_chars=_LONGEST_TEXT, help="The text of the comparison.", key=key
    )
    return RowFilter(column, test, text) if text else None


def _number(label: str, key: str) -> float | None:
    value = st.number_input(
        label, value=None, format="%g", help=f"The {label.lower()} of the comparison.", key=key
    )
    return None if value is None else float(value)


def _saved_selections(fitted_map: FittedMap) -> None:
    """The saved selections of the run, and a form that saves the current one."""
    saved = row_analysis.saved_selections(fitted_map.run)
    for position, one in enumerate(saved):
        _saved_selection(fitted_map, position, one)
    selection = session.selection[fitted_map.run]
    if selection is None:
        st.caption(
            "Select some rows, then name the selection here to save it with the run."
            if not saved
            else "To save another selection, select some rows first."
        )
        return
    key = map_widget_key(fitted_map, "selection name")
    st.text_input(
        "Name of this selection",
        max_chars=LONGEST_ITEM_NAME,
        help="A saved selection of the same name is replaced.",
        key=key,
    )
    st.button(
        "Save",
        type="primary",
        on_click=_save,
        args=(fitted_map, selection, key),
        help="Saves the selection in the folder of the run.",
        key=map_widget_key(fitted_map, "save selection"),
    )
    problem = widget_value(map_widget_key(fitted_map, "save problem"))
    if problem:
        st.error(markdown(problem))


def _saved_selection(fitted_map: FittedMap, position: int, one: LoadedSelection) -> None:
    """Draw a saved selection, to select its rows or to delete it."""
    selection = one.selection
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            markdown(f"{one.name} ({count(one.rows, 'row')})"),
            on_click=_select,
            args=(fitted_map, selection),
            disabled=selection is None,
            help=markdown(
                "It cannot be read."
                if selection is None
                else f"Rows {describe_selection(selection)}."
            ),
            width="stretch",
            key=map_widget_key(fitted_map, f"select saved {position} {one.name}"),
        )
        st.button(
            "Delete",
            on_click=_delete,
            args=(fitted_map, one.name),
            type="tertiary",
            help="Deletes the saved selection; the rows are not affected.",
            key=map_widget_key(fitted_map, f"delete saved {position} {one.name}"),
        )


def _select(fitted_map: FittedMap, selection: Selection | None) -> None:
    session.selection[fitted_map.run] = selection


def _save(fitted_map: FittedMap, selection: Selection, key: str) -> None:
    problem = None
    try:
        row_analysis.save_selection(fitted_map.run, widget_value(key) or "", to_json(selection))
    except LatentboardError as error:
        problem = str(error)
    else:
        set_widget_value(key, "")
    set_widget_value(map_widget_key(fitted_map, "save problem"), problem)


def _delete(fitted_map: FittedMap, name: str) -> None:
    try:
        row_analysis.delete_selection(fitted_map.run, name)
    except LatentboardError as error:
        set_widget_value(map_widget_key(fitted_map, "save problem"), str(error))
