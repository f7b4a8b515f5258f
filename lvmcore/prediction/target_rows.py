"""The rows of a fit to a target column: features, target values, and held-out rows.

All are taken from the dataset of the run: the features are its features without those derived from
the target or from the grouping column, or where none is left its columns of dates; the target is a
column of its frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.date_scales import DateScale, is_dates
from lvmcore.data.held_out_rows import (
    hold_out_groups,
    hold_out_last,
    hold_out_rows,
    keep_every_class,
)
from lvmcore.data.new_tables.column_matching import feature_sources
from lvmcore.data.transforms import MAX_LEVELS
from lvmcore.errors import DataError
from lvmcore.preprocessing.picture_shape import propose_image_shape
from lvmcore.runs.job import JobSpec

if TYPE_CHECKING:
    from lvmcore.base.predictor import Task

__all__ = [
    "HELD_OUT",
    "SupervisedRows",
    "date_scales_of_fit",
    "dates_as_features",
    "observed_target",
    "split_for_target",
    "target_columns",
    "target_features",
    "task_of",
    "unlearned_categories",
]

#: Share of the rows that are held out of a fit to a target, for its metrics.
HELD_OUT = 0.2
_SHARE = f"{100 * HELD_OUT:g} %"
#: Least number of rows: with fewer, metrics on a fifth of them are meaningless.
FEWEST_ROWS = 10
#: Most distinct texts of a column that can be classes without being chosen as the label.
MOST_TEXTS = 200


@dataclass(frozen=True)
class SupervisedRows:
    """The rows of a fit to a target.

    Attributes:
        dataset: the usable rows, in the table's order, with the features of the fit.
        y: their target, numbers or classes as text, none missing, [N].
        held_out: mask of the held-out rows, [N].
        how: description of the held-out rows, as part of a sentence.
    """

    dataset: Dataset
    y: NDArray[Any]
    held_out: NDArray[np.bool_]
    how: str

    @property
    def date_units(self) -> dict[str, str]:
        """Units in the plural of the features that are dates, by name."""
        return {name: scale.plural for name, scale in self.dataset.date_scales.items()}

    @property
    def X(self) -> pd.DataFrame:
        """The features, under the names that a model stores, [N, H]."""
        return pd.DataFrame(self.dataset.X, columns=list(self.dataset.transformed_names))


# ---- which columns can be a target -------------------------------------------------------------


def task_of(dataset: Dataset, name: str) -> Task | None:
    """The task of predicting a column: a number or a class; None if it cannot be a target.

    Label columns, text and columns with two values are classes. Dates, columns without values, and
    text that differs in every row or has more than ``MOST_TEXTS`` values cannot be a target.
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
    """The columns that can be a target, with their task, in the table's order."""
    found = {str(name): task_of(dataset, str(name)) for name in dataset.frame.columns}
    return {name: task for name, task in found.items() if task is not None}


def unlearned_categories(dataset: Dataset) -> tuple[str, ...]:
    """Categorical columns that could be one-hot features of a dataset and are not; no labels."""
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
    """The rows of a run's fit to its target, and its held-out rows.

    Rows without a target (or, for numbers, with an infinite one) are removed first, then columns
    without values, then rows with missing cells. The dataset's own held-out rows are held out; if
    there are none, a share ``HELD_OUT`` of the rest: whole groups, the last rows in time, or rows
    drawn with the run's seed, stratified by class.

    Args:
        dataset: of the run.
        task: of the run's model.
        spec: of the run: its target, groups, time and seed.

    Raises:
        DataError: the target cannot be learned, no rows or features are left, or no row can be held
            out; the message names the column.
    """
    name = spec.target
    y = observed_target(dataset, task, name)
    kept = target_features(dataset, spec.target, spec.groups)
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
    _check_target(y, task, name)
    if spec.time:
        usable, y = _drop_missing_times(usable, y, spec.time)
    if dataset.held_out.any() and not usable.held_out.any():
        raise DataError(
            f"None of the {int(dataset.held_out.sum()):,} rows that are held out has the target "
            f"{name!r} and every cell: hold out other rows on the Data page."
        )
    held_out, how = _held_out(usable, y, task, spec)
    _check_target(y[~held_out], task, name, " in the rows that are not held out")
    return SupervisedRows(usable, y, held_out, how)


def observed_target(dataset: Dataset, task: Task, name: str) -> NDArray[Any]:
    """A column as the target of all rows, [N]: numbers, NaN where missing or infinite; or classes.

    Raises:
        DataError: there is no such column, or it has cells that are no numbers and the task needs
            numbers.
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


def target_features(dataset: Dataset, target: str, groups: str = "") -> Dataset:
    """The dataset of a run with the features of its fit to a target.

    Those derived from the target or from the groups are left out. Where none is left, the columns
    of dates are the features.

    Args:
        dataset: of the run.
        target: the target.
        groups: the column of the groups; "" for none.

    Raises:
        DataError: no feature is left.
    """
    kept = _kept_features(dataset, {target, groups})
    if not kept.any():
        dates = dates_as_features(dataset, target, groups)
        if not dates:
            others = [name for name in dataset.frame if name not in {target, groups}]
            example = f", such as {others[0]!r}" if others else ""
            raise DataError(
                f"No column is left to learn the target {target!r} from: choose further features"
                f"{example}."
            )
        cells = [scale.numbers(dataset.frame[name]) for name, scale in dates.items()]
        return replace(
            dataset,
            X=np.column_stack(cells),
            feature_names=tuple(dates),
            log1p=np.zeros(len(dates), dtype=bool),
            date_scales=dates,
            image_shape=None,
            notes=(*dataset.notes, *(scale.note(name) for name, scale in dates.items())),
        )
    if kept.all():
        return dataset
    names = tuple(np.array(dataset.feature_names, dtype=object)[kept])
    return replace(
        dataset,
        X=np.ascontiguousarray(dataset.X[:, kept]),
        feature_names=names,
        log1p=dataset.log1p[kept],
        image_shape=propose_image_shape(names),
    )


def dates_as_features(dataset: Dataset, target: str, groups: str = "") -> dict[str, DateScale]:
    """The columns of dates that are the features of a fit to a target, for lack of others.

    Args:
        dataset: of the fit.
        target: the target.
        groups: the column of the groups; "" for none.

    Returns:
        The unit and origin of each; empty where another feature is left, or there are no dates.
    """
    excluded = {target, groups}
    if _kept_features(dataset, excluded).any():
        return {}
    return {
        str(name): DateScale.of(column)
        for name, column in dataset.frame.items()
        if name not in excluded and is_dates(column) and column.notna().any()
    }


def date_scales_of_fit(
    dataset: Dataset, target: str = "", groups: str = ""
) -> dict[str, DateScale]:
    """Units and origins of all columns of dates that are features of a fit, by name.

    Args:
        dataset: of the fit.
        target: the target; "" for a map.
        groups: the column of the groups; "" for none.
    """
    own = dict(dataset.date_scales)
    return own | dates_as_features(dataset, target, groups) if target else own


def _kept_features(dataset: Dataset, excluded: set[str]) -> NDArray[np.bool_]:
    """Which features are not derived from some columns, [D]."""
    columns = [str(column) for column in dataset.frame.columns]
    sources = feature_sources(dataset.transformed_names, columns, columns)
    return np.array([source.column not in excluded for source in sources])


def _check_target(y: NDArray[Any], task: Task, name: str, where: str = "") -> None:
    """Raise an error for a constant target, or for a class per row."""
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


def _drop_missing_times(
    dataset: Dataset, y: NDArray[Any], name: str
) -> tuple[Dataset, NDArray[Any]]:
    """The rows with a time."""
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
    """Mask of the held-out rows, [N], and a description of them."""
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
    if spec.origin:
        return held, (
            f"{_SHARE} of the rows, drawn with seed {seed}, which the model may have been fitted "
            f"to with {spec.origin}: scores on new rows can be worse"
        )
    if labels is None:
        return held, f"{_SHARE} of the rows, drawn with seed {seed}"
    return keep_every_class(held, [labels]), (
        f"{_SHARE} of the rows, the same share of each class, drawn with seed {seed}"
    )
