"""NPZ files as data frames: X, and where they are there labels and names."""

import io
import zipfile
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from lvmcore.data.archive import damaged, read_member
from lvmcore.data.source import refuse_size
from lvmcore.errors import DataError

__all__ = ["read_npz"]

_LABELS = ("y", "labels")
_KNOWN = ("X", *_LABELS, "feature_names", "row_ids")


def read_npz(archive: zipfile.ZipFile, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read the arrays of an NPZ file; nothing that is pickled is ever loaded.

    Args:
        archive: `X` [N, D] of numbers; where they are there `y` or `labels` [N], `feature_names`
            [D] and `row_ids` [N].
        name: What to call it in a message.

    Returns:
        The frame: row ids, the columns of X, labels; and notes on arrays that were not used.

    Raises:
        DataError: X is not there or is no matrix of numbers, or another array does not fit it.
    """
    members = {member.removesuffix(".npy"): member for member in archive.namelist()}
    if "X" not in members:
        shown = ", ".join(map(repr, sorted(members)[:6]))
        raise DataError(
            f"{name!r} holds the arrays {shown}, and none called 'X'. Expected X [rows, columns] "
            "of numbers: numpy.savez(file, X=..., y=..., feature_names=...)."
        )
    arrays = {key: _load(archive, members[key], key, name) for key in _KNOWN if key in members}
    X = _matrix(arrays["X"], name)
    rows, columns = X.shape
    names = _side(arrays, "feature_names", columns, "columns", name)
    ids = _side(arrays, "row_ids", rows, "rows", name)
    headers = [f"x{i + 1}" for i in range(columns)] if names is None else list(map(str, names))
    parts = [pd.DataFrame(X)]
    if ids is not None:
        parts.insert(0, pd.DataFrame({"row_id": _cells(ids)}))
        headers.insert(0, "row_id")
    for key in _LABELS:
        labels = _side(arrays, key, rows, "rows", name)
        if labels is not None:
            parts.append(pd.DataFrame({key: _cells(labels)}))
            headers.append(key)
    frame = pd.concat(parts, axis="columns").set_axis(headers, axis="columns")
    others = sorted(set(members) - set(_KNOWN))
    notes = [f"Arrays that were not used: {', '.join(map(repr, others[:6]))}."] if others else []
    return frame, notes


def _load(archive: zipfile.ZipFile, member: str, key: str, name: str) -> NDArray[Any]:
    """One array, once its header agrees with the bytes that are there."""
    content = read_member(archive, member, name)
    file = io.BytesIO(content)
    try:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(file)
    except ValueError as error:
        raise damaged(name) from error
    if dtype.hasobject:
        raise DataError(
            f"The array {key!r} of {name!r} holds Python objects, which are not loaded: they could "
            "run code. Save plain numbers or strings: array.astype(float) or array.astype(str)."
        )
    if key == "X" and len(shape) == 2:
        refuse_size(int(shape[0]), int(shape[1]), name)
    count = 1
    for length in shape:
        count *= int(length)
    if count * dtype.itemsize != len(content) - file.tell():
        raise damaged(name)
    file.seek(0)
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except ValueError as error:
        raise damaged(name) from error


def _matrix(X: NDArray[Any], name: str) -> NDArray[Any]:
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


def _side(
    arrays: dict[str, NDArray[Any]], key: str, length: int, what: str, name: str
) -> NDArray[Any] | None:
    """An array that goes with the rows or columns of X; None where it is not there."""
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
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind not in "biufUM":
        raise DataError(
            f"The array {key!r} of {name!r} holds {array.dtype}. Expected numbers or strings."
        )
    return array


def _cells(array: NDArray[Any]) -> pd.Series:
    """Numbers, dates or strings as a column; an empty string is a missing cell."""
    if array.dtype.kind != "U":
        plain = array.astype(np.float64) if array.dtype.kind == "f" else array
        return pd.Series(plain)
    values = pd.Series(array.tolist(), dtype="str")
    return values.mask(values == "")
