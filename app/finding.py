"""Below the map: find rows, go back to the selection before, and keep selections by name."""

from __future__ import annotations

import streamlit as st

from app import services, state
from app.opened import Opened
from app.selections import (
    NUMBER_TESTS,
    TEXT_TESTS,
    Found,
    Selection,
    is_number,
    said,
    to_json,
)
from app.services import Saved
from app.words import count, markdown, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.runs.selections import LONGEST_SELECTION_NAME

__all__ = ["tools"]

_NAME = ""  # stands for the row's name, among the names of columns
_LONGEST_TEXT = 200


def tools(opened: Opened) -> None:
    """One row of ways to select rows other than to draw around them."""
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Find rows", key=opened.key("find"), width="content"):
            _find(opened)
        with st.popover("Saved selections", key=opened.key("saved"), width="content"):
            _saved(opened)
        st.button(
            "Undo selection",
            on_click=state.undo_selection,
            args=(opened.run,),
            disabled=not state.can_undo_selection(opened.run),
            help="Back to what was selected before.",
            key=opened.key("undo"),
        )


# ---- finding ---------------------------------------------------------------------------------


def _find(opened: Opened) -> None:
    """Ask for a column, a test and a value, say how many rows pass, and select them."""
    found = _asked(opened)
    if found is None:
        st.caption("The rows that match become the selection, on the map and in the table.")
        return
    n = int(services.selected(opened.run, found).sum())
    if n == 0:
        st.markdown(markdown(f"There is no row {said(found)}."))
    st.button(
        f"Select {count(n, 'row')}",
        type="primary",
        disabled=n == 0,
        on_click=state.set_selection,
        args=(opened.run, found),
        help="Shows them on the map and below it.",
        key=opened.key("select found"),
    )


def _asked(opened: Opened) -> Found | None:
    """What to look for; None while no value is given."""
    frame = opened.dataset.frame
    names = [_NAME, *map(str, frame.columns)]
    titles = told_apart(["the row's name", *(shortened(name, 60) for name in names[1:])])
    place = st.selectbox(
        "Look in",
        range(len(names)),
        format_func=titles.__getitem__,
        help="The column whose cells are searched.",
        key=opened.key("find column"),
    )
    name = names[place]
    numbers = name != _NAME and is_number(frame[name].dtype)
    tests = NUMBER_TESTS if numbers else TEXT_TESTS
    # A row's name is never missing.
    tests = tests if name != _NAME else tests[:-1]
    test = st.segmented_control(
        "for cells that are" if numbers else "for text that",
        tests,
        default=tests[0],
        required=True,
        format_func=lambda one: "is missing" if one == "missing" and not numbers else one,
        help="Capital letters make no difference to “contains”."
        if not numbers
        else "Numbers are compared in the data's units.",
        key=opened.key(f"find test {place}"),
    )
    column = name or None
    if test == "missing":
        return Found(column, test)
    key = opened.key(f"find value {place}")
    if numbers:
        value = st.number_input(
            "Value", value=None, format="%g", help="What the cells are compared with.", key=key
        )
        return None if value is None else Found(column, test, float(value))
    text = st.text_input(
        "Text", max_chars=_LONGEST_TEXT, help="What is looked for in the cells.", key=key
    )
    return Found(column, test, text) if text else None


# ---- saving ----------------------------------------------------------------------------------


def _saved(opened: Opened) -> None:
    """The selections that were kept with the run, and a way to keep the present one."""
    kept = services.saved_selections(opened.run)
    for place, one in enumerate(kept):
        _one(opened, place, one)
    selection = state.selection(opened.run)
    if selection is None:
        st.caption(
            "Select some rows, and give the selection a name here: it stays with the run."
            if not kept
            else "To keep another one, select some rows first."
        )
        return
    key = opened.key("selection name")
    st.text_input(
        "Name of this selection",
        max_chars=LONGEST_SELECTION_NAME,
        help="A name that is taken is used for this one instead.",
        key=key,
    )
    st.button(
        "Save",
        type="primary",
        on_click=_keep,
        args=(opened, selection, key),
        help="Keeps the selection in the run's folder, so that a reload finds it.",
        key=opened.key("save selection"),
    )
    problem = state.value(opened.key("save problem"))
    if problem:
        st.error(markdown(problem))


def _one(opened: Opened, place: int, one: Saved) -> None:
    """A kept selection: select it again, or delete it."""
    selection = one.selection
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            markdown(f"{one.name} ({count(one.rows, 'row')})"),
            on_click=_select,
            args=(opened, selection),
            disabled=selection is None,
            help=markdown(
                "It cannot be read." if selection is None else f"Rows {said(selection)}."
            ),
            width="stretch",
            key=opened.key(f"select saved {place} {one.name}"),
        )
        st.button(
            "Delete",
            on_click=_drop,
            args=(opened, one.name),
            type="tertiary",
            help="The rows stay; only the name goes.",
            key=opened.key(f"delete saved {place} {one.name}"),
        )


def _select(opened: Opened, selection: Selection | None) -> None:
    state.set_selection(opened.run, selection)


def _keep(opened: Opened, selection: Selection, key: str) -> None:
    problem = None
    try:
        services.keep_selection(opened.run, state.value(key) or "", to_json(selection))
    except LatentboardError as error:
        problem = str(error)
    else:
        state.set_value(key, "")
    state.set_value(opened.key("save problem"), problem)


def _drop(opened: Opened, name: str) -> None:
    try:
        services.drop_selection(opened.run, name)
    except LatentboardError as error:
        state.set_value(opened.key("save problem"), str(error))
