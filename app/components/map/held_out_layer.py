"""Held-out rows as open marks over the rows of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.held_out_rows import HeldOutPositions
from app.analysis.map.map_axes import View, positions
from app.analysis.map.row_colours import NumericColours, further_rows
from app.figures.row_traces import MapRows
from app.formatting import count
from app.services import placement
from app.state.widgets import map_widget_key, set_first_value
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "coloured_cells",
    "held_out_note",
    "held_out_toggle",
    "shown_held_out",
    "with_held_out",
]

#: Diameter of a held-out row in pixels, where a column gives the sizes of the rows of the fit.
_DIAMETER = 8.0


def held_out_toggle(fitted_map: FittedMap) -> bool:
    """Draw the switch of the held-out rows, and return its value; nothing without such rows."""
    if not placement.has_held_out_rows(fitted_map.run):
        return False
    can_place = fitted_map.model.capabilities.new_rows
    stored = placement.held_out_rows(fitted_map.run) is not None
    about = "Rows that the fit has not seen, at positions inferred without their labels."
    if not can_place:
        about = f"{fitted_map.model.title} cannot infer the positions of new rows."
    elif not stored:
        about = "The run has no positions of its held-out rows; they are stored when it is scored."
    key = map_widget_key(fitted_map, f"held-out {stored}")
    set_first_value(key, stored)
    return st.toggle(
        "Held-out rows",
        key=key,
        help=about,
        disabled=not stored,
    )


def shown_held_out(fitted_map: FittedMap, *, wanted: bool) -> HeldOutPositions | None:
    """The held-out rows to draw; None for none."""
    return placement.held_out_rows(fitted_map.run) if wanted else None


def with_held_out(
    rows: MapRows,
    held: HeldOutPositions,
    fitted_map: FittedMap,
    view: View,
    cells: tuple[pd.Series, pd.Series] | None,
    *,
    hover: Sequence[Sequence[str]],
    spread: tuple[FloatArray, FloatArray | None] | None,
) -> MapRows:
    """Rows of the fit and the held-out rows after them, numbered on.

    Args:
        rows: the drawn rows of the fit, [m].
        held: the held-out rows, [n].
        fitted_map: the run.
        view: what the map shows.
        cells: the column of the colours, of all rows of the fit and of the held-out ones; None for
            one colour, and for a measure that held-out rows do not have.
        hover: lines of the hover text of each held-out row.
        spread: posterior sd along both axes, [n, 2], and their correlation, [n]; None for no
            ellipses.
    """
    N, n = len(fitted_map.mean), len(held)
    colouring = rows.colouring
    if cells is not None:
        fitted, further = cells
        colouring = further_rows(colouring, fitted, further)
    elif isinstance(colouring, NumericColours):
        without = pd.Series(np.full(n, np.nan))
        colouring = further_rows(colouring, without, without)
    selected, sd, correlation = rows.selected, rows.sd, rows.correlation
    if selected is not None:
        selected = np.concatenate([selected, np.zeros(n, dtype=np.bool_)])
    if sd is not None and spread is not None:
        sd = np.concatenate([sd, spread[0]])
        if correlation is not None and spread[1] is not None:
            correlation = np.concatenate([correlation, spread[1]])
    shape = rows.shape
    if shape is not None:
        circles = np.full(n, "circle", dtype=object)
        shape = replace(shape, symbol=np.concatenate([shape.symbol, circles]))
    return MapRows(
        points=np.concatenate([rows.points, positions(held.means_after(fitted_map), view)[N:]]),
        number=np.concatenate([rows.number, np.arange(N, N + n)]),
        hover=[*rows.hover, *hover],
        colouring=colouring,
        selected=selected,
        sd=sd,
        correlation=correlation,
        size=None if rows.size is None else np.concatenate([rows.size, np.full(n, _DIAMETER)]),
        shape=shape,
    )


def coloured_cells(dataset: Dataset, title: str) -> pd.Series:
    """Cells of a label column or another column, one per row."""
    labels = dataset.label_columns.get(title)
    return dataset.frame[title] if labels is None else pd.Series(labels, dtype=object)


def held_out_note(held: HeldOutPositions) -> str:
    """What the open marks are, and how many held-out rows have none."""
    shown = count(len(held), "held-out row")
    if len(held) < held.total:
        shown = f"{len(held):,} of {count(held.total, 'held-out row')}"
    return (
        f"Open circles: {shown}, at posterior means inferred without labels. Selections are of the "
        "rows of the fit."
    )
