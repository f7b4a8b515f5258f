"""Small histograms of the columns of a table. Pure: no streamlit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["BARS", "small_histogram"]

#: Most bars of a histogram.
BARS = 12


def small_histogram(column: pd.Series[Any]) -> list[float]:
    """Histogram of a column.

    Args:
        column: numbers are counted in equal bins, other cells by value, the most frequent first.

    Returns:
        Share of the observed cells in each of at most ``BARS`` bars; empty if every cell is
        missing.
    """
    present = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(present.dtype):
        present = present.astype("int64")
    if pd.api.types.is_numeric_dtype(present.dtype) and present.dtype != bool:
        values = present.to_numpy(dtype=np.float64)
        values = values[np.isfinite(values)]
        distinct = np.unique(values)
        if len(distinct) > BARS:
            counts = np.histogram(values, bins=BARS)[0]
        else:
            counts = np.array([(values == value).sum() for value in distinct])
    else:
        counts = present.value_counts().to_numpy()[:BARS]
    return [round(float(n) / max(1, len(present)), 4) for n in counts]
