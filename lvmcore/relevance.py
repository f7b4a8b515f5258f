"""Which latent dimensions matter: shares of relevance, and the two that a map shows first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEGLIGIBLE", "is_label_path", "leading_dimensions", "shares"]

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


def is_label_path(path: str) -> bool:
    """Whether a path leads to labels: to the one label column, or to one of several."""
    return path == "labels" or path.startswith("labels: ")


def leading_dimensions(relevance: Mapping[str, FloatArray]) -> tuple[int, int | None]:
    """The two dimensions to show first.

    The label path decides where there is one, as telling the classes apart is what such a map is
    for, and several decide by their mean share. Where they use fewer than two dimensions (the
    others' share is negligible), and in a model without labels, the data path decides. Largest
    share first; equal shares in order.

    Args:
        relevance: α per path, each [Q].

    Returns:
        Horizontal and vertical dimension; the vertical one is None where Q = 1.
    """
    share = shares(relevance)
    data = share.get("data", next(iter(share.values())))
    by_data = np.argsort(-data, kind="stable")
    each = [share[path] for path in share if is_label_path(path)]
    labels = np.mean(each, axis=0) if each else np.zeros(len(data))
    most = np.max(each, axis=0) if each else labels
    by_labels = [q for q in np.argsort(-labels, kind="stable") if most[q] >= NEGLIGIBLE]
    order = list(dict.fromkeys(int(q) for q in (*by_labels, *by_data)))
    return (order[0], order[1]) if len(order) > 1 else (order[0], None)
