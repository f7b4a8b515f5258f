"""New tables for a fitted model: matching of features and labels, and checks of their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.predictor import Predictor
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import DateScale
from lvmcore.data.new_tables.column_matching import ColumnMatching, match_columns, quote_names
from lvmcore.data.new_tables.matching_dataset import matching_dataset
from lvmcore.data.new_tables.unit_checks import TypicalRange, UnitWarning, unit_warnings
from lvmcore.data.proposed_roles import propose_row_id
from lvmcore.data.table import Table
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.models import AnyModel
from lvmcore.prediction.label_columns import label_columns

__all__ = [
    "MatchedTable",
    "NewTableRoles",
    "feature_names_of",
    "match_to_model",
    "propose_new_table_roles",
    "read_new_table",
]


@dataclass(frozen=True)
class NewTableRoles:
    """Columns of a table of new rows that are no features.

    Attributes:
        row_id: column with the names of the rows; None numbers them from 1.
        label: column of true classes, for comparison with predictions; None for none.
        more_labels: further such columns, for a model with several label columns.
    """

    row_id: str | None = None
    label: str | None = None
    more_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All label columns."""
        return () if self.label is None else (self.label, *self.more_labels)


@dataclass(frozen=True)
class MatchedTable:
    """A table of new rows, matched to the features of a model.

    Attributes:
        dataset: its features, transformed as in the fit; its notes include all that follows.
        matching: of its columns to the model's features.
        suspicions: columns that are probably in other units.
        unknown_labels: labels in it that are not classes of the model.
        incomplete: number of rows that the model cannot use, as they have missing cells.
        medians: of each numeric column of the model in this table and in the fit, in the table's
            own units; NaN where unknown. Without dates.
        notes: notes of the dataset other than those on the matching.
    """

    dataset: Dataset
    matching: ColumnMatching
    suspicions: tuple[UnitWarning, ...]
    unknown_labels: tuple[str, ...]
    incomplete: int
    medians: dict[str, tuple[float, float]]
    notes: tuple[str, ...]


def feature_names_of(model: AnyModel, table: Table) -> list[str]:
    """Names of the features that a model needs, in its order.

    Raises:
        DataError: the model has no feature names, and the table has another number of numeric
            columns.
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


def propose_new_table_roles(model: AnyModel, table: Table, fitted: Dataset | None) -> NewTableRoles:
    """Propose the row id by its values, and the labels by their names in the fit.

    Args:
        model: a fitted model.
        table: the new rows.
        fitted: the rows of the fit; None if they are not available.
    """
    used = match_to_model(model, table, fitted, NewTableRoles())
    features = set(used.columns.values())
    row_id = propose_row_id(table)
    wanted = _names_of_labels(model)
    if not wanted and fitted is not None and fitted.label_name is not None:
        wanted = (fitted.label_name,)
    found = _labels_by_name(table, wanted)
    labels = [column for column in found.values() if column not in features]
    return NewTableRoles(
        None if row_id in features or row_id in found.values() else row_id,
        labels[0] if labels else None,
        tuple(labels[1:]),
    )


def _names_of_labels(model: AnyModel) -> tuple[str, ...]:
    """Names of the label columns of a model with several; empty otherwise."""
    names: tuple[str, ...] = getattr(model, "label_names_", ())
    return names if len(names) > 1 else ()


def _labels_by_name(table: Table, names: Sequence[str]) -> dict[str, str]:
    """Columns of a table that match label columns, by the name of the label column."""
    found = match_columns(table, names, origin=names).columns if names else {}
    return {name: found[name] for name in names if name in found}


def read_new_table(
    model: AnyModel,
    table: Table,
    fitted: Dataset | None,
    roles: NewTableRoles,
    codes: Mapping[str, tuple[str, str]] | None = None,
    date_scales: Mapping[str, DateScale] | None = None,
) -> MatchedTable:
    """Compute the features of a model from a new table, and check them.

    Args:
        model: a fitted model.
        table: the new rows.
        fitted: the rows of the fit; None if they are not available.
        roles: columns that are no features.
        codes: see `matching_dataset`.
        date_scales: see `matching_dataset`.

    Raises:
        DataError: a column is missing, or has values that cannot be used; or the model has other
            label columns.
        UnsupportedError: the model cannot infer new rows.
    """
    if not model.capabilities.new_rows:
        raise UnsupportedError(f"{type(model).__name__} cannot place new rows on its map.")
    names = feature_names_of(model, table)
    takes_missing = model.capabilities.missing_cells
    matching = match_to_model(model, table, fitted, roles)
    dataset = matching_dataset(
        table,
        names,
        row_id=roles.row_id,
        label=_labels(model, table, roles),
        origin=fitted,
        codes=codes,
        date_scales=date_scales,
        missing_cells=takes_missing,
    )
    reference = None if fitted is None else _model_features(fitted, names)
    called = [matching.columns.get(source.column, source.column) for source in matching.sources]
    typical = (
        _typical_range(model, matching, dataset.date_scales)
        if reference is None
        else TypicalRange.of(reference)
    )
    absent = np.isnan(dataset.X).any(axis=1)
    matching_notes = {*matching.notes(), matching.missing_note()}
    suspicions = unit_warnings(dataset.original_units(dataset.X), called, typical)
    unknown = _unknown_labels(model, dataset)
    further = [suspicion.text for suspicion in suspicions]
    if unknown:
        further.append(f"Labels that the model does not know: {quote_names(unknown)}.")
    return MatchedTable(
        dataset=replace(dataset, notes=(*dataset.notes, *further)),
        matching=matching,
        suspicions=suspicions,
        unknown_labels=unknown,
        incomplete=0 if takes_missing else int(absent.sum()),
        medians=_medians(matching, dataset, reference),
        notes=tuple(note for note in dataset.notes if note not in matching_notes),
    )


def _model_features(fitted: Dataset, names: Sequence[str]) -> Dataset | None:
    """The rows of the fit with the model's features only, in its order."""
    places = {name: d for d, name in enumerate(fitted.transformed_names)}
    if not all(name in places for name in names):
        return fitted if len(places) == len(names) else None
    at = [places[name] for name in names]
    return replace(
        fitted,
        X=fitted.X[:, at],
        feature_names=tuple(fitted.feature_names[d] for d in at),
        log1p=fitted.log1p[at],
        image_shape=None,
    )


def match_to_model(
    model: AnyModel, table: Table, fitted: Dataset | None, roles: NewTableRoles
) -> ColumnMatching:
    """Match the columns of a table to the features of a model, without checks of the values."""
    origin: Sequence[str] = () if fitted is None else list(map(str, fitted.frame.columns))
    return match_columns(
        table,
        feature_names_of(model, table),
        origin=origin,
        others={roles.row_id, *roles.labels} - {None},
    )


def _labels(model: AnyModel, table: Table, roles: NewTableRoles) -> str | dict[str, str] | None:
    """The label columns of a table, by the names of the model's label columns."""
    wanted = _names_of_labels(model)
    if not wanted:
        if len(roles.labels) > 1 and model.capabilities.labels != "none":
            raise DataError(
                f"The model learned from one label column, and {len(roles.labels)} were chosen to "
                f"compare with: {quote_names(roles.labels)}. Choose one of them."
            )
        return {name: name for name in roles.labels}
    found = _labels_by_name(table, wanted)
    strange = [name for name in roles.labels if name not in found.values()]
    if strange:
        raise DataError(
            f"{strange[0]!r} cannot be compared with: the model learned from the label columns "
            f"{quote_names(wanted)}. Choose columns with these names."
        )
    return {name: column for name, column in found.items() if column in roles.labels}


def _typical_range(
    model: AnyModel, matching: ColumnMatching, dates: Mapping[str, DateScale]
) -> TypicalRange:
    """Typical ranges of the fitted columns from the model's own means and sds, for the medians."""
    known = model.standardiser_
    plain = np.array(
        [source.kind == "plain" and source.column not in dates for source in matching.sources]
    )
    return TypicalRange(np.where(plain & ~known.constant, known.mean, np.nan), known.scale)


def _medians(
    matching: ColumnMatching, dataset: Dataset, fitted: Dataset | None
) -> dict[str, tuple[float, float]]:
    here = dataset.original_units(dataset.X)
    there = (
        np.full((1, here.shape[1]), np.nan) if fitted is None else fitted.original_units(fitted.X)
    )
    return {
        source.column: (_median(here[:, d]), _median(there[:, d]))
        for d, source in enumerate(matching.sources)
        if source.kind != "level" and source.column not in dataset.date_scales
    }


def _median(cells: NDArray[np.float64]) -> float:
    known = cells[~np.isnan(cells)]
    return float(np.median(known)) if len(known) else float("nan")


def _unknown_labels(model: AnyModel, dataset: Dataset) -> tuple[str, ...]:
    if isinstance(model, Predictor) or dataset.labels is None:
        return ()
    unknown: list[str] = []
    for column in label_columns(model):
        labels = column.labels(dataset)
        found = set() if labels is None else {one for one in labels if one is not None}
        strange = sorted(found - set(column.classes))
        unknown += [f"{column.name} = {one}" if column.several else one for one in strange]
    return tuple(unknown)
