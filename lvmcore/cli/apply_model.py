"""The commands that apply a fitted model to a table: ``transform``, ``impute``, ``predict``."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from lvmcore.base.predictor import Predictor
from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.cli.fit import read_source, stays_in_place
from lvmcore.cli.output_files import check_outputs, table_writer, write_output, write_placements
from lvmcore.cli.progress import ProgressMeter
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset
from lvmcore.data.date_scales import DateScale, date_scales_of_texts, is_dates
from lvmcore.data.new_tables.column_matching import match_columns
from lvmcore.data.new_tables.matching_dataset import matching_dataset
from lvmcore.data.readers.sandbox import read_table_sandboxed
from lvmcore.data.table import Table
from lvmcore.errors import DataError
from lvmcore.export.filled_table import fill_table
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.file_blocks.block_model import Application
from lvmcore.jobs.file_blocks.job_parts import block_model, new_pool
from lvmcore.jobs.file_blocks.parts import apply_to_files, part_paths
from lvmcore.jobs.fitting import training_rows
from lvmcore.jobs.impute import completed_table, imputed_features, refuse_complete_models
from lvmcore.jobs.predict import predict_rows
from lvmcore.models import AnyModel, load
from lvmcore.prediction.new_table import (
    NewTableRoles,
    feature_names_of,
    propose_new_table_roles,
    read_new_table,
)
from lvmcore.prediction.placement import most_probable, place_rows
from lvmcore.prediction.target_predictions import has_prediction
from lvmcore.prediction.target_rows import target_features
from lvmcore.results import FitStep
from lvmcore.runs.job_folder import JobFolder

__all__ = ["impute", "predict", "transform"]


def transform(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Place the rows of a table on a model's map, and write their positions.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        LatentboardError: the model, the table or the two together cannot be used.
    """
    if stays_in_place(arguments):
        return apply_in_place(arguments, "project", console)
    check_outputs(arguments.out, "--out")
    model = load(_model_path(arguments.model), "map")
    fitted = _fitted_rows(arguments, model)
    table = read_source(arguments, fitted)
    roles = _roles(arguments, model, table, fitted, console)
    rows = read_new_table(model, table, fitted, roles, _codes(arguments), _date_scales(arguments))
    placement = place_rows(model, rows.dataset, fitted)
    placed = most_probable(placement.frame, arguments.abstain)
    write_placements(arguments.out, placed, model, rows.dataset)
    _say_notes(console, table, rows.dataset, placement.notes)
    n, dimensions = len(placement.frame), model.embedding_.mean.shape[1]
    counted = "1 row" if n == 1 else f"{n:,} rows"
    console.say(f"{counted} placed in {dimensions} dimensions by {model.title}.")
    console.say_metrics(placement.metrics, "{:g}".format)
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def impute(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Impute the missing cells of a table, and write the completed table.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        LatentboardError: the model, the table or the two together cannot be used.
    """
    if stays_in_place(arguments):
        return apply_in_place(arguments, "impute", console)
    table_writer(arguments.out)  # refuses an unknown suffix
    model = load(_model_path(arguments.model), "map")
    refuse_complete_models(model)
    table = read_source(arguments, _stored_rows(arguments, model))
    roles = _with_row_id(arguments, propose_new_table_roles(model, table, None), console)
    rows = read_new_table(
        model, table, None, roles, _codes(arguments), _date_scales(arguments)
    ).dataset
    features = imputed_features(rows, completed_table(model, rows))
    matched = match_columns(table, feature_names_of(model, table)).columns
    filled = fill_table(rows, features, columns=matched)
    as_csv = arguments.out.suffix.lower() == ".csv"
    typed = filled.typed(details=arguments.details)
    content = filled.csv(details=arguments.details) if as_csv else to_parquet_bytes(typed)
    write_output(arguments.out, content)
    _say_notes(console, table, rows)
    gaps = int(np.isnan(rows.X).sum())
    cells = "1 missing cell" if gaps == 1 else f"{gaps:,} missing cells"
    console.say(f"{cells} of {rows.X.size:,} filled by {model.title}.")
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def predict(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Predict the target of the rows of a table, and write the predictions.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        LatentboardError: the model, the table or the two together cannot be used.
    """
    if stays_in_place(arguments):
        return apply_in_place(arguments, "predict", console)
    write = table_writer(arguments.out)
    model = load(_model_path(arguments.model), "target")
    folder = JobFolder(arguments.model)
    target = folder.spec().target if folder.exists() else ""
    fitted = _fitted_rows(arguments, model)
    table = read_source(arguments, fitted)
    roles = _with_row_id(arguments, propose_new_table_roles(model, table, fitted), console)
    rows = read_new_table(
        model,
        table,
        fitted,
        NewTableRoles(roles.row_id),
        _codes(arguments),
        _date_scales(arguments),
    ).dataset
    found = predict_rows(model, rows, target)
    write_output(arguments.out, write(found.frame))
    _say_notes(console, table, rows, found.notes)
    n = int(has_prediction(found.frame).sum())
    counted = "1 row" if n == 1 else f"{n:,} rows"
    console.say(f"{target or 'The target'} of {counted} predicted by {model.title}.")
    console.say_metrics(found.metrics, "{:g}".format)
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def apply_in_place(
    arguments: argparse.Namespace, application: Application, console: CommandConsole
) -> int:
    """Apply a model to files that stay in place, block by block, by several processes.

    Args:
        arguments: the parsed command line; ``out`` is a folder.
        application: what is computed.
        console: the output.

    Returns:
        The exit status: 0, or 130 after Ctrl-C, which keeps the parts that are done.

    Raises:
        LatentboardError: the model, the files or the two together cannot be used.
    """
    path = _model_path(arguments.model)
    folder = JobFolder(arguments.model)
    target = folder.spec().target if folder.exists() else ""
    model: AnyModel = load(path, "target" if application == "predict" else "map")
    if application == "impute" and not isinstance(model, Predictor):
        refuse_complete_models(model)
    fitted = _fitted_rows(arguments, model)
    table = read_source(arguments, fitted)
    roles = _with_row_id(arguments, propose_new_table_roles(model, table, fitted), console)
    if application == "project":
        roles = _roles(arguments, model, table, fitted, console)
    elif application == "predict":
        roles = NewTableRoles(roles.row_id)
    rows = read_new_table(
        model, table, fitted, roles, _codes(arguments), _date_scales(arguments)
    ).dataset
    _say_notes(console, table, rows)
    blocks = block_model(
        application,
        path,
        model,
        rows,
        fitted,
        target=target,
        surprise=bool(getattr(arguments, "surprise", False)),
        details=bool(getattr(arguments, "details", False)),
        codes=_codes(arguments),
        date_scales=_date_scales(arguments),
    )
    try:
        with console.meter() as meter:
            tell = partial(_show_rows, meter, time.monotonic())
            n = apply_to_files(
                blocks, arguments.out, new_pool(arguments.workers, arguments.cluster), tell
            )
    except KeyboardInterrupt:
        console.error(f"Stopped; the parts that are done are kept in {arguments.out}.")
        return ExitCode.INTERRUPTED
    parts = len(part_paths(arguments.out))
    console.say(f"{n:,} rows done by {model.title}, in {parts:,} Parquet files.")
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def _show_rows(meter: ProgressMeter, began: float, done: int, total: int) -> bool:
    """Show the number of rows that are done; False, as nothing stops them."""
    if done:
        meter.show(FitStep(done, max(done, total), time.monotonic() - began, math.nan))
    return False


def _say_notes(
    console: CommandConsole, table: Table, rows: Dataset, further: Sequence[str] = ()
) -> None:
    """Print the notes of the table, those of its rows that are not among them, and further ones."""
    own = (note for note in rows.notes if note not in table.notes)
    for note in (*table.notes, *own, *further):
        console.say(f"  {note}")


def _roles(
    arguments: argparse.Namespace,
    model: AnyModel,
    table: Table,
    fitted: Dataset | None,
    console: CommandConsole,
) -> NewTableRoles:
    """The row id and the labels: from the options, else detected."""
    roles = _with_row_id(arguments, propose_new_table_roles(model, table, fitted), console)
    if arguments.label is not None or arguments.no_label:
        first, *others = dict.fromkeys(arguments.label or [None])
        roles = replace(roles, label=first, more_labels=tuple(others))
    elif roles.labels:
        named = ", ".join(roles.labels)
        console.say(f"Label: {named}, as in the fit (override with --label or --no-label).")
    return roles


def _with_row_id(
    arguments: argparse.Namespace, roles: NewTableRoles, console: CommandConsole
) -> NewTableRoles:
    """The roles with the row id from the options, else detected."""
    if arguments.row_id is not None or arguments.no_row_id:
        return replace(roles, row_id=arguments.row_id)
    if roles.row_id is not None:
        console.say(f"Row id: {roles.row_id}, detected (override with --row-id or --no-row-id).")
    return roles


def _fitted_rows(arguments: argparse.Namespace, model: AnyModel) -> Dataset | None:
    """The rows of the fit: from ``--fitted``, else from the store of the run; else None."""
    if arguments.fitted is not None:
        table = read_table_sandboxed(arguments.fitted)
        own = {
            str(name): DateScale.of(cells)
            for name, cells in table.frame.items()
            if is_dates(cells) and cells.notna().any()
        }
        whole = matching_dataset(
            table,
            feature_names_of(model, table),
            date_scales={**own, **_date_scales(arguments)},
            missing_cells=model.capabilities.missing_cells,
        )
        return whole if model.capabilities.missing_cells else whole.complete_rows()
    return _stored_rows(arguments, model)


def _stored_rows(arguments: argparse.Namespace, model: AnyModel) -> Dataset | None:
    """The rows of the fit from the store of the run; None for a model file, or without a store."""
    folder = JobFolder(arguments.model)
    if not folder.exists():
        return None
    stored = arguments.model.absolute().parent.parent / "datasets" / folder.spec().dataset
    if not stored.is_dir():
        return None
    whole = load_dataset(stored)
    if isinstance(model, Predictor):
        return target_features(whole, folder.spec().target, folder.spec().groups)
    return training_rows(whole, type(model))[0]


def _codes(arguments: argparse.Namespace) -> Mapping[str, tuple[str, str]]:
    """The words encoded as 0 and 1 in the run's dataset; empty for a model file."""
    folder = JobFolder(arguments.model)
    return folder.spec().codes if folder.exists() else {}


def _date_scales(arguments: argparse.Namespace) -> Mapping[str, DateScale]:
    """Unit and origin of the dates of the run's dataset; empty for a model file."""
    folder = JobFolder(arguments.model)
    return date_scales_of_texts(folder.spec().date_scales) if folder.exists() else {}


def _model_path(path: Path) -> Path:
    """The model file: ``path``, or ``model.safetensors`` in the folder of a run.

    Raises:
        DataError: the folder holds no model.
    """
    if not path.is_dir():
        return path
    inside = path / "model.safetensors"
    if not inside.is_file():
        raise DataError(
            f"{path} holds no fitted model: expected a model file, or the folder of a run with "
            "model.safetensors in it."
        )
    return inside
