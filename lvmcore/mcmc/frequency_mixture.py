"""Gibbs sampling of the mixture prior of the frequencies of random features.

w_l | z_l = k ~ N(μ_k, Σ_k), P(z_l = k) = v_k Π_{j<k} (1 − v_j), v_k ~ Beta(1, α) for k < K and
v_K = 1, α ~ Gamma(α0, β0), (μ_k, Σ_k) ~ normal-inverse-Wishart: a Dirichlet process in its
stick-breaking form, truncated at K components (Ishwaran and James 2001). Given the sticks α is
conjugate, so no auxiliary variable is needed for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import invwishart

from lvmcore.numerics.array_types import FloatArray

__all__ = ["FrequencyMixture", "draw_mixture"]


#: α0 and β0 of the Gamma prior of the concentration.
CONCENTRATION_PRIOR = (1.0, 1.0)
#: Strength of the prior mean of a component, as a number of frequencies.
MEAN_STRENGTH = 1.0
_ARRAYS = ("codes", "sticks", "means", "roots")
_MAX_STICK = 1 - 2.0**-53


@dataclass
class FrequencyMixture:
    """One draw of the mixture.

    Attributes:
        codes: z, the component of each frequency, [L].
        sticks: v, the last one 1, [K].
        concentration: α.
        means: μ, [K, Q].
        roots: M with Σ = M Mᵀ, lower triangular, [K, Q, Q].
    """

    codes: NDArray[np.int64]
    sticks: FloatArray
    concentration: float
    means: FloatArray
    roots: FloatArray

    #: All frequencies have the same amplitude.
    amplitudes: ClassVar[FloatArray | None] = None
    #: Its axes are arbitrary.
    names_dimensions: ClassVar[bool] = False

    @property
    def used(self) -> int:
        """Number of components with a frequency."""
        return len(np.unique(self.codes))

    def whiten(self, W: FloatArray) -> FloatArray:
        """Standard normal coordinates of frequencies W [L, Q] given their components."""
        away = (W - self.means[self.codes])[:, :, None]
        return np.asarray(np.linalg.solve(self.roots[self.codes], away)[:, :, 0])

    def colour(self, U: FloatArray) -> FloatArray:
        """Frequencies of standard normal coordinates U [L, Q]: the inverse of ``whiten``."""
        return self.means[self.codes] + (self.roots[self.codes] @ U[:, :, None])[:, :, 0]

    def pulled_back(self, slope_W: FloatArray) -> FloatArray:
        """The gradient by the coordinates of ``whiten`` from that by the frequencies, [L, Q]."""
        return np.asarray((slope_W[:, None, :] @ self.roots[self.codes])[:, 0])

    def hyperparameters(self) -> dict[str, float]:
        """A mixture has none that are stored with the draws."""
        return {}

    def quantities(self) -> dict[str, float]:
        """Quantities for diagnoses, by name."""
        return {"concentration": self.concentration, "components used": float(self.used)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state, for ``restore``."""
        return {name: getattr(self, name) for name in _ARRAYS}

    def facts(self) -> dict[str, Any]:
        """The rest of the state, for JSON."""
        return {"concentration": self.concentration}

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``arrays`` and ``facts``."""
        for name in _ARRAYS:
            setattr(self, name, arrays[name].copy())
        self.concentration = facts["concentration"]

    def sweep(self, W: FloatArray, rng: np.random.Generator) -> None:
        """Draw codes, sticks, concentration, means and covariances in turn, given W [L, Q]."""
        K = len(self.sticks)
        self.codes = draw_codes(self.log_weights() + self.log_normal(W), rng)
        counts = np.bincount(self.codes, minlength=K)
        self._draw_sticks(counts, rng)
        for k in range(K):
            self.means[k], self.roots[k] = draw_component(W[self.codes == k], rng)

    def _draw_sticks(self, counts: NDArray[np.int64], rng: np.random.Generator) -> None:
        after = counts.sum() - np.cumsum(counts)
        drawn = rng.beta(1 + counts[:-1], self.concentration + after[:-1])
        self.sticks = np.append(np.minimum(drawn, _MAX_STICK), 1.0)
        shape, rate = CONCENTRATION_PRIOR
        rate -= float(np.log1p(-self.sticks[:-1]).sum())
        self.concentration = float(rng.gamma(shape + len(counts) - 1, 1 / rate))

    def log_weights(self) -> FloatArray:
        """Logarithms of the components' weights, [K]."""
        left = np.concatenate([[0.0], np.cumsum(np.log1p(-self.sticks[:-1]))])
        with np.errstate(divide="ignore"):  # a stick may be drawn as small as 0
            return np.asarray(np.log(self.sticks) + left)

    def log_normal(self, W: FloatArray) -> FloatArray:
        """log N(w_l | μ_k, Σ_k) up to a constant, [L, K]."""
        away = W[:, None, :] - self.means
        white = np.linalg.solve(self.roots, np.moveaxis(away, 0, 2))  # [K, Q, L]
        log_det = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray((-0.5 * np.square(white).sum(axis=1) - log_det[:, None]).T)


def draw_codes(log_weights: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """A component for each row of unnormalised log weights [L, K], by the Gumbel trick, [L]."""
    return np.asarray((log_weights + rng.gumbel(size=log_weights.shape)).argmax(axis=1))


def draw_component(W: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Mean [Q] and root of the covariance [Q, Q] given the frequencies [n, Q] of a component.

    The prior is Σ ~ IW(Q + 2, I), so that E Σ = I, and μ | Σ ~ N(0, Σ/κ).
    """
    n, Q = W.shape
    middle = W.mean(axis=0) if n else np.zeros(Q)
    strength = MEAN_STRENGTH + n
    left = W - middle
    spread = np.eye(Q) + left.T @ left + MEAN_STRENGTH * n / strength * np.outer(middle, middle)
    covariance = invwishart.rvs(Q + 2 + n, spread, random_state=rng)
    root = np.linalg.cholesky(np.reshape(covariance, (Q, Q)))
    return n / strength * middle + root @ rng.standard_normal(Q) / np.sqrt(strength), root


def draw_mixture(
    n_components: int, n_frequencies: int, n_dimensions: int, rng: np.random.Generator
) -> FrequencyMixture:
    """A mixture from the prior.

    Args:
        n_components: K, the truncation.
        n_frequencies: L.
        n_dimensions: Q.
        rng: the source of randomness.
    """
    shape, rate = CONCENTRATION_PRIOR
    concentration = float(rng.gamma(shape, 1 / rate))
    sticks = np.minimum(rng.beta(1, concentration, size=n_components - 1), _MAX_STICK)
    parts = [draw_component(np.empty((0, n_dimensions)), rng) for _ in range(n_components)]
    drawn = FrequencyMixture(
        np.zeros(n_frequencies, dtype=np.int64),
        np.append(sticks, 1.0),
        concentration,
        np.stack([mean for mean, _ in parts]),
        np.stack([root for _, root in parts]),
    )
    drawn.codes = draw_codes(np.tile(drawn.log_weights(), (n_frequencies, 1)), rng)
    return drawn
