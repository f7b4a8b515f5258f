"""Deep Gaussian processes whose values are drawn, against dense algebra and plain Monte Carlo."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from lvmcore.deep.fit_method import DeepGPMethod, DeepGPOptions
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.layer_kernel import JITTER
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.sampled_deep_gp import SampledDeepGP, sampled_deep_gp
from lvmcore.deep.sghmc_chain import DeepChain
from lvmcore.deep.warm_start import fit_induced
from lvmcore.gp.inducing_points import centroids
from lvmcore.models.supervised.sghmc import SGHMCDeepGPRegressor
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.deep.small_models import generator, kernel, table


def model_of(X: Tensor, Y: Tensor, M: int = 5, *, learned: bool = True, **more: Any) -> Any:
    """A model off its special start, with values that are not zero."""
    settings = DeepGPSettings(**{"n_hidden": 0, "hidden_variance": 0.3, **more})
    model = sampled_deep_gp(settings, X, Y, X[:M] + 0.1, GaussianNoise(0.1, X), learned=learned)
    g = generator(5)
    with torch.no_grad():
        for parameter in model.hyperparameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=g, dtype=X.dtype))
        model.kept.copy_(torch.randn(model.kept.shape, generator=g, dtype=X.dtype))
    return model


def chain_of(model: SampledDeepGP, X: Tensor, Y: Tensor, **settings: Any) -> DeepChain:
    wanted = {"max_iter": 100, "n_kept": 20, "step_size": 0.3, "learning_rate": 0.01}
    wanted |= {"batch_size": 1000, "generator": generator(7)}
    return DeepChain(model, X, Y, **{**wanted, **settings})


@torch.no_grad()
def dense_rows(layer: Any, Z: Tensor, u: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """Of f at rows given f(Z) = C u: K_xZ K⁻¹ C u [B, units], k_xx − K_xZ K⁻¹ K_Zx [B]."""
    v = layer.variance if layer.variance.dim() == 0 else 1.0
    K = kernel(layer, Z, Z) + JITTER[Z.dtype] * v * torch.eye(len(Z))
    A = torch.linalg.solve(K, kernel(layer, Z, X)).T
    C = torch.linalg.cholesky(K)
    return A @ C @ u.T, v - (A * kernel(layer, Z, X).T).sum(1)


@torch.no_grad()
def exact_posterior(model: SampledDeepGP, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """Means [P, M] and precision [M, M] of π without hidden layers."""
    Z = model.Z[0]
    noise = model.last.likelihood.site_scale
    eye = torch.eye(len(Z)).double()
    A = dense_rows(model.last, Z, eye, X)[0]  # f(x) = A u
    precision = eye + A.T @ A / noise
    return torch.linalg.solve(precision, A.T @ Y / noise).T, precision


def log_joint(model: SampledDeepGP, u: Tensor, X: Tensor, Y: Tensor, seed: int = 0) -> Tensor:
    found = model.log_likelihood(u, X, Y, 1.0, generator(seed))
    return found - 0.5 * u.square().sum()


@torch.no_grad()
def test_without_hidden_layers_the_log_likelihood_is_that_of_dense_algebra() -> None:
    X, Y = table(P=2)
    model = model_of(X, Y)
    mean, variance = dense_rows(model.last, model.Z[0], model.kept[0], X)
    noise = model.last.likelihood.site_scale
    error = ((Y - mean) ** 2 + variance[:, None]) / noise
    wanted = float(-0.5 * ((2 * math.pi * noise).log() + error).sum())
    found = model.log_likelihood(model.kept[0], X, Y, 1.0, generator())
    assert float(found) == pytest.approx(wanted, rel=1e-6)
    parts = [
        float(model.log_likelihood(model.kept[0], X[i::2], Y[i::2], 2.0, generator()))
        for i in range(2)
    ]
    assert np.mean(parts) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
@torch.no_grad()
def test_with_a_hidden_layer_it_is_the_mean_over_what_rows_become() -> None:
    X, Y = table(n=8, H=2)
    model = model_of(X, Y, n_hidden=1)
    layer, u, S = model.hidden[0], model.kept[0], 40_000
    mean, variance = dense_rows(layer, model.Z[0], u[:2], X)
    mean = X @ layer.linear + layer.variance.sqrt() * mean
    spread = (layer.variance * variance[:, None] + layer.noise).sqrt()
    normal = torch.randn(S, *mean.shape, generator=generator(1), dtype=torch.float64)
    reached = (mean + spread * normal).reshape(-1, 2)
    f, left = dense_rows(model.last, model.Z[1], u[2:], reached)
    noise = model.last.likelihood.site_scale
    error = (Y[:, 0] - f.reshape(S, -1)) ** 2 + left.reshape(S, -1)
    each = (-0.5 * ((2 * math.pi * noise).log() + error / noise)).sum(1)
    found = [float(model.log_likelihood(u, X, Y, 1.0, generator(seed))) for seed in range(1500)]
    error_of_both = 4 * float(each.std()) * (1 / S + 1 / 1500) ** 0.5
    assert np.mean(found) == pytest.approx(float(each.mean()), abs=error_of_both)


@pytest.mark.parametrize("n_hidden", [0, 2])
def test_gradients_of_the_log_joint(n_hidden: int) -> None:
    X, Y = table(n=10, H=2)
    model = model_of(X, Y, n_hidden=n_hidden)
    u = model.kept[0].clone().requires_grad_()
    places = [u, *model.hyperparameters()]
    gradients = torch.autograd.grad(log_joint(model, u, X, Y), places)
    for place, gradient in zip(places, gradients, strict=True):
        way = torch.randn(place.shape, generator=generator(1), dtype=torch.float64)
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                place.add_(step * way)
                values.append(float(log_joint(model, u, X, Y)))
                place.sub_(step * way)
        slope = (values[0] - values[1]) / 2e-5
        assert float((gradient * way).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_the_curvature_without_hidden_layers_is_that_of_the_log_joint() -> None:
    X, Y = table()
    model = model_of(X, Y)
    u = model.kept[0]
    found = model.curvature(u, X, Y, 1.0, generator())

    def slope(place: Tensor) -> Tensor:
        place = place.clone().requires_grad_()
        return torch.autograd.grad(-log_joint(model, place, X, Y), place)[0][0]

    # The log joint is quadratic: differences of its slope are exact.
    hessian = torch.stack([slope(u + e) - slope(u) for e in torch.eye(5).double()])
    torch.testing.assert_close(found[0], hessian, rtol=1e-6, atol=1e-6)
    doubled = model.curvature(u, X, Y, 2.0, generator())[0] - torch.eye(5)
    torch.testing.assert_close(doubled, 2 * (found[0] - torch.eye(5)), rtol=1e-9, atol=1e-9)


def test_the_curvature_of_hidden_units_sums_the_squares_of_the_rows_slopes() -> None:
    X, Y = table(n=12, H=2)
    model = model_of(X, Y, n_hidden=2)
    u = model.kept[0].clone().requires_grad_()
    weight = 3.0
    found = model.curvature(u, X, Y, weight, generator(3))
    g = generator(3)
    draw = model.function_draw(u[None])
    inputs = model.inputs(draw, X, model.row_noise(1, 12, g))
    mean, variance = model.posterior(draw).moments(
        draw.last, draw.last.cross(inputs), draw.last.diagonal(inputs)
    )
    logs = model.last.likelihood.expectation(Y, mean, variance)[0]
    slopes = torch.stack([torch.autograd.grad(one, u, retain_graph=True)[0] for one in logs])
    for unit in range(4):
        s = slopes[:, unit]
        torch.testing.assert_close(found[unit], torch.eye(5) + weight * s.T @ s)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1000, 8])
def test_draws_have_the_mean_and_covariance_of_the_exact_posterior(batch_size: int) -> None:
    """150 targets of one table: as many chains side by side, each with a mean of its own."""
    X, Y = table(n=32, P=150)
    model = model_of(X, Y)
    mean, precision = exact_posterior(model, X, Y)
    before = [parameter.detach().clone() for parameter in model.hyperparameters()]
    chain = chain_of(model, X, Y, max_iter=800, n_kept=80, learning_rate=0.0, batch_size=batch_size)
    chain.run(None, None)
    for parameter, old in zip(model.hyperparameters(), before, strict=True):
        assert torch.equal(parameter, old)
    root = torch.linalg.cholesky(precision)
    away = (model.kept - mean) @ root  # N(0, I) if exact, [80, 150, M]
    exact = batch_size >= 32
    assert len(model.kept) == 80
    # Of 12 000 draws those of a chain are alike over some 30 steps, the kept ones over 10.
    np.testing.assert_allclose(away.mean((0, 1)), 0, atol=0.05 if exact else 0.1)
    covariance = away.reshape(-1, 5).T.cov()
    np.testing.assert_allclose(covariance, np.eye(5), atol=0.08 if exact else 0.2)
    assert float(away.mean(0).abs().max()) < 1.5


def collapsed(layer: Any, Z: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²), Q = K_xZ K⁻¹ K_Zx, of one target (Titsias 2009)."""
    K = kernel(layer, Z, Z) + JITTER[Z.dtype] * layer.variance * torch.eye(len(Z))
    cross, noise = kernel(layer, Z, X), layer.likelihood.site_scale
    Q = cross.T @ torch.linalg.solve(K, cross)
    left = (layer.variance - Q.diagonal()).sum() / (2 * noise)
    normal = MultivariateNormal(torch.zeros(len(X)).double(), Q + noise * torch.eye(len(X)))
    return normal.log_prob(Y[:, 0]) - left


@pytest.mark.slow
def test_slopes_of_the_log_joint_at_exact_draws_are_those_of_the_collapsed_bound() -> None:
    """E_π ∂ log p(y, u)/∂θ = ∂ bound/∂θ: what EM rests on, with nothing hidden."""
    X, Y = table()
    model = model_of(X, Y)
    wanted = torch.autograd.grad(collapsed(model.last, model.Z[0], X, Y), model.hyperparameters())
    mean, precision = exact_posterior(model, X, Y)
    normal = torch.randn(5, 1500, generator=generator(6), dtype=torch.float64)
    root = torch.linalg.cholesky(precision)
    draws = mean + torch.linalg.solve_triangular(root.T, normal, upper=True).T
    found = []
    for u in draws:
        value = model.log_likelihood(u[None], X, Y, 1.0, generator())
        slopes = torch.autograd.grad(value, model.hyperparameters())
        found.append(torch.cat([slope.flatten() for slope in slopes]))
    each = torch.stack(found)
    away = each.mean(0) - torch.cat([slope.flatten() for slope in wanted])
    error = each.std(0) / len(each) ** 0.5
    assert float((away / error).abs().max()) < 4.5


@pytest.mark.slow
def test_the_parameters_come_near_where_the_collapsed_bound_is_highest() -> None:
    X, Y = table(n=60)
    model = sampled_deep_gp(
        DeepGPSettings(n_hidden=0), X, Y, X[:8], GaussianNoise(0.3, X), learned=False
    )
    other = sampled_deep_gp(
        DeepGPSettings(n_hidden=0), X, Y, X[:8], GaussianNoise(0.3, X), learned=False
    )
    start = float(collapsed(model.last, X[:8], X, Y).detach())
    chain_of(model, X, Y, max_iter=1000, learning_rate=0.05).run(None, None)
    search = torch.optim.LBFGS(other.hyperparameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        value = -collapsed(other.last, X[:8], X, Y)
        value.backward()
        return value

    search.step(loss)
    best = -float(loss().detach())
    reached = float(collapsed(model.last, X[:8], X, Y).detach())
    # Along a ridge of variance and lengthscales the bound is flat, and EM slow.
    assert reached <= best + 1e-3
    assert best - reached < 0.1 * (best - start)
    noise = float(model.last.likelihood.noise.detach())
    assert noise == pytest.approx(float(other.last.likelihood.noise.detach()), rel=0.35)
    assert noise < 0.1


@torch.no_grad()
def test_a_prediction_is_that_of_each_kept_draw() -> None:
    X, Y = table()
    model = model_of(X, Y, n_hidden=1)
    model.kept = torch.randn(6, *model.kept.shape[1:], generator=generator(2), dtype=X.dtype)
    new = table(9, seed=8)[0]
    kept = DeepGPDraws.from_model(model, 6, generator(4))
    mean, variance = kept.predict(new)
    normal = torch.randn(6, 1, 3, generator=generator(4), dtype=X.dtype)
    for s, u in enumerate(model.kept):
        layer = model.hidden[0]
        middle, left = dense_rows(layer, model.Z[0], u[:3], new)
        middle = new @ layer.linear + layer.variance.sqrt() * middle
        spread = (layer.variance * left[:, None] + layer.noise).sqrt()
        f, own = dense_rows(model.last, model.Z[1], u[3:], middle + spread * normal[s])
        torch.testing.assert_close(mean[s], f, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(variance[s, :, 0], own, rtol=1e-4, atol=1e-5)
    units = kept.hidden_means(new, 1)
    each = [dense_rows(model.hidden[0], model.Z[0], u[:3], new)[0] for u in model.kept]
    wanted = new @ model.hidden[0].linear + layer.variance.sqrt() * torch.stack(each).mean(0)
    torch.testing.assert_close(units, wanted, rtol=1e-5, atol=1e-5)


def numbers(n: int = 40) -> tuple[Any, Any]:
    X, Y = table(n)
    return X.numpy(), Y[:, 0].numpy()


def small(**settings: Any) -> SGHMCDeepGPRegressor:
    wanted = {"n_layers": 1, "n_inducing": 6, "max_iter": 30, "n_draws": 4}
    return SGHMCDeepGPRegressor(**{**wanted, **settings})


@pytest.mark.slow(quick=["None"])
@pytest.mark.parametrize("hidden_dim", [None, 2])
def test_a_fit_begins_as_a_single_process_where_it_is_as_wide(hidden_dim: int | None) -> None:
    X, Y = table(n=60)
    model = small(hidden_dim=hidden_dim, max_iter=200)
    measured = Standardiser.fit(X.numpy(), [str(i) for i in range(X.shape[1])])
    options = DeepGPOptions.from_settings(model.get_params(), measured)
    assert isinstance(model.method, DeepGPMethod)
    gp = model.method.initial(X, Y, GaussianNoise(0.05, X), options, generator())
    g = generator()
    Z = centroids(X, 6, g)
    noise, settings = GaussianNoise(0.05, X), DeepGPSettings()
    single = fit_induced(X, Y, Z, noise, 2000, g, steps=200, learned=True, settings=settings)
    assert gp.pretrained == (hidden_dim is None)
    new = table(20, seed=8)[0]
    found, wanted = (
        DeepGPDraws.from_model(one, 1, generator(2)).predict(new)[0][0] for one in (gp, single)
    )
    away = float((found - wanted).square().mean().sqrt())
    assert (away < 0.1 * float(wanted.std())) == (hidden_dim is None)


@pytest.mark.slow(quick=["16-11"])
@pytest.mark.parametrize("stop", [11, 26])
@pytest.mark.parametrize("batch_size", [1000, 16])
def test_a_chain_goes_on_in_its_warm_up_and_after_it(
    stop: int, batch_size: int, tmp_path: Path
) -> None:
    X, y = numbers()
    whole = small(batch_size=batch_size).fit(X, y)
    path = tmp_path / "checkpoint.safetensors"
    first = small(batch_size=batch_size)
    first._fit_from(X, y, callback=lambda s: s.iteration == stop, checkpoint=Checkpoint(path))
    second = small(batch_size=batch_size)
    second._fit_from(X, y, checkpoint=Checkpoint(path))
    assert torch.equal(second._function.gp.kept, whole._function.gp.kept)
    assert second.diagnostics_ == whole.diagnostics_
    assert [s.terms for s in second.history_] == [s.terms for s in whole.history_]
    np.testing.assert_array_equal(second.log_density(X, y), whole.log_density(X, y))


def test_what_was_drawn_before_a_stop_is_kept() -> None:
    X, y = numbers()
    steps: list[FitStep] = []
    early = small().fit(X, y, callback=lambda s: steps.append(s) or s.iteration == 5)
    assert len(early._function.gp.kept) == 1
    assert early.diagnostics_ == {}
    assert any("Stopped before a draw was kept" in note for note in early.notes_)
    assert steps[0].terms.keys() == {"log likelihood"}
    assert steps[0].snapshot is not None
    assert not early.converged_
    late = small().fit(X, y, callback=lambda s: s.iteration == 25)
    assert len(late._function.gp.kept) == 2
    whole = small().fit(X, y)
    assert len(whole._function.gp.kept) == 4
    assert torch.equal(late._function.gp.kept, whole._function.gp.kept[:2])
    assert np.isfinite(early.log_density(X, y)).all()


@pytest.mark.slow
def test_a_chain_says_whether_its_halves_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = numbers()
    few = small(max_iter=10).fit(X, y)
    assert any("Too few steps to tell" in note for note in few.notes_)
    told = small(max_iter=60).fit(X, y).diagnostics_
    assert next(iter(told)) == "prediction of row 1 of the fit"
    assert all(one.r_hat > 0 and one.ess > 0 for one in told.values())
    monkeypatch.setattr("lvmcore.models.supervised.sghmc.MAX_R_HAT", 0.0)
    apart = small(max_iter=60).fit(X, y)
    assert any("first and second half of the chain do not agree" in n for n in apart.notes_)


def test_a_chain_that_is_lost_says_what_to_do() -> None:
    X, Y = table()
    model = model_of(X, Y)
    chain = chain_of(model, X, Y)
    chain.chain.position.fill_(math.inf)
    with pytest.raises(ArithmeticError, match="smaller step size"):
        chain.run(None, None)
