"""The datasets of the papers, by name: from the folder given by LVMCORE_DATA, or fetched."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.readers.read_table import read_table
from lvmcore.data.samples.public_datasets import public_dataset, public_names, read_public
from lvmcore.data.table import Table
from lvmcore.errors import ConfigError, DataError
from lvmcore.preprocessing.picture_shape import pixel_names

__all__ = ["VARIABLE", "has_paper", "load_paper", "load_paper_images", "load_table", "paper_names"]

#: The environment variable of the folder.
VARIABLE = "LVMCORE_DATA"

_TABLES = (
    "bridges",
    "congress109",
    "montreal",
    "montreal2015_all",
    "newsgroups3",
    "oil_flow_fractions",
    "oil_flow_train",
    "oil_flow_validation",
    "sc_mouse_bladder_2100x500",
    "sc_pbmc68k_700x765",
    "uci_bike",
    "uci_boston",
    "uci_car",
    "uci_concrete",
    "uci_elevators",
    "uci_energy",
    "uci_gas",
    "uci_haberman",
    "uci_keggundirected",
    "uci_kin40k",
    "uci_naval",
    "uci_nursery",
    "uci_parkinsons",
    "uci_pol",
    "uci_power_plant",
    "uci_protein",
    "uci_seismic_bumps",
    "uci_tic_tac_toe",
    "uci_wine_red",
)
#: Archive of each image set, its array of images, its array of labels, further columns.
_IMAGES: dict[str, tuple[str, str, str | None, tuple[str, ...]]] = {
    "brendan_faces": ("brendan_faces", "x", None, ()),
    "yale_faces": ("yale_faces", "x", "y", ("condition",)),
    "cifar10_grey20": ("cifar10_grey20", "x", "y", ()),
    "cifar10_grey20_2000": ("cifar10_grey20", "x2000", "y2000", ()),
    "mnist": ("mnist", "x", "y", ()),
}


def paper_names() -> tuple[str, ...]:
    """Return the names that `load_paper` knows."""
    return (*_TABLES, *_IMAGES)


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
    if name in public_names() and not _is_in_folder(name) and public_dataset(name).is_fetched:
        return read_public(name)
    if name in _TABLES:
        return read_table(_find_file(f"{name}.csv.gz"), name=name)
    if name not in _IMAGES:
        raise ConfigError(
            f"There is no paper dataset {name!r}. Expected one of {', '.join(paper_names())}."
        )
    images, classes, others = _read_images(name)
    return _image_table(name, images, classes, others)


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
    images, classes, _ = _read_images(name)
    return images, classes


def _read_images(
    name: str,
) -> tuple[NDArray[np.uint8], NDArray[np.generic] | None, dict[str, NDArray[np.generic]]]:
    """Images, labels and further columns of an image set."""
    archive, images, labels, further = _IMAGES[name]
    with np.load(_find_file(f"{archive}.npz"), allow_pickle=False) as arrays:
        others = {key: arrays[key] for key in further}
        classes = None if labels is None else arrays[labels]
        return arrays[images], classes, others


def _image_table(
    name: str,
    images: NDArray[np.uint8],
    labels: NDArray[np.generic] | None,
    further: dict[str, NDArray[np.generic]],
) -> Table:
    count, height, width = images.shape
    frame = pd.DataFrame(images.reshape(count, -1), columns=pixel_names((height, width)))
    extra = {key: pd.Series(values.tolist()) for key, values in further.items()}
    if labels is not None:
        extra["label"] = pd.Series(labels.tolist())
    if extra:
        frame = pd.concat([frame, pd.DataFrame(extra)], axis="columns")
    return Table.from_frame(frame, name=name)


def has_paper(name: str) -> bool:
    """Whether a dataset of the papers is on this machine, in the folder or fetched."""
    if name in public_names() and public_dataset(name).is_fetched:
        return True
    return _is_in_folder(name)


def _is_in_folder(name: str) -> bool:
    file = f"{_IMAGES[name][0]}.npz" if name in _IMAGES else f"{name}.csv.gz"
    folder = os.environ.get(VARIABLE)
    return bool(folder) and (Path(str(folder)) / file).is_file()


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
