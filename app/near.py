"""Below the map: the rows nearest to the one that is looked at, on the map and among the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import looking, services, state
from app.neighbours import Near
from app.opened import Opened
from app.words import count, markdown, number, shortened

__all__ = ["MOST", "neighbours"]

#: Rows that each side lists.
MOST = 10
#: Label columns that are named beside the rows.
_LABELS = 2


def neighbours(opened: Opened) -> None:
    """The rows nearest to the point's row, side by side; nothing where the point is no row."""
    point = state.point(opened.run)
    if point is None or point.row is None or len(opened.dataset) < 2:
        return
    row = point.row
    found = services.neighbours(opened.run, row, MOST)
    st.header("Nearest rows")
    name = markdown(shortened(opened.dataset.row_ids[row], 60))
    both = len(np.intersect1d(found.on_map.rows, found.among_data.rows))
    of = min(len(found.on_map.rows), len(found.among_data.rows))
    st.markdown(
        f"Nearest to row {name}: {both} of {of} are the same on the map and among the data. Click "
        "one to look at it."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**On the map**")
        _listed(opened, row, found.on_map, "on the map")
        st.caption(_metric(opened))
    with right:
        st.markdown("**Among the data**")
        _listed(opened, row, found.among_data, "among the data")
        st.caption(_data_metric(opened))


def _listed(opened: Opened, row: int, near: Near, where: str) -> None:
    dataset = opened.dataset
    frame = pd.DataFrame(
        {
            "row": [shortened(one, 24) for one in dataset.row_ids[near.rows]],
            "distance": near.distance,
        }
    )
    for name, labels in list(dataset.label_columns.items())[:_LABELS]:
        frame[_free(frame, shortened(name, 24))] = [
            "(missing)" if label is None else shortened(label, 24) for label in labels[near.rows]
        ]
    looking.row_table(
        opened,
        frame,
        near.rows,
        key=opened.key(f"near {where} {row}"),
        alt=f"Rows nearest {where}",
        numbers={"distance": "%.3g"},
    )


def _free(frame: pd.DataFrame, name: str) -> str:
    """A title that no column of the frame has yet."""
    while name in frame:
        name = f"{name} (label)"
    return name


def _metric(opened: Opened) -> str:
    """What the distance on the map is."""
    weight = services.latent_weights(opened.run)
    if np.all(weight == 1.0):
        return f"Euclidean distance in {count(len(weight), 'latent dimension')}."
    told = ", ".join(number(float(value), 2) for value in weight[:6])
    more = ", …" if len(weight) > 6 else ""
    return (
        "Distance of latent means, each dimension weighted by its relevance to the data "
        f"({told}{more}): what the model does not use does not count."
    )


def _data_metric(opened: Opened) -> str:
    said = "Euclidean distance of standardised columns"
    if opened.dataset.log1p.any():
        said += ", logarithms where they were learned"
    if np.isnan(opened.dataset.X).any():
        return f"{said}; of rows with missing cells over the columns that both have, scaled up."
    return f"{said}."
