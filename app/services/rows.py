"""What is asked about the rows of a map: what sets some apart, which are near, which fit badly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from app.services import maps, server
from lvmcore.errors import DataError
from lvmcore.runs.selections import SavedSelection, selections_stamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.apart import Pair, Ranking
    from app.lying import Lying
    from app.neighbours import Near
    from app.regions import Region
    from app.residuals import Residuals
    from app.selections import Selection
    from lvmcore.data import Dataset
    from lvmcore.standardise import Standardiser

__all__ = [
    "Neighbours",
    "Saved",
    "drop_selection",
    "forget",
    "keep_selection",
    "latent_weights",
    "lying",
    "neighbours",
    "pairs",
    "ranking",
    "residuals",
    "saved_selections",
    "selected",
]


@dataclass(frozen=True)
class Neighbours:
    """The rows nearest to a row.

    Attributes:
        on_map: by their latent means.
        among_data: by their cells.
    """

    on_map: Near
    among_data: Near


@dataclass(frozen=True)
class Saved:
    """A selection that was kept with a run.

    Attributes:
        name: what it is called.
        selection: which rows; None where it cannot be read.
        rows: how many of the run's map it holds.
    """

    name: str
    selection: Selection | None
    rows: int


def ranking(dataset: Dataset, selected: NDArray[np.bool_]) -> Ranking | None:
    """The columns of a dataset by how far they set selected rows apart: see ``app.apart``."""
    return _ranking(dataset, dataset.digest, np.packbits(selected).tobytes())


@st.cache_resource(show_spinner=False, max_entries=32)
def _ranking(_dataset: Dataset, digest: str, selected: bytes) -> Ranking | None:
    from app import apart

    del digest  # the cache's key, with the rows
    return apart.ranking(_dataset, _mask(selected, len(_dataset)))


def pairs(
    dataset: Dataset, selected: NDArray[np.bool_], names: tuple[str, ...]
) -> tuple[Pair, ...]:
    """How columns are spread among the selected rows and the others: see ``app.apart``."""
    rows = np.packbits(selected).tobytes()
    return tuple(_pair(dataset, dataset.digest, rows, name) for name in names)


@st.cache_resource(show_spinner=False, max_entries=256)
def _pair(_dataset: Dataset, digest: str, selected: bytes, name: str) -> Pair:
    from app import apart

    del digest  # the cache's key, with the rows
    return apart.pair(_dataset, _mask(selected, len(_dataset)), name)


def _mask(packed: bytes, rows: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=rows).astype(np.bool_)


def selected(run: str, selection: Selection) -> NDArray[np.bool_]:
    """Which rows of a run's map a selection holds, [N].

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return _selected(server.home(), run, maps.attempt(run), selection)


@st.cache_resource(show_spinner=False, max_entries=64)
def _selected(home: str | None, run: str, attempt: int, selection: Selection) -> NDArray[np.bool_]:
    from app.selections import members

    del home, attempt  # the cache's key
    return members(selection, maps.model(run).embedding_.mean, maps.fitted_dataset(run))


def saved_selections(run: str) -> tuple[Saved, ...]:
    """The selections that were kept with a run, and how many rows of its map each holds.

    Read and counted once, until one is kept or dropped.

    Raises:
        DataError: there is no such run, or it has no model, or its dataset is gone.
    """
    folder = server.store().job_folder(run)
    return _saved(server.home(), run, maps.attempt(run), selections_stamp(folder.selections_path))


@st.cache_resource(show_spinner=False, max_entries=32)
def _saved(
    home: str | None, run: str, attempt: int, stamp: tuple[int, int, int] | None
) -> tuple[Saved, ...]:
    from app.selections import from_json, members

    del attempt, stamp  # the cache's key
    mean, dataset = maps.model(run).embedding_.mean, maps.fitted_dataset(run)
    found = []
    for one in server.store_at(home).selections(run):
        try:
            selection = from_json(one.content, mean.shape[1])
        except DataError:
            found.append(Saved(one.name, None, 0))
        else:
            found.append(Saved(one.name, selection, int(members(selection, mean, dataset).sum())))
    return tuple(found)


def keep_selection(run: str, name: str, content: Mapping[str, Any]) -> None:
    """Keep a selection with a run.

    Raises:
        ConfigError: the name is blank or too long, or the run keeps as many as it can.
        DataError: there is no such run, or it could not be written.
    """
    server.store().keep_selection(run, SavedSelection(name, content))


def drop_selection(run: str, name: str) -> None:
    """Let go of a selection that was kept with a run.

    Raises:
        DataError: there is no such run, or it could not be written.
    """
    server.store().drop_selection(run, name)


def neighbours(run: str, row: int, most: int) -> Neighbours:
    """The rows of a run's map nearest to one of them: see ``app.neighbours``.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return _neighbours(server.home(), run, maps.attempt(run), row, most)


@st.cache_resource(show_spinner=False, max_entries=256)
def _neighbours(home: str | None, run: str, attempt: int, row: int, most: int) -> Neighbours:
    from app.neighbours import among_data, on_map

    del home, attempt  # the cache's key
    X, standard = maps.fitted_dataset(run).X, _standard(run)
    return Neighbours(on_map(maps.model(run), row, most), among_data(X, standard, row, most))


def residuals(run: str) -> Residuals:
    """How badly the rows of a run's map fit: see ``app.residuals``.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot decode.
    """
    return _residuals(server.home(), run, maps.attempt(run))


@st.cache_resource(show_spinner="Measuring how each row fits", max_entries=8)
def _residuals(home: str | None, run: str, attempt: int) -> Residuals:
    from app.residuals import residuals

    del home, attempt  # the cache's key
    return residuals(maps.model(run), maps.fitted_dataset(run))


def lying(run: str, region: Region) -> Lying:
    """How probable it is that each row of a run's map lies in a region: see ``app.lying``.

    Raises:
        DataError: the run has no model.
    """
    return _lying(server.home(), run, maps.attempt(run), region)


@st.cache_resource(show_spinner=False, max_entries=32)
def _lying(home: str | None, run: str, attempt: int, region: Region) -> Lying:
    from app.lying import lying

    del home, attempt  # the cache's key
    return lying(region, maps.model(run).embedding_)


def latent_weights(run: str) -> NDArray[np.float64]:
    """What each latent dimension counts in a distance on a run's map, [Q].

    Raises:
        DataError: the run has no model.
    """
    from app.neighbours import weights

    return weights(maps.model(run))


def _standard(run: str) -> Standardiser:
    """Means and scales of the columns that a run was fitted to."""
    dataset = maps.fitted_dataset(run)
    return _standard_of(dataset, dataset.digest)


@st.cache_resource(show_spinner=False, max_entries=8)
def _standard_of(_dataset: Dataset, digest: str) -> Standardiser:
    from lvmcore.standardise import Standardiser

    del digest  # the cache's key
    return Standardiser.fit(_dataset.X, list(_dataset.feature_names))


def forget() -> None:
    """Let go of everything that was computed about rows."""
    for memory in (
        _ranking,
        _pair,
        _selected,
        _saved,
        _neighbours,
        _standard_of,
        _residuals,
        _lying,
    ):
        memory.clear()
