"""A block of rows with its missing cells filled by a model, in the columns of its files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.data.long_tables.record_batches import is_numeric_type
from lvmcore.data.new_tables.column_matching import ColumnMatching
from lvmcore.data.transforms import one_hot_columns
from lvmcore.jobs.impute import completed_table, imputed_columns
from lvmcore.numerics.array_types import FloatArray

__all__ = ["filled_block"]


def filled_block(
    model: LatentVariableModel,
    rows: Dataset,
    cells: Any,
    matching: ColumnMatching,
    *,
    details: bool,
) -> Any:
    """Fill the missing cells of a block of rows.

    A number is filled with its mean (of a feature learned as log(1 + x), its median), a category
    with the level of the largest mean. Observed cells, and missing ones of dates and of columns of
    two words, are as they are in the file.

    Args:
        model: a fitted model that takes missing cells.
        rows: features of the rows, whose positions are those in ``cells``.
        cells: the rows, an Arrow table with every column.
        matching: the columns of the features.
        details: whether to add the sd of each filled number, 0 of an observed one.

    Returns:
        An Arrow table of these rows. Columns of numbers that are features are float64.
    """
    cells = cells.take(pa.array(rows.rows))
    completed = completed_table(model, rows)
    further: dict[str, FloatArray] = {}
    for names, source in zip(imputed_columns(rows), matching.sources, strict=True):
        column = matching.columns.get(source.column)
        if source.kind == "level" or column is None or column not in cells.column_names:
            continue
        own = cells.column(column)
        if not is_numeric_type(own.type) or pat.is_boolean(own.type):
            continue
        values = completed[names.value].to_numpy(np.float64)
        at = cells.column_names.index(column)
        observed = own.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        filled = np.where(np.isnan(observed), values, observed)
        cells = cells.set_column(at, column, pa.array(filled))
        spread = completed[names.sd].to_numpy(np.float64) if names.sd else np.zeros(len(rows))
        further[f"{column} sd"] = spread
    cells = _fill_levels(rows, completed, cells, matching)
    for title, spread in further.items() if details else ():
        if title not in cells.column_names:
            cells = cells.append_column(title, pa.array(spread))
    return cells


def _fill_levels(rows: Dataset, completed: Any, cells: Any, matching: ColumnMatching) -> Any:
    """Fill the categories with the level of the largest mean."""
    value = {names.feature: names.value for names in imputed_columns(rows)}
    for name, group in one_hot_columns(rows).items():
        column = matching.columns.get(name)
        if column is None or column not in cells.column_names:
            continue
        own = cells.column(column)
        if pat.is_dictionary(own.type):
            own = own.cast(own.type.value_type)
        if not (pat.is_string(own.type) or pat.is_large_string(own.type)):
            continue
        features = [rows.feature_names[d] for d in group]
        means = np.column_stack([completed[value[one]].to_numpy(np.float64) for one in features])
        levels = np.array([one.removeprefix(f"{name} = ") for one in features], dtype=object)
        texts = np.array(own.to_pylist(), dtype=object)
        missing = np.isnan(rows.X[:, group[0]])
        texts[missing] = levels[means.argmax(axis=1)][missing]
        at = cells.column_names.index(column)
        cells = cells.set_column(at, column, pa.array(texts.tolist(), pa.string()))
    return cells
