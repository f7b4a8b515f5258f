"""Raw formats of the papers' public files: IDX, pickled arrays, pictures. No file's code runs."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError

__all__ = ["PickledArray", "read_idx", "read_npy_pickle", "read_pickle", "read_picture"]

#: Number types that a pickled array may have, by the code in the pickle.
_NUMBERS = ("u1", "i4", "i8", "f4", "f8")
#: The type code of unsigned bytes in an IDX file.
_IDX_BYTES = 8
#: What the pickle module raises for a content that is not a pickle, or a damaged one.
_DAMAGED = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError),
    *(TypeError, ValueError, OverflowError, MemoryError, RecursionError),
)


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes: a magic number, the sizes of the axes, and the values.

    Args:
        content: The file, unpacked.
        name: Its name, for the message.

    Raises:
        DataError: It is not such a file, or its length is not that of its axes.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _IDX_BYTES:
        raise DataError(_refusal(name, "an IDX file of unsigned bytes", "its first bytes differ"))
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4))
    expected = start + math.prod(shape)
    if len(content) != expected:
        reason = f"it has {len(content):,} bytes, where its axes ask for {expected:,}"
        raise DataError(_refusal(name, "an IDX file", reason))
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


class PickledArray:
    """An array of a pickle, of which only the state is kept.

    NumPy's own reconstruction is not used: it takes the flags of a type from the pickle, by which
    arbitrary bytes become objects.
    """

    def __init__(self, *_: object) -> None:
        self._state: Any = None

    def __setstate__(self, state: object) -> None:
        self._state = state

    def numbers(self, name: str) -> NDArray[Any]:
        """The array, if it has numbers.

        Args:
            name: Name of the file, for the message.

        Raises:
            DataError: It has none, or its state is damaged.
        """
        try:
            _, shape, kind, fortran, values = self._state
            content = values.encode("latin1") if isinstance(values, str) else values
            order: Any = "F" if fortran else "C"
            return np.frombuffer(content, kind.number_type()).reshape(shape, order=order)
        except _DAMAGED as error:
            reason = "an array has other values than numbers"
            raise DataError(_refusal(name, "a pickle of arrays of numbers", reason)) from error

    def objects(self, name: str) -> list[object]:
        """The objects of an array of objects, in the order of its axes.

        Args:
            name: Name of the file, for the message.

        Raises:
            DataError: It is no array of objects.
        """
        try:
            values = self._state[4]
        except _DAMAGED:
            values = None
        if not isinstance(values, list):
            raise DataError(_refusal(name, "an array of objects", "it has none"))
        return values


class _PickledType:
    """The type of a pickled array."""

    def __init__(self, code: object = None, *_: object) -> None:
        self._code = code
        self._state: Any = None

    def __setstate__(self, state: object) -> None:
        self._state = state

    def number_type(self) -> np.dtype[Any]:
        """The type of numbers.

        Raises:
            ValueError: It is another type.
        """
        order = str(self._state[1])
        if self._code not in _NUMBERS or order not in "<>|":
            raise ValueError(f"the type {self._code} is not of numbers")
        return np.dtype(f"{order}{self._code}")


#: What a pickle of arrays asks for by module and name, with the stand-ins.
_STAND_INS: dict[tuple[str, str], type | None] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _PickledType,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler that knows arrays, and refuses every other class or function."""

    def find_class(self, module: str, name: str, /) -> Any:
        """The stand-in of a class or function."""
        if (module, name) not in _STAND_INS:
            raise _ForeignObject(f"{module}.{name}")
        return _STAND_INS[module, name]


class _ForeignObject(pickle.UnpicklingError):
    """A pickle asks for something other than an array."""


def read_pickle(content: bytes, name: str) -> object:
    """Read a pickle of lists, dictionaries, numbers and arrays; arrays are `PickledArray`.

    No class or function of the pickle is imported or called. Texts of Python 2 are read as Latin-1.

    Args:
        content: The pickle.
        name: Name of the file, for the message.

    Raises:
        DataError: It asks for something else, or is damaged.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except _ForeignObject as error:
        raise DataError(_refusal(name, "a pickle of arrays", f"it asks for {error}")) from error
    except _DAMAGED as error:
        raise DataError(_refusal(name, "a pickle of arrays", "it is damaged")) from error


def read_npy_pickle(content: bytes, name: str) -> object:
    """Read the only object of an NPY file of objects, as `read_pickle` does.

    Raises:
        DataError: It is not such a file, or is damaged.
    """
    file = io.BytesIO(content)
    try:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
    except ValueError as error:
        raise DataError(_refusal(name, "an NPY file", "its header is damaged")) from error
    found = read_pickle(content[file.tell() :], name)
    objects = found.objects(name) if isinstance(found, PickledArray) else []
    if len(objects) != 1:
        raise DataError(_refusal(name, "an NPY file of one object", f"it has {len(objects)}"))
    return objects[0]


def read_picture(content: bytes, name: str) -> NDArray[np.uint8]:
    """Read a PNG or GIF picture.

    Args:
        content: The file.
        name: Its name, for the message.

    Returns:
        Pixels [height, width] of a grey picture, [height, width, 3] of another; 0 to 255.

    Raises:
        DataError: It is no picture, or is damaged.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "GIF")) as picture:
            grey = picture.mode in ("1", "L")
            return np.asarray(picture.convert("L" if grey else "RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(_refusal(name, "a PNG or GIF picture", "it is damaged")) from error


def _refusal(name: str, expected: str, reason: str) -> str:
    return (
        f"The file {name} cannot be read: {reason}. Expected {expected}. Delete it, and fetch the "
        "dataset again."
    )
