"""Each conditional of the mixture of frequencies against sums and integrals done by hand."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta, gamma, invgamma, kstest, multivariate_normal, norm

from lvmcore.mcmc.frequency_mixture import (
    FrequencyMixture,
    draw_codes,
    draw_component,
    draw_mixture,
)

rng = np.random.default_rng(0)


def mixture(K: int = 3, L: int = 6, Q: int = 2, seed: int = 1) -> FrequencyMixture:
    return draw_mixture(K, L, Q, np.random.default_rng(seed))


def test_densities_are_normal_ones_up_to_one_constant() -> None:
    mixed, W = mixture(), rng.normal(size=(6, 2))
    expected = np.stack(
        [
            multivariate_normal.logpdf(W, mean, root @ root.T)
            for mean, root in zip(mixed.means, mixed.roots, strict=True)
        ],
        axis=1,
    )
    np.testing.assert_allclose(mixed.log_normal(W) - expected, np.log(2 * np.pi), atol=1e-10)


def test_weights_are_what_the_sticks_leave() -> None:
    mixed = mixture()
    v = mixed.sticks
    expected = [v[0], v[1] * (1 - v[0]), (1 - v[0]) * (1 - v[1])]
    np.testing.assert_allclose(np.exp(mixed.log_weights()), expected)
    assert np.exp(logsumexp(mixed.log_weights())) == pytest.approx(1)


def test_whitened_and_coloured_again() -> None:
    mixed, W = mixture(), rng.normal(size=(6, 2))
    U = mixed.whiten(W)
    np.testing.assert_allclose(mixed.colour(U), W, atol=1e-10)
    own = mixed.log_normal(W)[np.arange(6), mixed.codes]
    log_det = np.linalg.slogdet(mixed.roots[mixed.codes])[1]
    np.testing.assert_allclose(own, -0.5 * np.square(U).sum(axis=1) - log_det)


def test_components_are_drawn_by_their_weights() -> None:
    p = np.array([0.1, 0.6, 0.3])
    drawn = draw_codes(np.tile(np.log(p) + 5, (20_000, 1)), np.random.default_rng(2))
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, p, atol=0.015)


def test_a_component_of_one_dimension_has_the_posterior_of_a_grid() -> None:
    """Prior: σ² ~ IW(3, 1) = inverse gamma (3/2, 1/2), μ | σ² ~ N(0, σ²)."""
    W = np.array([0.3, 1.1, 0.8, 2.0])
    mu, log_s = np.meshgrid(np.linspace(-6, 8, 701), np.linspace(-4, 5, 451), indexing="ij")
    variance = np.exp(log_s)
    log_p = invgamma.logpdf(variance, 1.5, scale=0.5) + log_s
    log_p += norm.logpdf(mu, 0, np.sqrt(variance))
    log_p += sum(norm.logpdf(w, mu, np.sqrt(variance)) for w in W)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    generator = np.random.default_rng(3)
    parts = [draw_component(W[:, None], generator) for _ in range(8000)]
    means = np.array([mean[0] for mean, _ in parts])
    precisions = np.array([1 / root[0, 0] ** 2 for _, root in parts])
    for drawn, values in ((means, mu), (precisions, 1 / variance), (means**2, mu**2)):
        expected = (p * values).sum()
        assert abs(drawn.mean() - expected) < 4 * drawn.std() / np.sqrt(8000)


def test_an_empty_component_has_the_prior() -> None:
    generator = np.random.default_rng(4)
    parts = [draw_component(np.empty((0, 2)), generator) for _ in range(4000)]
    precision = np.mean([np.linalg.inv(root @ root.T) for _, root in parts], axis=0)
    np.testing.assert_allclose(precision, 4 * np.eye(2), atol=0.25)  # E Σ⁻¹ = (Q + 2) I
    white = np.stack([np.linalg.solve(root, mean) for mean, root in parts])
    np.testing.assert_allclose(np.cov(white.T), np.eye(2), atol=0.1)


def test_sticks_and_concentration_have_the_conditionals_of_the_formulae() -> None:
    counts, generator = np.array([4, 0, 2]), np.random.default_rng(5)
    mixed = mixture()
    sticks, concentrations = [], []
    for _ in range(4000):
        mixed.concentration = 1.7
        mixed._draw_sticks(counts, generator)
        sticks.append(mixed.sticks)
    drawn = np.stack(sticks)
    assert kstest(drawn[:, 0], beta(5, 1.7 + 2).cdf).pvalue > 0.01
    assert kstest(drawn[:, 1], beta(1, 1.7 + 2).cdf).pvalue > 0.01
    assert (drawn[:, 2] == 1).all()
    # The concentration given sticks, by a grid: Π Beta(v; 1, α) · Gamma(α; 1, 1).
    fixed = np.array([0.5, 0.2, 1.0])
    for _ in range(4000):
        mixed.sticks = fixed
        concentrations.append(_concentration_given(mixed, fixed, generator))
    grid = np.linspace(1e-3, 25, 20_000)
    p = gamma.pdf(grid, 1) * grid**2 * np.prod(1 - fixed[:2]) ** (grid - 1)
    expected = (grid * p).sum() / p.sum()
    found = np.array(concentrations)
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(4000)


def _concentration_given(
    mixed: FrequencyMixture, sticks: np.ndarray, generator: np.random.Generator
) -> float:
    """One draw of the concentration, the sticks drawn with it set to given ones."""

    class Given:
        def beta(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return sticks[: len(np.broadcast_to(a, np.shape(b)))]

        def gamma(self, shape: float, scale: float) -> float:
            return generator.gamma(shape, scale)

    mixed._draw_sticks(np.zeros(3, dtype=np.int64), Given())  # type: ignore[arg-type]
    return mixed.concentration


@pytest.mark.slow
def test_a_sweep_leaves_the_prior_and_its_frequencies_as_they_are() -> None:
    """Frequencies drawn from the mixture, the mixture from its conditional, again and again."""
    generator = np.random.default_rng(6)
    mixed, used, concentrations = mixture(K=3, L=5, Q=1, seed=7), [], []
    for _ in range(12_000):
        W = mixed.colour(generator.standard_normal((5, 1)))
        mixed.sweep(W, generator)
        used.append(mixed.used)
        concentrations.append(np.exp(-mixed.concentration))
    fresh = [draw_mixture(3, 5, 1, generator) for _ in range(6000)]
    for found, expected in (
        (used, [m.used for m in fresh]),
        (concentrations, [np.exp(-m.concentration) for m in fresh]),
    ):
        blocks = np.array(found).reshape(60, -1).mean(axis=1)  # their means all but independent
        error = np.hypot(blocks.std() / np.sqrt(60), np.std(expected) / np.sqrt(6000))
        assert abs(blocks.mean() - np.mean(expected)) < 4 * error


def test_one_component_is_all_there_is() -> None:
    mixed = mixture(K=1, L=4)
    mixed.sweep(rng.normal(size=(4, 2)), np.random.default_rng(8))
    assert mixed.used == 1
    np.testing.assert_array_equal(mixed.sticks, [1.0])
