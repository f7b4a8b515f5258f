"""Errors and log densities of a model and of baselines on hidden cells, by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lvmcore.errors import DataError

__all__ = [
    "BASELINES",
    "MODEL",
    "ColumnComparison",
    "ImputationComparison",
    "Kind",
    "comparison_from_json",
    "comparison_to_json",
]

#: Key of the model among the methods.
MODEL = "model"
#: Baselines by key, with their names in sentences.
BASELINES = {
    "means": "column means",
    "neighbours": "nearest neighbours",
    "forest": "a random forest",
}

Kind = Literal["numbers", "levels"]


@dataclass(frozen=True)
class ColumnComparison:
    """Errors and log densities of the methods on the hidden cells of a column.

    Attributes:
        column: name of the column; "" for all columns of the kind.
        kind: "numbers" or "levels".
        cells: number of hidden cells.
        errors: error of each method, by its key; None where it made no prediction.
        log_densities: log density of each method, nats a cell.
        better: keys of the baselines that are better than the model.
    """

    column: str
    kind: Kind
    cells: int
    errors: Mapping[str, float | None]
    log_densities: Mapping[str, float | None]
    better: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImputationComparison:
    """A model and the baselines on the same hidden cells.

    Attributes:
        total: over all columns, one entry for each kind of column that there is.
        columns: by column, in the order of the table.
        protocol: how the methods were compared.
    """

    total: tuple[ColumnComparison, ...]
    columns: tuple[ColumnComparison, ...]
    protocol: str


def comparison_to_json(comparison: ImputationComparison) -> dict[str, Any]:
    """A comparison as JSON values."""
    return asdict(comparison)


def comparison_from_json(content: Any) -> ImputationComparison:
    """A comparison from ``comparison_to_json``.

    Raises:
        DataError: the content is no comparison.
    """
    try:
        total, columns = (
            tuple(_column_from_json(one) for one in content[part]) for part in ("total", "columns")
        )
        return ImputationComparison(total, columns, str(content["protocol"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"The comparison of the imputation is damaged: {error!r}.") from error


def _column_from_json(content: Any) -> ColumnComparison:
    kind: Kind = "levels" if content["kind"] == "levels" else "numbers"
    parts = [
        {str(key): None if value is None else float(value) for key, value in content[part].items()}
        for part in ("errors", "log_densities")
    ]
    better = tuple(key for key in map(str, content["better"]) if key in BASELINES)
    return ColumnComparison(
        str(content["column"]), kind, int(content["cells"]), parts[0], parts[1], better
    )
