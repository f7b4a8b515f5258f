"""Covariance functions against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import kernels as sk

from lvmcore.kernels.stationary import RBF, Linear
from tests.unit.lvmcore.small_problems import small_problem


def test_rbf_is_that_of_scikit_learn() -> None:
    p = small_problem(Q=3)
    kernel = p.rbf
    theirs = sk.ConstantKernel(float(kernel.variance)) * sk.RBF(kernel.lengthscales.numpy())
    expected = theirs(p.mean.numpy(), p.Z.numpy())
    np.testing.assert_allclose(kernel(p.mean, p.Z).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(p.mean).numpy(), theirs.diag(p.mean.numpy()))


def test_linear_is_a_scaled_dot_product() -> None:
    p = small_problem(Q=3)
    kernel = p.linear
    root = kernel.variances.sqrt().numpy()
    theirs = sk.DotProduct(sigma_0=0)
    X, Z = p.mean.numpy() * root, p.Z.numpy() * root
    np.testing.assert_allclose(kernel(p.mean, p.Z).numpy(), theirs(X, Z), rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(p.mean).numpy(), theirs.diag(X), rtol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_rbf_depends_on_differences_alone(offset: float) -> None:
    p = small_problem()
    torch.testing.assert_close(
        p.rbf(p.mean + offset, p.Z + offset), p.rbf(p.mean, p.Z), rtol=1e-8, atol=1e-12
    )


def test_rbf_of_a_point_with_itself_is_at_most_the_variance() -> None:
    p = small_problem()
    K = p.rbf(p.mean, p.mean)
    assert float(K.max()) <= float(p.rbf.variance)
    torch.testing.assert_close(K.diagonal(), p.rbf.diagonal(p.mean), rtol=1e-12, atol=0)


def test_relevance() -> None:
    kernel = RBF(torch.tensor(2.0), torch.tensor([0.5, 2.0]))
    assert kernel.relevance.tolist() == [4.0, 0.25]
    assert Linear(torch.tensor([3.0, 0.1])).relevance.tolist() == pytest.approx([3.0, 0.1])
