"""Imputation: counts of missing cells, imputation runs, and the completed table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.services import fitted_maps, server
from app.services.caching import cached
from lvmcore.data import Dataset
from lvmcore.data.transforms import one_hot_columns
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.runs import Job
from lvmcore.runs.atomic_files import read_json

if TYPE_CHECKING:
    import pandas as pd

    from app.analysis.tables.hidden_pictures import HiddenPictures, ReconstructedPictures
    from lvmcore.evaluation.imputation_scores import ImputationComparison
    from lvmcore.export.filled_table import FilledTable

__all__ = [
    "MissingCellCounts",
    "comparison",
    "completed_table",
    "filled_csv",
    "filled_parquet",
    "filled_table",
    "hidden_cells",
    "imputation_job",
    "missing_cell_counts",
    "reconstructed_pictures",
    "start_imputation",
]


@dataclass(frozen=True)
class MissingCellCounts:
    """Missing cells of a table, without rows and columns that have no observed cell.

    Attributes:
        rows: number of rows.
        columns: number of columns; the features of a category are one.
        missing: number of missing cells by column, of columns with any, in the table's order.
    """

    rows: int
    columns: int
    missing: dict[str, int]

    @property
    def cells(self) -> int:
        """Number of missing cells."""
        return sum(self.missing.values())


@cached(max_entries=32)
def missing_cell_counts(digest: str) -> MissingCellCounts:
    """Counts of the missing cells of a dataset.

    Raises:
        DataError: the store has no dataset with this digest, or every cell of it is missing.
    """
    rows = fitted_maps.stored_dataset(digest).nonempty_rows()
    column_of = {
        rows.feature_names[d]: column
        for column, features in one_hot_columns(rows).items()
        for d in features
    }
    found: dict[str, int] = {}
    gaps = np.isnan(rows.X).sum(axis=0).tolist()
    for name, n in zip(rows.feature_names, gaps, strict=True):
        found.setdefault(column_of.get(name, name), int(n))
    return MissingCellCounts(len(rows), len(found), {name: n for name, n in found.items() if n})


def imputation_job(run: str) -> Job | None:
    """The newest imputation run with a run's current model; None without one.

    Raises:
        DataError: the run does not exist.
    """
    fit = server.store().get(run)
    jobs = (job for job in server.store().list("impute") if server.uses_model_of(fit, job))
    return next(jobs, None)


def start_imputation(run: str, *, again: bool = False) -> str:
    """Submit the imputation of the missing cells by a run's model, unless it exists.

    Args:
        run: id of the fitted run.
        again: submit it even if it exists.

    Returns:
        Id of the imputation run.

    Raises:
        ConfigError: the queue is full.
        DataError: the run does not exist, or the disk is full.
    """
    from lvmcore.jobs.impute import imputation_of

    fit = server.store().get(run)
    submit = server.submit_anew if again else server.submit_once
    return submit(fit, imputation_of(fit))


def completed_table(run: str) -> pd.DataFrame:
    """The completed table of an imputation run; see ``lvmcore.jobs.impute``.

    Raises:
        DataError: the imputation has not ended, or the file cannot be read.
    """
    return fitted_maps.result_table(run, "completed")


def hidden_cells(run: str) -> pd.DataFrame:
    """The observed cells that an imputation run hid; see ``evaluation.hidden_cells.hidden_frame``.

    Raises:
        DataError: the check has not ended, or the file cannot be read.
    """
    return fitted_maps.result_table(run, "check")


@cached(max_entries=4)
def hidden_pictures(run: str, most: int) -> HiddenPictures | None:
    """Pictures whose pixels an imputation run hid; None where the rows are no pictures.

    Args:
        run: id of the imputation run.
        most: most pictures.

    Raises:
        DataError: the check has not ended, or a file cannot be read.
    """
    from app.analysis.tables.hidden_pictures import hidden_pictures as arranged
    from lvmcore.jobs.impute import imputed_features

    dataset = fitted_maps.stored_dataset(server.store().get(run).spec.dataset).nonempty_rows()
    if dataset.image_shape is None:
        return None
    imputed = imputed_features(dataset, completed_table(run))
    return arranged(dataset, hidden_cells(run), imputed, most)


@cached(max_entries=16, spinner="Reconstructing pictures")
def reconstructed_pictures(run: str, truth: Dataset, most: int) -> ReconstructedPictures:
    """Rows of a fit to pictures with hidden pixels; see ``app.analysis.tables.hidden_pictures``.

    Args:
        run: id of the fit.
        truth: its table without hidden pixels.
        most: most pictures.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import hidden_pictures as pictures

    return pictures.reconstructed_pictures(
        fitted_maps.model(run), fitted_maps.fitted_dataset(run), truth, most
    )


def comparison(run: str) -> ImputationComparison | None:
    """The comparison of an imputation run with other methods; None for a run without one.

    Runs of earlier versions have none, and so have those whose table had no cell to hide.

    Raises:
        DataError: the file cannot be read.
    """
    from lvmcore.evaluation.imputation_scores import comparison_from_json

    path = server.store().job_folder(run).files.comparison
    return comparison_from_json(read_json(path)) if path.is_file() else None


@cached(max_entries=4)
def filled_table(run: str) -> FilledTable:
    """The table of an imputation run with its missing cells filled, in its own format.

    Raises:
        DataError: the imputation has not ended, or a file of it cannot be read.
    """
    from lvmcore.export.filled_table import fill_table
    from lvmcore.jobs.impute import imputed_features

    dataset = fitted_maps.stored_dataset(server.store().get(run).spec.dataset)
    imputed = dataset.nonempty_rows()
    rows = np.searchsorted(dataset.rows, imputed.rows)
    return fill_table(dataset, imputed_features(imputed, completed_table(run)), rows)


def filled_csv(run: str, *, details: bool) -> bytes:
    """The filled table as CSV, with the sds and flags of the filled cells if asked."""
    return filled_table(run).csv(details=details)


def filled_parquet(run: str, *, details: bool) -> bytes:
    """The filled table as Parquet, with the sds and flags of the filled cells if asked."""
    return to_parquet_bytes(filled_table(run).typed(details=details))
