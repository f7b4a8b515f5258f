"""Nearest rows of the clicked row, on the map and in the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.neighbours import NearestRows
from app.components.map.row_focus import row_table
from app.formatting import count, markdown, number, shortened
from app.services import row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key

__all__ = ["MOST", "nearest_rows_panel"]

#: Number of nearest rows in each table.
MOST = 10
#: Most label columns in the tables.
_LABELS = 2


def nearest_rows_panel(fitted_map: FittedMap) -> None:
    """Draw the nearest rows of the clicked row; nothing if the point is no row."""
    point = session.point[fitted_map.run]
    if point is None or point.row is None or len(fitted_map.dataset) < 2:
        return
    row = point.row
    found = row_analysis.neighbours(fitted_map.run, row, MOST)
    st.header("Nearest rows")
    name = markdown(shortened(fitted_map.dataset.row_ids[row], 60))
    common = len(np.intersect1d(found.on_map.rows, found.among_data.rows))
    listed = min(len(found.on_map.rows), len(found.among_data.rows))
    st.markdown(
        f"Nearest rows of row {name}: {common} of {listed} are the same on the map and in the "
        "data. Click a row to show it on the map."
    )
    st.markdown("**On the map**")
    _nearest_table(fitted_map, row, found.on_map, "on the map")
    st.caption(_map_metric(fitted_map))
    st.markdown("**In the data**")
    _nearest_table(fitted_map, row, found.among_data, "in the data")
    st.caption(_data_metric(fitted_map))


def _nearest_table(fitted_map: FittedMap, row: int, nearest: NearestRows, space: str) -> None:
    dataset = fitted_map.dataset
    frame = pd.DataFrame(
        {
            "row": [shortened(one, 24) for one in dataset.row_ids[nearest.rows]],
            "distance": nearest.distance,
        }
    )
    for name, labels in list(dataset.label_columns.items())[:_LABELS]:
        frame[_unused_title(frame, shortened(name, 24))] = [
            "(missing)" if label is None else shortened(label, 24) for label in labels[nearest.rows]
        ]
    row_table(
        fitted_map,
        frame,
        nearest.rows,
        key=map_widget_key(fitted_map, f"near {space} {row}"),
        alt=f"Nearest rows {space}",
        numbers={"distance": "%.3g"},
    )


def _unused_title(frame: pd.DataFrame, name: str) -> str:
    """A title that no column of the frame has."""
    while name in frame:
        name = f"{name} (label)"
    return name


def _map_metric(fitted_map: FittedMap) -> str:
    """Definition of the distance on the map."""
    weight = row_analysis.latent_weights(fitted_map.run)
    if np.all(weight == 1.0):
        return f"Euclidean distance in {count(len(weight), 'latent dimension')}."
    weights = ", ".join(number(float(value), 2) for value in weight[:6])
    more = ", …" if len(weight) > 6 else ""
    return (
        "Distance of latent means, each dimension weighted by its relevance to the data "
        f"({weights}{more})."
    )


def _data_metric(fitted_map: FittedMap) -> str:
    text = "Euclidean distance of standardised columns"
    if fitted_map.dataset.log1p.any():
        text += ", on the scale of the fit"
    if np.isnan(fitted_map.dataset.X).any():
        return f"{text}; with missing cells over the common columns, scaled up."
    return f"{text}."
