"""Rows that the model reconstructs worst: as a table, and as a colour of the map."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import looking, services
from app.fitting import TITLE
from app.opened import Opened
from app.words import count, markdown, shortened

__all__ = ["outliers"]

#: Rows that the table lists.
MOST = 20


def outliers(opened: Opened) -> None:
    """The rows that fit worst; a click looks at one."""
    box = st.expander("Rows that fit worst", key=opened.key("outliers"), on_change="rerun")
    with box:
        if box.open:
            _ranked(opened)


def _ranked(opened: Opened) -> None:
    dataset = opened.dataset
    if not opened.model.capabilities.decoding:
        st.caption(
            f"{markdown(opened.model.title)} turns no place of the map back into a row, so there "
            "is nothing to measure a row against: that needs a model that decodes."
        )
        return
    found = services.residuals(opened.run)
    worst = found.worst(MOST)
    rows = found.rows[worst]
    names = [shortened(name, 24) for name in dataset.feature_names]
    frame = pd.DataFrame(
        {
            "row": [shortened(name, 24) for name in dataset.row_ids[rows]],
            TITLE: found.size[worst],
            "column that fits worst": [names[d] for d in found.column[worst]],
            "its cell, in sd": found.deviation[worst],
        }
    )
    st.caption(
        "Standardised residual: how far a row's cells are from their reconstruction at its place "
        "on the map, in predictive sd, root mean square over its columns. A new row of the kind "
        "that the model expects has about 1; rows of the fit have less, as they were placed to "
        "fit. A row far above the others is one that the map does not explain. Click one to look "
        "at it; “standardised residual” is also among the colours."
    )
    if len(found.rows) < len(dataset):
        st.caption(
            f"Looked at: {count(len(found.rows), 'row')} of {count(len(dataset), 'row')}, evenly "
            "spaced."
        )
    looking.row_table(
        opened,
        frame,
        rows,
        key=opened.key("misfits"),
        alt="Rows that fit worst",
        numbers={TITLE: "%.2f", "its cell, in sd": "%+.1f"},
        height=320,
    )
