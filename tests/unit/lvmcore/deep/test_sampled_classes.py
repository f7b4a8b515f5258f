"""Deep Gaussian processes of classes whose values are drawn, against quadrature and grids."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.layer_kernel import JITTER
from lvmcore.deep.likelihoods import SoftmaxClasses
from lvmcore.deep.sampled_deep_gp import SampledDeepGP, sampled_deep_gp
from lvmcore.deep.sghmc_chain import DeepChain
from lvmcore.models.supervised.sghmc import SGHMCDeepGPClassifier
from tests.unit.lvmcore.deep.small_models import generator, kernel, table


def model_of(X: Tensor, Y: Tensor, link: Any = "probit", M: int = 5, **more: Any) -> SampledDeepGP:
    """A model off its special start, with values that are not zero."""
    settings = DeepGPSettings(**{"n_hidden": 0, "hidden_variance": 0.3, **more})
    likelihood = SoftmaxClasses(link, X)
    model = sampled_deep_gp(settings, X, Y, X[:M] + 0.1, likelihood, learned=True)
    g = generator(5)
    with torch.no_grad():
        for parameter in model.hyperparameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=g, dtype=X.dtype))
        model.kept.copy_(torch.randn(model.kept.shape, generator=g, dtype=X.dtype))
    return model


def two_classes(n: int = 24, H: int = 3) -> tuple[Tensor, Tensor]:
    X, Y = table(n, H)
    return X, torch.where(Y > 0.1, 1.0, -1.0).double()


@torch.no_grad()
def weights_of_rows(model: SampledDeepGP, X: Tensor) -> tuple[Tensor, Tensor]:
    """A [B, M] with E f(x) = A u, and the variance of f(x) given u, [B]."""
    layer, Z = model.last, model.Z[0]
    K = kernel(layer, Z, Z) + JITTER[Z.dtype] * layer.variance * torch.eye(len(Z))
    cross = kernel(layer, Z, X)
    left = layer.variance - (cross * torch.linalg.solve(K, cross)).sum(0)
    return torch.linalg.solve(K, cross).T @ torch.linalg.cholesky(K), left


def log_joint(model: SampledDeepGP, u: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    found = model.log_likelihood(u, X, Y, 1.0, generator())
    return found - 0.5 * u.square().sum()


@pytest.mark.parametrize("link", ["probit", "softmax"])
@torch.no_grad()
def test_the_log_likelihood_is_the_mean_over_draws_of_the_functions(link: Any) -> None:
    X, y = two_classes()
    Y = y if link == "probit" else torch.cat([y, -y, -torch.ones_like(y)], 1)
    model = model_of(X, Y, link)
    A, left = weights_of_rows(model, X)
    normal = torch.randn(50_000, *Y.shape, generator=generator(1), dtype=torch.float64)
    f = A @ model.kept[0].T + left.sqrt()[:, None] * normal
    logs = torch.special.log_ndtr(Y * f) if link == "probit" else f.log_softmax(-1) * (Y > 0)
    wanted, error = logs.sum((1, 2)).mean(), logs.sum((1, 2)).std() / 50_000**0.5
    found = model.log_likelihood(model.kept[0], X, Y, 1.0, generator())
    # The softmax is over 128 quasi-random draws.
    allowed = 5 * float(error) + (0 if link == "probit" else 0.2)
    assert float(found) == pytest.approx(float(wanted), abs=allowed)


def test_gradients_of_the_log_joint_of_classes() -> None:
    X, Y = two_classes(10, 2)
    model = model_of(X, Y, n_hidden=2)
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


@pytest.mark.parametrize("link", ["probit", "softmax"])
def test_the_curvature_of_the_last_layer_is_that_of_the_log_joint(link: Any) -> None:
    """Differences of its slope by one output's values."""
    X, y = two_classes()
    Y = y if link == "probit" else torch.cat([y, -y, -torch.ones_like(y)], 1)
    model = model_of(X, Y, link)
    u = model.kept[0]
    found = model.curvature(u, X, Y, 1.0, generator())

    def slope(place: Tensor, p: int) -> Tensor:
        place = place.clone().requires_grad_()
        return torch.autograd.grad(-log_joint(model, place, X, Y), place)[0][p]

    for p in range(Y.shape[1]):
        rows = []
        for e in torch.eye(5).double():
            step = torch.zeros_like(u)
            step[p] = 1e-5 * e
            rows.append((slope(u + step, p) - slope(u - step, p)) / 2e-5)
        torch.testing.assert_close(found[p], torch.stack(rows), rtol=1e-4, atol=1e-4)
    doubled = model.curvature(u, X, Y, 2.0, generator()) - torch.eye(5)
    torch.testing.assert_close(doubled, 2 * (found - torch.eye(5)))


@pytest.mark.slow
def test_draws_have_the_mean_and_covariance_of_a_grid() -> None:
    """60 equal targets of two classes: as many chains side by side, of two values each."""
    X, y = two_classes(20, 2)
    model = model_of(X, y, M=2)
    A, left = weights_of_rows(model, X)
    ends = torch.linspace(-7, 7, 121, dtype=torch.float64)
    grid = torch.cartesian_prod(ends, ends)
    f = grid @ A.T  # [grid, B]
    logs = model.last.likelihood.expectation(y, f[..., None], left[:, None])
    weights = (logs.sum(1) - 0.5 * grid.square().sum(1)).softmax(0)
    mean = weights @ grid
    covariance = (grid - mean).T @ (weights[:, None] * (grid - mean))
    many = model_of(X, y.expand(-1, 60), M=2)
    for one, other in zip(many.hyperparameters(), model.hyperparameters(), strict=True):
        assert torch.equal(one, other)
    chain = DeepChain(
        many,
        X,
        y.expand(-1, 60),
        max_iter=800,
        n_kept=80,
        step_size=0.3,
        learning_rate=0.0,
        batch_size=1000,
        generator=generator(7),
    )
    chain.run(None, None)
    away = torch.linalg.solve(torch.linalg.cholesky(covariance), (many.kept - mean)[..., None])
    np.testing.assert_allclose(away.mean((0, 1))[:, 0], 0, atol=0.08)
    np.testing.assert_allclose(away.reshape(-1, 2).T.cov(), np.eye(2), atol=0.12)
    # Draws of the prior, for comparison.
    assert float((covariance - torch.eye(2)).abs().max()) > 0.3


@pytest.mark.parametrize("C", [2, 3])
def test_a_chain_learns_classes(C: int) -> None:
    X, y = table(n=80, H=2)
    labels = np.digitize(y[:, 0].numpy(), [-0.4, 0.4] if C == 3 else [0.0])
    model = SGHMCDeepGPClassifier(n_layers=1, n_inducing=12, max_iter=60, n_draws=12)
    model.fit(X.numpy(), labels)
    assert model.score(X.numpy(), labels) > 0.85
    probability = model.predict_proba(X.numpy())
    kept, likelihood = model._function.kept, model._function.gp.last.likelihood
    assert isinstance(likelihood, SoftmaxClasses)
    scaled = torch.as_tensor(model._standardiser.transform(X.numpy()))
    each = likelihood.probability(*kept.predict(scaled))
    assert len(each) == 12
    np.testing.assert_allclose(each.mean(0)[:, -1], probability[:, -1], atol=1e-9)
