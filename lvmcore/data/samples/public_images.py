"""Image sets of the papers, read from their fetched files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.samples.public_datasets import public_content, public_dataset
from lvmcore.data.samples.raw_formats import PickledArray, read_idx, read_pickle, read_picture
from lvmcore.errors import ConfigError, DataError

__all__ = ["Images", "read_public_images"]

#: Height and width of a frame of the Brendan video.
_FRAME = (28, 20)
#: Pictures in a batch of CIFAR-10, and pixels of a side, before and after the reduction.
_BATCH, _SIDE, _REDUCED_SIDE = 1000, 32, 20
#: Height and width of a reduced picture of a face.
_FACE = (61, 80)
_Contents = dict[str, bytes]


class Images(NamedTuple):
    """An image set.

    Attributes:
        images: Grey pixels [N, height, width], 0 to 255.
        labels: Label of each image [N]; None without labels.
        further: Further columns [N] by name.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.generic] | None
    further: dict[str, NDArray[np.generic]]


def read_public_images(name: str) -> Images:
    """Read a fetched image set.

    Args:
        name: Name of a dataset with a public address that is an image set.

    Raises:
        ConfigError: There is no such image set.
        DataError: Its files are not in the folder, or are not the expected ones.
    """
    if name not in _READERS:
        raise ConfigError(
            f"There is no image set {name!r} with a public address. Expected one of "
            f"{', '.join(_READERS)}."
        )
    dataset = public_dataset(name)
    return _READERS[name]({file.name: public_content(dataset, file) for file in dataset.files})


def _brendan(contents: _Contents) -> Images:
    """Frames in the rows of the only array of a pickle."""
    ((name, content),) = contents.items()
    found = read_pickle(content, name)
    arrays = found if isinstance(found, list) else []
    if len(arrays) != 1 or not isinstance(arrays[0], PickledArray):
        raise DataError(f"The file {name} has not one array. Fetch the dataset again.")
    return Images(arrays[0].numbers(name).reshape(-1, *_FRAME), None, {})


def _mnist(contents: _Contents) -> Images:
    """Images and labels of the training rows, then of the test rows."""
    arrays = [read_idx(content, name) for name, content in contents.items()]
    images, labels = np.concatenate(arrays[0::2]), np.concatenate(arrays[1::2])
    return Images(images, labels, {})


def _cifar(contents: _Contents, classes: range, each: int) -> Images:
    """The first images of some classes, in the order of the training images, grey and reduced.

    Args:
        contents: The list of the labels, and the first batches, each a picture whose rows are
            images.
        classes: The classes.
        each: Number of images of each class.
    """
    (listed, *batches) = contents.items()
    labels = np.array(json.loads(listed[1].decode().partition("=")[2].strip().rstrip(";")))
    chosen = np.sort(np.concatenate([np.flatnonzero(labels == one)[:each] for one in classes]))
    found = []
    for number, (name, content) in enumerate(batches):
        rows = chosen[chosen // _BATCH == number] % _BATCH
        pixels = read_picture(content, name)[rows].reshape(len(rows), _SIDE, _SIDE, 3)
        found += [_grey(colours, (_REDUCED_SIDE, _REDUCED_SIDE), "BILINEAR") for colours in pixels]
    return Images(np.stack(found), labels[chosen].astype(np.uint8), {})


def _yale(contents: _Contents) -> Images:
    """A face a file, named by its subject and its condition."""
    images = [
        _grey(read_picture(content, name), _FACE, "BOX") for name, content in contents.items()
    ]
    names = [PurePosixPath(name) for name in contents]
    subjects = np.array([int(name.stem.removeprefix("subject")) for name in names], np.uint8)
    conditions = np.array([name.suffix.removeprefix(".") for name in names])
    return Images(np.stack(images), subjects, {"condition": conditions})


def _grey(pixels: NDArray[np.uint8], shape: tuple[int, int], kernel: str) -> NDArray[np.uint8]:
    """The luma of a picture, reduced to a height and width with a kernel of Pillow."""
    from PIL import Image

    grey = Image.fromarray(pixels).convert("L")
    return np.asarray(grey.resize(shape[::-1], Image.Resampling[kernel]))


_READERS: dict[str, Callable[[_Contents], Images]] = {
    "brendan_faces": _brendan,
    "mnist": _mnist,
    "cifar10_grey20": partial(_cifar, classes=range(10), each=1000),
    "cifar10_grey20_2000": partial(_cifar, classes=range(1, 6), each=400),
    "yale_faces": _yale,
}
