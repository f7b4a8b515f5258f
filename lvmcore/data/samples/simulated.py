"""The simulated samples: tables drawn with a seed, and the true functions behind them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "jumps",
    "kinks",
    "moons",
    "rhombus",
    "rhombus_classes",
    "s_curve",
    "s_curve_binary",
    "s_curve_correlations",
    "s_curve_wide",
    "series",
]

#: Rows of a series and of the rhombus, and the noise of a series: with the rows that a fit to a
#: target holds out (a third, and a fifth), 100 and 500 are left, as in the paper.
SERIES_ROWS, RHOMBUS_ROWS, SERIES_NOISE = 150, 625, 0.1
#: Names of the classes 0, 1 and 2 of the rhombus, from its far rings to its centre.
_RINGS = ("outer ring", "inner ring", "centre")


def moons(dimensions: int) -> Callable[[int], pd.DataFrame]:
    """A function of a seed that draws the moons in a number of columns."""

    def draw(random_state: int = 0) -> pd.DataFrame:
        """Two moons mixed linearly into D/2 columns, and D/2 columns of white noise.

        The synthetic data of Ziaei et al., "Latent Discriminative Gaussian Decoder": 500 rows in
        two classes of 250; the 2-D moons times a random D/2 x 2 matrix; independent noise of unit
        variance in as many further columns.
        """
        rng = np.random.default_rng(random_state)
        half, per_class = dimensions // 2, 250
        angle = np.linspace(0.0, np.pi, per_class)
        upper = np.column_stack([np.cos(angle), np.sin(angle)])
        lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
        points = np.vstack([upper, lower]) + 0.1 * rng.normal(size=(2 * per_class, 2))
        mixing = rng.normal(size=(half, 2))
        noise = rng.normal(size=(2 * per_class, half))
        labels = np.repeat(["upper moon", "lower moon"], per_class)
        order = rng.permutation(2 * per_class)
        values = np.hstack([points @ mixing.T, noise])[order]
        names = [f"signal{i + 1}" for i in range(half)] + [f"noise{i + 1}" for i in range(half)]
        return _labelled(values, names, labels[order], "label")

    return draw


def s_curve(random_state: int = 0) -> pd.DataFrame:
    """Twelve outputs of a Gaussian process over an S-shaped curve in the plane.

    With t in [-1, 1]: latent x(t) = (sin(1.5 pi t), sign(t) (cos(1.5 pi t) - 1)), standardised;
    each output a sample of GP(0, exp(-|x - x'|^2 / 2)), plus noise of standard deviation 0.1.
    """
    rng = np.random.default_rng(random_state)
    t, K = _curve(rng)
    drawn = _functions(K, 12, rng) + 0.1 * rng.normal(size=(len(t), 12))
    return _labelled(drawn, [f"output{i + 1}" for i in range(12)], _thirds(t), "part")


def s_curve_wide(random_state: int = 0) -> pd.DataFrame:
    """A hundred outputs of the process of ``s_curve``, in the same rows, with the same noise."""
    rng = np.random.default_rng(random_state)
    t, K = _curve(rng)
    drawn = _functions(K, 100, rng)
    drawn += 0.1 * rng.normal(size=drawn.shape)
    return _labelled(drawn, [f"output{i + 1}" for i in range(100)], _thirds(t), "part")


def s_curve_binary(random_state: int = 0) -> pd.DataFrame:
    """A hundred columns of 0 and 1: 1 with probability 1/(1 + e^-f), f as in ``s_curve_wide``."""
    rng = np.random.default_rng(random_state)
    t, K = _curve(rng)
    chance = 1 / (1 + np.exp(-_functions(K, 100, rng)))
    drawn = (rng.uniform(size=chance.shape) < chance).astype(np.int64)
    return _labelled(drawn, [f"item{i + 1}" for i in range(100)], _thirds(t), "part")


def s_curve_correlations(random_state: int = 0) -> NDArray[np.float64]:
    """exp(-|x - x'|^2 / 2) between the rows of the S-curve samples, [300, 300]."""
    return _curve(np.random.default_rng(random_state))[1]


def _curve(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places t along the S, ascending, and the correlations of a function between them."""
    t = np.sort(rng.uniform(-1.0, 1.0, size=300))
    turn = 1.5 * np.pi * t
    curve = np.column_stack([np.sin(turn), np.sign(t) * (np.cos(turn) - 1.0)])
    curve = (curve - curve.mean(axis=0)) / curve.std(axis=0)
    squared = ((curve[:, None, :] - curve[None, :, :]) ** 2).sum(axis=-1)
    return t, np.exp(-0.5 * squared)


def _functions(K: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Samples of GP(0, K), [N, count]."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    return np.asarray(root @ rng.normal(size=(len(K), count)))


def _thirds(t: NDArray[np.float64]) -> NDArray[np.str_]:
    """Names of the thirds of the curve."""
    third = np.digitize(t, np.quantile(t, [1 / 3, 2 / 3]))
    return np.array(["begin", "middle", "end"])[third]


def jumps(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """The step function 1 up to t = 1, 1/2 up to t = 1.5, then 2."""
    return np.select([t <= 1, t <= 1.5], [1.0, 0.5], 2.0)


def kinks(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """The piecewise linear function 1.5 t up to t = 1, 3.5 - 2 t up to t = 1.5, then 3 t - 4."""
    return np.select([t <= 1, t <= 1.5], [1.5 * t, 3.5 - 2 * t], 3 * t - 4)


def series(
    truth: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Callable[[int], pd.DataFrame]:
    """A function of a seed that draws noisy values of a function.

    y(t) = truth(t) + e, e ~ N(0, 0.1^2), at evenly spaced t in [0, 2]: one of the two outputs of
    the time series of Chang et al., "Deep Q-exponential processes", section 5.1.

    Args:
        truth: a function of t, [N] to [N].
    """

    def draw(random_state: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(random_state)
        t = np.linspace(0.0, 2.0, SERIES_ROWS)
        return pd.DataFrame({"t": t, "y": truth(t) + rng.normal(0.0, SERIES_NOISE, SERIES_ROWS)})

    return draw


def rhombus_classes(X: NDArray[np.float64], u: float) -> NDArray[np.int64]:
    """Classes on the annular regions of a rhombus: round(cos(0.4 u pi |x1| + |x2|)) + 1.

    The form of the figures of Chang et al., "Deep Q-exponential processes", section 5.3; in their
    formula the factor applies to both terms.

    Args:
        X: points of the plane, [N, 2].
        u: a number in [0, 1].

    Returns:
        Classes 0, 1 and 2, [N].
    """
    across, along = np.abs(X).T
    return np.asarray(np.round(np.cos(0.4 * u * np.pi * across + along)) + 1, dtype=np.int64)


def rhombus(random_state: int = 0) -> pd.DataFrame:
    """Points x ~ N(0, I) of the plane with their ``rhombus_classes``, of one u ~ U[0, 1]."""
    rng = np.random.default_rng(random_state)
    u, X = float(rng.random()), rng.standard_normal((RHOMBUS_ROWS, 2))
    labels = np.array(_RINGS, dtype=object)[rhombus_classes(X, u)]
    return _labelled(X, ["x1", "x2"], labels, "label")


def _labelled(
    values: NDArray[np.float64] | NDArray[np.int64],
    names: list[str],
    labels: NDArray[np.generic],
    label: str,
) -> pd.DataFrame:
    frame = pd.DataFrame(values, columns=[str(name) for name in names])
    return frame.assign(**{label: labels.tolist()})
