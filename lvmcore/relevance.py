"""Relevance of latent dimensions: shares, and the two leading dimensions of a map."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "EXCHANGES",
    "LARGE_SHARE",
    "MIN_SHARE",
    "MOST_POINTS",
    "dimensions_by_share",
    "hidden_dimensions",
    "is_label_path",
    "leading_dimensions",
    "live_dimensions",
    "relevance_shares",
    "total_effects",
]


#: A dimension with a larger share is not hidden without a word.
LARGE_SHARE = 0.25
#: Points at which total effects are averaged, and exchanges of each input.
MOST_POINTS, EXCHANGES = 1000, 4
#: A dimension with a smaller share does not separate classes, or carry columns.
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


def total_effects(
    f: Callable[[FloatArray], FloatArray],
    X: FloatArray,
    *,
    points: int = MOST_POINTS,
    exchanges: int = EXCHANGES,
) -> FloatArray:
    """Variance of functions that each of their inputs carries: total Sobol effects, [Q].

    T_q = ½ Σ_d mean_n (f_d(x_n) − f_d(x_n with the input q of another row))², in a linear model
    Σ_d w_dq² Var(x_q) (Jansen 1999). Inverse squared lengthscales under-rate an input on which the
    functions depend linearly (Paananen et al. 2019), and squared slopes over-rate one along which
    they bend often.

    Args:
        f: the functions at points [n, Q], [n, D].
        X: points, [N, Q].
        points: points to use at most; of more rows evenly spaced ones are taken.
        exchanges: exchanges of each input that are averaged.
    """
    some = X[:: max(1, -(-len(X) // points))]
    at, rng, total = f(some), np.random.default_rng(0), np.zeros(X.shape[1])
    for _ in range(exchanges):
        # A random cycle: no point keeps its own input.
        order = rng.permutation(len(some))
        other = np.empty_like(order)
        other[order] = np.roll(order, 1)
        for q in range(X.shape[1]):
            changed = some.copy()
            changed[:, q] = some[other, q]
            total[q] += 0.5 * np.square(at - f(changed)).sum(axis=1).mean()
    return total / exchanges


def is_label_path(path: str) -> bool:
    """Whether a path is that of a label column, the only one or one of several."""
    return path == "labels" or path.startswith("labels: ")


def leading_dimensions(relevance: Mapping[str, FloatArray]) -> tuple[int, int | None]:
    """The two dimensions to show first.

    Ordered by the share of the label path, as such a map is to separate classes; by the mean share
    of several label paths. If these use fewer than two dimensions (the other shares are
    negligible), and in a model without labels, the data path determines the order. Largest share
    first; equal shares in order. A dimension with more than a quarter of the data path takes the
    place of a second one that has no more than a quarter of any path. Two dimensions are shown in
    order.

    Args:
        relevance: shares of each path, or its α, each [Q].

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
    if len(order) <= 2:
        return (0, 1) if len(order) == 2 else (0, None)
    first, second = order[:2]
    large = {int(q) for q in by_data if data[q] > LARGE_SHARE}
    if not large <= {first, second} and max(data[second], most[second]) <= LARGE_SHARE:
        second = next(int(q) for q in by_data if q != first)
    return first, second


def live_dimensions(relevance: Mapping[str, FloatArray]) -> int:
    """Number of dimensions that have at least 1 % of some path.

    Args:
        relevance: shares of each path, or its α, each [Q].
    """
    most = np.max(list(relevance_shares(relevance).values()), axis=0)
    return int((most >= MIN_SHARE).sum())


def dimensions_by_share(relevance: Mapping[str, FloatArray]) -> tuple[int, ...]:
    """Dimensions that have at least 1 % of some path, by decreasing largest share.

    Args:
        relevance: shares of each path, or its α, each [Q].
    """
    most = np.max(list(relevance_shares(relevance).values()), axis=0)
    order = np.argsort(-most, kind="stable")
    return tuple(int(q) for q in order if most[q] >= MIN_SHARE)


def hidden_dimensions(
    relevance: Mapping[str, FloatArray], axes: tuple[int, int | None]
) -> tuple[int, ...]:
    """Dimensions that are not on the axes and have more than a quarter of some path."""
    share = relevance_shares(relevance)
    most = np.max(list(share.values()), axis=0)
    return tuple(q for q in range(len(most)) if q not in axes and most[q] > LARGE_SHARE)
