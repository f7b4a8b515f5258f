"""Rows with the largest residuals."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.components.map.measured_colours import RESIDUAL_TITLE
from app.components.map.row_focus import row_table
from app.formatting import count, markdown, shortened
from app.services import row_analysis
from app.state.widgets import map_widget_key

__all__ = ["worst_rows_panel"]

#: Number of rows in the table.
MOST = 20


def worst_rows_panel(fitted_map: FittedMap) -> None:
    """Draw the rows with the largest residuals; a click puts a row in focus."""
    box = st.expander(
        "Largest residuals", key=map_widget_key(fitted_map, "outliers"), on_change="rerun"
    )
    with box:
        if box.open:
            _residual_table(fitted_map)


def _residual_table(fitted_map: FittedMap) -> None:
    dataset = fitted_map.dataset
    if not fitted_map.model.capabilities.decoding:
        st.caption(
            f"{markdown(fitted_map.model.title)} cannot decode latent points, so its rows have no "
            "residuals."
        )
        return
    found = row_analysis.residuals(fitted_map.run)
    worst = found.worst(MOST)
    rows = found.rows[worst]
    names = [shortened(name, 24) for name in dataset.feature_names]
    frame = pd.DataFrame(
        {
            "row": [shortened(name, 24) for name in dataset.row_ids[rows]],
            RESIDUAL_TITLE: found.size[worst],
            "column": [names[d] for d in found.column[worst]],
            "deviation, sd": found.deviation[worst],
        }
    )
    st.caption(
        "Standardised residual: deviation of the cells of a row from their reconstruction, in "
        "predictive sd, root mean square over its columns. The expected value for a new row is "
        "about 1, and lower for the rows of the fit. A row with a much larger value is not "
        "explained by the map. “Column” is the column of its largest deviation. Click a row to "
        "show it on the map; “standardised residual” is also an option of the colours."
    )
    if len(found.rows) < len(dataset):
        st.caption(
            f"Measured: {count(len(found.rows), 'row')} of {count(len(dataset), 'row')}, evenly "
            "spaced."
        )
    row_table(
        fitted_map,
        frame,
        rows,
        key=map_widget_key(fitted_map, "misfits"),
        alt="Rows with the largest residuals",
        numbers={RESIDUAL_TITLE: "%.2f", "deviation, sd": "%+.1f"},
        height=320,
    )
