"""Looking at rows that are listed: a click on a line shows the row, on the map and beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import services, state
from app.exploring import Point
from app.opened import Opened
from app.regions import Region

__all__ = ["clicked", "keep_up", "look_at", "row_table"]

#: Width of the names in a table of rows.
_NAME_PX = 130


def look_at(opened: Opened, row: int) -> None:
    """Look at a row that was not clicked on the map."""
    state.set_point(opened.run, Point(tuple(opened.mean[row].tolist()), row))


def keep_up(opened: Opened) -> None:
    """See to it that what is looked at is where the map has it now.

    A run that was resumed has another map, on which the place of before belongs to no row, and what
    was drawn encircles others.
    """
    if state.map_changed(opened.run, services.attempt(opened.run)):
        state.drop_selections(opened.run, lambda one: isinstance(one, Region))
    point = state.point(opened.run)
    if point is None or point.row is None:
        return
    if point.row >= len(opened.mean):
        state.set_point(opened.run, None)
    elif point.latent != tuple(opened.mean[point.row].tolist()):
        look_at(opened, point.row)


def row_table(
    opened: Opened,
    frame: pd.DataFrame,
    rows: NDArray[np.intp],
    *,
    key: str,
    alt: str,
    numbers: Mapping[str, str],
    height: int | Literal["auto"] = "auto",
) -> None:
    """Draw a table of rows; a click on one looks at it.

    Args:
        opened: the run.
        frame: what is shown, a line for each row, its name in the column "row".
        rows: positions of the rows among the fitted ones.
        key: of the table.
        alt: what it is.
        numbers: formats of the columns of numbers.
        height: in pixels.
    """
    st.dataframe(
        frame,
        hide_index=True,
        height=height,
        column_config={
            "row": st.column_config.TextColumn(width=_NAME_PX),
            **{name: st.column_config.NumberColumn(format=form) for name, form in numbers.items()},
        },
        on_select=partial(clicked, rows, key, partial(look_at, opened)),
        selection_mode="single-cell",
        key=key,
        alt=alt,
    )


def clicked(rows: NDArray[np.intp], key: str, look: Callable[[int], None]) -> None:
    """What a click on a line of a table of rows does.

    Args:
        rows: positions of the rows, a line each.
        key: of the table.
        look: looks at one of them.
    """
    cells = state.value(key).selection.cells
    if cells:
        look(int(rows[cells[0][0]]))
