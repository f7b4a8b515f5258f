"""One Markov chain over everything that a random-feature latent variable model does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from polyagamma import random_polyagamma

from lvmcore.sampling_positions import Leap, shift, stretch
from lvmcore.sampling_spectral import Mixture, draw_mixture
from lvmcore.sampling_weights import (
    Evidence,
    Likelihood,
    back_to_inputs,
    draw_inverse_gamma,
    features,
    log_likelihood,
    slice_draw,
)

__all__ = ["Chain", "start_chain"]

FloatArray = NDArray[np.float64]

#: Shape and scale of the inverse-gamma priors of σ² and of the scale a².
NOISE_PRIOR = (1.0, 0.1)
SCALE_PRIOR = (2.0, 1.0)
#: Shape and rate of the Gamma prior of r, the dispersion of a negative binomial column.
DISPERSION_PRIOR = (1.0, 0.01)
#: Precision of the offsets, normal about 0 with sd 10.
OFFSET_PRECISION = 0.01
#: Of a chain's start: the step of the moves, and how far positions are pushed at random.
START_STEP = 0.02
START_SPREAD = 0.1
#: Draws of weights and spread before anything else moves, so that the map does not dissolve while
#: the decoder knows nothing of the data.
SETTLING = 30
_SLICE_WIDTH = 2.0


@dataclass
class Chain:
    """The state of a chain, and the sweep that moves it.

    x_n ~ N(0, I), ψ = Φ(X, W) H (+ an offset a column, where the likelihood is logistic), weights
    H ~ N(0, a²), a² inverse gamma; W follows a ``Mixture``.

    Attributes:
        likelihood: of the cells.
        Y: data, [N, D].
        X: positions, [N, Q].
        W: frequencies, [L, Q].
        H: weights, [R, D], a last row of offsets below where the likelihood is logistic.
        scale: a², the variance of the weights.
        spread: σ² [1] of a Gaussian, r [D] of a negative binomial, nothing [0] of a Bernoulli.
        mixture: of the frequencies.
        rng: the chain's source of randomness.
        leap: the moves of X and W.
    """

    likelihood: Likelihood
    Y: FloatArray
    X: FloatArray
    W: FloatArray
    H: FloatArray
    scale: float
    spread: FloatArray
    mixture: Mixture
    rng: np.random.Generator
    leap: Leap = field(default_factory=lambda: Leap(float(np.log(START_STEP))))

    @property
    def logistic(self) -> bool:
        """Whether the likelihood is logistic in ψ, so that there are offsets."""
        return self.likelihood != "gaussian"

    def sweep(self, rate: float = 0.0) -> None:
        """Move everything once; the posterior is what this leaves as it is.

        Pólya–gamma variables are drawn anew first and forgotten before r moves, and the weights are
        integrated out while X and W move and drawn after it: each is a draw of a whole block.

        Args:
            rate: how fast the steps of the moves follow their acceptance; 0 after the warm-up.
        """
        evidence = self._evidence()
        self._move(evidence, rate)
        self.X = shift(self.X, self.rng)
        self.X, self.W = stretch(self.X, self.W, self.mixture, self.rng)
        self._draw_weights(evidence)
        self.mixture.sweep(self.W, self.rng)

    def settle(self) -> None:
        """Draw weights and spread a few times where X and W lie."""
        for _ in range(SETTLING):
            self._draw_weights(self._evidence())

    def features(self) -> FloatArray:
        """Φ, with a last column of ones where there are offsets."""
        return self._features(self.X, self.W)

    def log_likelihood(self) -> float:
        """log p(Y | everything), nats."""
        psi = self.features() @ self.H
        return float(log_likelihood(self.likelihood, self.Y, psi, self.spread).sum())

    def _features(self, X: FloatArray, W: FloatArray) -> FloatArray:
        Phi = features(X, W)
        return np.column_stack([Phi, np.ones(len(Phi))]) if self.logistic else Phi

    def _evidence(self) -> Evidence:
        precision = np.full(len(self.H), 1 / self.scale)
        if not self.logistic:
            noise = float(self.spread[0])
            return Evidence(self.Y / noise, 1 / noise, precision)
        precision[-1] = OFFSET_PRECISION
        b = np.ones_like(self.Y) if self.likelihood == "bernoulli" else self.Y + self.spread
        psi = self.features() @ self.H
        omega = np.asarray(random_polyagamma(b, psi, random_state=self.rng))
        return Evidence(self.Y - 0.5 * b, omega, precision)

    def _move(self, evidence: Evidence, rate: float) -> None:
        """X and W at once, W in coordinates in which its prior is standard normal."""
        N, roots = len(self.X), self.mixture.roots[self.mixture.codes]

        def target(place: FloatArray) -> tuple[float, FloatArray]:
            X, W = place[:N], self.mixture.colour(place[N:])
            Phi = self._features(X, W)
            value, slope = evidence(Phi)
            slope_X, slope_W = back_to_inputs(Phi, slope, X, W)
            slope_U = (slope_W[:, None, :] @ roots)[:, 0]
            prior = -0.5 * float(np.square(place).sum())
            return value + prior, np.concatenate([slope_X, slope_U]) - place

        start = np.concatenate([self.X, self.mixture.whiten(self.W)])
        place = self.leap.move(start, target, self.rng, rate)
        self.X, self.W = place[:N], self.mixture.colour(place[N:])

    def _draw_weights(self, evidence: Evidence) -> None:
        Phi = self.features()
        self.H = evidence.draw(Phi, self.rng)
        self._draw_scale()
        self._draw_spread(Phi @ self.H)

    def _draw_scale(self) -> None:
        weights = self.H[:-1] if self.logistic else self.H
        shape, scale = SCALE_PRIOR
        self.scale = draw_inverse_gamma(
            shape + 0.5 * weights.size, scale + 0.5 * float(np.square(weights).sum()), self.rng
        )

    def _draw_spread(self, psi: FloatArray) -> None:
        if self.likelihood == "gaussian":
            shape, scale = NOISE_PRIOR
            left = float(np.square(self.Y - psi).sum())
            drawn = draw_inverse_gamma(shape + 0.5 * psi.size, scale + 0.5 * left, self.rng)
            self.spread = np.array([drawn])
        elif self.likelihood == "negative_binomial":
            self._draw_dispersion(psi)

    def _draw_dispersion(self, psi: FloatArray) -> None:
        """r of each column along the line on which the mean r e^ψ stays as it is.

        log r rises by as much as the offset falls: what the data tell of r is then not drowned in
        what they tell of the mean.
        """
        offset, at = self.H[-1], np.log(self.spread)
        shape, rate = DISPERSION_PRIOR

        def log_density(log_r: FloatArray) -> FloatArray:
            r, moved = np.exp(log_r), log_r - at
            cells = log_likelihood(self.likelihood, self.Y, psi - moved, r).sum(axis=0)
            prior = shape * log_r - rate * r  # of log r
            return np.asarray(cells + prior - 0.5 * OFFSET_PRECISION * np.square(offset - moved))

        drawn = slice_draw(log_density, at, _SLICE_WIDTH, self.rng)
        self.H[-1] = offset - (drawn - at)
        self.spread = np.exp(drawn)

    # ---- checkpoints ---------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state, for ``restore``."""
        mixture = self.mixture
        return {
            **{name: getattr(self, name) for name in ("X", "W", "H", "spread")},
            **{name: getattr(mixture, name) for name in ("codes", "sticks", "means", "roots")},
        }

    def facts(self) -> dict[str, Any]:
        """The rest of the state, as JSON can hold it."""
        return {
            "scale": self.scale,
            "concentration": self.mixture.concentration,
            "log_step": self.leap.log_step,
            "generator": self.rng.bit_generator.state,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Go back to where ``arrays`` and ``facts`` were taken."""
        for name in ("X", "W", "H", "spread"):
            setattr(self, name, arrays[name].copy())
        for name in ("codes", "sticks", "means", "roots"):
            setattr(self.mixture, name, arrays[name].copy())
        self.scale, self.mixture.concentration = facts["scale"], facts["concentration"]
        self.leap.log_step = facts["log_step"]
        self.rng.bit_generator.state = facts["generator"]


def start_chain(
    likelihood: Likelihood,
    Y: FloatArray,
    X: FloatArray,
    n_frequencies: int,
    n_mixture: int,
    rng: np.random.Generator,
) -> Chain:
    """A chain at its start.

    Args:
        likelihood: of the cells.
        Y: data, [N, D].
        X: where the map begins, pushed at random from there, [N, Q].
        n_frequencies: L, half as many as there are features.
        n_mixture: K, components of the mixture of the frequencies at most.
        rng: the chain's own source of randomness.
    """
    Q, D = X.shape[1], Y.shape[1]
    X = X + START_SPREAD * rng.standard_normal(X.shape)
    mixture = draw_mixture(n_mixture, n_frequencies, Q, rng)
    W = rng.standard_normal((n_frequencies, Q))
    H = np.zeros((2 * n_frequencies + (likelihood != "gaussian"), D))
    spread = {"gaussian": np.ones(1), "bernoulli": np.ones(0), "negative_binomial": np.ones(D)}
    if likelihood != "gaussian":
        middle = Y.mean(axis=0)
        H[-1] = np.log(middle / (1 - middle) if likelihood == "bernoulli" else middle)
    chain = Chain(likelihood, Y, X, W, H, 1.0, spread[likelihood], mixture, rng)
    chain.mixture.sweep(W, rng)
    chain.settle()
    return chain
