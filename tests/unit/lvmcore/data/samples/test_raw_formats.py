"""Raw formats of the papers' files: read as they were written, refused with a sentence."""

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lvmcore import DataError
from lvmcore.data.samples.raw_formats import (
    PickledArray,
    read_idx,
    read_npy_pickle,
    read_pickle,
    read_picture,
)

#: An array of bytes in a list, as Python 2 pickles it.
PYTHON_2 = (
    b"(lp0\ncnumpy.core.multiarray\n_reconstruct\np1\n(cnumpy\nndarray\np2\n(I0\ntp3\nS'b'\np4\n"
    b"tp5\nRp6\n(I1\n(I2\nI2\ntp7\ncnumpy\ndtype\np8\n(S'u1'\np9\nI0\nI1\ntp10\nRp11\n(I3\nS'|'\n"
    b"p12\nNNNI-1\nI-1\nI0\ntp13\nbI00\nS'\\x01\x88\\n\xff'\np14\ntp15\nba."
)


def idx(values: np.ndarray[Any, Any]) -> bytes:
    return (
        b"\0\0\x08" + bytes([values.ndim]) + np.array(values.shape, ">u4").tobytes() + bytes(values)
    )


def array(found: object) -> PickledArray:
    assert isinstance(found, PickledArray)
    return found


def test_an_idx_file_is_read_with_its_axes() -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.testing.assert_array_equal(read_idx(idx(values), "file"), values)
    np.testing.assert_array_equal(read_idx(idx(values.ravel()), "file"), values.ravel())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (idx(np.zeros((2, 3), np.uint8))[:-1], "it has 17 bytes, where its axes ask for 18"),
        (idx(np.zeros((2, 3), np.uint8)) + b"\0", "it has 19 bytes, where its axes ask for 18"),
        (b"\0\0\x08\x03\0\0", "it has 6 bytes, where its axes ask for 16"),
        (b"\0\0\x0d\x01\0\0\0\0", "its first bytes differ"),
        (b"", "its first bytes differ"),
    ],
    ids=("truncated", "longer", "without axes", "floats", "empty"),
)
def test_another_content_is_no_idx_file(content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=f"The file digits cannot be read: {reason}. Expected"):
        read_idx(content, "digits")


def test_arrays_of_python_2_are_read() -> None:
    found = read_pickle(PYTHON_2, "faces.pkl")
    assert isinstance(found, list)
    np.testing.assert_array_equal(array(found[0]).numbers("faces.pkl"), [[1, 136], [10, 255]])


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("kind", ["u1", "<i8", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_numbers_are_read(protocol: int, kind: str, order: Any) -> None:
    values = np.asarray(np.arange(6).reshape(2, 3), dtype=kind, order=order)
    found = read_pickle(pickle.dumps({"Y": values, "n": 2}, protocol), "file")
    assert isinstance(found, dict)
    read = array(found["Y"]).numbers("file")
    np.testing.assert_array_equal(read, values)
    assert read.dtype == values.dtype
    assert found["n"] == 2


def test_the_object_of_an_npy_file_is_read() -> None:
    file = io.BytesIO()
    np.save(file, np.array({"Y": np.arange(3)}, dtype=object), allow_pickle=True)
    found = read_npy_pickle(file.getvalue(), "file")
    assert isinstance(found, dict)
    np.testing.assert_array_equal(array(found["Y"]).numbers("file"), [0, 1, 2])
    several = io.BytesIO()
    np.save(several, np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="it has 2"):
        read_npy_pickle(several.getvalue(), "file")
    with pytest.raises(DataError, match="its header is damaged"):
        read_npy_pickle(b"PK" + file.getvalue(), "file")


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_hostile_pickle_is_refused_and_does_nothing(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "made"
    content = pickle.dumps([np.zeros(2), Hostile(path)][1:], protocol)
    with pytest.raises(DataError, match=r"faces.pkl cannot be read: it asks for (posix|nt)\.mkdir"):
        read_pickle(content, "faces.pkl")
    assert not path.exists()
    pickle.loads(content)
    assert path.exists()  # as it would have been


def test_arrays_of_other_things_than_numbers_are_no_numbers() -> None:
    objects = array(read_pickle(pickle.dumps(np.array([None, "a"]), 4), "file"))
    assert objects.objects("file") == [None, "a"]
    with pytest.raises(DataError, match="an array has other values than numbers"):
        objects.numbers("file")
    # bytes as the addresses of objects
    forged = pickle.dumps(np.arange(2), 4).replace(b"\x8c\x02i8", b"\x8c\x02O8")
    with pytest.raises(DataError, match="an array has other values than numbers"):
        array(read_pickle(forged, "file")).numbers("file")
    with pytest.raises(DataError, match="Expected an array of objects"):
        array(read_pickle(pickle.dumps(np.arange(2), 4), "file")).objects("file")
    texts = array(read_pickle(pickle.dumps(np.array(["a"]), 4), "file"))
    with pytest.raises(DataError, match="an array has other values than numbers"):
        texts.numbers("file")


@pytest.mark.parametrize(
    "content",
    [
        PYTHON_2[:-20],
        pickle.dumps(np.arange(3), 4)[:-30],
        b"",
        b"no pickle",
        b"cnumpy\nndarray\n)R.",
    ],
    ids=("cut", "cut in the numbers", "empty", "text", "called"),
)
def test_a_damaged_pickle_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"it is damaged\. Expected a pickle of arrays"):
        read_pickle(content, "file")


def picture(pixels: np.ndarray[Any, Any], kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=kind)
    return file.getvalue()


def test_pictures_are_read_in_grey_or_in_colours() -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(8, 32)
    np.testing.assert_array_equal(read_picture(picture(grey, "PNG"), "file"), grey)
    np.testing.assert_array_equal(read_picture(picture(grey, "GIF"), "file"), grey)
    colours = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    np.testing.assert_array_equal(read_picture(picture(colours, "PNG"), "file"), colours)


def test_another_content_is_no_picture() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8)
    for content in (picture(pixels, "PNG")[:900], picture(pixels, "TIFF"), b""):
        with pytest.raises(DataError, match=r"face\.png cannot be read: it is damaged\. Expected"):
            read_picture(content, "face.png")
