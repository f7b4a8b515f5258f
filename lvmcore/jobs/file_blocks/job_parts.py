"""The part of a run that applies a fitted model to registered files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.date_scales import DateScale
from lvmcore.data.new_tables.column_matching import match_columns, normalised_name
from lvmcore.data.new_tables.matching_dataset import BinaryCode, column_codes
from lvmcore.data.row_numbers import RowNumbers
from lvmcore.data.table import Table
from lvmcore.jobs.executors.cluster_address import cluster_address, connected
from lvmcore.jobs.executors.cluster_state import ADDRESS
from lvmcore.jobs.file_blocks.block_model import Application, BlockModel
from lvmcore.jobs.file_blocks.parts import apply_to_files
from lvmcore.jobs.file_blocks.pools import BlockPool, LocalPool, RayPool
from lvmcore.jobs.machine_limits import cores
from lvmcore.models import AnyModel
from lvmcore.prediction.placement import fitted_surprise

if TYPE_CHECKING:
    from lvmcore.jobs.job_kind import JobContext

__all__ = ["apply_in_parts", "block_model", "new_pool"]


def block_model(
    application: Application,
    path: Path,
    model: AnyModel,
    rows: Dataset,
    fitted: Dataset | None,
    *,
    target: str = "",
    surprise: bool = False,
    details: bool = False,
    codes: Mapping[str, BinaryCode | None] | None = None,
    date_scales: Mapping[str, DateScale] | None = None,
) -> BlockModel:
    """The model of a file, to be applied to the files of a dataset.

    Args:
        application: what is computed.
        path: the model file.
        model: the same model, loaded.
        rows: a sample of the rows of the files, with the features of the model.
        fitted: the rows of the fit; None if they are not available.
        target: the column that the model predicts.
        surprise: whether placed rows are compared with the fit.
        details: whether an imputed table has the sds of its filled cells.
        codes: see ``matching_dataset``.
        date_scales: see ``matching_dataset``.

    Raises:
        DataError: no row of the sample can be used.
    """
    assert rows.files is not None
    names = rows.transformed_names
    table = Table.from_frame(rows.frame, name=rows.name)
    origin_codes = {} if fitted is None else column_codes(table, names, fitted)
    origin = None if fitted is None else fitted.subset(np.arange(1))
    known = None
    if surprise and fitted is not None and isinstance(model, LatentVariableModel):
        known = fitted_surprise(model, fitted)
    found = BlockModel(
        application=application,
        content=path.read_bytes(),
        files=rows.files,
        names=names,
        origin=origin,
        codes={**origin_codes, **(codes or {})},
        date_scales={
            **rows.date_scales,
            **({} if fitted is None else fitted.date_scales),
            **(date_scales or {}),
        },
        row_id=_row_id_column(rows),
        labels=_label_columns(rows, table),
        target=target,
        target_column=_target_column(rows, target),
        surprise=surprise,
        known=known,
        details=details,
    )
    return found.with_schema(rows)


def apply_in_parts(context: JobContext, model: BlockModel) -> int:
    """Apply a model to all rows of its files, and write the results in the folder of a run.

    Args:
        context: the run.
        model: the model.

    Returns:
        The number of rows.

    Raises:
        CancelledError: a stop was requested; the parts that are done are kept for a resumed run.
        DataError: a file changed, or a cell cannot be used.
    """
    with context.row_progress() as tell:
        return apply_to_files(model, context.folder.files.parts, new_pool(), tell)


def new_pool(
    workers: int | None = None, cluster: str | None = None
) -> Callable[[BlockModel], BlockPool]:
    """Starts the processes: on a cluster, else one a core of this machine.

    Args:
        workers: number of processes; None for all cores.
        cluster: address of the cluster, "host:port" or "auto"; None for the one that was chosen
            for this process, if any.

    Raises:
        ClusterError: ``cluster`` is no address.
    """
    address = os.environ.get(ADDRESS, "") if cluster is None else cluster_address(cluster)
    if address:
        return lambda model: RayPool(connected(address), model, workers)
    return lambda model: LocalPool(model, workers or cores())


def _row_id_column(rows: Dataset) -> str | None:
    """The column that the names of the rows come from; None where they are numbered."""
    if isinstance(rows.row_ids, RowNumbers):
        return None
    names = rows.row_ids.tolist()
    for column in rows.frame.columns:
        if labels_as_text(rows.frame[column]).tolist() == names:
            return str(column)
    return None


def _label_columns(rows: Dataset, table: Table) -> dict[str, str]:
    """The columns of the labels, by their names in the fit."""
    names = list(rows.label_columns)
    found = match_columns(table, names, origin=names).columns if names else {}
    return {name: name if name in rows.frame else found[name] for name in names}


def _target_column(rows: Dataset, target: str) -> str:
    """The column of the files with the target; "" for none."""
    known = [str(name) for name in rows.frame.columns]
    if target in known or not target:
        return target
    alike = [name for name in known if normalised_name(name) == normalised_name(target)]
    return alike[0] if len(alike) == 1 else ""
