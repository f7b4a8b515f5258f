"""The conditions of the selection as chips, to remove or negate each, combined by AND or OR."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.filters.query_text import query_text
from app.analysis.filters.selection_terms import (
    operator_of,
    terms_of,
    with_operator,
    with_toggled_negation,
    without_term,
)
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.selections import Not, Operator, Selection, regions_of
from app.formatting import markdown, shortened
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value

__all__ = ["condition_chips"]

_OPERATORS: tuple[Operator, ...] = ("and", "or")
_LONGEST_CHIP = 44


def condition_chips(fitted_map: FittedMap) -> None:
    """Draw the chips of the selection; nothing without one."""
    selection = session.selection[fitted_map.run]
    terms = terms_of(selection)
    if not terms:
        return
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", key="condition-chips"
    ):
        if len(terms) > 1:
            _operator_choice(fitted_map, operator_of(selection))
        for position, term in enumerate(terms):
            _chip(fitted_map, selection, position, term)


def _operator_choice(fitted_map: FittedMap, operator: Operator) -> None:
    key = map_widget_key(fitted_map, "operator")
    set_widget_value(key, operator)
    st.segmented_control(
        "Conditions are combined by",
        _OPERATORS,
        format_func=str.upper,
        required=True,
        on_change=partial(_set_operator, fitted_map, key),
        label_visibility="collapsed",
        help="AND selects the rows that meet all conditions, OR those that meet any of them.",
        key=key,
    )


def _set_operator(fitted_map: FittedMap, key: str) -> None:
    run = fitted_map.run
    session.selection[run] = with_operator(session.selection[run], widget_value(key))


def _chip(
    fitted_map: FittedMap, selection: Selection | None, position: int, term: Selection
) -> None:
    negated = isinstance(term, Not)
    inner = term.condition if isinstance(term, Not) else term
    text = query_text(inner, regions_of(selection))
    with st.container(horizontal=True, gap=None, width="content"):
        st.button(
            "NOT",
            type="primary" if negated else "secondary",
            on_click=partial(_toggle_negation, fitted_map, position, term),
            help="Takes the rows that meet this condition."
            if negated
            else "Takes the rows that do not meet this condition.",
            key=map_widget_key(fitted_map, f"negate {position}"),
        )
        st.button(
            markdown(shortened(text, _LONGEST_CHIP)),
            icon=":material/close:",
            icon_position="right",
            on_click=partial(_remove, fitted_map, position, term),
            help="Removes this condition.",
            key=map_widget_key(fitted_map, f"remove {position}"),
        )


def _toggle_negation(fitted_map: FittedMap, position: int, term: Selection) -> None:
    selection = session.selection[fitted_map.run]
    if term in terms_of(selection)[position : position + 1]:  # else of an earlier page
        session.selection[fitted_map.run] = with_toggled_negation(selection, position)


def _remove(fitted_map: FittedMap, position: int, term: Selection) -> None:
    selection = session.selection[fitted_map.run]
    if term in terms_of(selection)[position : position + 1]:
        session.selection[fitted_map.run] = without_term(selection, position)
