"""Rows of memory-mapped tables, read and standardised on demand."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import TableRows

__all__ = ["MemoryMappedRows", "check_file_length", "column_names", "release_pages"]


class MemoryMappedRows(TableRows):
    """Rows of an array on disk, read, standardised and moved to the device on demand.

    The values equal those of ``InMemoryRows`` of the same table exactly.

    Args:
        data: in the data's units, NaN for missing cells, [N, D plus constant columns].
        standardiser: fitted to it.
        like: a tensor with the dtype and device of the rows.
        complete: whether no cell of ``data`` is NaN.
    """

    def __init__(
        self, data: NDArray[Any], standardiser: Standardiser, like: Tensor, *, complete: bool
    ) -> None:
        self._data, self._standardiser = data, standardiser
        self.n_columns = int((~standardiser.constant).sum())
        self.complete = complete
        self.like = like.new_empty((0, self.n_columns))

    def __len__(self) -> int:
        return len(self._data)

    def take(self, positions: Tensor | slice) -> tuple[Tensor, Tensor | None]:
        """See ``TableRows.take``; the file is read in the order of its rows."""
        if isinstance(positions, torch.Tensor):
            indices = positions.cpu().numpy()
            order = np.argsort(indices, kind="stable")
            rows = np.empty((len(indices), self._data.shape[1]))
            rows[order] = self._data[indices[order]]
        else:
            rows = np.asarray(self._data[positions], dtype=np.float64)
        Y = self._standardiser.transform(rows)
        if isinstance(positions, slice):  # a pass over all rows: it does not come back soon
            release_pages(self._data)
        if self.complete:
            return torch.as_tensor(Y).to(self.like), None
        observed = ~np.isnan(Y)
        Y[~observed] = 0.0
        return torch.as_tensor(Y).to(self.like), torch.as_tensor(observed).to(self.like.device)


def release_pages(X: Any) -> None:
    """Take the pages of a memory map that is only read out of this process's memory.

    They stay in the system's file cache, from which they are mapped again when they are read.
    """
    base = X
    while isinstance(base, np.ndarray):
        base = base.base
    advice = getattr(mmap, "MADV_DONTNEED", None)
    if advice is None or not isinstance(base, mmap.mmap):
        return
    with memoryview(base) as pages:
        read_only = pages.readonly
    if read_only:  # the changes of another map would be lost
        base.madvise(advice)


def column_names(X: Any) -> tuple[str, ...] | None:
    """Column names of a memory map made by ``data.memory_mapped``; None if it has none."""
    names = getattr(X, "columns", None)
    return None if names is None or X.shape[1:] != (len(names),) else tuple(names)


def check_file_length(X: Any) -> None:
    """Refuse a memory map whose file was truncated after it was opened.

    Reading beyond the end of the file would kill the process.

    Raises:
        DataError: the file is shorter than the map.
    """
    base = X
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(X, np.memmap) or not isinstance(base, mmap.mmap):
        return
    begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    if base.size() < begin + len(base):
        raise DataError(
            f"The file of the memory-mapped table ({X.filename or 'without a name'}) has "
            f"{base.size():,} bytes: expected {begin + len(base):,}. It was cut off after it was "
            "opened: write it again and open it anew."
        )
