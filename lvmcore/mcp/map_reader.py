"""What the tools read of the map of a run: rows, rows that meet conditions, decoded points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import TypedDict

from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.mcp.json_values import json_numbers, json_value
from lvmcore.mcp.store_reader import check_page, find_run
from lvmcore.runs.store import Store

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset

__all__ = ["MOST_POINTS", "MOST_ROWS", "Condition", "MapReader"]

#: Rows of one answer, columns of the data with them, points to decode, and cells of an answer.
MOST_ROWS, MOST_ROW_COLUMNS, MOST_POINTS, MOST_CELLS = 300, 50, 100, 20_000


class Condition(TypedDict):
    """A condition on a column of the data, or on a latent mean (z1, z2, …).

    A row without a cell in the column meets "missing" only.
    """

    column: str
    comparison: Literal["=", "!=", "<", "<=", ">", ">=", "contains", "missing"]
    value: NotRequired[str | float | None]


class MapReader:
    """The fitted map of a run, with its rows.

    Args:
        store: the store.
        run: id of the run, or its first digits.

    Raises:
        DataError: there is no such run, or it has no map.
        UnsupportedError: its rows are in files that stay in place.
    """

    def __init__(self, store: Store, run: str) -> None:
        from lvmcore.jobs.fitting import training_rows

        job = find_run(store, run)
        if job.spec.kind != "fit" or job.spec.target:
            raise DataError(f"The run {job.name} has no map: it is no fit of a map.")
        self.run = job.id
        self._colours = store.job_folder(job.id).files.colours
        self.model: LatentVariableModel = store.load_model(job.id)
        dataset = store.datasets.get(job.spec.dataset)
        if dataset.files is not None:
            raise UnsupportedError(
                f"The rows of the run {job.name} are in files that stay in place, which these "
                "tools do not read. Open the run in the dashboard."
            )
        self.rows: Dataset = training_rows(dataset, type(self.model))[0]

    def read(self, limit: int, offset: int, columns: list[str]) -> dict[str, Any]:
        """Rows of the map, in the order of the data.

        Raises:
            ConfigError: the limit or the offset is out of range, or there is no such column.
        """
        return self._answer(np.arange(len(self.rows)), limit, offset, columns)

    def query(
        self, conditions: list[Condition], limit: int, offset: int, columns: list[str]
    ) -> dict[str, Any]:
        """Rows of the map that meet all conditions.

        Raises:
            ConfigError: there is no condition or no such column, or a value has another type.
        """
        if not conditions:
            raise ConfigError("No condition is given: expected at least one, or use read_rows.")
        met = np.ones(len(self.rows), dtype=bool)
        for condition in conditions:
            met &= _met(self._cells(condition["column"]), condition)
        return self._answer(np.flatnonzero(met), limit, offset, columns)

    def decode(self, points: list[list[float]]) -> dict[str, Any]:
        """Features at latent points, in the data's units.

        Args:
            points: [P, Q].

        Raises:
            ConfigError: there are too many points, or a point has other dimensions than the map.
            UnsupportedError: the model cannot decode.
        """
        from lvmcore.prediction.decoded_columns import decoded_interval

        dimensions = self.model.embedding_.mean.shape[1]
        features = self.rows.feature_names
        if not 1 <= len(points) <= MOST_POINTS:
            raise ConfigError(f"{len(points)} points are given: expected 1 to {MOST_POINTS}.")
        if len(points) * len(features) > MOST_CELLS:
            most = max(1, MOST_CELLS // len(features))
            raise ConfigError(
                f"{len(points)} points have too many cells for one answer, as the data have "
                f"{len(features):,} features: give {most} at most."
            )
        if any(len(point) != dimensions for point in points) or not np.isfinite(points).all():
            raise ConfigError(f"A point must have {dimensions} finite numbers, as the map has.")
        found = self.model.decode(np.array(points, dtype=np.float64))
        ends = decoded_interval(self.model, found, 1.0)
        mean, low, high = (self.rows.original_units(cells) for cells in (found.mean, *ends))
        sd = np.where(self.rows.log1p, np.nan, np.sqrt(found.variance))
        decoded = [
            {
                "mean": json_numbers(mean[n]),
                "sd": json_numbers(sd[n]),
                "low": json_numbers(low[n]),
                "high": json_numbers(high[n]),
            }
            for n in range(len(points))
        ]
        return {"run": self.run, "features": list(features), "points": decoded}

    def picture(self, dimensions: list[int] | None) -> bytes:
        """PNG of the map, with the latent dimensions (from 1) of its axes, in the run's colours.

        Raises:
            ConfigError: the map has no such dimensions.
        """
        from lvmcore.export.column_colours import (
            DEFAULT_CATEGORIES,
            CategoryColours,
            read_colours,
        )
        from lvmcore.export.map_picture import map_picture
        from lvmcore.relevance import leading_dimensions

        axes = leading_dimensions(self.model.relevance_)
        if dimensions is not None:
            if len(dimensions) != 2:
                raise ConfigError("dimensions must be two numbers, from 1.")
            axes = (dimensions[0] - 1, dimensions[1] - 1)
        chosen = read_colours(self._colours).get(self.rows.label_name or "label")
        colours = chosen if isinstance(chosen, CategoryColours) else DEFAULT_CATEGORIES
        return map_picture(self.model, self.rows, axes, "png", colours=colours)

    def _cells(self, name: str) -> pd.Series:
        """A column of the data, or a latent mean."""
        if name in self.rows.frame:
            return self.rows.frame[name]
        mean = self.model.embedding_.mean
        latent = {f"z{q + 1}": q for q in range(mean.shape[1])}
        if name not in latent:
            raise ConfigError(
                f"There is no column {name!r}. describe_dataset lists them; the latent means "
                f"are z1 to z{len(latent)}."
            )
        return pd.Series(mean[:, latent[name]])

    def _answer(
        self, chosen: NDArray[np.intp], limit: int, offset: int, columns: list[str]
    ) -> dict[str, Any]:
        check_page(limit, offset, MOST_ROWS)
        if len(columns) > MOST_ROW_COLUMNS:
            raise ConfigError(f"{len(columns)} columns are given: {MOST_ROW_COLUMNS} at most.")
        cells = {name: self._cells(name) for name in columns}
        posterior, labels = self.model.embedding_, self.rows.labels
        known = self.model.capabilities.uncertainty
        rows = [
            {
                "id": str(self.rows.row_ids[n]),
                "label": None if labels is None else json_value(labels[n]),
                "mean": json_numbers(posterior.mean[n]),
                "sd": json_numbers(np.sqrt(posterior.variance[n])) if known else None,
                "data": {name: json_value(column.iloc[n]) for name, column in cells.items()},
            }
            for n in chosen[offset : offset + limit].tolist()
        ]
        return {"run": self.run, "total": len(chosen), "offset": offset, "rows": rows}


def _met(cells: pd.Series, condition: Condition) -> NDArray[np.bool_]:
    """Which cells meet a condition, [N]."""
    comparison, value = condition["comparison"], condition.get("value")
    absent = cells.isna().to_numpy(dtype=bool)
    if comparison == "missing":
        return absent
    if value is None:
        raise ConfigError(f"The comparison {comparison!r} needs a value.")
    found = np.zeros(len(cells), dtype=bool)
    known = cells[~absent]
    if comparison == "contains":
        texts = known.astype(str).str
        found[~absent] = texts.contains(str(value), regex=False).to_numpy(dtype=bool)
        return found
    left, right = _comparable(known, value, condition["column"])
    operations = {
        "=": left.eq,
        "!=": left.ne,
        "<": left.lt,
        "<=": left.le,
        ">": left.gt,
        ">=": left.ge,
    }
    found[~absent] = operations[comparison](right).to_numpy(dtype=bool)
    return found


def _comparable(cells: pd.Series, value: str | float, column: str) -> tuple[pd.Series, Any]:
    """Cells and a value of the same type: numbers, times or texts."""
    try:
        if pd.api.types.is_datetime64_any_dtype(cells):
            return cells, pd.Timestamp(value)
        if pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells):
            return cells, float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{value!r} cannot be compared with the column {column!r}, which has the type "
            f"{cells.dtype}."
        ) from None
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return cells.astype(str), text
