"""The uncertainty of parameters in predictions: importance sampling as a second route, limits."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from lvmcore import GPRegressor, load
from lvmcore.gp.exact import hyperparameter_posterior
from lvmcore.gp.exact.hyperparameter_posterior import (
    WIDE_SD,
    IntegratedPosterior,
    _assign,
    _parameters,
    _value,
    hyperparameter_draws,
    is_affordable,
)
from lvmcore.gp.exact_regression import ExactGP, GPPosterior, MarginalLikelihood, direct_schedule
from lvmcore.training.loop import train


def fitted(n: int = 25) -> MarginalLikelihood:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2, 2, n))
    y = np.sin(2 * x) + 0.3 * rng.normal(size=n)
    X, Y = (torch.as_tensor(part)[:, None] for part in (x, (y - y.mean()) / y.std()))
    fit = MarginalLikelihood(ExactGP.stationary(1, "rbf", X), X, Y)
    train(fit, direct_schedule(100, n), None)
    return fit


def test_variances_are_those_of_importance_sampling() -> None:
    fit = fitted()
    centre = _parameters(fit.gp)
    draws = hyperparameter_draws(fit)
    assert draws is not None
    at = torch.linspace(-3, 3, 9).double()[:, None]
    plain = GPPosterior(fit.gp, fit.X, fit.Y)
    mean, plug_in = plain.moments(at)
    own_mean, own = IntegratedPosterior(plain, draws).moments(at)
    torch.testing.assert_close(own_mean, mean)

    generator = torch.Generator().manual_seed(0)
    spread = 1.3 * torch.as_tensor(np.linalg.cholesky(np.cov(draws.points.T.numpy())))
    noise = torch.randn(600, len(centre), generator=generator, dtype=torch.float64)
    logs, moments = [], []
    gp = copy.deepcopy(fit.gp)
    for z in noise:
        theta = centre + spread @ z
        log_prior = -0.5 * float((theta - centre).square().sum()) / WIDE_SD**2
        logs.append(_value(fit, theta) + log_prior + 0.5 * float(z.square().sum()))
        _assign(gp, theta)
        moments.append(GPPosterior(gp, fit.X, fit.Y).moments(at))
    weights = (torch.tensor(logs) - max(logs)).exp().double()
    assert float(weights.sum() ** 2 / weights.square().sum()) > 60
    weights = (weights / weights.sum())[:, None, None]
    m, v = (torch.stack(parts) for parts in zip(*moments, strict=True))
    truth = (weights * (v + (m - mean).square())).sum(0)

    error = (own / truth).log().abs()
    assert float(error.max()) < 0.2
    assert float(error.mean()) < 0.5 * float((plug_in / truth).log().abs().mean())


def test_the_fit_keeps_its_parameters_and_weights_are_probabilities() -> None:
    fit = fitted()
    before = _parameters(fit.gp)
    draws = hyperparameter_draws(fit)
    assert draws is not None
    torch.testing.assert_close(_parameters(fit.gp), before, rtol=0, atol=0)
    assert draws.points.shape == (6, 3)
    pairs = draws.weights.reshape(3, 2)
    assert float(pairs.min()) >= 0
    assert float(pairs.sum(1).max()) < 1
    torch.testing.assert_close(draws.points.reshape(3, 2, 3).mean(1), before.expand(3, 3))


def test_a_point_without_a_factor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted()
    real, centre = hyperparameter_posterior._value, _parameters(fit.gp)

    def value(fit: MarginalLikelihood, theta: torch.Tensor) -> float:
        return real(fit, theta) if bool(theta[0] <= centre[0]) else -math.inf

    monkeypatch.setattr(hyperparameter_posterior, "_value", value)
    draws = hyperparameter_draws(fit)
    assert draws is not None
    gone = draws.weights == 0
    assert 0 < int(gone.sum()) <= 3
    plain = GPPosterior(fit.gp, fit.X, fit.Y)
    mean, variance = IntegratedPosterior(plain, draws).moments(fit.X)
    assert bool(torch.isfinite(mean).all() and (variance > 0).all())


def test_large_tables_count_the_parameters_as_known() -> None:
    gp = fitted().gp
    assert is_affordable(gp, 1000)
    assert not is_affordable(gp, 3000)


def test_a_model_keeps_its_draws_in_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 2))
    y = 3 + np.exp(X[:, 0]) + 0.2 * rng.normal(size=20)
    new = 2 * rng.normal(size=(8, 2))
    model = GPRegressor(kernel="rbf", target_transform="none").fit(X, y)
    plain = GPRegressor(kernel="rbf", target_transform="none", parameter_uncertainty=False)
    mean, sd = model.predict(new, return_std=True)
    other_mean, other_sd = plain.fit(X, y).predict(new, return_std=True)
    np.testing.assert_allclose(mean, other_mean)
    assert (sd > 0.9 * other_sd).all()
    assert sd.mean() > 1.02 * other_sd.mean()
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.predict(new, return_std=True)[1], sd)
    plain.save(path)
    np.testing.assert_array_equal(load(path).predict(new, return_std=True)[1], other_sd)
