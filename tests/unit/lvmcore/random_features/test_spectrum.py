"""The learned spectrum: stick breaking by samples, updates that raise the bound, draws."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.mixture_spectrum import MixtureSpectrum
from lvmcore.random_features.sampled_spectrum import SampledSpectrum
from lvmcore.random_features.spectrum import SpectralDensity, Spectrum
from lvmcore.random_features.stick_breaking import ALPHA_RATE, ALPHA_SHAPE, StickBreaking

LIKE = torch.zeros(0, dtype=torch.float64)
CPU = torch.device("cpu")


def sticks() -> StickBreaking:
    found = StickBreaking(4, CPU)
    rng = np.random.default_rng(0)
    found.first.copy_(torch.as_tensor(rng.gamma(3.0, size=3)))
    found.second.copy_(torch.as_tensor(rng.gamma(3.0, size=3)))
    found.shape.fill_(3.0)
    found.rate.fill_(1.7)
    return found


def test_expectations_of_the_sticks_against_samples() -> None:
    q, rng, n = sticks(), np.random.default_rng(1), 200_000
    v = rng.beta(q.first.numpy(), q.second.numpy(), (n, 3))
    alpha = rng.gamma(float(q.shape), 1 / float(q.rate), n)
    weights = np.concatenate([v, np.ones((n, 1))], 1)
    weights[:, 1:] *= np.cumprod(1 - v, axis=1)
    assert weights.sum(1) == pytest.approx(np.ones(n))
    np.testing.assert_allclose(q.weights(), weights.mean(0), atol=0.005)
    np.testing.assert_allclose(q.log_weights(), np.log(weights).mean(0), atol=0.02)
    log_q = stats.beta.logpdf(v, q.first.numpy(), q.second.numpy()).sum(1)
    log_q += stats.gamma.logpdf(alpha, float(q.shape), scale=1 / float(q.rate))
    log_p = stats.beta.logpdf(v, 1, alpha[:, None]).sum(1)
    log_p += stats.gamma.logpdf(alpha, ALPHA_SHAPE, scale=1 / ALPHA_RATE)
    ratio = log_q - log_p
    assert float(q.kl()) == pytest.approx(ratio.mean(), abs=5 * ratio.std() / np.sqrt(n))


def free(seed: int = 0) -> SampledSpectrum:
    spectrum = SampledSpectrum(12, 2, 4, LIKE, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        spectrum.mean += 3 * (torch.arange(12) % 2)[:, None]
    return spectrum


def cost(spectrum: Spectrum) -> float:
    return float(spectrum.kl().detach())


def test_each_update_raises_the_bound() -> None:
    spectrum = free()
    costs = [cost(spectrum)]
    for _ in range(5):
        for update in (
            spectrum.update_shares,
            lambda: spectrum.sticks.update(spectrum.shares),
            spectrum.update_components,
        ):
            update()
            costs.append(cost(spectrum))
    assert np.all(np.diff(costs) < 1e-4)  # the floor of the covariances costs a little
    assert costs[-1] < costs[0] - 1


def test_no_neighbour_of_an_update_is_better() -> None:
    spectrum = free()
    for _ in range(200):
        spectrum.update()
    best = cost(spectrum)
    for tensor in spectrum.sticks.tensors():
        kept = tensor.clone()
        for factor in (0.97, 1.03):
            tensor.copy_(kept * factor)
            assert cost(spectrum) > best
        tensor.copy_(kept)
    logits = spectrum.shares.clamp_min(1e-30).log()
    for seed in range(5):
        noise = torch.as_tensor(np.random.default_rng(seed).normal(scale=0.1, size=logits.shape))
        spectrum.shares.copy_((logits + noise).softmax(1))
        assert cost(spectrum) >= best - 1e-9


def test_costs_are_divergences() -> None:
    spectrum = free()
    q = torch.distributions.MultivariateNormal(
        spectrum.mean[3].detach(), torch.diag((2 * spectrum.log_sd[3].detach()).exp())
    )
    p = torch.distributions.MultivariateNormal(spectrum.centres[1], spectrum.covariances[1])
    expected = float(torch.distributions.kl_divergence(q, p))
    assert float(spectrum.kl_matrix().detach()[3, 1]) == pytest.approx(expected)


def test_what_the_points_cost_is_the_sum_of_their_costs() -> None:
    spectrum = free()
    spectrum.update()
    with torch.no_grad():
        spectrum.log_sd += 0.3 * spectrum.normal(12, 2)
    by_costs = (spectrum.shares * spectrum.kl_matrix()).sum()
    at_once = spectrum._kl_of_points()
    assert float(at_once.detach()) == pytest.approx(float(by_costs.detach()), rel=1e-12)
    own = [spectrum.mean, spectrum.log_sd]
    found, expected = (torch.autograd.grad(value, own) for value in (at_once, by_costs))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_points_drawn_anew_follow_the_mixture_that_was_learned() -> None:
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 2, 2))
    density = SpectralDensity(
        points=np.zeros((4, 2)),
        weights=np.array([0.5, 0.3, 0.15]),  # not quite 1, as expected weights are
        means=rng.normal(size=(3, 2)),
        covariances=roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(2),
        shares=np.full((4, 3), 1 / 3),
    )
    spectrum = SampledSpectrum(50_000, 2, 3, LIKE, torch.Generator().manual_seed(1))
    spectrum.resample_spectrum(density)
    share = density.weights / density.weights.sum()
    mean = share @ density.means
    away = density.means - mean
    covariance = np.einsum("k,kqr->qr", share, density.covariances) + (share * away.T) @ away
    points = spectrum.mean.detach().numpy()
    np.testing.assert_allclose(points.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moment", "mixture"])
def test_drawn_points_have_the_moments_of_the_mixture(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    spectrum = MixtureSpectrum(kind, False, 3, 2, 4, LIKE, generator)  # type: ignore[arg-type]
    with torch.no_grad():
        spectrum.logits.copy_(spectrum.normal(3, 4))
        spectrum.roots += 0.3 * spectrum.normal(4, 2, 2)
        draws = torch.stack([spectrum.draw() for _ in range(20_000)])
        shares, centres = spectrum.shares, spectrum.centres
        mean = shares @ centres
        away = centres - mean[:, None, :]
        spread = spectrum.covariances + away[:, :, :, None] * away[:, :, None, :]
        covariance = (shares[:, :, None, None] * spread).sum(1)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.06)
    centred = draws - draws.mean(0)
    got = (centred[:, :, :, None] * centred[:, :, None, :]).mean(0)
    np.testing.assert_allclose(got, covariance, atol=0.15)


def test_frozen_noise_repeats_and_fresh_noise_does_not() -> None:
    for frozen in (True, False):
        spectrum: Spectrum = MixtureSpectrum(
            "mixture", frozen, 6, 2, 3, LIKE, torch.Generator().manual_seed(0)
        )
        assert torch.equal(spectrum.draw(), spectrum.draw()) is frozen
        assert not torch.equal(spectrum.fresh(), spectrum.points())


def test_a_fit_uses_a_draw_whose_points_differ_where_their_means_coincide() -> None:
    spectrum = free()
    with torch.no_grad():
        spectrum.mean.zero_()
        spectrum.log_sd.fill_(math.log(0.5))
        X = torch.as_tensor(np.random.default_rng(0).normal(scale=3.0, size=(200, 2)))
        ranks = {
            name: int(torch.linalg.matrix_rank(RandomFourierFeatures(points, LIKE.new_ones(()))(X)))
            for name, points in (("means", spectrum.mean), ("points", spectrum.points()))
        }
        away = (spectrum.points() - spectrum.mean).std()
    assert ranks == {"means": 1, "points": 2 * len(spectrum.mean)}
    assert torch.equal(spectrum.points(), spectrum.points())
    assert float(away) == pytest.approx(0.5, rel=0.5)


def test_a_hard_draw_carries_gradients_to_the_shares() -> None:
    spectrum = MixtureSpectrum("mixture", False, 6, 2, 3, LIKE, torch.Generator().manual_seed(0))
    spectrum.draw().square().sum().backward()
    for parameter in spectrum.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.abs().sum() > 0)


@pytest.mark.parametrize("equal", [True, False])
def test_correlations_between_points_are_products_of_their_features(equal: bool) -> None:
    rng = np.random.default_rng(0)
    points, X = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    amplitudes = None if equal else rng.uniform(0.5, 2, 7)
    parts = (points, np.zeros(0), np.zeros((0, 2)), np.zeros((0, 2, 2)), np.zeros((7, 0)))
    found = SpectralDensity(*parts, amplitudes).correlation_matrix(X)
    scale = LIKE.new_ones(()) if amplitudes is None else torch.as_tensor(amplitudes)
    Phi = RandomFourierFeatures(torch.as_tensor(points), scale)(torch.as_tensor(X)).numpy()
    K = Phi @ Phi.T
    np.testing.assert_allclose(found, K / K[0, 0])
