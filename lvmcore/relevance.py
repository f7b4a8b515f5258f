"""Which latent dimensions matter: shares of relevance, and the two that a map shows first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEGLIGIBLE", "leading_dimensions", "shares"]

FloatArray = NDArray[np.float64]

#: A label dimension with a smaller share than this tells no class from another.
NEGLIGIBLE = 0.01


def shares(relevance: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Relevance of each latent dimension as a share of its path's sum, each [Q].

    Args:
        relevance: α per path, each [Q].
    """
    total = {path: float(alpha.sum()) for path, alpha in relevance.items()}
    return {
        path: alpha / total[path] if total[path] > 0 else np.full(len(alpha), 1 / len(alpha))
        for path, alpha in relevance.items()
    }


def leading_dimensions(relevance: Mapping[str, FloatArray]) -> tuple[int, int | None]:
    """The two dimensions to show first.

    The label path decides where there is one, as telling the classes apart is what such a map is
    for; where it uses fewer than two dimensions (the others' share is negligible), and in a model
    without labels, the data path decides. Largest share first; equal shares in order.

    Args:
        relevance: α per path, each [Q].

    Returns:
        Horizontal and vertical dimension; the vertical one is None where Q = 1.
    """
    share = shares(relevance)
    data = share.get("data", next(iter(share.values())))
    by_data = np.argsort(-data, kind="stable")
    labels = share.get("labels", np.zeros(len(data)))
    by_labels = [q for q in np.argsort(-labels, kind="stable") if labels[q] >= NEGLIGIBLE]
    order = list(dict.fromkeys(int(q) for q in (*by_labels, *by_data)))
    return (order[0], order[1]) if len(order) > 1 else (order[0], None)
