"""Reader of H5AD files (AnnData): one matrix with the names of its columns, and obs.

The format is that of anndata's documentation ("On-disk format", versions 0.7 on). The reader uses
one of the matrices X, layers/… and raw/X, the index and highly variable columns of var, and obs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.readers.anndata_matrix import (
    MatrixEntry,
    holds_counts,
    holds_integers,
    matrix_shape,
    read_matrix,
    stored_bytes,
)
from lvmcore.data.readers.hdf5 import child, open_hdf5, read_column, read_vector, unreadable_error
from lvmcore.data.size_limits import (
    MAX_CELLS,
    MAX_COLUMNS,
    check_compression_ratio,
    check_size,
)
from lvmcore.data.table import rounded_note
from lvmcore.errors import ConfigError, DataError

__all__ = ["AnnDataTable", "h5ad_size", "read_h5ad"]

_HIGHLY_VARIABLE = "highly_variable"
#: Matrices in the order of the default choice: the first of whole counts, else the first.
_PREFERRED = ("X", "layers/counts", "raw/X")
_BYTES_PER_TEXT = 64


@dataclass(frozen=True)
class AnnDataTable:
    """The content of an H5AD file as a data frame.

    Attributes:
        frame: Names of the rows, the columns of the matrix, the columns of obs.
        annotation_columns: Positions of the columns of obs.
        matrix: Title of the matrix.
        matrices: Titles of all matrices.
        notes: Which matrix was chosen, and what was not read.
    """

    frame: pd.DataFrame
    annotation_columns: range
    matrix: str
    matrices: tuple[str, ...]
    notes: list[str] = field(default_factory=list)


def h5ad_size(data: bytes, name: str) -> int:
    """Memory in bytes for reading the largest matrix, computed from the headers.

    Args:
        data: The file.
        name: Name of the file in messages.

    Raises:
        DataError: The file is damaged, not an AnnData file, or a decompression bomb.
    """
    with open_hdf5(data, name) as file:
        matrices = _list_matrices(file, len(data), name)
        rows = matrices[0].shape[0]
        dense = [8 * rows * one.columns for one in matrices if one.fits]
        stored = max(stored_bytes(one.element, name) for one in matrices)
        texts = _BYTES_PER_TEXT * rows * (1 + len(_column_order(file["obs"])))
        return max(len(data), stored + max(dense, default=0) + texts)


def read_h5ad(data: bytes, wanted: str | None, name: str, max_bytes: int) -> AnnDataTable:
    """Read a matrix of an AnnData file with the annotations of its rows (obs).

    Args:
        data: The file.
        wanted: Title of the matrix, one of `AnnDataTable.matrices`. None chooses the first of X,
            layers/counts and raw/X that contains whole counts, else the first of them; of this the
            columns that var marks as highly variable, if any.
        name: Name of the file in messages.
        max_bytes: Largest matrix, as float64, in bytes.

    Raises:
        DataError: The file is damaged, not an AnnData file, or its matrix is too large.
        ConfigError: There is no matrix of that title.
        UnsupportedError: The package that reads such files is not installed.
    """
    with open_hdf5(data, name) as file:
        matrices = _list_matrices(file, len(data), name)
        titles = tuple(one.title for one in matrices)
        if wanted is not None and wanted not in titles:
            raise ConfigError(
                f"{name!r} has no matrix {wanted!r}. Its matrices are "
                f"{', '.join(map(repr, titles))}."
            )
        chosen = (
            _default_matrix(matrices, name) if wanted is None else matrices[titles.index(wanted)]
        )
        _check_matrix_size(chosen, name, max_bytes)
        obs, rows = file["obs"], chosen.shape[0]
        names = read_vector(
            child(chosen.names, _index_name(chosen.names), name), chosen.shape[1], name
        )
        if chosen.marked is not None:
            names = names[chosen.marked]
        check_size(rows, chosen.columns + len(_column_order(obs)), name)
        described, skipped = _observations(obs, rows, name)
        ids = read_vector(child(obs, _index_name(obs), name), rows, name)
        title = _index_name(obs) if _index_name(obs) not in ("_index", "index") else "obs_names"
        matrix = read_matrix(chosen, name)
        frame = pd.concat(
            [
                pd.DataFrame({title: pd.Series(map(str, ids), dtype="str")}),
                pd.DataFrame(matrix),
                described,
            ],
            axis="columns",
        ).set_axis([title, *map(str, names), *described.columns], axis="columns")
        notes = [*_matrix_notes(chosen, matrices), *skipped]
        notes += _unread_notes(file, name)
        if holds_integers(chosen.element, name) and matrix.dtype.kind == "f":
            large = np.abs(matrix) >= 2**53
            for column in np.flatnonzero(large.any(axis=0)).tolist():
                notes.append(rounded_note(str(names[column]), int(np.argmax(large[:, column]))))
    width = frame.shape[1]
    return AnnDataTable(
        frame, range(width - described.shape[1], width), chosen.title, titles, notes
    )


def _list_matrices(file: Any, size: int, name: str) -> list[MatrixEntry]:
    """All matrices of a file of ``size`` bytes, and for each its highly variable columns."""
    obs = child(file, "obs", name)
    if obs is None or child(file, "var", name) is None:
        raise DataError(
            f"{name!r} is an HDF5 file without the parts of an AnnData file (X, obs, var): it "
            f"holds {', '.join(map(repr, list(file)[:6])) or 'nothing'}. Expected an H5AD file; "
            "of a 10x file, scanpy.read_10x_h5(file).write_h5ad(...) makes one."
        )
    if not hasattr(obs, "keys") or not hasattr(child(file, "var", name), "keys"):
        raise DataError(
            f"{name!r} was written by anndata before version 0.7. Read it with anndata and write "
            "it again: adata.write_h5ad(file)."
        )
    layers = child(file, "layers", name)
    paths = ["X", *(f"layers/{key}" for key in (() if layers is None else layers)), "raw/X"]
    rows = _frame_length(obs, name)
    check_size(rows, 1, name)
    found = []
    for path in paths:
        element = child(file, path, name)
        shape = None if element is None else matrix_shape(element)
        if shape is None:
            continue
        names = child(file, "raw/var" if path == "raw/X" else "var", name)
        columns = _frame_length(names, name)
        if shape != (rows, columns):
            raise DataError(
                f"The matrix {path!r} of {name!r} has {shape[0]:,} rows and {shape[1]:,} columns, "
                f"and its names are for {rows:,} rows and {columns:,} columns. Write the file "
                "again with anndata: adata.write_h5ad(file)."
            )
        check_compression_ratio(stored_bytes(element, name), size, name)
        marked = _highly_variable_columns(names, columns, name)
        if marked is not None:
            found.append(MatrixEntry(path, element, shape, names, marked))
        found.append(MatrixEntry(path, element, shape, names))
    if not found or 0 in found[0].shape:
        shown = "no matrix" if not found else "{} rows and {} columns".format(*found[0].shape)
        raise DataError(
            f"{name!r} has {shown}. Expected a matrix X with at least one row and one column."
        )
    return found


def _frame_length(frame: Any, name: str) -> int:
    index = child(frame, _index_name(frame), name) if hasattr(frame, "keys") else None
    if hasattr(index, "keys"):  # strings that may be missing: their values
        index = child(index, "values", name)
    if index is None or len(index.shape) != 1:
        raise unreadable_error(name)
    return int(index.shape[0])


def _index_name(frame: Any) -> str:
    """Name of the column that contains a data frame's index."""
    return str(frame.attrs.get("_index", "_index"))


def _column_order(frame: Any) -> list[str]:
    found = np.asarray(frame.attrs.get("column-order", ()), dtype=object)
    return [str(column) for column in found.ravel()]


def _highly_variable_columns(names: Any, columns: int, name: str) -> NDArray[np.bool_] | None:
    """Mask of the columns that var marks as highly variable; None for none or all."""
    if child(names, _HIGHLY_VARIABLE, name) is None:
        return None
    marks = read_column(names, _HIGHLY_VARIABLE, columns, name)
    if marks is None or marks.dtype.kind != "b":
        return None
    marked = marks.to_numpy(dtype=bool, na_value=False)
    return marked if 0 < marked.sum() < columns else None


def _check_matrix_size(matrix: MatrixEntry, name: str, max_bytes: int) -> None:
    rows, columns = matrix.shape[0], matrix.columns
    if matrix.fits and 8 * rows * columns <= max_bytes:
        return
    raise DataError(
        f"The matrix {matrix.title!r} of {name!r} has {rows:,} rows of {columns:,} columns, "
        f"{8 * rows * columns / 1e9:,.1f} GB as a table; at most {MAX_COLUMNS:,} columns, "
        f"{MAX_CELLS:,} cells and {max_bytes / 1e9:,.1f} GB are read. Mark the columns to learn "
        "from before the file is written (scanpy.pp.highly_variable_genes(adata, "
        "n_top_genes=2000)), which are then read alone, or keep fewer rows."
    )


def _default_matrix(matrices: Sequence[MatrixEntry], name: str) -> MatrixEntry:
    """The matrix that is read by default."""
    first = {one.path: one for one in reversed(matrices)}  # the marked columns before all
    usual = [first[path] for path in _PREFERRED if path in first] or [matrices[0]]
    fitting = [one for one in usual if one.fits]
    counts = (one for one in fitting if holds_counts(one.element, name))
    return next(counts, (fitting or usual)[0])


def _observations(obs: Any, rows: int, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The columns of obs, and notes on those that are left out."""
    names, columns, notes = [], [], []
    for column in _column_order(obs):
        cells = read_column(obs, column, rows, name)
        if cells is None:
            notes.append(
                f"Column {column!r} of obs left out: it holds neither numbers, text nor categories."
            )
            continue
        names.append(column)
        columns.append(cells)
    if not columns:
        return pd.DataFrame(index=range(rows)), notes
    return pd.concat(columns, axis="columns").set_axis(names, axis="columns"), notes


def _matrix_notes(chosen: MatrixEntry, matrices: Sequence[MatrixEntry]) -> list[str]:
    """Notes on the choice of the matrix."""
    notes = []
    others = [one.title for one in matrices if one is not chosen]
    if others:
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        notes.append(
            f"The matrix {chosen.title!r} was read; of X, layers/counts and raw/X the first that "
            "holds whole counts is, unless another is chosen. Also there: "
            f"{', '.join(map(repr, others[:6]))}{more}."
        )
    if chosen.marked is not None:
        notes.append(
            f"{chosen.columns:,} of {chosen.shape[1]:,} columns were read: those that var marks "
            f"as {_HIGHLY_VARIABLE}."
        )
    return notes


def _unread_notes(file: Any, name: str) -> list[str]:
    """A note on the parts of the file that are not read."""
    found = []
    for part in ("obsm", "obsp", "varm", "varp"):
        group = child(file, part, name)
        found += [f"{part}/{key}" for key in (() if group is None else group)]
    if not found:
        return []
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    return [f"Not read: {', '.join(map(repr, found[:6]))}{more}."]
