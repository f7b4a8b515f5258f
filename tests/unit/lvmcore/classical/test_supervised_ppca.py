"""Linear Gaussian models of groups of columns: closed forms, dense Gaussians, and the steps."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from lvmcore.classical.supervised_ppca import GroupedLinearGaussian, fit_grouped_linear_gaussian

GROUPS = torch.tensor([0, 0, 0, 0, 1, 1])


def rows(seed: int = 0, N: int = 80) -> Tensor:
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 6))
    V += rng.normal(size=(N, 6)) * np.array([0.3, 0.3, 0.3, 0.3, 0.8, 0.8])
    return torch.as_tensor(V - V.mean(0))


def everywhere(V: Tensor) -> Tensor:
    return torch.ones_like(V, dtype=torch.bool)


def some_model() -> GroupedLinearGaussian:
    rng = np.random.default_rng(3)
    noise = torch.tensor([0.2, 0.2, 0.2, 0.2, 0.7, 0.7]).double()
    return GroupedLinearGaussian(
        torch.as_tensor(rng.normal(size=(6, 2))), torch.as_tensor(rng.normal(size=6)), noise
    )


def test_with_one_group_it_is_ppca_in_closed_form() -> None:
    V = rows()
    model, converged = fit_grouped_linear_gaussian(
        V, everywhere(V), torch.zeros(6, dtype=torch.long), 2, max_iter=2000, tolerance=1e-12
    )
    assert converged
    values, vectors = np.linalg.eigh(V.numpy().T @ V.numpy() / len(V))
    noise = values[:4].mean()
    covariance = noise * np.eye(6) + vectors[:, 4:] * (values[4:] - noise) @ vectors[:, 4:].T
    found = (model.weights @ model.weights.T + torch.diag(model.noise)).numpy()
    np.testing.assert_allclose(found, covariance, atol=1e-5)
    np.testing.assert_allclose(model.offset.numpy(), 0, atol=1e-8)


def test_inference_is_that_of_the_dense_gaussian() -> None:
    model, V = some_model(), rows(1, 5)
    observed = torch.as_tensor(np.random.default_rng(1).random(V.shape) > 0.4)
    observed[0] = True
    observed[1] = False
    found = model.infer(V, observed)
    W, mu, noise = (part.numpy() for part in (model.weights, model.offset, model.noise))
    for n in range(5):
        seen = observed[n].numpy()
        C = W[seen] @ W[seen].T + np.diag(noise[seen])
        away = V[n].numpy()[seen] - mu[seen]
        mean = W[seen].T @ np.linalg.solve(C, away) if seen.any() else np.zeros(2)
        np.testing.assert_allclose(found.mean[n].numpy(), mean, atol=1e-10)
        covariance = np.eye(2) - W[seen].T @ np.linalg.solve(C, W[seen])
        np.testing.assert_allclose(found.covariance[n].numpy(), covariance, atol=1e-10)
        density = multivariate_normal(mu[seen], C).logpdf(V[n].numpy()[seen]) if seen.any() else 0
        assert float(found.log_density[n]) == pytest.approx(density, abs=1e-10)


@pytest.mark.parametrize("gaps", [False, True])
def test_no_step_lowers_the_likelihood_and_it_ends_at_a_maximum(gaps: bool) -> None:
    V = rows(2)
    observed = everywhere(V)
    if gaps:
        observed = torch.as_tensor(np.random.default_rng(0).random(V.shape) > 0.2)
    V = torch.where(observed, V, 0.0)
    reached: list[float] = []

    def callback(iteration: int, value: float) -> bool:
        reached.append(value)
        return False

    model, _ = fit_grouped_linear_gaussian(
        V, observed, GROUPS, 2, max_iter=3000, tolerance=1e-11, callback=callback
    )
    assert (np.diff(reached) > -1e-9).all()
    shared = torch.stack([model.noise[0], model.noise[4]])
    assert float(shared[1]) > 2 * float(shared[0])
    parts = [part.clone().requires_grad_() for part in (model.weights, model.offset, shared)]
    at = GroupedLinearGaussian(parts[0], parts[1], parts[2][GROUPS])
    slopes = torch.autograd.grad(at.infer(V, observed).log_density.sum(), parts)
    assert max(float(slope.abs().max()) for slope in slopes) < 0.05
    assert float(at.infer(V, observed).log_density.sum().detach()) == pytest.approx(
        reached[-1], abs=1e-6
    )


def test_a_rotation_leaves_the_covariance() -> None:
    model = some_model()
    turned = model.rotated()
    torch.testing.assert_close(turned.weights @ turned.weights.T, model.weights @ model.weights.T)
    scaled = turned.scaled.weights
    off = (scaled.T @ scaled)[0, 1]
    assert float(off.abs()) < 1e-10


def test_the_callback_stops_the_steps() -> None:
    V = rows()
    steps: list[int] = []

    def callback(iteration: int, value: float) -> bool:
        steps.append(iteration)
        return iteration == 2

    _, converged = fit_grouped_linear_gaussian(
        V, everywhere(V), GROUPS, 2, max_iter=100, tolerance=0, callback=callback
    )
    assert steps == [0, 1, 2]
    assert not converged
