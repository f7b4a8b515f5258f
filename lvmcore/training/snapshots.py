"""Snapshots of a fit: the map and the relevance at a step, thinned for the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.numerics.conversion import to_numpy
from lvmcore.relevance import leading_dimensions, relevance_shares
from lvmcore.results import Snapshot

SNAPSHOT_ROWS = 2000


def thinned(n_rows: int) -> NDArray[np.intp]:
    """Positions of the rows that a snapshot shows: evenly spaced, at most 2000."""
    return np.arange(0, n_rows, max(1, -(-n_rows // SNAPSHOT_ROWS)))


def snapshot_of(
    mean: Tensor, relevance: dict[str, Tensor], rows: NDArray[np.intp] | None = None
) -> Snapshot:
    """A snapshot on the two most relevant dimensions.

    Args:
        mean: latent means of all rows, or of ``rows``, [N, Q].
        relevance: α of each path, [Q] each.
        rows: the rows of ``mean``; None if it has all rows, which are then thinned.
    """
    found = relevance_shares({path: to_numpy(alpha) for path, alpha in relevance.items()})
    first, vertical = leading_dimensions(found)
    second = first if vertical is None else vertical
    shown = to_numpy(mean)
    if rows is None:
        rows = thinned(len(mean))
        shown = shown[rows]
    return Snapshot(shown[:, [first, second]], rows, (first, second), found)
