"""The number of rows of a table, in words."""

from __future__ import annotations

from app.formatting import count
from lvmcore.data import Dataset

__all__ = ["rows_in_words"]


def rows_in_words(dataset: Dataset) -> str:
    """The rows of a dataset, "150 rows"; of files in place, all rows of the files.

    Args:
        dataset: all rows, or a sample of those of files.
    """
    files = dataset.files
    if files is None:
        return count(len(dataset.X), "row")
    if files.n_rows is None:
        return f"all rows of {count(len(files.stamps), 'file')}"
    return count(files.n_rows, "row")
