"""A matrix in an H5AD file: dense or sparse, all of its columns or some."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.hdf5 import child, read_vector, unreadable
from lvmcore.data.source import MAX_CELLS, MAX_COLUMNS
from lvmcore.errors import DataError

__all__ = ["Matrix", "holds_counts", "read_matrix", "shape_of", "stored_bytes"]

_MARKED = ", highly variable"
_SPARSE = ("data", "indices", "indptr")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Matrix:
    """A matrix of the file, or those columns of it that var marks.

    Attributes:
        path: Where it is in the file.
        element: It: a dataset, or the group of a sparse matrix.
        shape: Rows and columns in the file.
        names: The group that names its columns, ``var``.
        marked: True for the columns that are read [D]; None for all.
    """

    path: str
    element: Any
    shape: tuple[int, int]
    names: Any
    marked: NDArray[np.bool_] | None = None

    @property
    def title(self) -> str:
        """What it is called where one is chosen."""
        return self.path if self.marked is None else self.path + _MARKED

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return self.shape[1] if self.marked is None else int(self.marked.sum())

    @property
    def fits(self) -> bool:
        """Whether it is small enough to be read."""
        return self.columns <= MAX_COLUMNS and self.shape[0] * self.columns <= MAX_CELLS


def shape_of(element: Any) -> tuple[int, int] | None:
    """Rows and columns; None where the element is no matrix."""
    shape = element.attrs.get("shape", element.attrs.get("h5sparse_shape", ()))
    if not hasattr(element, "keys"):
        shape = element.shape or ()
    return (int(shape[0]), int(shape[1])) if len(shape) == 2 else None


def stored_bytes(element: Any, name: str) -> int:
    """How many bytes a matrix takes as it is stored, unpacked."""
    if not hasattr(element, "keys"):
        return int(element.nbytes)
    return sum(int(_part(element, part, name).nbytes) for part in _SPARSE)


def _part(element: Any, part: str, name: str) -> Any:
    """One of the vectors that make a sparse matrix."""
    found = child(element, part, name)
    if found is None or hasattr(found, "keys"):
        raise unreadable(name)
    return found


def holds_counts(element: Any, name: str) -> bool:
    """Whether all numbers are whole and none is below zero; a missing one may be either."""
    for block in _blocks(_part(element, "data", name) if hasattr(element, "keys") else element):
        known = block[~np.isnan(block)] if block.dtype.kind == "f" else block
        if known.dtype.kind not in "biuf" or np.any(np.isinf(known)):
            return False
        if np.any((known < 0) | (known != np.floor(known))):
            return False
    return True


def _blocks(dataset: Any) -> Iterator[NDArray[Any]]:
    """A dataset, about a million numbers at a time."""
    width = int(np.prod(dataset.shape[1:])) or 1
    step = max(1, _BLOCK // width)
    for start in range(0, dataset.shape[0], step):
        yield dataset[start : start + step]


def read_matrix(matrix: Matrix, name: str) -> NDArray[Any]:
    """The numbers [N, D], float64, or int64 where all are whole."""
    values = _sparse(matrix, name) if hasattr(matrix.element, "keys") else _dense(matrix, name)
    exact = not np.isnan(values).any() and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if exact and np.all(values == np.floor(values)) else values


def _dense(matrix: Matrix, name: str) -> NDArray[np.float64]:
    if matrix.element.dtype.kind not in "biuf":
        raise _no_numbers(matrix, matrix.element.dtype, name)
    values = np.empty((matrix.shape[0], matrix.columns))
    start = 0
    for block in _blocks(matrix.element):
        columns = block if matrix.marked is None else block[:, matrix.marked]
        values[start : start + len(block)] = columns
        start += len(block)
    return values


def _sparse(matrix: Matrix, name: str) -> NDArray[np.float64]:
    from scipy import sparse

    attributes = matrix.element.attrs
    kind = str(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))
    data, indices, pointers = (
        read_vector(_part(matrix.element, part, name), None, name) for part in _SPARSE
    )
    if kind.startswith("csc"):
        found: Any = sparse.csc_array((data, indices, pointers), shape=matrix.shape)
    elif kind.startswith("csr"):
        found = sparse.csr_array((data, indices, pointers), shape=matrix.shape)
    else:
        raise unreadable(name)
    found.check_format(full_check=True)  # a wrong index would be written beyond the matrix
    if matrix.marked is not None:
        found = found[:, np.flatnonzero(matrix.marked)]
    dense: NDArray[np.float64] = found.astype(np.float64).toarray()
    return dense


def _no_numbers(matrix: Matrix, kind: object, name: str) -> DataError:
    return DataError(
        f"The matrix {matrix.path!r} of {name!r} holds {kind}. Expected real numbers (float or "
        "int)."
    )
