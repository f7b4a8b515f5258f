"""Reader of NPZ files: X, a matrix or pictures, and optionally labels and names."""

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
from lvmcore.preprocessing.picture_shape import ImageShape, pixel_names

__all__ = ["read_npz"]

#: Bytes that contain the header of an array.
_HEADER = 1 << 16
_LABELS = ("y", "labels")
_NAMES = ("feature_names", "row_ids")
#: Channels of a pixel: grey, or red, green and blue.
_GREY, _COLOUR = 1, 3


def read_npz(archive: zipfile.ZipFile, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read the arrays of an NPZ file; pickled objects are never loaded.

    Args:
        archive: Contains `X` (or `x`) of numbers, and optionally `y` or `labels` [N],
            `feature_names` [D] and `row_ids` [N]. X is a matrix [N, D], grey pictures
            [N, height, width] or [N, height, width, 1], or pictures in colour
            [N, height, width, 3].
        name: Name of the file in messages.

    Returns:
        The frame: row ids, the columns of X, labels; and notes on pictures and on arrays that were
        not used. The columns of pictures are their pixels row by row, the channels of a pixel side
        by side, with the names of ``pixel_names``.

    Raises:
        DataError: X is absent or holds neither a numeric matrix nor pictures, or the shape of
            another array does not match it.
    """
    members = {member.removesuffix(".npy"): member for member in archive.namelist()}
    key = "X" if "X" in members else "x"
    if key not in members:
        shown = ", ".join(map(repr, sorted(members)[:6]))
        raise DataError(
            f"{name!r} holds the arrays {shown}, and none called 'X'. Expected X [rows, columns] "
            "of numbers: numpy.savez(file, X=..., y=..., feature_names=...)."
        )
    used = (key, *_LABELS, *_NAMES)
    arrays = {one: _load_array(archive, members[one], one, name) for one in used if one in members}
    given = arrays[key]
    X, shape = _numeric_matrix(given, key, name), _image_shape(given, key, name)
    rows, columns = X.shape
    names, notes = _feature_names(arrays, shape, columns, name)
    ids = _companion_array(arrays, "row_ids", rows, "rows", name)
    headers = [f"x{i + 1}" for i in range(columns)] if names is None else names
    parts = [pd.DataFrame(X)]
    if ids is not None:
        parts.insert(0, pd.DataFrame({"row_id": _to_series(ids)}))
        headers.insert(0, "row_id")
    for one in _LABELS:
        labels = _companion_array(arrays, one, rows, "rows", name)
        if labels is not None:
            parts.append(pd.DataFrame({one: _to_series(labels)}))
            headers.append(one)
    frame = pd.concat(parts, axis="columns").set_axis(headers, axis="columns")
    others = sorted(set(members) - set(used))
    if others:
        notes.append(f"Arrays that were not used: {', '.join(map(repr, others[:6]))}.")
    if X.dtype != given.dtype and given.dtype.kind == "u":
        first, large = 0 if ids is None else 1, given.reshape(rows, -1) > 2**53
        for column in np.flatnonzero(large.any(axis=0)).tolist():
            notes.append(rounded_note(headers[first + column], int(np.argmax(large[:, column]))))
    return frame, notes


def _feature_names(
    arrays: dict[str, NDArray[Any]], shape: ImageShape | None, columns: int, name: str
) -> tuple[list[str] | None, list[str]]:
    """Names of the columns, None where X has none; and a note on pictures."""
    if shape is None:
        given = _companion_array(arrays, "feature_names", columns, "columns", name)
        return None if given is None else list(map(str, given)), []
    size = f"{shape[0]} × {shape[1]} pixels"
    note = f"The rows are grey pictures of {size}, a column for each pixel, row by row."
    if len(shape) > 2:
        note = (
            f"The rows are pictures in colour of {size}, three columns for each pixel, row by row: "
            "red, green and blue side by side."
        )
    if "feature_names" in arrays:
        note += " The columns are named by their pixels, not by 'feature_names'."
    return pixel_names(shape), [note]


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


def _numeric_matrix(X: NDArray[Any], key: str, name: str) -> NDArray[Any]:
    """X as int64 or float64, a picture in a row, [N, D]."""
    shape = " x ".join(map(str, X.shape))
    if X.ndim not in (2, 3, 4):
        raise DataError(
            f"The array {key!r} of {name!r} has {X.ndim} dimensions ({shape or 'one number'}). "
            "Expected two, rows x columns: X.reshape(len(X), -1)."
        )
    if 0 in X.shape:
        raise DataError(
            f"The array {key!r} of {name!r} is empty ({shape}). Expected at least one row and "
            "column."
        )
    if X.dtype.kind not in "biuf":
        raise DataError(
            f"The array {key!r} of {name!r} holds {X.dtype}. Expected real numbers (float or int)."
        )
    exact = X.dtype.kind in "bi" or (X.dtype.itemsize < 8 and X.dtype.kind == "u")
    return X.reshape(len(X), -1).astype(np.int64 if exact else np.float64)


def _image_shape(X: NDArray[Any], key: str, name: str) -> ImageShape | None:
    """The shape of the pictures in X; None for a matrix."""
    if X.ndim == 2:
        return None
    height, width, channels = (*X.shape[1:], _GREY)[:3]
    if channels == _GREY:
        return height, width
    if channels == _COLOUR:
        return height, width, _COLOUR
    advice = ""
    if channels == 4:
        advice = f" Leave the opacity out: {key}[..., :3]."
    elif height in (_GREY, _COLOUR):
        advice = f" Its channels seem to come first: numpy.moveaxis({key}, 1, -1)."
    raise DataError(
        f"The array {key!r} of {name!r} holds pictures of {channels} channels "
        f"({' x '.join(map(str, X.shape))}). Expected {_GREY} channel of grey or {_COLOUR} of "
        f"colour in the last dimension.{advice}"
    )


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
