"""Tables of the papers, read from their fetched files."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import numpy as np
import pandas as pd

from lvmcore.data.readers.read_table import read_table
from lvmcore.data.samples.public_datasets import PublicDataset, public_content, public_dataset
from lvmcore.data.samples.raw_formats import PickledArray, read_npy_pickle
from lvmcore.data.table import Table
from lvmcore.errors import DataError

__all__ = ["read_public_table"]

#: Positions of the bicycle counters of Montreal in the file, and the day of its first row.
_COUNTERS, _FIRST_DAY = (0, 2, 3, 5, 8, 10, 13, 17), "2015-01-01"
#: Meteorological seasons, by month // 3 % 4.
_SEASONS = np.array(["winter", "spring", "summer", "autumn"])


def read_public_table(name: str) -> Table:
    """Read a fetched table.

    Cells separated by spaces are numbers; the classes of a second file are 0, 1, …, by the position
    of the 1.

    Args:
        name: Name of a dataset with a public address that is a table.

    Raises:
        ConfigError: There is no public address of a dataset of that name.
        DataError: Its files are not in the folder, or are not the expected ones.
    """
    dataset = public_dataset(name)
    contents = [public_content(dataset, file) for file in dataset.files]
    if dataset.separator is not None:
        lines = contents[0].decode().splitlines()[dataset.header :]
        named = [dataset.separator.join(dataset.columns), *lines]
        return read_table("\n".join(named).encode(), name=name)
    frame = _FRAMES.get(name, _numbers)(dataset, contents)
    return read_table(frame.to_csv(index=False).encode(), name=name)


def _numbers(dataset: PublicDataset, contents: list[bytes]) -> pd.DataFrame:
    """Numbers separated by spaces, and one-hot classes of a second file."""
    values = np.loadtxt(contents[0].decode().splitlines(), ndmin=2)
    *features, last = dataset.columns
    if len(contents) == 1:
        return pd.DataFrame(values, columns=list(dataset.columns))
    hot = np.loadtxt(contents[1].decode().splitlines(), ndmin=2)
    return pd.DataFrame(values, columns=features).assign(**{last: hot.argmax(axis=1)})


def _bridges(dataset: PublicDataset, contents: list[bytes]) -> pd.DataFrame:
    """A dictionary of the counts "Y" and of "labels", 1 for a weekday."""
    name = dataset.files[0].name
    found = read_npy_pickle(contents[0], name)
    parts = found if isinstance(found, dict) else {}
    counts, weekdays = parts.get("Y"), parts.get("labels")
    if not isinstance(counts, PickledArray) or not isinstance(weekdays, PickledArray):
        raise DataError(f"The file {name} has no counts and labels. Fetch the dataset again.")
    *features, last = dataset.columns
    labels = np.where(weekdays.numbers(name).ravel() == 1, "weekday", "weekend")
    return pd.DataFrame(counts.numbers(name), columns=features).assign(**{last: labels})


def _montreal(dataset: PublicDataset, contents: list[bytes]) -> pd.DataFrame:
    """Eight counters without a missing day, and the season of each day."""
    counts = pd.read_csv(BytesIO(contents[0]), header=None).iloc[:, list(_COUNTERS)]
    *features, last = dataset.columns
    counts.columns = pd.Index(features)
    months = pd.date_range(_FIRST_DAY, periods=len(counts)).month.to_numpy()
    return counts.assign(**{last: _SEASONS[months // 3 % 4]})


_FRAMES: dict[str, Callable[[PublicDataset, list[bytes]], pd.DataFrame]] = {
    "bridges": _bridges,
    "montreal": _montreal,
}
