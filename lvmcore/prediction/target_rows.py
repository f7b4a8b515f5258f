"""A target column: which rows and columns a model learns it from, and which rows it is measured on.

Everything comes from the dataset of the run: the columns to learn from are its features, less what
is made of the target or of the grouping column; the target is a column of its frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.held_out_rows import (
    hold_out_groups,
    hold_out_last,
    hold_out_rows,
    keep_every_class,
)
from lvmcore.data.new_tables.column_matching import feature_sources
from lvmcore.data.transforms import MAX_LEVELS
from lvmcore.errors import DataError
from lvmcore.runs.job import JobSpec

if TYPE_CHECKING:
    from lvmcore.base.predictor import Task

__all__ = [
    "HELD_OUT",
    "SupervisedRows",
    "observed_target",
    "split_for_target",
    "target_columns",
    "task_of",
    "unlearned_categories",
]

#: Share of the rows that a fit to a target leaves out, to be measured on them.
HELD_OUT = 0.2
_SHARE = f"{100 * HELD_OUT:g} %"
#: With fewer rows a measure on a fifth of them says nothing.
FEWEST_ROWS = 10
#: Different texts of a column that can be classes at most, unless it is made the label.
MOST_TEXTS = 200


@dataclass(frozen=True)
class SupervisedRows:
    """The rows of a fit to a target.

    Attributes:
        dataset: the rows that can be used, in the table's order, with the columns to learn from.
        y: their target, numbers or classes as text, none missing, [N].
        held_out: which of them the fit leaves out, [N].
        how: which these are, as the rest of a sentence on them.
    """

    dataset: Dataset
    y: NDArray[Any]
    held_out: NDArray[np.bool_]
    how: str

    @property
    def X(self) -> pd.DataFrame:
        """The columns to learn from, named as a model keeps them, [N, H]."""
        return pd.DataFrame(self.dataset.X, columns=list(self.dataset.transformed_names))


# ---- which columns can be a target -------------------------------------------------------------


def task_of(dataset: Dataset, name: str) -> Task | None:
    """What it is to predict a column: a number, a class, or None where it can be no target.

    Label columns, text and columns of two values are classes; dates, columns that are missing
    throughout and text that differs in every row or has more than ``MOST_TEXTS`` values are no
    target.
    """
    column = dataset.frame[name]
    known = column.dropna()
    if known.empty or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return None
    if name in dataset.label_columns or pd.api.types.is_bool_dtype(column.dtype):
        return "class"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "class" if known.nunique() == 2 else "number"
    return "class" if known.nunique() < min(len(known), MOST_TEXTS + 1) else None


def target_columns(dataset: Dataset) -> dict[str, Task]:
    """The columns that can be a target and what it is to predict each, in the table's order."""
    found = {str(name): task_of(dataset, str(name)) for name in dataset.frame.columns}
    return {name: task for name, task in found.items() if task is not None}


def unlearned_categories(dataset: Dataset) -> tuple[str, ...]:
    """The categories that could be one-hot features of a dataset and are not, labels apart."""
    columns = [str(column) for column in dataset.frame.columns]
    learned = {
        source.column for source in feature_sources(dataset.transformed_names, columns, columns)
    }
    learned |= set(dataset.label_columns)
    return tuple(
        str(name)
        for name, column in dataset.frame.items()
        if name not in learned
        and not pd.api.types.is_numeric_dtype(column.dtype)
        and not pd.api.types.is_datetime64_any_dtype(column.dtype)
        and 1 < column.nunique() <= min(MAX_LEVELS, column.count() // 2)
    )


# ---- the rows of a fit -------------------------------------------------------------------------


def split_for_target(dataset: Dataset, task: Task, spec: JobSpec) -> SupervisedRows:
    """The rows that a run learns its target from, and those that it is measured on.

    Rows without a target (or, for numbers, with an infinite one) go first, then the columns that
    are missing throughout, then the rows that still lack a cell. Of the rest the dataset's own
    held-out rows are held out; where there are none, whole groups, the last rows or a draw of
    ``HELD_OUT`` of them, by the run's seed and of each class the same share.

    Args:
        dataset: of the run.
        task: what the run's model predicts.
        spec: of the run: its target, groups, time and seed.

    Raises:
        DataError: the target cannot be learned, nothing is left to learn it from, or no row can be
            held out; the message names the column.
    """
    name = spec.target
    y = observed_target(dataset, task, name)
    kept = _features(dataset, spec)
    absent = pd.isna(y)
    if absent.all():
        raise DataError(f"The target {name!r} is missing in every row: choose another column.")
    if absent.any():
        rows = "1 row" if absent.sum() == 1 else f"{int(absent.sum()):,} rows"
        kept = kept.subset(~absent, f"{rows} left out: the target {name!r} is missing.")
    usable = kept.complete_rows()
    y = y[np.isin(dataset.rows, usable.rows)]
    if len(usable) < FEWEST_ROWS:
        gaps = len(usable) < len(kept)
        advice = (
            "Leave out the columns with many missing cells."
            if gaps
            else "Too few to learn from and to measure on."
        )
        raise DataError(
            f"{len(usable)} of {len(dataset)} rows have the target {name!r} and every cell: "
            f"expected at least {FEWEST_ROWS}. {advice}"
        )
    _refuse_target(y, task, name)
    if spec.time:
        usable, y = _with_a_time(usable, y, spec.time)
    if dataset.held_out.any() and not usable.held_out.any():
        raise DataError(
            f"None of the {int(dataset.held_out.sum()):,} rows that are held out has the target "
            f"{name!r} and every cell: hold out other rows on the Data page."
        )
    held_out, how = _held_out(usable, y, task, spec)
    _refuse_target(y[~held_out], task, name, " in the rows that are not held out")
    return SupervisedRows(usable, y, held_out, how)


def observed_target(dataset: Dataset, task: Task, name: str) -> NDArray[Any]:
    """A column as the target of its rows, [N]: numbers, NaN where missing or infinite; or classes.

    Raises:
        DataError: there is no such column, or its cells are no numbers and the task asks for them.
    """
    if name not in dataset.frame:
        known = ", ".join(repr(str(column)) for column in dataset.frame.columns[:10])
        raise DataError(
            f"There is no column {name!r} to predict in {dataset.name!r}: it has {known}."
        )
    column = dataset.frame[name]
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise DataError(
            f"The target {name!r} is a date, which cannot be learned: turn it into a number first, "
            "such as days since the first."
        )
    if task == "class":
        return labels_as_text(column)
    numbers = pd.to_numeric(column, errors="coerce")
    strange = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if len(strange):
        row = int(strange[0])
        raise DataError(
            f"The target {name!r} has {str(column.iloc[row])!r} in row "
            f"{int(dataset.rows[row]) + 1}, which is no number: choose a classifier, or another "
            "column."
        )
    found = np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    found[np.isinf(found)] = np.nan
    return found


def _features(dataset: Dataset, spec: JobSpec) -> Dataset:
    """The dataset without the columns that are made of the target or of the groups."""
    columns = [str(column) for column in dataset.frame.columns]
    sources = feature_sources(dataset.transformed_names, columns, columns)
    told = {spec.target, spec.groups} - {""}
    kept = np.array([source.column not in told for source in sources])
    if not kept.any():
        raise DataError(
            f"No column is left to learn the target {spec.target!r} from: choose further features."
        )
    if kept.all():
        return dataset
    return replace(
        dataset,
        X=np.ascontiguousarray(dataset.X[:, kept]),
        feature_names=tuple(np.array(dataset.feature_names, dtype=object)[kept]),
        log1p=dataset.log1p[kept],
        image_shape=None,
    )


def _refuse_target(y: NDArray[Any], task: Task, name: str, where: str = "") -> None:
    """Refuse a target that says nothing."""
    distinct = len(np.unique(y.astype(str) if task == "class" else y))
    if distinct < 2:
        raise DataError(
            f"The target {name!r} has one value only{where}, {y[0]}: there is nothing to predict. "
            "Choose another column."
        )
    if task == "class" and distinct == len(y):
        raise DataError(
            f"The target {name!r} has as many classes as rows{where}, {distinct:,}: there is "
            "nothing to learn a class from. Choose another column, or a regressor where it holds "
            "numbers."
        )


# ---- the rows held out -------------------------------------------------------------------------


def _with_a_time(dataset: Dataset, y: NDArray[Any], name: str) -> tuple[Dataset, NDArray[Any]]:
    """The rows that have a time."""
    absent = np.isnan(_times(dataset, name))
    if not absent.any():
        return dataset, y
    rows = "1 row" if absent.sum() == 1 else f"{int(absent.sum()):,} rows"
    return dataset.subset(~absent, f"{rows} left out: {name!r} is missing."), y[~absent]


def _times(dataset: Dataset, name: str) -> NDArray[np.float64]:
    column = _column(dataset, name, "time")
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return np.where(column.isna(), np.nan, column.astype("int64")).astype(np.float64)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise DataError(
            f"Column {name!r} cannot order the rows by time: expected dates or numbers, and its "
            "cells are text."
        )
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _column(dataset: Dataset, name: str, role: str) -> pd.Series[Any]:
    if name not in dataset.frame:
        raise DataError(f"There is no column {name!r} for the {role} in {dataset.name!r}.")
    return dataset.frame[name]


def _held_out(
    dataset: Dataset, y: NDArray[Any], task: Task, spec: JobSpec
) -> tuple[NDArray[np.bool_], str]:
    """Which rows are held out, [N], and which these are in words."""
    seed = spec.parameters.get("random_state", 0)
    seed = 0 if seed is None else int(seed)
    labels = labels_as_text(pd.Series(y)) if task == "class" else None
    if dataset.held_out.any():
        if spec.groups or spec.time:
            raise DataError(
                "The dataset has rows held out already, so the groups or the time cannot choose "
                "others: hold out nothing on the Data page, or choose neither."
            )
        if dataset.held_out.all():
            raise DataError("Every row that can be used is held out, so none is left to fit.")
        return dataset.held_out, "the rows that the dataset holds out"
    if spec.groups:
        groups = labels_as_text(_column(dataset, spec.groups, "groups"))
        held = hold_out_groups(groups, HELD_OUT, seed, name=spec.groups)
        return held, (
            f"whole groups of {spec.groups!r} with {held.mean():.0%} of the rows, drawn with seed "
            f"{seed}"
        )
    if spec.time:
        times = _times(dataset, spec.time)
        held = hold_out_last(times, HELD_OUT, name=spec.time)
        return held, f"the last {held.mean():.0%} of the rows by {spec.time!r}"
    held = hold_out_rows(len(y), labels, HELD_OUT, seed)
    if labels is None:
        return held, f"{_SHARE} of the rows, drawn with seed {seed}"
    return keep_every_class(held, [labels]), (
        f"{_SHARE} of the rows, the same share of each class, drawn with seed {seed}"
    )
