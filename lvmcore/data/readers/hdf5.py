"""Safe access to HDF5 files of AnnData: in memory, with checks of links and sizes."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.size_limits import MAX_CELLS
from lvmcore.errors import DataError, LatentboardError, UnsupportedError

__all__ = [
    "child",
    "is_gzipped_hdf5",
    "is_hdf5",
    "open_hdf5",
    "read_column",
    "read_vector",
    "unreadable_error",
]

_MAGIC = b"\x89HDF\r\n\x1a\n"
_HEAD = 4096
#: Size of the cache of decompressed chunks, so that none is decompressed for every row.
_CACHE = 1 << 25


def is_hdf5(data: bytes) -> bool:
    """Whether the bytes have the signature of HDF5."""
    return data.startswith(_MAGIC)


def is_gzipped_hdf5(data: bytes) -> bool:
    """Whether the bytes are the gzip of an HDF5 file, judged by its first bytes."""
    if not data.startswith(b"\x1f\x8b"):
        return False
    try:
        head = zlib.decompressobj(wbits=31).decompress(data[:_HEAD], len(_MAGIC))
    except zlib.error:
        return False
    return is_hdf5(head)


@contextmanager
def open_hdf5(data: bytes, name: str) -> Iterator[Any]:
    """Open a file for reading; errors of h5py in the body become a DataError.

    Args:
        data: The file.
        name: Name of the file in messages.

    Raises:
        DataError: The file is damaged.
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
        raise unreadable_error(name) from error


def unreadable_error(name: str) -> DataError:
    """The error for a damaged or inconsistent file."""
    return DataError(
        f"{name!r} begins like an HDF5 file (H5AD) and cannot be read: it is damaged, cut off, or "
        "packed in a way that is not known here. Copy it again, or write it again with "
        "adata.write_h5ad(file)."
    )


def child(group: Any, path: str, name: str) -> Any:
    """Return a member of a group, through hard links only: no other file is ever read.

    Args:
        group: A group of an open file.
        path: Path below the group, separated by "/".
        name: Name of the file in messages.

    Returns:
        The group or dataset; None if it does not exist.

    Raises:
        DataError: It is a soft or external link, or its data are in another file.
    """
    import h5py

    found = group
    for part in filter(None, path.split("/")):
        # The low-level interface does not follow the link, as h5py would.
        if not isinstance(found, h5py.Group) or not found.id.links.exists(part.encode()):
            return None
        if found.id.links.get_info(part.encode()).type != h5py.h5l.TYPE_HARD:
            raise _link_error(path, name)
        found = found[part]
    if isinstance(found, h5py.Dataset):
        if found.external or found.is_virtual:
            raise _link_error(path, name)
    elif not isinstance(found, h5py.Group):
        raise unreadable_error(name)
    return found


def _link_error(path: str, name: str) -> DataError:
    return DataError(
        f"{path!r} of {name!r} is a link to another place or file, which is not followed. Read it "
        "with anndata and write it again: adata.write_h5ad(file)."
    )


def read_vector(dataset: Any, length: int | None, name: str) -> NDArray[Any]:
    """Read a one-dimensional dataset: numbers, booleans, or strings as objects.

    Args:
        dataset: A dataset of an open file.
        length: Expected number of entries; None for any.
        name: Name of the file in messages.

    Raises:
        DataError: It is not one-dimensional, or has another length.
    """
    import h5py

    if not isinstance(dataset, h5py.Dataset) or len(dataset.shape) != 1:
        raise unreadable_error(name)
    if dataset.shape[0] > MAX_CELLS or length not in (None, dataset.shape[0]):
        raise unreadable_error(name)
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr(errors="replace")[:], dtype=object)
    if dataset.dtype.kind not in "biuf":
        raise unreadable_error(name)
    return np.asarray(dataset[:])


def read_column(frame: Any, column: str, rows: int, name: str) -> pd.Series | None:
    """Read a column of a data frame in AnnData's format.

    Args:
        frame: The group of the frame.
        column: The column's name.
        rows: Number of rows of the frame.
        name: Name of the file in messages.

    Returns:
        Numbers, booleans, or text (also of categories) with NaN for an empty or missing cell; None
        for other types.

    Raises:
        DataError: The column is absent or damaged.
    """
    import h5py

    element = child(frame, column, name)
    if element is None:
        raise unreadable_error(name)
    if isinstance(element, h5py.Dataset):
        levels = child(frame, f"__categories/{column}", name)  # as anndata 0.7 stored them
        if levels is not None and "categories" in element.attrs:
            return _decode_categories(read_vector(element, rows, name), levels, name)
        text = h5py.check_string_dtype(element.dtype) is not None
        if not text and (len(element.shape) != 1 or element.dtype.kind not in "biuf"):
            return None
        return _to_series(read_vector(element, rows, name))
    codes, values = child(element, "codes", name), child(element, "values", name)
    if codes is not None:
        levels = child(element, "categories", name)
        return _decode_categories(read_vector(codes, rows, name), levels, name)
    if values is not None:
        absent = read_vector(child(element, "mask", name), rows, name).astype(bool)
        cells = _to_series(read_vector(values, rows, name))
        if cells.dtype.kind == "b":
            return cells.astype("boolean").mask(absent)
        return (cells.astype("Int64") if cells.dtype.kind == "i" else cells).mask(absent)
    return None


def _to_series(values: NDArray[Any]) -> pd.Series:
    if values.dtype == object:
        text = pd.Series(values.tolist(), dtype="str")
        return text.mask(text == "")
    if values.dtype.kind == "b":
        return pd.Series(values)
    whole = values.dtype.kind in "iu" and values.dtype != np.uint64
    return pd.Series(values.astype(np.int64 if whole else np.float64))


def _decode_categories(codes: NDArray[Any], levels: Any, name: str) -> pd.Series:
    """Decode categories to text; the code −1 is a missing cell."""
    names = [str(level) for level in read_vector(levels, None, name).tolist()]
    if codes.dtype.kind not in "iu" or (
        codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(names)
    ):
        raise unreadable_error(name)
    texts = np.array([*names, None], dtype=object)[codes.astype(np.int64)]
    return pd.Series(texts.tolist(), dtype="str")
