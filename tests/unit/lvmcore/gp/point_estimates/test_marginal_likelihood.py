"""Exact and sparse densities against the Gaussian's own, one another, and differences."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from lvmcore.gp.point_estimates.marginal_likelihood import (
    Approximation,
    exact_log_likelihood,
    exact_posterior,
    sparse_log_likelihood,
    sparse_posterior,
)
from lvmcore.kernels.stationary import RBF
from tests.unit.lvmcore.small_problems import Small, small_problem

SPARSE: list[Approximation] = ["dtc", "fitc", "vfe"]
NOISE = torch.tensor(0.15, dtype=torch.float64)


@pytest.fixture
def p() -> Small:
    return small_problem(N=12, D=3, Q=2, M=5)


def by_scipy(covariance: Tensor, Y: Tensor) -> float:
    normal = multivariate_normal(np.zeros(len(Y)), covariance.numpy())
    return float(sum(normal.logpdf(column) for column in Y.numpy().T))


def nystrom(p: Small) -> Tensor:
    """Q = K_fu K_uu⁻¹ K_uf, by a solve."""
    Kuf = p.rbf(p.Z, p.mean)
    return Kuf.T @ torch.linalg.solve(p.rbf(p.Z, p.Z), Kuf)


def test_the_exact_density_is_that_of_the_normal_distribution(p: Small) -> None:
    K = p.rbf(p.mean, p.mean)
    expected = by_scipy(K + NOISE * torch.eye(12).double(), p.Y)
    assert float(exact_log_likelihood(K, NOISE, p.Y)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("how", SPARSE)
def test_a_sparse_density_is_that_of_its_covariance(how: Approximation, p: Small) -> None:
    K, Q = p.rbf(p.mean, p.mean), nystrom(p)
    left = (K - Q).diagonal()
    covariance = Q + NOISE * torch.eye(12).double() + (torch.diag(left) if how == "fitc" else 0)
    expected = by_scipy(covariance, p.Y)
    if how == "vfe":
        expected -= 3 * float(left.sum() / (2 * NOISE))
    found = sparse_log_likelihood(p.rbf, p.Z, p.mean, NOISE, p.Y, how)
    assert float(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("how", SPARSE)
def test_with_the_rows_as_inducing_inputs_it_is_exact(how: Approximation, p: Small) -> None:
    exact = exact_log_likelihood(p.rbf(p.mean, p.mean), NOISE, p.Y)
    found = sparse_log_likelihood(p.rbf, p.mean, p.mean, NOISE, p.Y, how)
    assert float(found) == pytest.approx(float(exact), rel=1e-5)


def test_vfe_is_a_lower_bound_for_any_inducing_inputs_and_fitc_is_none() -> None:
    above = 0
    for seed in range(30):
        p = small_problem(N=12, D=3, M=4, seed=seed)
        Z = torch.as_tensor(np.random.default_rng(seed).normal(size=(4, 2)))
        exact = float(exact_log_likelihood(p.rbf(p.mean, p.mean), NOISE, p.Y))
        values = {
            how: float(sparse_log_likelihood(p.rbf, Z, p.mean, NOISE, p.Y, how)) for how in SPARSE
        }
        assert values["vfe"] <= exact + 1e-6
        assert values["vfe"] <= values["dtc"] + 1e-9
        above += values["fitc"] > exact
    assert above > 0


@pytest.mark.parametrize("how", ["exact", *SPARSE])
def test_gradients_are_those_of_differences(how: Approximation, p: Small) -> None:
    """By positions, inducing inputs, lengthscales, variance and noise."""

    def value(X: Tensor, Z: Tensor, logs: Tensor) -> Tensor:
        kernel, noise = RBF(logs[0].exp(), logs[1:3].exp()), logs[3].exp()
        if how == "exact":
            return exact_log_likelihood(kernel(X, X), noise, p.Y)
        return sparse_log_likelihood(kernel, Z, X, noise, p.Y, how)

    logs = torch.tensor([0.2, -0.1, 0.3, -1.5], dtype=torch.float64)
    inputs = [part.clone().requires_grad_() for part in (p.mean, p.Z, logs)]
    assert torch.autograd.gradcheck(value, inputs, atol=1e-5, rtol=1e-4)


def test_the_gradient_by_the_covariance_is_the_closed_form(p: Small) -> None:
    K = p.rbf(p.mean, p.mean).requires_grad_()
    (found,) = torch.autograd.grad(exact_log_likelihood(K, NOISE, p.Y), K)
    inverse = torch.linalg.inv(K.detach() + NOISE * torch.eye(12).double())
    expected = 0.5 * (inverse @ p.Y @ p.Y.T @ inverse - 3 * inverse)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("how", ["exact", *SPARSE])
def test_posteriors_are_those_of_the_joint_gaussian(how: Approximation, p: Small) -> None:
    """Mean and variance at new points, by conditioning with dense solves."""
    new = torch.as_tensor(np.random.default_rng(5).normal(size=(4, 2)))
    k, Ks = p.rbf.diagonal(new), p.rbf(p.mean, new)
    if how == "exact":
        A = p.rbf(p.mean, p.mean) + NOISE * torch.eye(12).double()
        mean = Ks.T @ torch.linalg.solve(A, p.Y)
        variance = k - (Ks * torch.linalg.solve(A, Ks)).sum(0)
        one, Z = exact_posterior(p.rbf(p.mean, p.mean), NOISE, p.Y), p.mean
    else:
        Kuf, Kuu = p.rbf(p.Z, p.mean), p.rbf(p.Z, p.Z)
        left = (p.rbf(p.mean, p.mean) - nystrom(p)).diagonal()
        diagonal = NOISE + (left if how == "fitc" else torch.zeros(12))
        S = Kuu + (Kuf / diagonal) @ Kuf.T
        ku = p.rbf(p.Z, new)
        mean = ku.T @ torch.linalg.solve(S, (Kuf / diagonal) @ p.Y)
        variance = k - (ku * (torch.linalg.inv(Kuu) @ ku - torch.linalg.solve(S, ku))).sum(0)
        one, Z = sparse_posterior(p.rbf, p.Z, p.mean, NOISE, p.Y, how), p.Z
    K = p.rbf(new, Z)
    torch.testing.assert_close(K @ one.weights, mean, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        k - (K @ one.basis).square() @ one.shrinkage, variance, atol=1e-5, rtol=1e-5
    )
