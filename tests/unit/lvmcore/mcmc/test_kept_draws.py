"""Kept draws: aligned, decoded and used to place rows, by other routes."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import nbinom, norm, ortho_group

from lvmcore.mcmc import kept_draws
from lvmcore.mcmc.feature_weights import Likelihood, features
from lvmcore.mcmc.kept_draws import KeptDraws, align_draws

S, L, D, Q, M = 3, 6, 4, 2, 40
LIKELIHOODS: list[Likelihood] = ["gaussian", "bernoulli", "negative_binomial"]
for_likelihoods = pytest.mark.parametrize("likelihood", LIKELIHOODS)
rng = np.random.default_rng(0)
X = torch.as_tensor(rng.normal(size=(5, Q)))


def draws(likelihood: Likelihood, n: int = S, seed: int = 1) -> KeptDraws:
    generator = np.random.default_rng(seed)
    spread = {
        "gaussian": generator.gamma(2.0, 0.02, size=(n, 1)),
        "bernoulli": np.ones((n, 0)),
        "negative_binomial": generator.gamma(5.0, size=(n, D)),
    }[likelihood]
    arrays = (
        generator.normal(size=(n, M, Q)),
        generator.normal(size=(n, L, Q)),
        2 * generator.normal(size=(n, 2 * L, D)),
        generator.normal(size=(n, D)) * (likelihood != "gaussian"),
        spread,
        generator.gamma(3.0, size=n),
    )
    return KeptDraws(likelihood, *(torch.as_tensor(array) for array in arrays))


def cells(one: KeptDraws, s: int, Y: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """log p(y | ψ) under a draw, by SciPy."""
    spread = one.spread[s].numpy()
    if one.likelihood == "gaussian":
        return norm.logpdf(Y, psi, np.sqrt(spread))
    if one.likelihood == "bernoulli":
        return np.log(np.where(Y == 1, expit(psi), expit(-psi)))
    return nbinom.logpmf(Y, spread, expit(-psi))


def rows(one: KeptDraws, points: torch.Tensor) -> np.ndarray:
    """Rows near the mean of the first draw at points."""
    mean = one.means(one.psi(points))[0].numpy()
    return mean + 0.1 if one.likelihood == "gaussian" else np.round(mean)


def test_rotations_and_reflections_are_found() -> None:
    Z = rng.normal(size=(20, 3))
    turns = [ortho_group.rvs(3, random_state=seed) for seed in range(4)]
    assert {round(np.linalg.det(turn)) for turn in turns} == {-1, 1}
    for turn, found in zip(turns, align_draws([Z @ turn.T for turn in turns], Z), strict=True):
        np.testing.assert_allclose(found, turn, atol=1e-10)


@for_likelihoods
def test_turned_draws_decode_turned_points_alike(likelihood: Likelihood) -> None:
    one, turn = draws(likelihood), torch.as_tensor(ortho_group.rvs(Q, random_state=5))
    for ours, theirs in zip(one.rotated(turn).decode(X @ turn), one.decode(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@for_likelihoods
def test_moments_are_those_of_the_mixture_of_the_draws(likelihood: Likelihood) -> None:
    one = draws(likelihood)
    means, variances = [], []
    for s in range(S):
        psi = features(X.numpy(), one.W[s].numpy()) @ one.H[s].numpy() + one.offset[s].numpy()
        spread = one.spread[s].numpy()
        if likelihood == "gaussian":
            means.append(psi)
            variances.append(np.broadcast_to(spread, psi.shape))
        elif likelihood == "bernoulli":
            means.append(expit(psi))
            variances.append(expit(psi) * expit(-psi))
        else:
            law = nbinom(spread, expit(-psi))
            means.append(law.mean())
            variances.append(law.var())
    mean, variance, noise = (part.numpy() for part in one.decode(X))
    np.testing.assert_allclose(mean, np.mean(means, axis=0))
    np.testing.assert_allclose(noise, np.mean(variances, axis=0))
    np.testing.assert_allclose(variance, np.mean(variances, axis=0) + np.var(means, axis=0))


@for_likelihoods
def test_the_metric_is_that_of_differences_and_differentiable(likelihood: Likelihood) -> None:
    one, h = draws(likelihood), 1e-5
    scale = torch.as_tensor([1.0, 2.0, 0.5, 3.0])
    found = one.metric(X, scale).numpy()
    slopes = []
    for q in range(Q):
        step = torch.zeros(Q, dtype=torch.float64)
        step[q] = h
        up, down = (one.means(one.psi(X + sign * step)) for sign in (1, -1))
        slopes.append(((up - down) / (2 * h) / scale).numpy())
    J = np.stack(slopes, axis=2)  # [S, n, Q, D]
    np.testing.assert_allclose(found, (J @ J.transpose(0, 1, 3, 2)).mean(axis=0), rtol=1e-5)
    point = X.clone().requires_grad_()
    one.metric(point, scale).sum().backward()
    assert bool(torch.isfinite(point.grad).all())  # type: ignore[arg-type]


@for_likelihoods
def test_density_is_the_mean_over_draws(likelihood: Likelihood) -> None:
    one = draws(likelihood)
    Y = rows(one, X)
    points = torch.as_tensor(rng.normal(size=(7, 5, Q)))
    found = one.log_density(torch.as_tensor(Y), points).numpy()
    by_draw = []
    for s in range(S):
        Phi = features(points.reshape(-1, Q).numpy(), one.W[s].numpy())
        psi = (Phi @ one.H[s].numpy() + one.offset[s].numpy()).reshape(7, 5, D)
        by_draw.append(cells(one, s, Y, psi).sum(axis=2))
    np.testing.assert_allclose(found, logsumexp(by_draw, axis=0) - np.log(S))


@for_likelihoods
def test_rows_are_placed_at_the_best_point_near_an_anchor(likelihood: Likelihood) -> None:
    """One draw: no point of a fine grid about the place is better, and the slope there is 0."""
    one = draws(likelihood, n=1)
    Y = torch.as_tensor(rows(one, X))
    mean, variance = one.infer(Y)
    at = mean.clone().requires_grad_()
    value = one._log_joint(Y, at[None])[0]
    (slope,) = torch.autograd.grad(value.sum(), at)
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    around = torch.as_tensor(0.02 * rng.normal(size=(500, 1, Q)))
    near = one.log_density(Y, mean + around) - 0.5 * (mean + around).square().sum(-1)
    assert bool((near <= value + 1e-9).all())
    anchors = one.anchors[0][:, None].expand(M, len(Y), Q)
    scores = one.log_density(Y, anchors) - 0.5 * anchors.square().sum(-1)
    assert bool((value >= scores.max(0).values - 1e-9).all())
    # The expected curvature: J diag(1/Var) Jᵀ, J of the means, plus that of the prior.
    J = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda x: one.means(one.psi(x[None]))[0, 0], row)
            for row in mean
        ]
    )
    noise = one.decode(mean)[2]
    curvature = (J.transpose(1, 2) / noise[:, None]) @ J + torch.eye(Q)
    expected = torch.linalg.inv(curvature).diagonal(dim1=1, dim2=2)
    np.testing.assert_allclose(variance, expected, rtol=1e-6)


def test_places_of_several_draws_are_mixed() -> None:
    one = draws("gaussian")
    Y = torch.as_tensor(rows(one, X))
    parts = [part.infer(Y) for part in one]
    means, variances = (torch.stack(part) for part in zip(*parts, strict=True))
    mean, variance = one.infer(Y)
    np.testing.assert_allclose(mean, means.mean(0), atol=1e-7)
    expected = variances.mean(0) + means.var(0, correction=0)
    np.testing.assert_allclose(variance, expected, atol=1e-7)


def test_some_points_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, Y = draws("bernoulli"), torch.as_tensor(rows(draws("bernoulli"), X))
    usual = (
        *one.decode(X),
        *one.infer(Y),
        one.metric(X, torch.ones(D)),
        one.prior_variance_share(X),
    )
    monkeypatch.setattr(kept_draws, "CHUNK_CELLS", 1)
    found = (
        *one.decode(X),
        *one.infer(Y),
        one.metric(X, torch.ones(D)),
        one.prior_variance_share(X),
    )
    for ours, theirs in zip(found, usual, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_prior_variance_share_is_none_where_draws_agree_and_full_where_they_are_the_prior() -> None:
    one = draws("gaussian", n=1)
    np.testing.assert_array_equal(one.prior_variance_share(X), 0)
    many = draws("gaussian", n=400)
    prior = KeptDraws(
        "gaussian", many.anchors, many.W, many.H / 2, many.offset, many.spread, 1 + 0 * many.scale
    )
    assert float(prior.prior_variance_share(X).mean()) == pytest.approx(1, abs=0.1)


def test_reflections_turn_no_axis() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    turned = X @ np.diag([-1.0, 1.0, -1.0]) + 0.1 * rng.standard_normal((30, 3))
    (found,) = align_draws([turned], X, reflections=True)
    np.testing.assert_array_equal(found, np.diag([-1.0, 1.0, -1.0]))
