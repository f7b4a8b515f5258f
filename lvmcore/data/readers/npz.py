"""Reader of NPZ files: X, and optionally labels and names."""

import io
import math
import sys
import zipfile
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from lvmcore.data.readers.zip_archive import damaged_archive_error, read_member, unzip_errors
from lvmcore.data.size_limits import check_size
from lvmcore.data.table import rounded_note
from lvmcore.errors import DataError

__all__ = ["read_npz"]

#: Bytes that contain the header of an array.
_HEADER = 1 << 16
_LABELS = ("y", "labels")
_KNOWN = ("X", *_LABELS, "feature_names", "row_ids")


def read_npz(archive: zipfile.ZipFile, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read the arrays of an NPZ file; pickled objects are never loaded.

    Args:
        archive: Contains `X` [N, D] of numbers, and optionally `y` or `labels` [N],
            `feature_names` [D] and `row_ids` [N].
        name: Name of the file in messages.

    Returns:
        The frame: row ids, the columns of X, labels; and notes on arrays that were not used.

    Raises:
        DataError: X is absent or not a numeric matrix, or the shape of another array does not
            match it.
    """
    members = {member.removesuffix(".npy"): member for member in archive.namelist()}
    if "X" not in members:
        shown = ", ".join(map(repr, sorted(members)[:6]))
        raise DataError(
            f"{name!r} holds the arrays {shown}, and none called 'X'. Expected X [rows, columns] "
            "of numbers: numpy.savez(file, X=..., y=..., feature_names=...)."
        )
    arrays = {
        key: _load_array(archive, members[key], key, name) for key in _KNOWN if key in members
    }
    X = _numeric_matrix(arrays["X"], name)
    rows, columns = X.shape
    names = _companion_array(arrays, "feature_names", columns, "columns", name)
    ids = _companion_array(arrays, "row_ids", rows, "rows", name)
    headers = [f"x{i + 1}" for i in range(columns)] if names is None else list(map(str, names))
    parts = [pd.DataFrame(X)]
    if ids is not None:
        parts.insert(0, pd.DataFrame({"row_id": _to_series(ids)}))
        headers.insert(0, "row_id")
    for key in _LABELS:
        labels = _companion_array(arrays, key, rows, "rows", name)
        if labels is not None:
            parts.append(pd.DataFrame({key: _to_series(labels)}))
            headers.append(key)
    frame = pd.concat(parts, axis="columns").set_axis(headers, axis="columns")
    others = sorted(set(members) - set(_KNOWN))
    notes = [f"Arrays that were not used: {', '.join(map(repr, others[:6]))}."] if others else []
    if X.dtype != arrays["X"].dtype and arrays["X"].dtype.kind == "u":
        first = 0 if ids is None else 1
        for column in np.flatnonzero((arrays["X"] > 2**53).any(axis=0)).tolist():
            row = int(np.argmax(arrays["X"][:, column] > 2**53))
            notes.append(rounded_note(headers[first + column], row))
    return frame, notes


def _load_array(archive: zipfile.ZipFile, member: str, key: str, name: str) -> NDArray[Any]:
    """Load an array, after a check of its header against the number of bytes."""
    with unzip_errors(name), archive.open(member) as stream:  # nothing but the header
        head = io.BytesIO(stream.read(_HEADER))
    try:
        version = npy.read_magic(head)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(head)
    except Exception as error:  # the header is Python source, with errors of many kinds
        raise damaged_archive_error(name) from error
    if dtype.hasobject:
        raise DataError(
            f"The array {key!r} of {name!r} holds Python objects, which are not loaded: they could "
            "run code. Save plain numbers or strings: array.astype(float) or array.astype(str)."
        )
    check_size(int(shape[0]) if shape else 1, math.prod(shape[1:]), name)
    if math.prod(shape) * dtype.itemsize != archive.getinfo(member).file_size - head.tell():
        raise damaged_archive_error(name)
    content = read_member(archive, member, name)
    try:
        return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
    except (ValueError, TypeError, OSError) as error:
        raise damaged_archive_error(name) from error


def _numeric_matrix(X: NDArray[Any], name: str) -> NDArray[Any]:
    """X as int64 or float64."""
    shape = " x ".join(map(str, X.shape))
    if X.ndim != 2:
        raise DataError(
            f"The array 'X' of {name!r} has {X.ndim} dimensions ({shape or 'one number'}). "
            "Expected two, rows x columns: X.reshape(len(X), -1)."
        )
    if 0 in X.shape:
        raise DataError(
            f"The array 'X' of {name!r} is empty ({shape}). Expected at least one row and column."
        )
    if X.dtype.kind not in "biuf":
        raise DataError(
            f"The array 'X' of {name!r} holds {X.dtype}. Expected real numbers (float or int)."
        )
    exact = X.dtype.kind in "bi" or (X.dtype.itemsize < 8 and X.dtype.kind == "u")
    return X.astype(np.int64 if exact else np.float64)


def _companion_array(
    arrays: dict[str, NDArray[Any]], key: str, length: int, what: str, name: str
) -> NDArray[Any] | None:
    """An array with an entry for each row or column of X; None if it is absent."""
    if key not in arrays:
        return None
    array = arrays[key]
    if array.size == length and array.ndim <= 2:
        array = array.ravel()
    if array.shape != (length,):
        shape = " x ".join(map(str, array.shape))
        raise DataError(
            f"The array {key!r} of {name!r} has the shape {shape or '()'}, and X has {length} "
            f"{what}. Expected one entry for each."
        )
    if array.dtype.kind == "U" and array.dtype.itemsize:
        codes = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).view(np.uint32)
        if np.any((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))):
            raise DataError(
                f"The array {key!r} of {name!r} holds text with codes that are no characters: it "
                "is damaged. Save it again."
            )
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind not in "biufUM":
        raise DataError(
            f"The array {key!r} of {name!r} holds {array.dtype}. Expected numbers or strings."
        )
    return array


def _to_series(array: NDArray[Any]) -> pd.Series:
    """A column of numbers, dates or strings; an empty string is a missing cell."""
    if array.dtype.kind != "U":
        plain = array.astype(np.float64) if array.dtype.kind == "f" else array
        return pd.Series(plain)
    values = pd.Series(array.tolist(), dtype="str")
    return values.mask(values == "")
