"""Stochastic-gradient Hamiltonian Monte Carlo on Gaussians, whose draws are known."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.mcmc.sghmc_sampler import SGHMCSampler
from tests.unit.lvmcore.deep.small_models import generator

M = 3


def gaussian(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Mean [M] and precision [M, M], of curvatures from 0.5 to 12."""
    g = generator(seed)
    Q = torch.linalg.qr(torch.randn(M, M, generator=g, dtype=torch.float64)).Q
    values = torch.tensor([0.5, 3.0, 12.0], dtype=torch.float64)
    return torch.randn(M, generator=g, dtype=torch.float64), (Q * values) @ Q.T


def chain_of(units: int, *, step_size: float = 0.3, seed: int = 1) -> SGHMCSampler:
    start = torch.zeros(units, M, dtype=torch.float64)
    return SGHMCSampler(start, generator(seed), step_size=step_size, friction=0.1)


def settled_covariance(chain: SGHMCSampler, precision: Tensor, noise: float) -> Tensor:
    """Of (u, v) under the step's linear map with gradients of variance ``noise``, [2M, 2M].

    The step is applied to unit vectors, and the Lyapunov equation is solved for its noise.
    """
    eye, zero = torch.eye(M).double(), torch.zeros(M, M).double()
    epsilon, c = chain.step_size, chain.kept
    m = chain.inverse_mass[0]
    s = (1 - c**2) * epsilon**2 * m - c**2 * epsilon**4 * m.square() * noise
    kick = torch.cat([torch.cat([eye, zero], 1), torch.cat([-(epsilon**2) * precision, eye], 1)])
    move = torch.cat([torch.cat([eye, 0.5 * eye], 1), torch.cat([zero, eye], 1)])
    rub = torch.cat([torch.cat([eye, zero], 1), torch.cat([zero, c * eye], 1)])
    A = move @ rub @ move @ kick
    of_gradient = move @ rub @ move @ torch.cat([zero, -(epsilon**2) * m.diag()])
    of_friction = move @ torch.cat([zero, s.sqrt().diag()])
    Q = noise * of_gradient @ of_gradient.T + of_friction @ of_friction.T
    solved = torch.linalg.solve(torch.eye(4 * M * M) - torch.kron(A, A), Q.reshape(-1))
    return solved.reshape(2 * M, 2 * M)


@pytest.mark.parametrize("step_size", [0.05, 0.3, 0.5])
def test_the_settled_draws_of_a_gaussian_are_exact(step_size: float) -> None:
    _, precision = gaussian()
    chain = chain_of(1, step_size=step_size)
    found = settled_covariance(chain, precision, 0.0)[:M, :M]
    torch.testing.assert_close(found, torch.linalg.inv(precision), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_many_chains_have_the_settled_mean_and_covariance(noise: float) -> None:
    """Each of 4000 chains, 200 steps from one place, gradients with noise of known variance."""
    mean, precision = gaussian()
    chain, g = chain_of(4000), generator(2)
    chain.noise.fill_(noise)
    for _ in range(200):
        own = torch.randn(4000, M, generator=g, dtype=torch.float64)
        chain.step((chain.position - mean) @ precision + noise**0.5 * own)
    wanted = settled_covariance(chain, precision, noise)[:M, :M]
    found = chain.position
    error = 5 * (wanted.diagonal() / len(found)).sqrt()
    assert ((found.mean(0) - mean).abs() < error).all()
    scale = (wanted.diagonal()[:, None] * wanted.diagonal()).sqrt()
    torch.testing.assert_close(found.T.cov() / scale, wanted / scale, rtol=0, atol=0.1)
    # Noise in a gradient is made up for, but for what a step of finite length leaves.
    exact = torch.linalg.inv(precision)
    torch.testing.assert_close(wanted / scale, exact / scale, rtol=0, atol=0.1 * noise + 1e-9)


def test_noise_that_is_not_made_up_for_widens_the_draws() -> None:
    """The correction is needed: without it the same gradients give too large a variance."""
    mean, precision = gaussian()
    found = []
    for known in (True, False):
        chain, g = chain_of(4000), generator(2)
        chain.noise.fill_(1.5 if known else 0.0)
        for _ in range(200):
            own = torch.randn(4000, M, generator=g, dtype=torch.float64)
            chain.step((chain.position - mean) @ precision + 1.5**0.5 * own)
        found.append(float((chain.position.T.cov() @ precision).trace()) / M)
    assert abs(found[0] - 1) < 0.5 * abs(found[1] - 1)


def test_a_shaped_chain_takes_every_direction_alike() -> None:
    """With L Lᵀ the inverse precision, curvatures of 1e6 and 1 settle in the same few steps."""
    values = torch.tensor([1.0, 1e3, 1e6], dtype=torch.float64)
    chain = chain_of(4000)
    chain.set_preconditioner(values.diag().expand(4000, M, M))
    for _ in range(60):
        chain.step(chain.position * values)
    torch.testing.assert_close(
        chain.position.var(0) * values, torch.ones(M).double(), rtol=0.15, atol=0
    )


def test_the_factor_is_one_of_the_inverse_curvature() -> None:
    _, precision = gaussian()
    chain = chain_of(2)
    chain.set_preconditioner(torch.stack([precision, 2 * precision]))
    wanted = torch.linalg.inv(precision)
    for factor, own in zip(chain.factor, (wanted, 0.5 * wanted), strict=True):
        torch.testing.assert_close(factor @ factor.T, own)


def test_the_noise_is_that_of_pairs_of_gradients() -> None:
    """Half the mean square difference, in the coordinates of the chain."""
    _, precision = gaussian()
    chain, g = chain_of(500), generator(3)
    chain.set_preconditioner(precision.expand(500, M, M))
    sd = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    for _ in range(300):
        one, other = (
            7.0 + sd * torch.randn(500, M, generator=g, dtype=torch.float64) for _ in range(2)
        )
        chain.update_gradient_noise(one, other)
    L = chain.factor[0]
    wanted = (L.T @ sd.square().diag() @ L).diagonal()
    np.testing.assert_allclose(chain.noise.mean(0), wanted, rtol=0.02)


def test_masses_follow_the_variance_of_gradients() -> None:
    """A long window where they have no direction, a short one where they have one."""
    chain, g = chain_of(400), generator(4)
    for _ in range(600):
        chain.update_masses(4.0 * torch.randn(400, M, generator=g, dtype=torch.float64))
    np.testing.assert_allclose((1 / chain.inverse_mass).mean(0), 16.0, rtol=0.05)
    assert (chain.window > 100).double().mean() > 0.9
    for _ in range(150):
        chain.update_masses(30.0 + 2.0 * torch.randn(400, M, generator=g, dtype=torch.float64))
    assert (chain.window < 20).all()
    np.testing.assert_allclose(chain.square.mean(0), 904.0, rtol=0.05)
    np.testing.assert_allclose((1 / chain.inverse_mass).mean(0), 4.0, rtol=0.1)
    before = chain.mean.clone()
    chain.update_gradient_noise(before, before + 1.0)
    chain.reset_averages()
    chain.update_gradient_noise(before, before)
    assert float(chain.noise.abs().max()) == 0.0
