"""Disagreement by row between the maps of fits that differ in their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.services import fitted_maps
from app.services.caching import cached

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["row_disagreement"]


def row_disagreement(runs: Sequence[str]) -> NDArray[np.float64] | None:
    """Disagreement of the maps of several runs by row, [N]; None where their rows differ.

    See ``app.analysis.comparison.map_stability.row_disagreement``.

    Raises:
        DataError: a run has no model.
    """
    return _row_disagreement(tuple(sorted(runs)))


@cached(max_entries=16)
def _row_disagreement(runs: tuple[str, ...]) -> NDArray[np.float64] | None:
    from app.analysis.comparison import map_stability

    return map_stability.row_disagreement([fitted_maps.model(run).embedding_.mean for run in runs])
