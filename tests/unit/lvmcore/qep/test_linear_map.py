"""The closed linear map of a q-exponential process, against the dense density and its gradient."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.qep.distribution import QExponential
from lvmcore.qep.linear_map import LinearMap, fit_linear_map

N, D, Q = 12, 5, 2
EXPONENTS = [2.0, 1.5, 1.0]


@pytest.fixture
def Y(rng: np.random.Generator) -> Tensor:
    places = rng.standard_normal((N, Q))
    Y = places @ rng.standard_normal((Q, D)) + 0.4 * rng.standard_normal((N, D))
    return torch.as_tensor(Y - Y.mean(0))


def _eigenvalues(Y: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(Y.T @ Y).flip(0)


def _positions(Y: Tensor, found: LinearMap) -> Tensor:
    U = torch.linalg.svd(Y, full_matrices=False)[0][:, :Q]
    return U * (found.scales - found.noise).sqrt()


def _density(Y: Tensor, X: Tensor, noise: Tensor | float, q: float) -> Tensor:
    """log p of the whole block, by the scale matrix of all N D cells."""
    K = X @ X.T + noise * torch.eye(N, dtype=Y.dtype)
    whole = torch.block_diag(*[K] * D)
    cells = Y.T.reshape(-1)
    return QExponential.from_matrix(torch.zeros_like(cells), whole, q).log_prob(cells)


@pytest.mark.parametrize("noise", [None, 0.05, 0.6])
@pytest.mark.parametrize("q", EXPONENTS)
def test_the_density_is_that_of_the_whole_block_and_its_gradient_is_zero(
    Y: Tensor, q: float, noise: float | None
) -> None:
    found = fit_linear_map(_eigenvalues(Y), N, D, Q, q, noise)
    X = _positions(Y, found).requires_grad_()
    variance = torch.tensor(found.noise, dtype=Y.dtype, requires_grad=True)
    dense = _density(Y, X, variance, q)
    assert float(dense.detach()) == pytest.approx(found.log_density, rel=1e-9)
    along, by_noise = torch.autograd.grad(dense, (X, variance))
    np.testing.assert_allclose(along, 0, atol=1e-4)
    if noise is None:
        assert abs(float(by_noise)) < 1e-6 * N * D / found.noise


def _climbed(
    Y: Tensor, X: Tensor, log_noise: Tensor, q: float, optimiser: torch.optim.LBFGS
) -> float:
    """The density at which an optimiser ends."""

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = -_density(Y, X, log_noise.exp(), q)
        value.backward()
        return value

    optimiser.step(loss)
    return -float(loss().detach())


@pytest.mark.parametrize("noise", [None, 0.05])
@pytest.mark.parametrize("q", EXPONENTS)
def test_no_start_of_an_optimiser_ends_higher(Y: Tensor, q: float, noise: float | None) -> None:
    found = fit_linear_map(_eigenvalues(Y), N, D, Q, q, noise)
    ends = []
    for seed in range(3):
        start = np.random.default_rng(seed).standard_normal((N, Q))
        X = torch.as_tensor(math.sqrt(float(found.scales[0]) / N) * start).requires_grad_()
        log_noise = torch.tensor(math.log(found.noise * 2 if noise is None else noise)).double()
        log_noise.requires_grad_(noise is None)
        trained = [X] + [log_noise] * (noise is None)
        optimiser = torch.optim.LBFGS(
            trained, max_iter=400, line_search_fn="strong_wolfe", tolerance_change=1e-13
        )

        ends.append(_climbed(Y, X, log_noise, q, optimiser))
    assert max(ends) == pytest.approx(found.log_density, abs=1e-4)


def test_q_only_scales_a_map_whose_noise_is_learned(Y: Tensor) -> None:
    gaussian = fit_linear_map(_eigenvalues(Y), N, D, Q, 2.0)
    for q in (1.5, 1.0, 0.5):
        found = fit_linear_map(_eigenvalues(Y), N, D, Q, q)
        scale = (N * D) ** (1 - 2 / q)
        np.testing.assert_allclose(found.scales, scale * gaussian.scales)
        assert found.noise == pytest.approx(scale * gaussian.noise)
        assert found.square == pytest.approx((N * D) ** (2 / q))
        expected = gaussian.log_density + math.log(q / 2)
        assert found.log_density == pytest.approx(expected, rel=1e-9)


def test_the_constant_of_the_theorem_where_no_eigenvalue_is_discarded() -> None:
    """c = [q k^{q/2} / (2 D k + (q − 2) N D)]^{2/q} for k = D = Q and N < 2 k/(2 − q)."""
    rng, n, d, q, noise = np.random.default_rng(4), 9, 4, 1.7, 1e-3
    Y = torch.as_tensor(rng.standard_normal((n, d)))
    eigenvalues = _eigenvalues(Y)
    found = fit_linear_map(eigenvalues, n, d, d, q, noise)
    c = (q * d ** (q / 2) / (2 * d * d + (q - 2) * n * d)) ** (2 / q)
    np.testing.assert_allclose(found.scales, c * eigenvalues, rtol=1e-6)
