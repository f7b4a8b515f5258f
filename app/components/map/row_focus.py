"""The row in focus: a click on a line of a table shows the row on the map and beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_view import is_drawn, without_map_parts
from app.analysis.map.reconstruction import MapPoint
from app.components.map.side_panel import POINT, open_tab
from app.services import fitted_maps, placement
from app.state.session import session
from app.state.widgets import widget_value

__all__ = ["focus_held_out_row", "focus_row", "on_row_click", "refresh_focus", "row_table"]

#: Width of the names in a table of rows.
_NAME_PX = 130


def focus_row(fitted_map: FittedMap, row: int) -> None:
    """Make a row the point of the map, and show it beside the map; for callbacks."""
    _set_point(fitted_map, row)
    open_tab(fitted_map, POINT)


def _set_point(fitted_map: FittedMap, row: int) -> None:
    session.point[fitted_map.run] = MapPoint(tuple(fitted_map.mean[row].tolist()), row)


def focus_held_out_row(fitted_map: FittedMap, row: int) -> None:
    """Make a held-out row the point of the map, and show it beside the map; for callbacks.

    A row that the map does not have any more clears the point.
    """
    held = placement.held_out_rows(fitted_map.run)
    if held is None or row >= len(held):
        session.point[fitted_map.run] = None
        return
    session.point[fitted_map.run] = MapPoint(held.latent(row), held_out=row)
    open_tab(fitted_map, POINT)


def refresh_focus(fitted_map: FittedMap) -> None:
    """Update the point and remove stale regions after the map has changed.

    A resumed run has another map, on which the row of the point has moved, and earlier regions
    hold other rows: selections with one are removed.
    """
    if session.map_changed(fitted_map.run, fitted_maps.attempt(fitted_map.run)):
        if is_drawn(session.selection[fitted_map.run]):
            session.selection[fitted_map.run] = None
        session.views.replace(fitted_map.run, without_map_parts)
    point = session.point[fitted_map.run]
    if point is not None and point.held_out is not None:
        held = placement.held_out_rows(fitted_map.run)
        row = point.held_out
        if held is None or row >= len(held) or held.latent(row) != point.latent:
            session.point[fitted_map.run] = None
        return
    if point is None or point.row is None:
        return
    if point.row >= len(fitted_map.mean):
        session.point[fitted_map.run] = None
    elif point.latent != tuple(fitted_map.mean[point.row].tolist()):
        _set_point(fitted_map, point.row)


def row_table(
    fitted_map: FittedMap,
    frame: pd.DataFrame,
    rows: NDArray[np.intp],
    *,
    key: str,
    alt: str,
    numbers: Mapping[str, str],
    height: int | Literal["auto"] = "auto",
) -> None:
    """Draw a table of rows; a click on a line puts its row in focus.

    Args:
        fitted_map: the run.
        frame: the table, one line per row, with the row name in the column "row".
        rows: positions of the rows among the fitted ones.
        key: widget key of the table.
        alt: alternative text.
        numbers: formats of the numeric columns.
        height: height in pixels.
    """
    st.dataframe(
        frame,
        hide_index=True,
        height=height,
        column_config={
            "row": st.column_config.TextColumn(width=_NAME_PX),
            **{name: st.column_config.NumberColumn(format=form) for name, form in numbers.items()},
        },
        on_select=partial(on_row_click, rows, key, partial(focus_row, fitted_map)),
        selection_mode="single-cell",
        key=key,
        alt=alt,
    )


def on_row_click(rows: NDArray[np.intp], key: str, focus: Callable[[int], None]) -> None:
    """Handle a click on a line of a table of rows.

    Args:
        rows: positions of the rows, a line each.
        key: widget key of the table.
        focus: called with the position of the clicked row.
    """
    cells = widget_value(key).selection.cells
    if cells:
        focus(int(rows[cells[0][0]]))
