"""The command ``lvmcore transform``: rows of a table placed on the map of a fitted model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from lvmcore.base import LatentVariableModel
from lvmcore.data import Dataset, Table, propose_row_id
from lvmcore.errors import ConfigError, DataError
from lvmcore.models import load
from lvmcore.persistence import write_atomically
from lvmcore.runs.artifacts import to_csv_bytes, to_parquet_bytes
from lvmcore.runs.command import read_source

__all__ = ["place_rows", "transform"]

_NAMED = 8
_LEVEL = " = "  # between the column and the level in the name of a 0/1 feature


def transform(arguments: argparse.Namespace) -> int:
    """Place the rows of a table on a model's map, and write where they are.

    Args:
        arguments: what ``lvmcore.cli`` parsed.

    Returns:
        The exit status, 0.

    Raises:
        LatentboardError: the model, the table or the two together cannot be used.
    """
    console = Console(highlight=False)
    write = _writer(arguments.out)
    model = load(_model_path(arguments.model))
    table = read_source(arguments)
    row_id = arguments.row_id
    if row_id is None and not arguments.no_row_id:
        row_id = propose_row_id(table)
        if row_id in _columns(model, table):
            row_id = None
        elif row_id is not None:
            _say(console, f"Row id: {row_id}, by its looks (--row-id or --no-row-id decide).")
    frame, notes = place_rows(model, table, row_id)
    try:
        write_atomically(arguments.out, write(frame))
    except OSError as error:
        raise ConfigError(f"{arguments.out} cannot be written: {error.strerror}.") from error
    for note in notes:
        _say(console, f"  {note}")
    rows, dimensions = len(frame), model.embedding_.mean.shape[1]
    placed = "1 row" if rows == 1 else f"{rows:,} rows"
    _say(console, f"{placed} placed in {dimensions} dimensions by {model.title}.")
    _say(console, f"Kept in {arguments.out}")
    return 0


def place_rows(
    model: LatentVariableModel, table: Table, row_id: str | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Where the rows of a table lie on a model's map.

    Columns are matched by name, in whatever order they stand; those that the model does not know
    are not used. What a run learned as log(1 + x), or as one 0/1 feature a level, is made so here
    too. A row that lacks a cell is left out where the model needs every cell.

    Args:
        model: a fitted model.
        table: the rows.
        row_id: name of the column that names the rows; None numbers them from 1.

    Returns:
        Columns ``row_id``, ``z1`` … ``zQ``, the latent means, and ``z1_sd`` … ``zQ_sd``, their
        standard deviations, where the model has them; and sentences on what was left out.

    Raises:
        DataError: columns are missing, or hold what cannot be used.
        UnsupportedError: the model cannot place new rows.
    """
    names = _columns(model, table)
    coded = {name: column for name in names if (column := _coded(name, table)) is not None}
    unknown = [name for name in names if name not in table.frame and name not in coded]
    used = {*names, *coded.values(), row_id}
    others = [name for name in map(str, table.frame.columns) if name not in used]
    if unknown:
        beside = f" It has besides: {_listed(others)}." if others else ""
        raise DataError(
            f"{table.name!r} lacks {_listed(unknown)}: expected the {len(names)} columns that the "
            f"model was fitted to, by the same names.{beside}"
        )
    dataset = _learned(model, table, names, coded, row_id)
    empty = [name for name in names if name not in (*dataset.feature_names, *coded)]
    if empty and not model.capabilities.missing_cells:
        raise DataError(
            f"Every cell of {_listed(empty)} is missing in {table.name!r}, and {model.title} "
            "needs every cell."
        )
    strange = [name for name in dataset.feature_names if name not in names]
    X, ids, left_out = _complete(model, dataset, names, coded)
    where = model.posterior(X if hasattr(model, "feature_names_in_") else X.to_numpy())
    columns: dict[str, Any] = {"row_id": ids}
    dimensions = range(where.mean.shape[1])
    columns |= {f"z{q + 1}": where.mean[:, q] for q in dimensions}
    if model.capabilities.uncertainty:
        sd = np.sqrt(where.variance)
        columns |= {f"z{q + 1}_sd": sd[:, q] for q in dimensions}
    notes = (*table.notes, *(note for note in dataset.notes if note not in table.notes))
    if strange:
        told = "levels that the model does not know, which are as none of its own"
        left_out = (*left_out, f"There are {told}: {_listed(strange)}.")
    if others:
        left_out = (*left_out, f"Not used, as the model does not know them: {_listed(others)}.")
    return pd.DataFrame(columns), (*notes, *left_out)


def _coded(name: str, table: Table) -> str | None:
    """The column that a feature "column = level" codes as 0 and 1; None where it does not."""
    if name in table.frame:
        return None
    starts = [at for at in range(len(name)) if name.startswith(_LEVEL, at)]
    return next((name[:at] for at in starts if name[:at] in table.frame), None)


def _learned(
    model: LatentVariableModel,
    table: Table,
    names: Sequence[str],
    coded: Mapping[str, str],
    row_id: str | None,
) -> Dataset:
    """The table as the model learned such tables: with the same logarithms and 0/1 features."""
    plain = [name for name in names if name not in coded]
    logs = [name for name in model.log1p_ if pd.api.types.is_numeric_dtype(table.frame[name].dtype)]
    types = dict.fromkeys(logs, "numeric") | dict.fromkeys(coded.values(), "category")
    return table.with_types(types).dataset(
        features=plain, row_id=row_id, log1p=logs, one_hot=list(dict.fromkeys(coded.values()))
    )


def _complete(
    model: LatentVariableModel, dataset: Dataset, names: Sequence[str], coded: Mapping[str, str]
) -> tuple[pd.DataFrame, list[str], tuple[str, ...]]:
    """The rows that can be placed, with the model's columns in its order; their names; a note."""
    X = pd.DataFrame(dataset.X, columns=list(dataset.feature_names)).reindex(columns=list(names))
    for name, column in coded.items():
        if name not in dataset.feature_names:  # no row of this table has that level
            X[name] = np.where(dataset.frame[column].isna(), np.nan, 0.0)
    ids = dataset.row_ids
    gone = X.isna().any(axis=1).to_numpy()
    if model.capabilities.missing_cells or not gone.any():
        return X, ids.tolist(), ()
    if gone.all():
        raise DataError(
            f"Every row of {dataset.name!r} lacks a cell, and {model.title} needs every cell. Fill "
            "them first."
        )
    rows = "1 row" if gone.sum() == 1 else f"{gone.sum():,} rows"
    note = f"{rows} left out: a cell is missing, first in row {ids[gone][0]}."
    return X[~gone], ids[~gone].tolist(), (note,)


def _columns(model: LatentVariableModel, table: Table) -> list[str]:
    """Names of the columns that the model needs, in its order.

    Raises:
        DataError: the model knows no names, and the table has not as many columns of numbers.
    """
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    numbers = [
        str(name)
        for name, column in table.frame.items()
        if pd.api.types.is_numeric_dtype(column.dtype)
    ]
    if len(numbers) != model.n_features_in_:
        raise DataError(
            f"The model was fitted to {model.n_features_in_} columns without names, and "
            f"{table.name!r} has {len(numbers)} columns of numbers: expected as many, in the same "
            "order."
        )
    return numbers


def _model_path(path: Path) -> Path:
    """The model's file, or that in a run's folder."""
    if not path.is_dir():
        return path
    inside = path / "model.safetensors"
    if not inside.is_file():
        raise DataError(
            f"{path} holds no fitted model: expected a model file, or the folder of a run with "
            "model.safetensors in it."
        )
    return inside


def _writer(path: Path) -> Any:
    writers = {".csv": to_csv_bytes, ".parquet": to_parquet_bytes}
    if path.suffix.lower() not in writers:
        raise ConfigError(f"--out {path} ends in no known way: expected .csv or .parquet.")
    return writers[path.suffix.lower()]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
