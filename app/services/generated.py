"""Rows along curves of a run's map, and rows drawn from its model."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from app.services import server
from app.services.maps import attempt, fitted_dataset, model
from lvmcore.runs import to_csv_bytes, to_parquet_bytes

if TYPE_CHECKING:
    import pandas as pd

    from app.generating import Along, Draw
    from lvmcore.geometry import LatentPath

__all__ = [
    "cell_range",
    "drawn",
    "drawn_csv",
    "drawn_parquet",
    "forget",
    "model_digest",
    "path",
    "sd_range",
    "swept",
]

Place = tuple[float, ...]


def path(run: str, start: Place, end: Place, *, straight: bool) -> tuple[LatentPath, Along]:
    """A curve of a run's map, and the rows along it.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot decode.
    """
    return _path(server.home(), run, attempt(run), start, end, straight)


@st.cache_resource(show_spinner=False, max_entries=64)
def _path(
    home: str | None, run: str, attempt: int, start: Place, end: Place, straight: bool
) -> tuple[LatentPath, Along]:
    from app import generating

    del home, attempt  # the cache's key
    fitted = model(run)
    found = fitted.latent_path(start, end, along="line" if straight else "data")
    return found, generating.along(fitted, fitted_dataset(run), found)


def swept(run: str, dimension: int, held: Place, points: int) -> Along:
    """The rows along one dimension of a run's map.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        UnsupportedError: the model cannot decode.
    """
    return _swept(server.home(), run, attempt(run), dimension, held, points)


@st.cache_resource(show_spinner=False, max_entries=64)
def _swept(
    home: str | None, run: str, attempt: int, dimension: int, held: Place, points: int
) -> Along:
    from app import generating

    del home, attempt  # the cache's key
    return generating.swept(model(run), fitted_dataset(run), dimension, held, points)


def drawn(run: str, draw: Draw) -> pd.DataFrame:
    """Rows drawn from a run's model.

    Raises:
        DataError: the run has no model, or its dataset is gone.
        ConfigError: there is no row of the fit to draw from.
        UnsupportedError: the model cannot draw rows.
    """
    return _drawn(server.home(), run, attempt(run), draw)


def _told(draw: Draw) -> tuple[object, ...]:
    """What tells a draw from others, quick to hash from however many rows it is."""
    rows = None if draw.rows is None else np.array(draw.rows, dtype=np.int64).tobytes()
    return draw.n, draw.seed, draw.classes, rows, draw.where


@st.cache_resource(show_spinner=False, max_entries=4, hash_funcs={"app.generating.Draw": _told})
def _drawn(home: str | None, run: str, attempt: int, draw: Draw) -> pd.DataFrame:
    from app import generating

    del home, attempt  # the cache's key
    return generating.drawn_frame(model(run), fitted_dataset(run), draw, model_digest(run))


def drawn_csv(run: str, draw: Draw) -> bytes:
    """Drawn rows as CSV."""
    return to_csv_bytes(drawn(run, draw))


def drawn_parquet(run: str, draw: Draw) -> bytes:
    """Drawn rows as Parquet."""
    return to_parquet_bytes(drawn(run, draw))


def model_digest(run: str, digits: int = 16) -> str:
    """SHA-256 of a run's model file, hexadecimal.

    Args:
        run: its id.
        digits: how many of the 64 are wanted.

    Raises:
        DataError: there is no such run.
    """
    return _model_digest(server.home(), run, attempt(run))[:digits]


@st.cache_resource(show_spinner=False, max_entries=64)
def _model_digest(home: str | None, run: str, attempt: int) -> str:
    del attempt  # the cache's key
    path = server.store_at(home).job_folder(run).model_path
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cell_range(run: str) -> tuple[float, float]:
    """The lowest and the highest cell that a run was fitted to, in the data's units.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _ranges(server.home(), run)[:2]


def sd_range(run: str) -> float:
    """How far from their columns' means the cells lie that a run was fitted to, in sd, at most.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _ranges(server.home(), run)[2]


@st.cache_resource(show_spinner=False, max_entries=32)
def _ranges(home: str | None, run: str) -> tuple[float, float, float]:
    del home  # the cache's key
    dataset, standard = fitted_dataset(run), model(run).standardiser_
    units = dataset.in_units(dataset.X)
    ends = np.stack([np.nanmin(dataset.X, axis=0), np.nanmax(dataset.X, axis=0)])
    farthest = float((np.abs(ends - standard.mean) / standard.scale).max())
    return float(np.nanmin(units)), float(np.nanmax(units)), farthest


def forget() -> None:
    """Let go of everything that was kept."""
    for memory in (_path, _swept, _drawn, _model_digest, _ranges):
        memory.clear()
