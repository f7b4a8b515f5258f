"""The hover texts of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.row_colours import Colouring
from app.formatting import number, shortened
from lvmcore.data import Dataset

__all__ = ["hover"]


def hover(
    dataset: Dataset, colouring: Colouring, chosen: NDArray[np.intp], more: Sequence[str] = ()
) -> list[list[str]]:
    """Lines of the hover texts of rows, with the names and units of the data.

    Args:
        dataset: all rows.
        colouring: colours of the rows.
        chosen: positions of the rows to describe.
        more: further columns to show.
    """
    shown: list[tuple[str, list[object]]] = []
    for label, labels in dataset.label_columns.items():
        shown.append((label, labels[chosen].tolist()))
    named = dataset.label_columns
    for name in dict.fromkeys([*([] if colouring is None else [colouring.title]), *more]):
        if name not in named and name in dataset.frame:
            shown.append((name, dataset.frame[name].iloc[chosen].tolist()))
    names = [f"row {shortened(name, 60)}" for name in dataset.row_ids[chosen]]
    return [
        [name, *(f"{shortened(title)}: {_cell(cells[i])}" for title, cells in shown)]
        for i, name in enumerate(names)
    ]


def _cell(cell: object) -> str:
    if pd.isna(cell):  # type: ignore[call-overload]
        return "(missing)"
    return number(cell, 6) if isinstance(cell, float) else shortened(cell, 60)
