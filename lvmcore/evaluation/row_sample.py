"""A random sample of the rows of a table, for metrics whose time grows faster than the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SEED", "RowSample", "sample_rows"]

SEED = 0


@dataclass(frozen=True)
class RowSample:
    """Some rows, or all of them.

    Attributes:
        rows: their positions, increasing, [n].
        total: number of rows from which they were drawn.
    """

    rows: NDArray[np.intp]
    total: int

    def words(self, before: str = "", after: str = "") -> str:
        """The sample in words: "60 rows", or "2,000 of 10,000 rows, drawn with seed 0".

        Args:
            before: an adjective of the rows, with a space after it.
            after: a qualification of the rows, with a space before it.
        """
        noun = f"{before}{'row' if self.total == 1 else 'rows'}{after}"
        if len(self.rows) == self.total:
            return f"{self.total:,} {noun}"
        return f"{len(self.rows):,} of {self.total:,} {noun}, drawn with seed {SEED}"


def sample_rows(usable: NDArray[np.intp], most: int) -> RowSample:
    """At most ``most`` rows, drawn without replacement.

    Args:
        usable: positions of the rows to draw from, [N].
        most: size of the sample; all rows if there are no more.
    """
    rows = usable
    if len(usable) > most:
        rows = np.sort(np.random.default_rng(SEED).choice(usable, most, replace=False))
    return RowSample(rows, len(usable))
