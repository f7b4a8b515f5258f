"""New rows: matching with a model's columns, inference of their positions, and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.services import fitted_maps, prediction, server
from app.services.caching import cached
from lvmcore.data import ColumnMatching, Dataset, Table
from lvmcore.errors import DataError
from lvmcore.export.anndata import places_to_h5ad
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes

if TYPE_CHECKING:
    import pandas as pd

    from app.analysis.map.held_out_rows import HeldOutPositions
    from lvmcore.models import AnyModel
    from lvmcore.prediction.new_table import MatchedTable, NewTableRoles

__all__ = [
    "column_matching",
    "has_held_out_rows",
    "held_out_rows",
    "matched_table",
    "new_table_roles",
    "placements",
    "placements_csv",
    "placements_h5ad",
    "placements_parquet",
    "start_placement",
]


def new_table_roles(run: str, table: Table) -> NewTableRoles:
    """Proposed roles of the columns of a table of new rows, by their cells and by the fit."""
    from lvmcore.prediction.new_table import propose_new_table_roles

    return propose_new_table_roles(*_model_for(run, table))


def column_matching(run: str, table: Table, roles: NewTableRoles) -> ColumnMatching:
    """Match of a table's columns with those of a run's model, also where it fails."""
    from lvmcore.prediction.new_table import match_to_model

    return match_to_model(*_model_for(run, table), roles)


@cached(max_entries=8, spinner="Matching the columns")
def matched_table(run: str, table: Table, roles: NewTableRoles) -> MatchedTable:
    """New rows in the columns of a run's model, with warnings.

    Raises:
        DataError: a column is missing or its cells cannot be used, or the run has no model.
        UnsupportedError: the model cannot infer positions of new rows.
    """
    from lvmcore.prediction.new_table import read_new_table

    return read_new_table(*_model_for(run, table), roles)


def _model_for(run: str, table: Table) -> tuple[AnyModel, Table, Dataset]:
    """A run's model, the table, and the rows of the fit: the arguments of ``new_table``."""
    if server.store().get(run).spec.target:
        return prediction.predictor(run), table, prediction.whole_dataset(run)
    return fitted_maps.model(run), table, fitted_maps.fitted_dataset(run)


def start_placement(run: str, rows: Dataset) -> str:
    """Submit the inference of rows' positions on a run's map, unless it exists.

    Returns:
        Id of the placement run.

    Raises:
        ConfigError: the queue is full.
        DataError: the run does not exist, or the rows cannot be stored.
    """
    from lvmcore.jobs.project import projection_of

    store = server.store()
    fit = store.get(run)
    store.datasets.put(rows)
    return server.submit_once(fit, projection_of(fit, rows))


def has_held_out_rows(run: str) -> bool:
    """Whether the dataset of a run has held-out rows.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    return bool(fitted_maps.stored_dataset(server.store().get(run).spec.dataset).held_out.any())


def held_out_rows(run: str) -> HeldOutPositions | None:
    """The held-out rows of a run on its map, as the run has stored them.

    Returns:
        None without held-out rows, and for a run that has not stored their positions: its model
        cannot infer them, its scores are not yet measured, or it is of an earlier version.
    """
    try:
        return _held_out_rows(run)
    except DataError:  # an error is not cached: the table may come
        return None


@cached(max_entries=8)
def _held_out_rows(run: str) -> HeldOutPositions:
    from app.analysis.map import held_out_rows as stored

    frame = fitted_maps.result_table(run, "held_out")
    whole = fitted_maps.stored_dataset(server.store().get(run).spec.dataset)
    return stored.held_out_rows(frame, whole, fitted_maps.fitted_dataset(run))


def placements(run: str) -> pd.DataFrame:
    """The result of a placement run by row; see ``lvmcore.prediction.placement.Placement``.

    Raises:
        DataError: the run has not ended, or the file cannot be read.
    """
    return fitted_maps.result_table(run, "embedding")


def placements_csv(run: str, min_probability: float) -> bytes:
    """The result of a placement run as CSV, with the most probable class of each row.

    Args:
        run: id of the placement run.
        min_probability: the smallest probability of a decided class.
    """
    return to_csv_bytes(_with_classes(run, min_probability))


def placements_parquet(run: str, min_probability: float) -> bytes:
    """The result of a placement run as Parquet; see ``placements_csv``."""
    return to_parquet_bytes(_with_classes(run, min_probability))


def placements_h5ad(run: str, min_probability: float) -> bytes:
    """The result of a placement run and the columns of its rows as an AnnData file.

    Raises:
        DataError: the run has not ended, or its dataset or the fitted run does not exist.
    """
    spec = server.store().get(run).spec
    rows = fitted_maps.stored_dataset(spec.dataset)
    return places_to_h5ad(
        _with_classes(run, min_probability), fitted_maps.model(spec.run), rows, spec
    )


def _with_classes(run: str, min_probability: float) -> pd.DataFrame:
    from lvmcore.prediction.placement import most_probable

    return most_probable(placements(run), min_probability)
