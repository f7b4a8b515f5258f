"""The likelihood of each column of a table or dataset: proposed from its cells, or chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.dataset import Dataset
from lvmcore.data.transforms import levels, one_hot_columns
from lvmcore.likelihoods.catalogue import (
    BY_COLUMN,
    GAUSSIAN,
    LIKELIHOODS,
    ColumnTerm,
    LikelihoodName,
    check_cells,
    check_likelihoods,
    read_column_likelihood,
    read_likelihoods,
    write_likelihoods,
)
from lvmcore.likelihoods.proposals import propose_category, propose_likelihood

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = [
    "ProposedLikelihood",
    "check_dataset_likelihoods",
    "likelihood_text",
    "proposed_likelihood",
]


@dataclass(frozen=True)
class ProposedLikelihood:
    """A likelihood proposed for a column.

    Attributes:
        name: Of the likelihood.
        reason: Why, as a clause.
        by_type: Whether it follows from the column's type against its cells.
    """

    name: LikelihoodName
    reason: str
    by_type: bool = False


def proposed_likelihood(table: "Table", column: ColumnDescription) -> ProposedLikelihood:
    """The likelihood proposed for a column of a table, from its type and cells."""
    values = table.frame[column.name]
    if column.type is ColumnType.CATEGORY:
        return ProposedLikelihood(*propose_category(levels(values)))
    if column.type is ColumnType.DATE:
        return ProposedLikelihood("gaussian", "it is a date")
    if column.type is ColumnType.BINARY:
        return ProposedLikelihood("bernoulli", "it has two values")
    name, reason = propose_likelihood(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if column.type is ColumnType.NUMERIC and LIKELIHOODS[name].cells == "counts":
        return ProposedLikelihood("gaussian", "its type is numeric", by_type=True)
    return ProposedLikelihood(name, reason)


def check_dataset_likelihoods(dataset: Dataset, text: str) -> None:
    """Check that the cells of a dataset suit a setting of likelihoods.

    Args:
        dataset: The dataset.
        text: "gaussian", "by column" or a list.

    Raises:
        ConfigError: The list is not of so many features.
        DataError: The cells of a column do not allow its likelihood.
    """
    if text == BY_COLUMN:
        likelihood_text(dataset)
    elif text != GAUSSIAN:
        check_likelihoods(text, dataset.transformed_names)
        check_cells(read_likelihoods(text), dataset.X, dataset.feature_names)


def likelihood_text(dataset: Dataset) -> str:
    """The likelihoods of the features of a dataset: those chosen, else those proposed.

    Raises:
        DataError: The cells of a column do not allow the likelihood chosen for it.
    """
    terms = _terms(dataset, dataset.likelihoods)
    check_cells(terms, dataset.X, dataset.feature_names)
    return write_likelihoods(terms)


def _terms(dataset: Dataset, chosen: Mapping[str, str]) -> list[ColumnTerm]:
    categories = {features[0]: name for name, features in one_hot_columns(dataset).items()}
    sizes = {name: len(features) for name, features in one_hot_columns(dataset).items()}
    terms: list[ColumnTerm] = []
    d = 0
    while d < len(dataset.feature_names):
        if d in categories:
            name, K = categories[d], sizes[categories[d]]
            texts = [feature[len(name) + 3 :] for feature in dataset.feature_names[d : d + K]]
            own, order = _chosen(chosen, name)
            kind = own or propose_category(texts)[0]
            terms.append(ColumnTerm(kind, K, order) if K > 1 else ColumnTerm("gaussian"))
            d += K
            continue
        feature = dataset.feature_names[d]
        own, _ = _chosen(chosen, feature)
        if own is None:
            plain = dataset.log1p[d] or feature in dataset.date_scales
            own = "gaussian" if plain else propose_likelihood(dataset.X[:, d])[0]
        terms.append(ColumnTerm(own))
        d += 1
    return terms


def _chosen(
    chosen: Mapping[str, str], column: str
) -> tuple[LikelihoodName | None, tuple[str, ...]]:
    """The likelihood chosen for a column, None without one, and the order of its levels."""
    name, order = read_column_likelihood(chosen.get(column, ""))
    return next((known for known in LIKELIHOODS if known == name), None), order
