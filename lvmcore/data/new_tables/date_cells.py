"""Cells of a new table as dates, in a column that had dates in the fit."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.date_scales import DateScale, is_dates
from lvmcore.data.text.dates import read_dates
from lvmcore.errors import DataError

__all__ = ["date_cells"]


def date_cells(name: str, cells: "pd.Series[Any]", scale: DateScale) -> "pd.Series[Any]":
    """The cells of a column as dates, whatever the form of each.

    Args:
        name: Name of the column, for the message.
        cells: Dates (datetime64); or texts of which each alone is a date [N].
        scale: Of the fit, for the form that the message proposes.

    Returns:
        datetime64 [N], NaT where missing.

    Raises:
        DataError: A cell is no date; the message names its row.
    """
    if is_dates(cells):
        return cells
    known = cells.dropna()
    found = {cell: _date(cell) for cell in pd.unique(known)}
    bad = known[[found[cell] is None for cell in known]]
    if len(bad):
        raise DataError(
            f"Column {name!r} cannot be a feature: row {int(bad.index[0]) + 1} has "
            f"{str(bad.iloc[0])!r}, which is no date, and the model was fitted to dates there. "
            f"Expected cells such as {scale.texts(np.zeros(1))[0]}: correct the cell in the file."
        )
    dates: NDArray[Any] = np.full(len(cells), np.datetime64("NaT", "us"))
    dates[cells.notna().to_numpy()] = [found[cell] for cell in known]
    return pd.Series(dates, index=cells.index)


def _date(cell: object) -> Any:
    """The date of a text, alone; None if it is none, or its day and month are ambiguous."""
    if not isinstance(cell, str):
        return None
    parsed = read_dates(pd.Series([cell.strip()], dtype="str"))
    if parsed is None or parsed.values is None:
        return None
    return parsed.values.to_numpy(dtype="M8[us]")[0]
