"""Rows of memory-mapped tables, read and standardised on demand."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import TableRows

__all__ = ["MemoryMappedRows", "check_file_length", "column_names", "release_pages"]


@dataclass(frozen=True)
class _FilePart:
    """Rows of an array in a file, that a process opens when it reads them.

    Attributes:
        path: of the file.
        offset: bytes before the rows.
        shape: of the rows.
        dtype: of a number.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> NDArray[Any]:
        """The rows.

        Raises:
            DataError: the file is not there, or shorter than it was.
        """
        try:
            found: NDArray[Any] = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        except (OSError, ValueError) as error:
            raise DataError(
                f"The rows in {self.path!r} cannot be read by a process of the fit: it needs the "
                "file where it runs. Use shards on this machine, or a folder that all nodes share."
            ) from error
        return found


class MemoryMappedRows(TableRows):
    """Rows of an array on disk, read, standardised and moved to the device on demand.

    The values equal those of ``InMemoryRows`` of the same table exactly. A pickle of rows that are
    in a file has the place in the file, and no rows.

    Args:
        data: in the data's units, NaN for missing cells, [N, D plus constant columns].
        standardiser: fitted to it.
        like: a tensor with the dtype and device of the rows.
        complete: whether no cell of ``data`` is NaN.
    """

    def __init__(
        self, data: NDArray[Any], standardiser: Standardiser, like: Tensor, *, complete: bool
    ) -> None:
        self._data: NDArray[Any] | _FilePart = data
        self._standardiser = standardiser
        self.n_columns = int((~standardiser.constant).sum())
        self.complete = complete
        self.like = like.new_empty((0, self.n_columns))

    def __len__(self) -> int:
        return self._data.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        data = self._data if isinstance(self._data, _FilePart) else _place_in_file(self._data)
        return {**vars(self), "_data": data}

    def part(self, rows: slice) -> MemoryMappedRows:
        """See ``TableRows.part``."""
        return MemoryMappedRows(
            self._opened()[rows], self._standardiser, self.like, complete=self.complete
        )

    def _opened(self) -> NDArray[Any]:
        """The rows in the data's units."""
        if isinstance(self._data, _FilePart):
            self._data = self._data.open()
        return self._data

    def take(self, positions: Tensor | slice) -> tuple[Tensor, Tensor | None]:
        """See ``TableRows.take``; the file is read in the order of its rows."""
        data = self._opened()
        if isinstance(positions, torch.Tensor):
            indices = positions.cpu().numpy()
            order = np.argsort(indices, kind="stable")
            rows = np.empty((len(indices), data.shape[1]))
            rows[order] = data[indices[order]]
        else:
            rows = np.asarray(data[positions], dtype=np.float64)
        Y = self._standardiser.transform(rows)
        if isinstance(positions, slice):  # a pass over all rows: it does not come back soon
            release_pages(data)
        if self.complete:
            return torch.as_tensor(Y).to(self.like), None
        observed = ~np.isnan(Y)
        Y[~observed] = 0.0
        return torch.as_tensor(Y).to(self.like), torch.as_tensor(observed).to(self.like.device)


def _place_in_file(data: NDArray[Any]) -> _FilePart | NDArray[Any]:
    """The place of rows in a file; the rows themselves where they are in none."""
    root: Any = data
    while isinstance(root.base, np.ndarray):
        root = root.base
    path = getattr(root, "filename", None)
    if not isinstance(root, np.memmap) or path is None or not data.flags.c_contiguous:
        return np.array(data)
    offset = root.offset + data.ctypes.data - root.ctypes.data
    return _FilePart(str(path), offset, data.shape, data.dtype.str)


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
