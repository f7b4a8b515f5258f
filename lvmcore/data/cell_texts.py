"""Texts of the cells of a text file, where they are not how their values are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["MOST_TEXT_CELLS", "CellTexts", "cell_texts", "written_cells"]

#: Most cells of a table whose texts are kept; those of larger tables are written from their values.
MOST_TEXT_CELLS = 2_000_000


@dataclass(frozen=True)
class CellTexts:
    """Texts of cells, and how the file separates them.

    Attributes:
        columns: Texts of the cells by column, Arrow arrays of N strings; without the columns whose
            texts are how ``written_cells`` writes their values.
        delimiter: The character between cells.
        decimal_commas: Names of the columns whose numbers have a decimal comma.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    delimiter: str = ","
    decimal_commas: frozenset[str] = frozenset()

    def decimal(self, column: str) -> str:
        """The decimal mark of a column."""
        return "," if column in self.decimal_commas else "."

    def take(self, rows: NDArray[np.intp]) -> "CellTexts":
        """The texts of some rows, by position."""
        chosen = pa.array(rows)
        return replace(self, columns={name: one.take(chosen) for name, one in self.columns.items()})


def cell_texts(
    frame: pd.DataFrame, cells: Sequence[Any], delimiter: str, decimals: Sequence[str]
) -> CellTexts | None:
    """The texts to keep of a table; None for a table of too many cells.

    Args:
        frame: The values.
        cells: Texts of each of its columns, Arrow arrays.
        delimiter: The character between cells; others than , ; | and a tab become a comma.
        decimals: The decimal mark of each column.
    """
    if frame.size > MOST_TEXT_CELLS:
        return None
    kept = {}
    for position, texts in enumerate(cells):
        if texts.to_pylist() != written_cells(frame.iloc[:, position]):
            kept[str(frame.columns[position])] = texts
    commas = frozenset(
        str(name) for name, mark in zip(frame.columns, decimals, strict=True) if mark == ","
    )
    return CellTexts(kept, delimiter if delimiter in (",", ";", "\t", "|") else ",", commas)


def written_cells(column: "pd.Series[Any]") -> list[str]:
    """The cells of a column as text: numbers with all digits, dates in ISO 8601, "" if missing."""
    missing = column.isna().tolist()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = bool((column.dropna() == column.dropna().dt.normalize()).all())
        values = column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S").tolist()
    else:
        values = column.tolist()
    return [
        "" if gone else value if isinstance(value, str) else str(value)
        for value, gone in zip(values, missing, strict=True)
    ]
