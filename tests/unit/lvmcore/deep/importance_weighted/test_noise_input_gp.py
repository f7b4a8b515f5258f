"""Noise inputs of a deep Gaussian process: its start, its linear means, and its predictions."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from lvmcore.deep.importance_weighted.noise_input_gp import (
    first_axes,
    noise_input_deep_gp,
    start_noise,
)
from lvmcore.deep.initialisation import DeepGPSettings, principal_axes
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise
from tests.unit.lvmcore.deep.importance_weighted.test_objective import model_of, quadrature
from tests.unit.lvmcore.deep.small_models import generator, kernel, table


@pytest.mark.parametrize(
    ("width", "columns", "passed"),
    [(5, 3, 2), (8, 3, 2), (4, 2, 2), (3, 1, 2), (2, 1, 1), (1, 1, 0)],
)
def test_the_linear_mean_passes_on_columns_first_and_then_noise(
    width: int, columns: int, passed: int
) -> None:
    X = table()[0] * torch.tensor([1.0, 2.0, 3.0]).double()
    axes = first_axes(X, 2, width)
    assert axes.shape == (5, width)
    torch.testing.assert_close(axes[:3, :columns], principal_axes(X, columns))
    noise = torch.zeros(2, width).double()
    noise[:passed, columns : columns + passed] = torch.eye(passed).double()
    torch.testing.assert_close(axes[3:], noise)
    assert not axes[:3, columns:].any()


def test_layers_have_the_columns_and_the_noise_for_inputs() -> None:
    X, Y = table()
    settings, g = DeepGPSettings(n_hidden=2), generator()
    model = noise_input_deep_gp(
        settings, X, Y, X[:6], GaussianNoise(0.1, X), n_noise=2, generator=g
    )
    assert [layer.width for layer in model.hidden] == [5, 5]
    assert [Z.shape for Z in model.Z] == [(6, 5)] * 3
    torch.testing.assert_close(model.Z[0][:, :3].detach(), X[:6])
    torch.testing.assert_close(model.Z[2], model.Z[0])  # identity means
    assert float(model.Z[0][:, 3:].detach().std()) > 0.5
    narrow = noise_input_deep_gp(
        DeepGPSettings(n_hidden=2, width=2), X, Y, X[:6], GaussianNoise(0.1, X), n_noise=1,
        generator=g,
    )  # fmt: skip
    torch.testing.assert_close(narrow.Z[1], narrow.Z[0] @ narrow.hidden[0].linear)
    torch.testing.assert_close(narrow.Z[2], narrow.Z[1])


@torch.no_grad()
def test_the_noise_starts_at_the_residuals_of_a_linear_fit() -> None:
    X, Y = table(n=40)
    model = model_of(X, Y, n_noise=2, roughen=False)
    start_noise(model, X, Y)
    mean, log_variance = model.noise_posterior(X, Y)
    A = np.hstack([X.numpy(), np.ones((40, 1))])
    residual = Y.numpy() - A @ np.linalg.lstsq(A, Y.numpy(), rcond=None)[0]
    wanted = residual[:, 0] / np.sqrt(np.mean(residual**2))
    np.testing.assert_allclose(mean[:, 0].numpy(), wanted, atol=1e-3)
    np.testing.assert_allclose(mean[:, 1].numpy(), 0, atol=1e-3)
    np.testing.assert_allclose(log_variance.numpy(), math.log(0.1), atol=1e-6)


@torch.no_grad()
def test_a_target_that_is_linear_starts_without_a_division_by_zero() -> None:
    X, _ = table()
    model = model_of(X, X[:, :1], roughen=False)
    start_noise(model, X, X[:, :1])
    assert all(torch.isfinite(part).all() for part in model.noise_posterior(X, X[:, :1]))


def density(found: tuple[Tensor, Tensor], noise: Tensor, at: Tensor) -> Tensor:
    """Mean density over draws of each row, at targets [T], [T, n]."""
    mean, variance = (part[..., 0] for part in found)
    return Normal(mean, (variance + noise).sqrt()).log_prob(at[:, None, None]).exp().mean(1)


@torch.no_grad()
def test_a_prediction_averages_the_prior_of_the_noise() -> None:
    """Without hidden layers p(y | x) = ∫ N(w; 0, 1) N(y | m(x, w), s(x, w) + σ²) dw."""
    X, Y = table()
    model = model_of(X, Y, natural=True)
    model.last.q.shift.add_(2 * torch.randn(1, 6, generator=generator(1), dtype=X.dtype))
    model.last.q.curvature.add_(5 * torch.eye(6).double())
    model.last.q.shift.mul_(5)
    new, noise = table(4, seed=8)[0], model.last.likelihood.site_scale
    nodes, log_weights = quadrature()
    draw = model.draw(1, generator())
    q, C, Z = model.posterior(draw), draw.last.C, model.Z[0]
    means, variances = [], []
    for w in nodes:
        joined = torch.cat([new, w.expand(4, 1)], 1)
        A = torch.linalg.solve(C @ C.T, kernel(model.last, Z, joined)).T
        S = C @ q.root[0].T @ q.root[0] @ C.T
        means.append(A @ (C @ q.mean[0]))
        variances.append(model.last.variance - ((A @ (C @ C.T - S)) * A).sum(1))
    mean, variance = torch.stack(means), torch.stack(variances)
    at = torch.linspace(-2, 2, 9).double()
    each = Normal(mean, (variance + noise).sqrt()).log_prob(at[:, None, None]).exp()
    wanted = (log_weights.exp()[:, None] * each).sum(1)
    assert float(mean.std(0).min()) > 0.05  # the noise has an effect
    found = density(DeepGPDraws.from_model(model, 256, generator(2)).predict(new), noise, at)
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=2e-3)


@torch.no_grad()
def test_kept_draws_agree_with_independent_ones() -> None:
    """The noise shared by all rows against noise drawn for each row, with a hidden layer."""
    X, Y = table()
    model = model_of(X, Y, n_hidden=1, n_noise=2, hidden_variance=2.0, spread=0.5)
    new, noise, S = table(3, seed=8)[0], model.last.likelihood.site_scale, 20_000
    kept = DeepGPDraws.from_model(model, S, generator(2))
    assert [part.shape for part in kept.noise] == [(S, 1, 2), (S, 1, 5)]
    draw, g = model.draw(S, generator(5)), generator(6)
    inputs = model.inputs(draw, new, model.row_noise(S, 3, g))
    moments = model.posterior(draw).moments(
        draw.last, draw.last.cross(inputs), draw.last.diagonal(inputs)
    )
    at = torch.linspace(-2, 2, 7).double()
    wanted = density(moments, noise, at)
    torch.testing.assert_close(density(kept.predict(new), noise, at), wanted, rtol=0.05, atol=0.004)
    inputs = model.inputs(draw, new, model.row_noise(S, 3, g)[:1])
    hidden = model.hidden[0].conditional_moments(draw.layer_kernels[0], draw.values[0], inputs)[0]
    torch.testing.assert_close(kept.hidden_means(new, 1), hidden.mean(0), rtol=0, atol=0.05)
