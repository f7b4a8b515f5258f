"""New rows: matched with a fitted model's columns, placed on its map, and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.services import maps, predictions, server
from lvmcore.data import Dataset, Matching, Table
from lvmcore.runs import places_to_h5ad, to_csv_bytes, to_parquet_bytes

if TYPE_CHECKING:
    import pandas as pd

    from lvmcore.runs.models import AnyModel
    from lvmcore.runs.newrows import NewRows, Roles

__all__ = [
    "forget",
    "matching",
    "new_roles",
    "new_rows",
    "placed",
    "placed_csv",
    "placed_h5ad",
    "placed_parquet",
    "start_placing",
]


def new_roles(run: str, table: Table) -> Roles:
    """Which columns of a table of new rows are no features: as they look, and as in the fit."""
    from lvmcore.runs.newrows import propose_roles

    return propose_roles(*_model_for(run, table))


def matching(run: str, table: Table, roles: Roles) -> Matching:
    """How the columns of a table meet those of a run's model, whether it can be used or not."""
    from lvmcore.runs.newrows import matching_of

    return matching_of(*_model_for(run, table), roles)


def new_rows(run: str, table: Table, roles: Roles) -> NewRows:
    """A table of new rows as a run's model takes it, with what is suspicious about it.

    Raises:
        DataError: a column is missing, or holds what cannot be used; or the run has no model.
        UnsupportedError: the model cannot place new rows.
    """
    return _new_rows(server.home(), run, maps.attempt(run), table.digest, roles, table)


@st.cache_resource(show_spinner="Matching the columns", max_entries=8)
def _new_rows(
    home: str | None, run: str, attempt: int, digest: str, roles: Roles, _table: Table
) -> NewRows:
    from lvmcore.runs.newrows import new_rows as made

    del home, attempt, digest  # the cache's key
    return made(*_model_for(run, _table), roles)


def _model_for(run: str, table: Table) -> tuple[AnyModel, Table, Dataset]:
    """A run's model, the table, and the rows of the fit."""
    if server.store().get(run).spec.target:
        return predictions.predictor(run), table, predictions.whole_dataset(run)
    return maps.model(run), table, maps.fitted_dataset(run)


def start_placing(run: str, rows: Dataset) -> str:
    """Place rows on a run's map, unless that was done or is under way.

    Returns:
        The id of what places them.

    Raises:
        ConfigError: the queue is full.
        DataError: there is no such run, or the rows cannot be kept.
    """
    from lvmcore.runs.project import projection_of

    store = server.store()
    fit = store.get(run)
    store.put_dataset(rows)
    return server.start_once(fit, projection_of(fit, rows))


def placed(placing: str) -> pd.DataFrame:
    """What is known of rows that were placed; see ``lvmcore.runs.placing.Placement``.

    Raises:
        DataError: they are not placed, or the file cannot be read.
    """
    return maps.made_table(placing, "embedding")


def placed_csv(placing: str, least: float) -> bytes:
    """Placed rows as CSV, with a column that says which are decided."""
    return to_csv_bytes(_decided(placing, least))


def placed_parquet(placing: str, least: float) -> bytes:
    """Placed rows as Parquet, with a column that says which are decided."""
    return to_parquet_bytes(_decided(placing, least))


def placed_h5ad(placing: str, least: float) -> bytes:
    """Placed rows as an AnnData file, their columns in it.

    Raises:
        DataError: they are not placed, or their dataset or the fitted run is gone.
    """
    spec = server.store().get(placing).spec
    rows = maps.stored_dataset(spec.dataset)
    return places_to_h5ad(_decided(placing, least), maps.model(spec.run), rows, spec)


def _decided(placing: str, least: float) -> pd.DataFrame:
    from lvmcore.runs.placing import decided

    return decided(placed(placing), least)


def forget() -> None:
    """Let go of what was kept of placed rows."""
    _new_rows.clear()
