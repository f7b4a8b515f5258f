"""Learning curves: scores of held-out rows against the number of rows of the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import ConfigError, DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.runs.atomic_files import as_record

__all__ = [
    "MOST_FITS",
    "SECONDS",
    "CurvePoint",
    "LearningCurve",
    "check_design",
    "nested_order",
    "proposed_sizes",
]

#: Key of the duration of a fit, beside the scores.
SECONDS = "seconds"
#: Most fits of a learning curve, and least rows of a fit.
MOST_FITS, FEWEST_ROWS = 200, 5
_SIZES, _SMALLEST = 5, 20


@dataclass(frozen=True)
class CurvePoint:
    """The scores of one fit.

    Attributes:
        size: rows of the fit.
        repeat: number of the repeat, from 0; the seed of its rows and of its fit.
        scores: values by key; None where one is not defined.
        seconds: duration of the fit.
        error: why the model could not be fitted to these rows; "" where it could.
    """

    size: int
    repeat: int
    scores: dict[str, float | None]
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class LearningCurve:
    """The fits of a learning curve that are done.

    Attributes:
        points: scores of the fits, in the order in which they were done.
        labels: names of the scores by key.
        protocol: which rows were scored, a sentence.
    """

    points: tuple[CurvePoint, ...] = ()
    labels: dict[str, str] | None = None
    protocol: str = ""

    def sizes(self) -> tuple[int, ...]:
        """Numbers of rows with a fit, increasing."""
        return tuple(sorted({point.size for point in self.points}))

    def values(self, key: str) -> list[FloatArray]:
        """The values of a score by size: of each repeat that has one, [R] each.

        Args:
            key: of the score; or ``SECONDS``.
        """
        found: dict[int, list[float]] = {size: [] for size in self.sizes()}
        for point in self.points:
            value = point.seconds if key == SECONDS else point.scores.get(key)
            if value is not None and not point.error:
                found[point.size].append(value)
        return [np.array(values, dtype=np.float64) for values in found.values()]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as in ``learning_curve.json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> LearningCurve:
        """The curve from its JSON form.

        Raises:
            DataError: a field is missing or invalid.
        """
        return as_record(stored, cls, "learning_curve.json")


def check_design(sizes: Sequence[int], repeats: int) -> None:
    """Check the sizes and the repeats of a learning curve.

    Args:
        sizes: numbers of rows.
        repeats: fits for each size.

    Raises:
        ConfigError: the sizes do not increase, one is too small, or there are too many fits.
    """
    if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        raise ConfigError(
            f"The sizes {', '.join(map(str, sizes)) or 'given'} cannot be used: expected at least "
            "two increasing numbers of rows."
        )
    if sizes[0] < FEWEST_ROWS:
        raise ConfigError(
            f"A fit to {sizes[0]} rows says little: expected at least {FEWEST_ROWS} rows."
        )
    if not 1 <= len(sizes) * repeats <= MOST_FITS:
        raise ConfigError(
            f"{repeats} repeats of {len(sizes)} sizes are {repeats * len(sizes)} fits: expected 1 "
            f"to {MOST_FITS}."
        )


def proposed_sizes(rows: int) -> tuple[int, ...]:
    """Numbers of rows in even ratios, from about 20 to all rows of a fit.

    Args:
        rows: rows of the fit.

    Raises:
        DataError: there are too few rows.
    """
    if rows < 2 * FEWEST_ROWS:
        raise DataError(
            f"{rows} rows are too few for a learning curve: expected at least {2 * FEWEST_ROWS}."
        )
    first = max(FEWEST_ROWS, min(_SMALLEST, rows // 4))
    return tuple(sorted(set(np.geomspace(first, rows, _SIZES).round().astype(int).tolist())))


def nested_order(labels: NDArray[np.object_] | None, n: int, seed: int) -> NDArray[np.intp]:
    """An order of rows whose beginnings are random samples, each with the shares of the classes.

    The k-th of the n_c rows of a class, in random order, has the place (k + U) / n_c with
    U ~ U[0, 1]; the rows are sorted by their places. The first m rows then contain a class m n_c/n
    times, but for fewer than two rows, and those of a smaller m are among those of a larger one.

    Args:
        labels: class of each row, [n]; None without classes.
        n: number of rows.
        seed: random seed.

    Returns:
        Positions of the rows, [n].
    """
    rng = np.random.default_rng(seed)
    if labels is None:
        return rng.permutation(n)
    places = np.empty(n)
    for name in dict.fromkeys(labels.tolist()):
        own = np.flatnonzero([label == name for label in labels.tolist()])
        places[rng.permutation(own)] = (np.arange(len(own)) + rng.random(len(own))) / len(own)
    return np.argsort(places, kind="stable")
