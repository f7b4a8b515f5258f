"""The rows with the largest residuals, and the columns of these."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.residuals import Residuals
from app.components.map.row_focus import row_table
from app.formatting import count, markdown, number, shortened
from app.services import row_analysis
from app.state.widgets import map_widget_key
from lvmcore.data import Dataset

__all__ = ["largest_residuals_panel"]

#: Number of rows in the table.
MOST = 20
_ROBUST_SD = "robust sd"
_TITLE = "Rows with the largest residuals"


def largest_residuals_panel(fitted_map: FittedMap) -> None:
    """Draw the rows with the largest residuals; a click puts a row in focus."""
    box = st.expander(_TITLE, key=map_widget_key(fitted_map, "outliers"), on_change="rerun")
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
    if not len(worst):
        st.caption("No row has a cell of a column that varies, so no row has a residual.")
        return
    st.markdown(_headline(fitted_map, found, int(worst[0])))
    rows = found.rows[worst]
    names = [shortened(name, 24) for name in dataset.feature_names]
    frame = pd.DataFrame(
        {
            "row": [shortened(name, 24) for name in dataset.row_ids[rows]],
            "column": [names[d] for d in found.column[worst]],
            "observed": _texts(dataset, found, worst, _observed(fitted_map, found, worst)),
            "expected": _texts(dataset, found, worst, found.expected[worst].tolist()),
            _ROBUST_SD: found.deviation[worst],
        }
    )
    st.caption(
        "The residual of a cell is its difference from a prediction by the other cells of its "
        "row, in robust sd of the column: the prediction weights the decoded positions of the "
        "other rows by their agreement with those cells, so a gross cell cannot hide by moving "
        "its own row. A row is listed by its largest residual. The median over the rows is "
        f"{number(found.typical, 2)}. Click a row to show it on the map; the residual is also an "
        "option of the colours."
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
        alt=_TITLE,
        numbers={_ROBUST_SD: "%+.1f"},
        height=320,
    )


def _texts(
    dataset: Dataset, found: Residuals, places: NDArray[np.intp], values: list[float]
) -> list[str]:
    """The values of the largest residuals as texts, dates in ISO 8601."""
    names = [dataset.feature_names[d] for d in found.column[places]]
    scales = [dataset.date_scales.get(name) for name in names]
    return [
        number(value) if scale is None else scale.texts(np.array([value]))[0]
        for scale, value in zip(scales, values, strict=True)
    ]


def _headline(fitted_map: FittedMap, found: Residuals, place: int) -> str:
    """The worst row, with the column and the size of its largest residual."""
    dataset, deviation = fitted_map.dataset, float(found.deviation[place])
    row = markdown(shortened(dataset.row_ids[found.rows[place]], 60))
    column = markdown(shortened(dataset.feature_names[found.column[place]], 60))
    side = "above" if deviation > 0 else "below"
    return (
        f"Row **{row}** has the largest residual: column **{column}** is "
        f"{number(abs(deviation), 3)} robust sd {side} its prediction from the other columns."
    )


def _observed(fitted_map: FittedMap, found: Residuals, places: NDArray[np.intp]) -> list[float]:
    """The cells of the largest residuals of rows, in the units of the table."""
    dataset = fitted_map.dataset
    cells = dataset.original_units(dataset.X[found.rows[places]])
    values: list[float] = cells[np.arange(len(places)), found.column[places]].tolist()
    return values
