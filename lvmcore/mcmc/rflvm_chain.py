"""One Markov chain over all unknowns of a random-feature latent variable model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from polyagamma import random_polyagamma

from lvmcore.mcmc.feature_weights import (
    Likelihood,
    WeightEvidence,
    draw_inverse_gamma,
    feature_gradient,
    features,
    log_likelihood,
    slice_draw,
)
from lvmcore.mcmc.frequency_mixture import FrequencyMixture, draw_mixture
from lvmcore.mcmc.kernel_frequencies import KernelFrequencies
from lvmcore.mcmc.position_moves import HamiltonianMove, scale_move, shift_move
from lvmcore.numerics.array_types import FloatArray

__all__ = ["RFLVMChain", "initial_chain"]


#: Shape and scale of the inverse-gamma priors of σ² and of the scale a².
NOISE_PRIOR = (1.0, 0.1)
SCALE_PRIOR = (2.0, 1.0)
#: Shape and rate of the Gamma prior of r, the dispersion of a negative binomial column.
DISPERSION_PRIOR = (1.0, 0.01)
#: Precision of the offsets, normal about 0 with sd 10.
OFFSET_PRECISION = 0.01
#: Initial step size of the moves, and sd of the random perturbation of initial positions.
INITIAL_STEP = 0.02
INITIAL_SPREAD = 0.1
#: Draws of weights and spread before the first sweep, so that an unfitted decoder does not destroy
#: the initial map.
INITIAL_WEIGHT_DRAWS = 30
_SLICE_WIDTH = 2.0


@dataclass
class RFLVMChain:
    """The state of a chain, and its sweep.

    x_n ~ N(0, I), ψ = Φ(X, W) H (plus an offset per column for a logistic likelihood), weights
    H ~ N(0, a²), a² inverse gamma; W follows a ``FrequencyMixture``, or is a function of the
    hyperparameters of a given kernel, ``KernelFrequencies``.

    Attributes:
        likelihood: of the cells.
        Y: data, [N, D].
        X: positions, [N, Q].
        W: frequencies, [L, Q].
        H: weights, [R, D], with a last row of offsets for a logistic likelihood.
        scale: a², the variance of the weights.
        spread: σ² [1] of a Gaussian, r [D] of a negative binomial, nothing [0] of a Bernoulli.
        mixture: the prior of the frequencies.
        rng: the chain's source of randomness.
        hamiltonian_move: the moves of X and W.
    """

    likelihood: Likelihood
    Y: FloatArray
    X: FloatArray
    W: FloatArray
    H: FloatArray
    scale: float
    spread: FloatArray
    mixture: FrequencyMixture | KernelFrequencies
    rng: np.random.Generator
    hamiltonian_move: HamiltonianMove = field(
        default_factory=lambda: HamiltonianMove(float(np.log(INITIAL_STEP)))
    )

    @property
    def logistic(self) -> bool:
        """Whether the likelihood is logistic in ψ and has offsets."""
        return self.likelihood != "gaussian"

    def sweep(self, rate: float = 0.0) -> None:
        """Update everything once; the posterior is the invariant distribution.

        Pólya–gamma variables are drawn first and discarded before r is updated. The weights are
        integrated out in the update of X and W, and drawn after it, as in a blocked Gibbs sampler.

        Args:
            rate: learning rate of the step sizes; 0 after the warm-up.
        """
        evidence = self._evidence()
        self._move(evidence, rate)
        self.X = shift_move(self.X, self.rng)
        if isinstance(self.mixture, FrequencyMixture):
            self.X, self.W = scale_move(self.X, self.W, self.mixture, self.rng)
        self._draw_weights(evidence)
        self.mixture.sweep(self.W, self.rng)

    def initialise_weights(self) -> None:
        """Draw weights and spread a few times at the current X and W."""
        for _ in range(INITIAL_WEIGHT_DRAWS):
            self._draw_weights(self._evidence())

    def features(self) -> FloatArray:
        """Φ, with a last column of ones for offsets."""
        return self._features(self.X, self.W)

    @property
    def decoder_weights(self) -> FloatArray:
        """H for features of equal amplitude, [R, D]."""
        amplitudes = self.mixture.amplitudes
        if amplitudes is None:
            return self.H
        found = self.H.copy()
        found[: 2 * len(amplitudes)] *= np.tile(amplitudes, 2)[:, None]
        return found

    def log_likelihood(self) -> float:
        """log p(Y | everything), nats."""
        psi = self.features() @ self.H
        return float(log_likelihood(self.likelihood, self.Y, psi, self.spread).sum())

    def _features(self, X: FloatArray, W: FloatArray) -> FloatArray:
        Phi = features(X, W)
        if self.mixture.amplitudes is not None:
            Phi = Phi * np.tile(self.mixture.amplitudes, 2)
        return np.column_stack([Phi, np.ones(len(Phi))]) if self.logistic else Phi

    def _evidence(self) -> WeightEvidence:
        precision = np.full(len(self.H), 1 / self.scale)
        if not self.logistic:
            noise = float(self.spread[0])
            return WeightEvidence(self.Y / noise, 1 / noise, precision)
        precision[-1] = OFFSET_PRECISION
        b = np.ones_like(self.Y) if self.likelihood == "bernoulli" else self.Y + self.spread
        psi = self.features() @ self.H
        omega = np.asarray(random_polyagamma(b, psi, random_state=self.rng))
        return WeightEvidence(self.Y - 0.5 * b, omega, precision)

    def _move(self, evidence: WeightEvidence, rate: float) -> None:
        """A joint move of X and W, with W in coordinates of a standard normal prior."""
        N, mixture = len(self.X), self.mixture

        def target(position: FloatArray) -> tuple[float, FloatArray]:
            X, W = position[:N], mixture.colour(position[N:])
            Phi = self._features(X, W)
            if not np.isfinite(Phi).all():
                return -np.inf, np.zeros_like(position)
            value, slope = evidence(Phi)
            slope_X, slope_W = feature_gradient(Phi, slope, X, W)
            if isinstance(mixture, FrequencyMixture):
                slope_U = mixture.pulled_back(slope_W)
            else:
                slope_U = mixture.pulled_back(slope_W, _amplitude_gradient(Phi, slope, mixture))
            prior = -0.5 * float(np.square(position).sum())
            return value + prior, np.concatenate([slope_X, slope_U]) - position

        start = np.concatenate([self.X, self.mixture.whiten(self.W)])
        position = self.hamiltonian_move.move(start, target, self.rng, rate)
        self.X, self.W = position[:N], self.mixture.colour(position[N:])

    def _draw_weights(self, evidence: WeightEvidence) -> None:
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
        """Draw r of each column with a constant mean r e^ψ.

        log r increases by the decrease of the offset, so that the information on the mean does not
        slow down the mixing of r.
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
        own = {name: getattr(self, name) for name in ("X", "W", "H", "spread")}
        return {**own, **self.mixture.arrays()}

    def facts(self) -> dict[str, Any]:
        """The rest of the state, for JSON."""
        return {
            "scale": self.scale,
            **self.mixture.facts(),
            "log_step": self.hamiltonian_move.log_step,
            "generator": self.rng.bit_generator.state,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``arrays`` and ``facts``."""
        for name in ("X", "W", "H", "spread"):
            setattr(self, name, arrays[name].copy())
        self.mixture.restore(arrays, facts)
        self.scale = facts["scale"]
        self.hamiltonian_move.log_step = facts["log_step"]
        self.rng.bit_generator.state = facts["generator"]


def initial_chain(
    likelihood: Likelihood,
    Y: FloatArray,
    X: FloatArray,
    n_frequencies: int,
    n_mixture: int,
    rng: np.random.Generator,
    kernel: KernelFrequencies | None = None,
) -> RFLVMChain:
    """An initial chain.

    Args:
        likelihood: of the cells.
        Y: data, [N, D].
        X: initial positions before their random perturbation, [N, Q].
        n_frequencies: L, half the number of features.
        n_mixture: K, the truncation of the mixture of the frequencies.
        rng: the chain's own source of randomness.
        kernel: frequencies of a given kernel; None for those of a mixture.
    """
    Q, D = X.shape[1], Y.shape[1]
    X = X + INITIAL_SPREAD * rng.standard_normal(X.shape)
    mixture: FrequencyMixture | KernelFrequencies
    if kernel is None:
        mixture = draw_mixture(n_mixture, n_frequencies, Q, rng)
        W = rng.standard_normal((n_frequencies, Q))
    else:
        mixture, W = kernel, kernel.colour(kernel.whiten(np.empty(0)))
    H = np.zeros((2 * len(W) + (likelihood != "gaussian"), D))
    spread = {"gaussian": np.ones(1), "bernoulli": np.ones(0), "negative_binomial": np.ones(D)}
    if likelihood != "gaussian":
        middle = Y.mean(axis=0)
        H[-1] = np.log(middle / (1 - middle) if likelihood == "bernoulli" else middle)
    chain = RFLVMChain(likelihood, Y, X, W, H, 1.0, spread[likelihood], mixture, rng)
    chain.mixture.sweep(W, rng)
    chain.initialise_weights()
    return chain


def _amplitude_gradient(
    Phi: FloatArray, slope: FloatArray, kernel: KernelFrequencies
) -> FloatArray:
    """The gradient by the amplitudes, [L], from the gradient ``slope`` [N, R] by the features."""
    a = kernel.amplitudes
    both = (slope * Phi)[:, : 2 * len(a)].sum(axis=0)
    return np.asarray((both[: len(a)] + both[len(a) :]) / a)
