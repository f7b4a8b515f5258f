"""Relevance of latent dimensions: shares, and the two leading dimensions of a map."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lvmcore.numerics.array_types import FloatArray

__all__ = ["MIN_SHARE", "is_label_path", "leading_dimensions", "relevance_shares"]


#: A label dimension with a smaller share does not separate classes.
MIN_SHARE = 0.01


def relevance_shares(relevance: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
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
    """Whether a path is that of a label column, the only one or one of several."""
    return path == "labels" or path.startswith("labels: ")


def leading_dimensions(relevance: Mapping[str, FloatArray]) -> tuple[int, int | None]:
    """The two dimensions to show first.

    Ordered by the share of the label path, as such a map is to separate classes; by the mean share
    of several label paths. If these use fewer than two dimensions (the other shares are
    negligible), and in a model without labels, the data path determines the order. Largest share
    first; equal shares in order.

    Args:
        relevance: α per path, each [Q].

    Returns:
        Horizontal and vertical dimension; the vertical one is None if Q = 1.
    """
    share = relevance_shares(relevance)
    data = share.get("data", next(iter(share.values())))
    by_data = np.argsort(-data, kind="stable")
    each = [share[path] for path in share if is_label_path(path)]
    labels = np.mean(each, axis=0) if each else np.zeros(len(data))
    most = np.max(each, axis=0) if each else labels
    by_labels = [q for q in np.argsort(-labels, kind="stable") if most[q] >= MIN_SHARE]
    order = list(dict.fromkeys(int(q) for q in (*by_labels, *by_data)))
    return (order[0], order[1]) if len(order) > 1 else (order[0], None)
