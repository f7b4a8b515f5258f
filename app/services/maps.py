"""Fitted models with the rows they were fitted to, and what is drawn and exported of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.colouring import Categories, categories
from app.services import server
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.runs import (
    embedding_frame,
    embedding_to_h5ad,
    map_picture,
    to_csv_bytes,
    to_parquet_bytes,
)

if TYPE_CHECKING:
    import pandas as pd

    from app.axes import Axes
    from app.exploring import Ask, Grid, Reconstruction
    from lvmcore.base import LatentVariableModel
    from lvmcore.runs.picture import PictureFormat

__all__ = [
    "agreement",
    "attempt",
    "classes",
    "embedding_csv",
    "embedding_h5ad",
    "embedding_parquet",
    "far_away",
    "fitted_dataset",
    "forget",
    "heatmap",
    "kept_start",
    "made_table",
    "map_file",
    "model",
    "reconstruction",
    "stored_dataset",
]


def stored_dataset(digest: str) -> Dataset:
    """A dataset that a run was started on.

    Raises:
        DataError: the store holds none with this digest.
    """
    return _stored(server.home(), digest)


@st.cache_resource(show_spinner=False, max_entries=8)
def _stored(home: str | None, digest: str) -> Dataset:
    return server.store_at(home).get_dataset(digest)


def model(run: str) -> LatentVariableModel:
    """The fitted model of a run.

    Raises:
        DataError: it has none.
    """
    return _model(server.home(), run, attempt(run))


@st.cache_resource(show_spinner="Loading the model", max_entries=16)
def _model(home: str | None, run: str, attempt: int) -> LatentVariableModel:
    del attempt  # the cache's key: a run that was resumed ends with another model
    return server.store_at(home).load_model(run)


def made_table(run: str, name: str) -> pd.DataFrame:
    """A table that a run has written into its folder.

    Args:
        run: its id.
        name: of the Parquet file, without its ending.

    Raises:
        DataError: there is no such run, or no such table yet, or it cannot be read.
    """
    return _made_table(server.home(), run, attempt(run), name)


@st.cache_resource(show_spinner=False, max_entries=12)
def _made_table(home: str | None, run: str, attempt: int, name: str) -> pd.DataFrame:
    import pandas as pd

    del attempt  # the cache's key
    path = server.store_at(home).job_folder(run).path / f"{name}.parquet"
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"What the run has made, {path}, cannot be read: {error}.") from error


def attempt(run: str) -> int:
    """Which attempt of a run this is: what was computed of an earlier one no longer holds."""
    return server.store().get(run).attempt


def fitted_dataset(run: str) -> Dataset:
    """The rows that a run was fitted to, in the order of the model's map.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _fitted(server.home(), run)


@st.cache_resource(show_spinner=False, max_entries=8)
def _fitted(home: str | None, run: str) -> Dataset:
    # What reads the dataset is there before: two threads that import the same could meet halfway.
    import lvmcore.data.storage  # noqa: F401

    server.import_models_ahead()  # which takes seconds, and so does a large dataset
    store = server.store_at(home)
    spec = store.get(run).spec
    whole = _stored(home, spec.dataset)
    from lvmcore.models import MODELS
    from lvmcore.runs.artifacts import rows_on_map
    from lvmcore.runs.execute import rows_to_fit

    rows, _ = rows_to_fit(whole, MODELS[spec.model])
    on_map = rows_on_map(store.folder(run) / "embedding.parquet")
    # A run from before its model took missing cells was fitted to the complete rows.
    return rows if on_map in (None, len(rows)) else rows.complete_rows()


def classes(run: str, label: str | None = None) -> Categories | None:
    """The class of each row that a run is fitted to; None without labels.

    Args:
        run: its id.
        label: one of its label columns; None for the first.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _classes(server.home(), run, label)


@st.cache_resource(show_spinner=False, max_entries=8)
def _classes(home: str | None, run: str, label: str | None) -> Categories | None:
    import pandas as pd

    dataset = _fitted(home, run)
    named = dataset.label_columns
    if not named:
        return None
    name = label or next(iter(named))
    return categories(pd.Series(named[name], dtype=object), name)


def heatmap(run: str, ask: Ask) -> Grid:
    """A heatmap of a run's map.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot compute it.
    """
    return _heatmap(server.home(), run, attempt(run), ask)


@st.cache_resource(show_spinner=False, max_entries=128)
def _heatmap(home: str | None, run: str, attempt: int, ask: Ask) -> Grid:
    from app import exploring

    return exploring.heatmap(_model(home, run, attempt), _fitted(home, run), ask)


def far_away(run: str, ask: Ask) -> float | None:
    """The magnification of a run's map far from all rows; None where it has no such value.

    Raises:
        DataError: the run has no model.
    """
    from app import exploring

    return exploring.far_away(model(run), ask)


def reconstruction(run: str, latent: tuple[float, ...]) -> Reconstruction:
    """What a place of a run's map looks like in the data's units.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot decode.
    """
    return _reconstruction(server.home(), run, attempt(run), latent)


@st.cache_resource(show_spinner=False, max_entries=256)
def _reconstruction(
    home: str | None, run: str, attempt: int, latent: tuple[float, ...]
) -> Reconstruction:
    from app import exploring

    return exploring.reconstruct(_model(home, run, attempt), _fitted(home, run), latent)


def agreement(run: str) -> pd.DataFrame | None:
    """How far the starts of a run agree on each of its rows; None where it had one start.

    Returns:
        Columns ``row_id``, ``disagreement`` and ``neighbour_agreement``, in the order of its map.
    """
    known = server.store().get(run).metrics.get("disagreement")  # written after the table
    if known is None or known.value is None:
        return None
    try:
        return made_table(run, "agreement")
    except DataError:  # gone from the run's folder
        return None


def kept_start(run: str) -> int:
    """Which start of a fit its model is from, from 1.

    Raises:
        DataError: the run has no model.
    """
    found = getattr(model(run), "restarts_", None)
    return 1 if found is None else int(found.starts[found.kept])


def embedding_csv(run: str) -> bytes:
    """A run's map as CSV: row id, label, latent means and sds.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return to_csv_bytes(_embedding(run))


def embedding_parquet(run: str) -> bytes:
    """A run's map as Parquet: row id, label, latent means and sds.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return to_parquet_bytes(_embedding(run))


def embedding_h5ad(run: str) -> bytes:
    """A run's map as an AnnData file, with the rows that it is of.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return embedding_to_h5ad(model(run), fitted_dataset(run), server.store().get(run).spec)


def _embedding(run: str) -> pd.DataFrame:
    return embedding_frame(model(run), fitted_dataset(run))


def map_file(run: str, axes: Axes, form: PictureFormat, *, sd_behind: bool) -> bytes:
    """A run's map as a picture for print.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return map_picture(model(run), fitted_dataset(run), axes, form, sd_behind=sd_behind)


def forget() -> None:
    """Let go of everything that was kept of runs and their datasets."""
    for memory in (_stored, _model, _fitted, _classes, _heatmap, _reconstruction, _made_table):
        memory.clear()
