"""The size of a table, by which settings are advised."""

from __future__ import annotations

from dataclasses import dataclass

from lvmcore.preprocessing.cell_types import Cells
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["TableSize"]


@dataclass(frozen=True, kw_only=True)
class TableSize:
    """What the advice for a fit knows of its table.

    Attributes:
        n_rows: N.
        n_columns: D, without the target.
        n_classes: classes of the label column or of the target; 0 without one.
        cells: the narrowest type that all cells have.
        incomplete: whether cells are missing.
        image_shape: (height, width), or (height, width, 3) in colour, of rows that are pictures;
            None for other rows.
    """

    n_rows: int
    n_columns: int
    n_classes: int = 0
    cells: Cells = "any"
    incomplete: bool = False
    image_shape: ImageShape | None = None
