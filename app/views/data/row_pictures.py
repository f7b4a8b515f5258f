"""The first rows of a dataset of pictures, drawn."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.figures.pictures import enlarged, picture_grid
from app.formatting import count
from app.state.session import session
from lvmcore.data import Dataset

__all__ = ["row_pictures"]

#: Pictures in a line, and most lines; pixels of the data between two; width of the drawing.
_PER_LINE, _LINES, _GAP, _WIDTH_PX = 4, 2, 1, 320


def row_pictures(dataset: Dataset) -> None:
    """Draw the first rows, from the darkest to the lightest of their values; nothing for tables.

    Missing pixels have the accent colour; a pixel in colour is missing where one of its channels
    is.
    """
    shape = dataset.image_shape
    if shape is None:
        return
    rows = dataset.original_units(dataset.X[: _PER_LINE * _LINES])
    if np.isnan(rows).all():
        return
    limits = float(np.nanmin(rows)), float(np.nanmax(rows))
    columns = min(_PER_LINE, len(rows))
    lines = len(rows) // columns
    drawn = rows[: lines * columns].reshape(lines, columns, -1)
    grid = picture_grid(drawn, shape, limits, gap=_GAP, dark=session.is_dark)
    st.image(enlarged(grid, _WIDTH_PX), alt="The first rows as pictures")
    kind = "in colour" if len(shape) > 2 else "grey"
    st.caption(
        f"The first {count(lines * columns, 'row')} as pictures, {kind}, "
        f"{shape[0]} × {shape[1]} pixels."
    )
