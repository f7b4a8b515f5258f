"""The table of new rows with a filter, and its downloads."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from app.components.download_buttons import table_downloads
from app.formatting import count
from app.services import placement
from app.views.new_rows.placed_rows import PlacedRows

__all__ = ["placement_table"]

#: Most rows of the table on the page; the files hold all.
_MOST_SHOWN = 1000
_ALL, _UNUSUAL, _UNDECIDED, _WRONG = "all", "unusual", "not decided", "other than the label"


def placement_table(placed: PlacedRows) -> None:
    """Draw the rows with a filter, and the downloads of all rows.

    Args:
        placed: the new rows.
    """
    groups = {_ALL: np.ones(len(placed.frame), dtype=np.bool_)}
    if "unusual" in placed.frame:
        groups[_UNUSUAL] = placed.unusual
    if "predicted" in placed.frame:
        groups[_UNDECIDED] = placed.undecided
        if "label" in placed.frame:
            groups[_WRONG] = placed.misclassified
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        group = st.segmented_control(
            "Rows",
            list(groups),
            default=_ALL,
            required=True,
            format_func=lambda name: f"{name} ({int(groups[name].sum())})",
            key=placed.key("group"),
            help="Which of the new rows the table below shows.",
        )
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        _downloads(placed)
    names = ["row_id", "label", "predicted", "probability", "unusual", "z1", "z2"]
    frame = placed.frame.loc[groups[group], [name for name in names if name in placed.frame]]
    if len(frame) > _MOST_SHOWN:
        st.caption(f"The first {_MOST_SHOWN} of {count(len(frame), 'row')}; the files hold all.")
    st.dataframe(
        frame.head(_MOST_SHOWN),
        hide_index=True,
        height=320,
        column_config={
            "row_id": st.column_config.TextColumn("row"),
            "label": st.column_config.TextColumn("own label"),
            "probability": st.column_config.NumberColumn(
                format="%.3f", help="Of the predicted class"
            ),
            "unusual": st.column_config.NumberColumn(
                format="%.3f", help="Share of the rows of the fit that are less unusual"
            ),
            "z1": st.column_config.NumberColumn("dimension 1", format="%.3f"),
            "z2": st.column_config.NumberColumn("dimension 2", format="%.3f"),
        },
        key=placed.key("rows"),
        alt="The new rows",
    )


def _downloads(placed: PlacedRows) -> None:
    table_downloads(
        "New rows",
        "new_rows",
        csv=partial(placement.placements_csv, placed.id, placed.least),
        parquet=partial(placement.placements_parquet, placed.id, placed.least),
        about="Row id, own label, latent means and sds, predicted class, whether it is decided, "
        "all probabilities, and how unusual each row is.",
        key=lambda ending: placed.key(f"file {ending}"),
        h5ad=partial(placement.placements_h5ad, placed.id, placed.least),
    )
