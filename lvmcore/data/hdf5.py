"""HDF5 files as AnnData uses them: opened in memory, every link and size looked at beforehand."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.source import MAX_CELLS
from lvmcore.errors import DataError, LatentboardError, UnsupportedError

__all__ = [
    "child",
    "is_hdf5",
    "open_hdf5",
    "packs_hdf5",
    "read_column",
    "read_vector",
    "unreadable",
]

_MAGIC = b"\x89HDF\r\n\x1a\n"
_HEAD = 4096
#: Bytes of a dataset's chunks that stay unpacked, so that none is unpacked for every row of it.
_CACHE = 1 << 25


def is_hdf5(data: bytes) -> bool:
    """Whether the bytes begin as HDF5 does."""
    return data.startswith(_MAGIC)


def packs_hdf5(data: bytes) -> bool:
    """Whether the bytes are the gzip of such a file, as far as its beginning tells."""
    if not data.startswith(b"\x1f\x8b"):
        return False
    try:
        head = zlib.decompressobj(wbits=31).decompress(data[:_HEAD], len(_MAGIC))
    except zlib.error:
        return False
    return is_hdf5(head)


@contextmanager
def open_hdf5(data: bytes, name: str) -> Iterator[Any]:
    """Open a file for reading; whatever goes wrong in the body means that it is damaged.

    Args:
        data: The file.
        name: What to call it in a message.

    Raises:
        DataError: It is damaged.
        UnsupportedError: The package that reads such files is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise UnsupportedError(
            "Reading H5AD files needs the package h5py: pip install 'latentboard[formats]', or "
            "export the matrix as CSV, NPZ or Parquet."
        ) from error
    try:
        with h5py.File(io.BytesIO(data), "r", rdcc_nbytes=_CACHE) as file:
            yield file
    except LatentboardError:
        raise
    except (
        AttributeError,
        LookupError,
        OSError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise unreadable(name) from error


def unreadable(name: str) -> DataError:
    """The error for a file whose parts do not fit together."""
    return DataError(
        f"{name!r} begins like an HDF5 file (H5AD) and cannot be read: it is damaged, cut off, or "
        "packed in a way that is not known here. Copy it again, or write it again with "
        "adata.write_h5ad(file)."
    )


def child(group: Any, path: str, name: str) -> Any:
    """A part of a group, by hard links only: nothing outside the file is ever read.

    Args:
        group: Of an open file.
        path: Names below the group, with "/" between.
        name: What to call the file in a message.

    Returns:
        The group or dataset; None where there is none.

    Raises:
        DataError: It is a link to another place, or its numbers lie in another file.
    """
    import h5py

    found = group
    for part in filter(None, path.split("/")):
        # Asked below the level at which h5py would follow a link to see what it leads to.
        if not isinstance(found, h5py.Group) or not found.id.links.exists(part.encode()):
            return None
        if found.id.links.get_info(part.encode()).type != h5py.h5l.TYPE_HARD:
            raise _elsewhere(path, name)
        found = found[part]
    if isinstance(found, h5py.Dataset):
        if found.external or found.is_virtual:
            raise _elsewhere(path, name)
    elif not isinstance(found, h5py.Group):
        raise unreadable(name)
    return found


def _elsewhere(path: str, name: str) -> DataError:
    return DataError(
        f"{path!r} of {name!r} is a link to another place or file, which is not followed. Read it "
        "with anndata and write it again: adata.write_h5ad(file)."
    )


def read_vector(dataset: Any, length: int | None, name: str) -> NDArray[Any]:
    """A dataset of one dimension: numbers, truth values, or strings as objects.

    Args:
        dataset: Of an open file.
        length: How many entries it has to have; None for any number.
        name: What to call the file in a message.

    Raises:
        DataError: It is none, or has another length.
    """
    import h5py

    if not isinstance(dataset, h5py.Dataset) or len(dataset.shape) != 1:
        raise unreadable(name)
    if dataset.shape[0] > MAX_CELLS or length not in (None, dataset.shape[0]):
        raise unreadable(name)
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr(errors="replace")[:], dtype=object)
    if dataset.dtype.kind not in "biuf":
        raise unreadable(name)
    return np.asarray(dataset[:])


def read_column(frame: Any, column: str, rows: int, name: str) -> pd.Series | None:
    """A column of a data frame as AnnData stores one.

    Args:
        frame: The group of the frame.
        column: The column's name.
        rows: How many rows the frame has.
        name: What to call the file in a message.

    Returns:
        Its cells: numbers, truth values, or text with NaN for an empty or missing cell, as which
        categories come; None for anything else.

    Raises:
        DataError: The column is not there or damaged.
    """
    import h5py

    element = child(frame, column, name)
    if element is None:
        raise unreadable(name)
    if isinstance(element, h5py.Dataset):
        levels = child(frame, f"__categories/{column}", name)  # as anndata 0.7 stored them
        if levels is not None and "categories" in element.attrs:
            return _category(read_vector(element, rows, name), levels, name)
        text = h5py.check_string_dtype(element.dtype) is not None
        if not text and (len(element.shape) != 1 or element.dtype.kind not in "biuf"):
            return None
        return _cells(read_vector(element, rows, name))
    codes, values = child(element, "codes", name), child(element, "values", name)
    if codes is not None:
        levels = child(element, "categories", name)
        return _category(read_vector(codes, rows, name), levels, name)
    if values is not None:
        absent = read_vector(child(element, "mask", name), rows, name).astype(bool)
        cells = _cells(read_vector(values, rows, name))
        if cells.dtype.kind == "b":
            return cells.astype("boolean").mask(absent)
        return (cells.astype("Int64") if cells.dtype.kind == "i" else cells).mask(absent)
    return None


def _cells(values: NDArray[Any]) -> pd.Series:
    if values.dtype == object:
        text = pd.Series(values.tolist(), dtype="str")
        return text.mask(text == "")
    if values.dtype.kind == "b":
        return pd.Series(values)
    whole = values.dtype.kind in "iu" and values.dtype != np.uint64
    return pd.Series(values.astype(np.int64 if whole else np.float64))


def _category(codes: NDArray[Any], levels: Any, name: str) -> pd.Series:
    """The levels that the codes stand for, as text; −1 stands for a missing one."""
    names = [str(level) for level in read_vector(levels, None, name).tolist()]
    if codes.dtype.kind not in "iu" or (
        codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(names)
    ):
        raise unreadable(name)
    texts = np.array([*names, None], dtype=object)[codes.astype(np.int64)]
    return pd.Series(texts.tolist(), dtype="str")
