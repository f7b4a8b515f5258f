"""Tables that stay on disk: memory maps, whose rows are read and standardised on demand."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.rows import TableRows
from lvmcore.standardise import Standardiser

__all__ = ["StreamedRows", "check_file", "names_in"]


class StreamedRows(TableRows):
    """Rows of an array on disk, read, standardised and moved to the device when they are asked for.

    The numbers are those that ``HeldRows`` has of the same table, to the last bit.

    Args:
        data: in the data's units, NaN where a cell is missing, [N, D and the constant columns].
        standardiser: fitted to it.
        like: a tensor of the dtype and on the device that the rows are to come in.
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
            wanted = positions.cpu().numpy()
            order = np.argsort(wanted, kind="stable")
            rows = np.empty((len(wanted), self._data.shape[1]))
            rows[order] = self._data[wanted[order]]
        else:
            rows = np.asarray(self._data[positions], dtype=np.float64)
        Y = self._standardiser.transform(rows)
        if self.complete:
            return torch.as_tensor(Y).to(self.like), None
        observed = ~np.isnan(Y)
        Y[~observed] = 0.0
        return torch.as_tensor(Y).to(self.like), torch.as_tensor(observed).to(self.like.device)


def names_in(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a memory map that brings them, as ``data.memory_mapped`` makes it."""
    names = getattr(X, "columns", None)
    return None if names is None or X.shape[1:] != (len(names),) else tuple(names)


def check_file(X: Any) -> None:
    """Refuse a memory map whose file was cut off after it was opened.

    To read beyond the end of the file would end the process without a word.

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
