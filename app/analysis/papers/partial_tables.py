"""Parts of the papers' tables: fewer rows, or a share of the cells hidden. Pure."""

from __future__ import annotations

import numpy as np

from lvmcore.data import Table, propose_label

__all__ = ["LABEL", "partial_table"]

#: Name of a column that is the label of its table.
LABEL = "label"
_SEED = 0


def partial_table(table: Table, *, rows: int = 0, hidden: float = 0.0) -> Table:
    """A table with rows drawn without replacement, and cells hidden at random (seed 0 each).

    Args:
        table: a table; if cells are to be hidden, all its columns but the label are numbers.
        rows: number of rows, which keep their order; 0 for all.
        hidden: probability with which each cell is hidden, none of the label; 0 to 1.

    Returns:
        The table itself where nothing is left out. Another has a name that says what is.
    """
    frame, name = table.frame, table.name
    if rows and rows < len(frame):
        drawn = np.random.default_rng(_SEED).choice(len(frame), rows, replace=False)
        frame, name = frame.iloc[np.sort(drawn)].reset_index(drop=True), f"{name}, {rows} rows"
    if hidden:
        label = {LABEL, propose_label(table)}
        cells = [column for column in frame.columns if column not in label]
        mask = np.random.default_rng(_SEED).random((len(frame), len(cells))) < hidden
        frame = frame.copy()
        frame[cells] = frame[cells].astype(np.float64).mask(mask)
        name = f"{name}, {hidden:.0%} hidden"
    return table if frame is table.frame else Table.from_frame(frame, name=name)
