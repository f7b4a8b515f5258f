"""Tables whose missing cells a fitted model fills: what there is to fill, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from app.services import maps, server
from lvmcore.runs import Job, to_csv_bytes, to_parquet_bytes

if TYPE_CHECKING:
    import pandas as pd

    from lvmcore.runs.filling import FilledColumn

__all__ = [
    "Gaps",
    "completed",
    "completed_csv",
    "completed_parquet",
    "filled_columns",
    "filling",
    "forget",
    "gaps",
    "hidden_cells",
    "start_filling",
]


@dataclass(frozen=True)
class Gaps:
    """Where cells of a table are missing that a model can fill.

    Attributes:
        rows: of the table, but those without any cell.
        columns: features of the table, but those without any cell.
        missing: how many cells are missing in each column that lacks some, in the table's order.
    """

    rows: int
    columns: int
    missing: dict[str, int]

    @property
    def cells(self) -> int:
        """How many cells are missing."""
        return sum(self.missing.values())


def gaps(digest: str) -> Gaps:
    """Where cells of a dataset are missing.

    Raises:
        DataError: the store holds none with this digest, or every cell of it is missing.
    """
    return _gaps(server.home(), digest)


@st.cache_resource(show_spinner=False, max_entries=32)
def _gaps(home: str | None, digest: str) -> Gaps:
    del home  # the cache's key
    rows = maps.stored_dataset(digest).rows_with_cells()
    found = np.isnan(rows.X).sum(axis=0).tolist()
    pairs = zip(rows.feature_names, found, strict=True)
    return Gaps(len(rows), len(found), {name: int(n) for name, n in pairs if n})


def filling(run: str) -> Job | None:
    """What fills, or has filled, the missing cells with a run's model; the newest there is.

    Raises:
        DataError: there is no such run.
    """
    fit = server.store().get(run)
    jobs = (job for job in server.store().list("impute") if server.uses_model_of(fit, job))
    return next(jobs, None)


def start_filling(run: str) -> str:
    """Fill the missing cells with a run's model, unless that was done or is under way.

    Returns:
        The id of what fills them.

    Raises:
        ConfigError: the queue is full.
        DataError: there is no such run, or the disk is full.
    """
    from lvmcore.runs.filling import imputation_of

    fit = server.store().get(run)
    return server.start_once(fit, imputation_of(fit))


def completed(filling: str) -> pd.DataFrame:
    """The filled table; see ``lvmcore.runs.filling.completed``.

    Raises:
        DataError: it is not filled yet, or the file cannot be read.
    """
    return maps.made_table(filling, "completed")


def filled_columns(digest: str) -> tuple[FilledColumn, ...]:
    """The columns that the filled table of a dataset has for each feature.

    Raises:
        DataError: the store holds none with this digest.
    """
    return _columns(server.home(), digest)


@st.cache_resource(show_spinner=False, max_entries=8)
def _columns(home: str | None, digest: str) -> tuple[FilledColumn, ...]:
    from lvmcore.runs.filling import filled_columns as columns

    del home  # the cache's key
    return columns(maps.stored_dataset(digest).rows_with_cells())


def hidden_cells(filling: str) -> pd.DataFrame:
    """The known cells that the check hid; see ``lvmcore.runs.hidden.hidden_frame``.

    Raises:
        DataError: nothing is checked yet, or the file cannot be read.
    """
    return maps.made_table(filling, "check")


def completed_csv(filling: str) -> bytes:
    """The filled table as CSV."""
    return to_csv_bytes(completed(filling))


def completed_parquet(filling: str) -> bytes:
    """The filled table as Parquet."""
    return to_parquet_bytes(completed(filling))


def forget() -> None:
    """Let go of what was kept of filled tables."""
    for memory in (_gaps, _columns):
        memory.clear()
