"""The selection as a query that can be edited."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.filters.query_parser import column_kinds, parse_query
from app.analysis.filters.query_text import query_text
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.selections import Selection, regions_of
from app.formatting import grouped, markdown
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.errors import ConfigError

__all__ = ["query_input"]


def query_input(fitted_map: FittedMap) -> None:
    """Draw the query of the selection, and what is wrong with an edited one."""
    selection = session.selection[fitted_map.run]
    key, shown, problem = (map_widget_key(fitted_map, name) for name in _NAMES)
    if widget_value(shown) != (selection,) or widget_value(key) is None:
        set_widget_value(key, query_text(selection))
        set_widget_value(shown, (selection,))
        set_widget_value(problem, None)
    st.text_input(
        "Query",
        placeholder='height >= 2 and species = "setosa"',
        on_change=partial(_parse, fitted_map, selection),
        help='Conditions such as height between 1 and 2, species in ("a", "b"), row contains 7, or '
        "region 1, with and, or, not and parentheses.",
        key=key,
    )
    if widget_value(problem):
        st.error(markdown(grouped(widget_value(problem))))


#: Names of the input, of the selection that it was last filled with, and of its problem.
_NAMES = ("query", "query shown", "query problem")


def _parse(fitted_map: FittedMap, shown: Selection | None) -> None:
    """Select the rows of the edited query; ``region 1`` is the first region that it showed."""
    key, _, problem = (map_widget_key(fitted_map, name) for name in _NAMES)
    kinds = column_kinds(fitted_map.dataset.frame)
    try:
        found = parse_query(widget_value(key) or "", kinds, regions_of(shown))
    except ConfigError as error:
        set_widget_value(problem, str(error))
        return
    set_widget_value(problem, None)
    session.selection[fitted_map.run] = found
