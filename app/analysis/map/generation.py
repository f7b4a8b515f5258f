"""Rows along a latent curve, and rows sampled from a fitted model.

Pure functions of a model and the rows of its fit: no streamlit, no plotly, and torch only inside
the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.reconstruction import INTERVAL_SD
from app.formatting import distinct_titles
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.decoded_columns import (
    column_terms,
    decoded_categories,
    decoded_interval,
)

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.geometry import LatentPath

__all__ = [
    "MOST_CELLS",
    "MOST_ROWS",
    "DecodedPath",
    "GeneratedRows",
    "central_position",
    "decode_path",
    "decode_sweep",
    "generated_table",
    "most_changed_columns",
    "path_table",
]


#: Most rows, and most cells, of one sample.
MOST_ROWS, MOST_CELLS = 10_000, 5_000_000


@dataclass(frozen=True)
class DecodedPath:
    """Decoded columns at points along a latent curve.

    Attributes:
        at: arc length along the curve, or the coordinate of the swept dimension, [P].
        latent: latent points, [P, Q].
        value: decoded columns in data units; a median for columns fitted as log(1 + x), [P, D].
        low: lower end of the interval of ``Reconstruction``, in data units, [P, D].
        high: upper end of that interval, [P, D].
        change: range of each column along the curve, in its sd among the fitted rows and on the
            scale of the fit, [D].
        symmetric: whether the intervals are ± 2 sd.
    """

    at: FloatArray
    latent: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    change: FloatArray
    symmetric: bool = True


@dataclass(frozen=True)
class GeneratedRows:
    """Which rows to sample: hashable, so that it can be a cache key.

    Attributes:
        n: number of rows.
        seed: seed of the samples.
        classes: name of a label column and the class to sample from, as the model names it; None
            samples from the prior.
        rows: positions of the fitted rows to sample from, instead of a class.
        origin: description of what the rows are sampled from.
    """

    n: int
    seed: int
    classes: tuple[str, object] | None
    rows: tuple[int, ...] | None
    origin: str


def decode_path(model: LatentVariableModel, dataset: Dataset, path: LatentPath) -> DecodedPath:
    """Decode the points of a latent curve.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    return _decoded(model, dataset, path.points, path.distance)


def decode_sweep(
    model: LatentVariableModel,
    dataset: Dataset,
    dimension: int,
    held: tuple[float, ...],
    points: int,
) -> DecodedPath:
    """Decode points along one latent dimension, over the range of the rows, others fixed.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    of_rows = model.embedding_.mean[:, dimension]
    at = np.linspace(of_rows.min(), of_rows.max(), points)
    latent = np.tile(np.array(held, dtype=np.float64), (points, 1))
    latent[:, dimension] = at
    return _decoded(model, dataset, latent, at)


def _decoded(
    model: LatentVariableModel, dataset: Dataset, latent: FloatArray, at: FloatArray
) -> DecodedPath:
    predicted = model.decode(latent)
    standard = model.standardiser_
    mean = predicted.mean
    lower, upper = decoded_interval(model, predicted, INTERVAL_SD)
    change = np.where(standard.constant, 0.0, np.ptp(mean, axis=0) / standard.scale)
    return DecodedPath(
        at=at,
        latent=latent,
        value=dataset.original_units(mean),
        low=dataset.original_units(lower),
        high=dataset.original_units(upper),
        change=change,
        symmetric=column_terms(model) is None,
    )


def most_changed_columns(found: DecodedPath, most: int) -> list[int]:
    """Positions of the columns with the largest change along a curve, the largest first."""
    order: list[int] = np.argsort(-found.change, kind="stable")[:most].tolist()
    return order


def path_table(found: DecodedPath, dataset: Dataset, title: str) -> pd.DataFrame:
    """A decoded curve as a table: ``at``, latent coordinates, and each column with its interval.

    Args:
        found: the decoded curve.
        dataset: the rows of the fit, which name the columns.
        title: name of the column of ``found.at``.
    """
    own = dataset.feature_names
    where = [title, *(f"latent_{q + 1}" for q in range(found.latent.shape[1]))]
    ends = [f"{name}: {end}" for name in own for end in ("low", "high")]
    # A column of the data keeps its name; an added column of the same name gets a number.
    added = distinct_titles([*own, *where, *ends])[len(own) :]
    columns = dict(zip(added, [found.at, *found.latent.T], strict=False))
    for d, name in enumerate(own):
        low, high = added[len(where) + 2 * d :][:2]
        cells = (found.value[:, d], found.low[:, d], found.high[:, d])
        columns |= dict(zip((name, low, high), _cells(dataset, name, cells), strict=True))
    return pd.DataFrame(columns)


def _cells(dataset: Dataset, name: str, values: Sequence[FloatArray]) -> list[Any]:
    """Values of a feature as cells of a table: dates in ISO 8601, or numbers."""
    scale = dataset.date_scales.get(name)
    return list(values) if scale is None else [scale.texts(part) for part in values]


def central_position(mean: FloatArray, rows: NDArray[np.bool_]) -> int:
    """Position of the row nearest to the centroid of some rows.

    Args:
        mean: latent means, [N, Q].
        rows: mask of these rows, at least one, [N].
    """
    among = np.flatnonzero(rows)
    centre = mean[among].mean(axis=0)
    return int(among[((mean[among] - centre) ** 2).sum(axis=1).argmin()])


def generated_table(
    model: LatentVariableModel, dataset: Dataset, draw: GeneratedRows, digest: str
) -> pd.DataFrame:
    """Rows sampled from a model, in data units, each with its origin.

    Args:
        model: a fitted model.
        dataset: the rows of the fit.
        draw: which rows to sample.
        digest: digest of the model's file.

    Returns:
        The columns, a category with a likelihood of its own as its levels, then ``drawn_from``,
        ``seed`` and ``model``.

    Raises:
        ConfigError: no row of the fit has the class.
        UnsupportedError: the model cannot sample rows.
    """
    label = None
    if draw.classes is not None:
        name, wanted = draw.classes
        label = {name: wanted} if len(model.label_names_) > 1 else wanted
    rows = None if draw.rows is None else np.array(draw.rows)
    sample = model.sample(draw.n, label=label, rows=rows, random_state=draw.seed)
    frame = _table_columns(model, dataset, sample)
    origin = {"drawn_from": draw.origin, "seed": draw.seed, "model": digest}
    own = list(frame.columns)
    wanted = [name if name not in own else f"{name} of the draw" for name in origin]
    names = distinct_titles([*own, *wanted])[len(own) :]
    named = dict(zip(names, origin.values(), strict=True))
    return pd.concat([frame, pd.DataFrame(named, index=frame.index)], axis="columns")


def _table_columns(
    model: LatentVariableModel, dataset: Dataset, sample: FloatArray
) -> pd.DataFrame:
    """Sampled rows as columns of the table."""
    units = dataset.original_units(sample)
    categories = {one.features[0]: one for one in decoded_categories(model, dataset)}
    coded = {d for one in categories.values() for d in one.features}
    columns: list[tuple[str, Any]] = []
    for d, name in enumerate(dataset.feature_names):
        if d in categories:
            column = categories[d]
            level = column.probabilities(sample).argmax(axis=1)
            columns.append((column.name, np.array(column.levels, dtype=object)[level]))
        elif d not in coded:
            columns.append((name, _cells(dataset, name, (units[:, d],))[0]))
    names = distinct_titles([name for name, _ in columns])
    return pd.DataFrame({name: cells for name, (_, cells) in zip(names, columns, strict=True)})
