"""Matrices of an H5AD file: dense or sparse, with all columns or the highly variable ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.readers.hdf5 import child, read_vector, unreadable_error
from lvmcore.data.size_limits import MAX_CELLS, MAX_COLUMNS
from lvmcore.errors import DataError

__all__ = [
    "MatrixEntry",
    "holds_counts",
    "holds_integers",
    "matrix_shape",
    "read_matrix",
    "stored_bytes",
]

_MARKED_SUFFIX = ", highly variable"
_SPARSE = ("data", "indices", "indptr")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class MatrixEntry:
    """A matrix of the file, or its highly variable columns.

    Attributes:
        path: Its path in the file.
        element: The HDF5 dataset, or the group of a sparse matrix.
        shape: Rows and columns in the file.
        names: The group ``var`` with the names of its columns.
        marked: Mask of the columns that are read [D]; None for all.
    """

    path: str
    element: Any
    shape: tuple[int, int]
    names: Any
    marked: NDArray[np.bool_] | None = None

    @property
    def title(self) -> str:
        """Its name in the choice of matrices."""
        return self.path if self.marked is None else self.path + _MARKED_SUFFIX

    @property
    def columns(self) -> int:
        """Number of columns that are read."""
        return self.shape[1] if self.marked is None else int(self.marked.sum())

    @property
    def fits(self) -> bool:
        """Whether it is within the limits of columns and cells."""
        return self.columns <= MAX_COLUMNS and self.shape[0] * self.columns <= MAX_CELLS


def matrix_shape(element: Any) -> tuple[int, int] | None:
    """Rows and columns; None if the element is not a matrix."""
    shape = element.attrs.get("shape", element.attrs.get("h5sparse_shape", ()))
    if not hasattr(element, "keys"):
        shape = element.shape or ()
    return (int(shape[0]), int(shape[1])) if len(shape) == 2 else None


def stored_bytes(element: Any, name: str) -> int:
    """Size of a stored matrix in bytes, decompressed."""
    if not hasattr(element, "keys"):
        return int(element.nbytes)
    return sum(int(_sparse_vector(element, part, name).nbytes) for part in _SPARSE)


def _sparse_vector(element: Any, part: str, name: str) -> Any:
    """One of the three vectors of a sparse matrix."""
    found = child(element, part, name)
    if found is None or hasattr(found, "keys"):
        raise unreadable_error(name)
    return found


def holds_counts(element: Any, name: str) -> bool:
    """Whether all non-missing numbers are whole and not negative."""
    for block in _blocks(
        _sparse_vector(element, "data", name) if hasattr(element, "keys") else element
    ):
        known = block[~np.isnan(block)] if block.dtype.kind == "f" else block
        if known.dtype.kind not in "biuf" or np.any(np.isinf(known)):
            return False
        if np.any((known < 0) | (known != np.floor(known))):
            return False
    return True


def holds_integers(element: Any, name: str) -> bool:
    """Whether the numbers are stored as integers."""
    data = _sparse_vector(element, "data", name) if hasattr(element, "keys") else element
    return bool(data.dtype.kind in "iu")


def _blocks(dataset: Any) -> Iterator[NDArray[Any]]:
    """Blocks of rows of about a million numbers."""
    width = int(np.prod(dataset.shape[1:])) or 1
    step = max(1, _BLOCK // width)
    for start in range(0, dataset.shape[0], step):
        yield dataset[start : start + step]


def read_matrix(matrix: MatrixEntry, name: str) -> NDArray[Any]:
    """The numbers [N, D] as float64, or int64 if all are whole."""
    values = (
        _read_sparse(matrix, name) if hasattr(matrix.element, "keys") else _read_dense(matrix, name)
    )
    exact = not np.isnan(values).any() and np.all(np.abs(values) < 2**53)
    return values.astype(np.int64) if exact and np.all(values == np.floor(values)) else values


def _read_dense(matrix: MatrixEntry, name: str) -> NDArray[np.float64]:
    if matrix.element.dtype.kind not in "biuf":
        raise _not_numeric_error(matrix, matrix.element.dtype, name)
    values = np.empty((matrix.shape[0], matrix.columns))
    start = 0
    for block in _blocks(matrix.element):
        columns = block if matrix.marked is None else block[:, matrix.marked]
        values[start : start + len(block)] = columns
        start += len(block)
    return values


def _read_sparse(matrix: MatrixEntry, name: str) -> NDArray[np.float64]:
    from scipy import sparse

    attributes = matrix.element.attrs
    kind = str(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))
    data, indices, pointers = (
        read_vector(_sparse_vector(matrix.element, part, name), None, name) for part in _SPARSE
    )
    if kind.startswith("csc"):
        found: Any = sparse.csc_array((data, indices, pointers), shape=matrix.shape)
    elif kind.startswith("csr"):
        found = sparse.csr_array((data, indices, pointers), shape=matrix.shape)
    else:
        raise unreadable_error(name)
    found.check_format(full_check=True)  # a wrong index would write outside the matrix
    if matrix.marked is not None:
        found = found[:, np.flatnonzero(matrix.marked)]
    dense: NDArray[np.float64] = found.astype(np.float64).toarray()
    return dense


def _not_numeric_error(matrix: MatrixEntry, kind: object, name: str) -> DataError:
    return DataError(
        f"The matrix {matrix.path!r} of {name!r} holds {kind}. Expected real numbers (float or "
        "int)."
    )
