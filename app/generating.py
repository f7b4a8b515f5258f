"""What the Generate page asks of a fitted model: rows along a curve, and rows drawn from it.

Pure functions of a model and the rows that it was fitted to: no streamlit, no plotly, and torch
only inside the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.exploring import INTERVAL_SD
from app.words import told_apart
from lvmcore.data import Dataset

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel
    from lvmcore.geometry import LatentPath

__all__ = [
    "MOST_CELLS",
    "MOST_ROWS",
    "Along",
    "Draw",
    "along",
    "along_frame",
    "changing",
    "drawn_frame",
    "middle",
    "swept",
]

FloatArray = NDArray[np.float64]

#: Rows, and cells, that are drawn at once at most.
MOST_ROWS, MOST_CELLS = 10_000, 5_000_000


@dataclass(frozen=True)
class Along:
    """Rows decoded at places in a line.

    Attributes:
        at: where each place is along the line: the length of the way to it, or its coordinate, [P].
        latent: the places, [P, Q].
        value: decoded columns in the data's units; a median where log(1 + x) was learned, [P, D].
        low: lower end of the interval of ± 2 sd, noise included, in the data's units, [P, D].
        high: its upper end, [P, D].
        change: how far each column moves along the line, highest less lowest, in its own sd among
            the fitted rows, on the scale that the model learned, [D].
    """

    at: FloatArray
    latent: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    change: FloatArray


@dataclass(frozen=True)
class Draw:
    """Which rows to draw: hashable, so that it can be a cache's key.

    Attributes:
        n: how many.
        seed: of the draws.
        classes: name of a label column and the class that rows are drawn from, as the model names
            it; None draws from the prior.
        rows: positions of the fitted rows to draw from, in place of a class.
        where: what they are drawn from, in words.
    """

    n: int
    seed: int
    classes: tuple[str, object] | None
    rows: tuple[int, ...] | None
    where: str


def along(model: LatentVariableModel, dataset: Dataset, path: LatentPath) -> Along:
    """Decode the places of a curve.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    return _decoded(model, dataset, path.points, path.distance)


def swept(
    model: LatentVariableModel,
    dataset: Dataset,
    dimension: int,
    held: tuple[float, ...],
    points: int,
) -> Along:
    """Decode places along one latent dimension, over the range of the rows, the others held.

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
) -> Along:
    predicted = model.decode(latent)
    standard = model.standardiser_
    mean, reach = predicted.mean, INTERVAL_SD * np.sqrt(predicted.variance)
    change = np.where(standard.constant, 0.0, np.ptp(mean, axis=0) / standard.scale)
    return Along(
        at=at,
        latent=latent,
        value=dataset.in_units(mean),
        low=dataset.in_units(mean - reach),
        high=dataset.in_units(mean + reach),
        change=change,
    )


def changing(found: Along, most: int) -> list[int]:
    """Positions of the columns that move most along a line, the one that moves most first."""
    order: list[int] = np.argsort(-found.change, kind="stable")[:most].tolist()
    return order


def along_frame(found: Along, dataset: Dataset, title: str) -> pd.DataFrame:
    """A line as a table: where, the latent coordinates, and each column with its interval.

    Args:
        found: the decoded line.
        dataset: whose columns they are.
        title: what ``found.at`` is.
    """
    own = dataset.feature_names
    where = [title, *(f"latent_{q + 1}" for q in range(found.latent.shape[1]))]
    ends = [f"{name}: {end}" for name in own for end in ("low", "high")]
    # A column of the table may be called like any of these; it keeps its name and its cells.
    added = told_apart([*own, *where, *ends])[len(own) :]
    columns = dict(zip(added, [found.at, *found.latent.T], strict=False))
    for d, name in enumerate(own):
        low, high = added[len(where) + 2 * d :][:2]
        columns |= {name: found.value[:, d], low: found.low[:, d], high: found.high[:, d]}
    return pd.DataFrame(columns)


def middle(mean: FloatArray, rows: NDArray[np.bool_]) -> int:
    """The position of the row that lies nearest to the middle of some rows.

    Args:
        mean: latent means, [N, Q].
        rows: which of them, at least one, [N].
    """
    among = np.flatnonzero(rows)
    centre = mean[among].mean(axis=0)
    return int(among[((mean[among] - centre) ** 2).sum(axis=1).argmin()])


def drawn_frame(
    model: LatentVariableModel, dataset: Dataset, draw: Draw, digest: str
) -> pd.DataFrame:
    """Rows drawn from a model, in the data's units, each with what it was drawn from.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
        draw: which rows to draw.
        digest: of the model's file.

    Returns:
        The columns, then ``drawn_from``, ``seed`` and ``model``.

    Raises:
        ConfigError: no row of the fit is of the class.
        UnsupportedError: the model cannot draw rows.
    """
    label = None
    if draw.classes is not None:
        name, wanted = draw.classes
        label = {name: wanted} if len(model.label_names_) > 1 else wanted
    rows = None if draw.rows is None else np.array(draw.rows)
    sample = model.sample(draw.n, label=label, rows=rows, random_state=draw.seed)
    frame = pd.DataFrame(dataset.in_units(sample), columns=list(dataset.feature_names))
    told = {"drawn_from": draw.where, "seed": draw.seed, "model": digest}
    own = list(frame.columns)
    asked = [name if name not in own else f"{name} of the draw" for name in told]
    names = told_apart([*own, *asked])[len(own) :]
    named = dict(zip(names, told.values(), strict=True))
    return pd.concat([frame, pd.DataFrame(named, index=frame.index)], axis="columns")
