"""The datasets of the papers, by name: from the folder given by LVMCORE_DATA, or fetched."""

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.readers.read_table import read_table
from lvmcore.data.samples.public_datasets import public_dataset, public_names
from lvmcore.data.samples.public_images import Images, read_public_images
from lvmcore.data.samples.public_tables import read_public_table
from lvmcore.data.table import Table
from lvmcore.errors import ConfigError, DataError
from lvmcore.preprocessing.picture_shape import pixel_names

__all__ = [
    "VARIABLE",
    "PaperDataset",
    "has_paper",
    "load_paper",
    "load_paper_images",
    "load_table",
    "paper_datasets",
    "paper_names",
]

#: The environment variable of the folder.
VARIABLE = "LVMCORE_DATA"

#: Archive of each image set, its array of images, its array of labels, further columns.
_IMAGES: dict[str, tuple[str, str, str | None, tuple[str, ...]]] = {
    "brendan_faces": ("brendan_faces", "x", None, ()),
    "yale_faces": ("yale_faces", "x", "y", ("condition",)),
    "cifar10_grey20": ("cifar10_grey20", "x", "y", ()),
    "cifar10_grey20_2000": ("cifar10_grey20", "x2000", "y2000", ()),
    "mnist": ("mnist", "x", "y", ()),
}


@dataclass(frozen=True)
class PaperDataset:
    """A dataset of the papers.

    Attributes:
        name: Its name in `load_paper`.
        title: Its name in the dashboard.
        about: Its description in one line.
        rows: Number of rows.
    """

    name: str
    title: str
    about: str
    rows: int


@cache
def paper_datasets() -> dict[str, PaperDataset]:
    """The datasets of the papers by name, the image sets last."""
    text = files("lvmcore").joinpath("data/samples/paper_datasets.json").read_text(encoding="utf-8")
    return {name: PaperDataset(name, **entry) for name, entry in json.loads(text).items()}


def paper_names() -> tuple[str, ...]:
    """Return the names that `load_paper` knows."""
    return tuple(paper_datasets())


def load_paper(name: str) -> Table:
    """Load a dataset of the papers.

    Image sets become tables with one column per pixel (`pixel_ROW_COLUMN`, 0 to 255) and the
    label, where there is one, in the last column.

    Args:
        name: One of `paper_names()`.

    Raises:
        ConfigError: There is no dataset of that name.
        DataError: The dataset is neither in the folder nor fetched.
    """
    if name not in paper_datasets():
        raise ConfigError(
            f"There is no paper dataset {name!r}. Expected one of {', '.join(paper_names())}."
        )
    if name in _IMAGES:
        return _image_table(name, _read_images(name))
    if _is_read_as_fetched(name):
        return read_public_table(name)
    return read_table(_find_file(_file(name)), name=name)


def load_table(path: str) -> Table:
    """Load a table of the data folder by its path in it, such as "tables/uci_abalone.csv.gz".

    Raises:
        DataError: The file is absent, or the folder is not set.
    """
    name = path.rpartition("/")[2].partition(".")[0]
    return read_table(_find_file(path), name=name)


def load_paper_images(name: str) -> tuple[NDArray[np.uint8], NDArray[np.generic] | None]:
    """Load the images of an image set as an array, which is faster than as a table.

    Args:
        name: Name of an image set, as in `load_paper`.

    Returns:
        Images [N, height, width], and their labels [N] or None.

    Raises:
        ConfigError: There is no image set of that name.
        DataError: The file is absent, or the folder is not set.
    """
    if name not in _IMAGES:
        raise ConfigError(
            f"There is no image set {name!r} of the papers. Expected one of {', '.join(_IMAGES)}."
        )
    found = _read_images(name)
    return found.images, found.labels


def _read_images(name: str) -> Images:
    """Images, labels and further columns of an image set."""
    if _is_read_as_fetched(name):
        return read_public_images(name)
    _, images, labels, further = _IMAGES[name]
    with np.load(_find_file(_file(name)), allow_pickle=False) as arrays:
        others = {key: arrays[key] for key in further}
        return Images(arrays[images], None if labels is None else arrays[labels], others)


def _image_table(name: str, found: Images) -> Table:
    count, height, width = found.images.shape
    frame = pd.DataFrame(found.images.reshape(count, -1), columns=pixel_names((height, width)))
    extra = {key: pd.Series(values.tolist()) for key, values in found.further.items()}
    if found.labels is not None:
        extra["label"] = pd.Series(found.labels.tolist())
    if extra:
        frame = pd.concat([frame, pd.DataFrame(extra)], axis="columns")
    return Table.from_frame(frame, name=name)


def has_paper(name: str) -> bool:
    """Whether a dataset of the papers is on this machine, in the folder or fetched."""
    return _is_in_folder(name) or _is_fetched(name)


def _is_read_as_fetched(name: str) -> bool:
    """Whether a dataset is read from its public files: the folder comes first."""
    return name in public_names() and not _is_in_folder(name)


def _is_fetched(name: str) -> bool:
    return name in public_names() and public_dataset(name).is_fetched


def _is_in_folder(name: str) -> bool:
    folder = os.environ.get(VARIABLE)
    return bool(folder) and (Path(str(folder)) / _file(name)).is_file()


def _file(name: str) -> str:
    """The file of a dataset in the folder."""
    return f"{_IMAGES[name][0]}.npz" if name in _IMAGES else f"{name}.csv.gz"


def _find_file(filename: str) -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise DataError(
            f"The file {filename} is needed, but the environment variable {VARIABLE} is not set. "
            "Set it to the folder of the papers' data."
        )
    path = Path(folder) / filename
    if not path.is_file():
        raise DataError(
            f"The file {filename} is needed, but is not in {folder}. Copy it there, or set the "
            f"environment variable {VARIABLE} to its folder."
        )
    return path
