"""Random features against the kernels they stand for, and by finite differences."""

import numpy as np
import torch

from lvmcore.random_features.fourier import RandomFourierFeatures


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def error(n_points: int, draws: int = 40) -> float:
    """Root mean square error of the features' kernel against the RBF of lengthscales 1 and 1/2."""
    X = normal(20, 2, seed=1)
    sd = torch.tensor([1.0, 2.0], dtype=torch.float64)
    exact = torch.exp(-0.5 * ((X[:, None] - X) * sd).square().sum(-1))
    squares = []
    for draw in range(draws):
        Phi = RandomFourierFeatures(
            sd * normal(n_points, 2, seed=100 + draw), torch.ones(()).double()
        )(X)
        squares.append((Phi @ Phi.T - exact).square().mean())
    return float(torch.stack(squares).mean().sqrt())


def test_the_kernel_of_one_gaussian_component_is_rbf_and_the_error_falls_as_one_over_root_r() -> (
    None
):
    errors = np.array([error(n) for n in (25, 100, 400, 1600)])
    assert errors[-1] < 0.03
    slope = np.polyfit(np.log([25, 100, 400, 1600]), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.1


def test_an_offset_adds_a_constant() -> None:
    features = RandomFourierFeatures(normal(3, 2, seed=0), torch.tensor(1.5).double(), offset=2.0)
    X = normal(5, 2, seed=1)
    Phi = features(X)
    assert Phi.shape == (5, 7)
    torch.testing.assert_close((Phi * Phi).sum(1), features.variance.expand(5))
    torch.testing.assert_close(features.variance, torch.tensor(1.5**2 + 4.0).double())


def test_slopes_are_derivatives() -> None:
    features = RandomFourierFeatures(normal(4, 3, seed=2), torch.tensor(0.7).double(), offset=1.0)
    x = normal(3, seed=3)
    expected = torch.autograd.functional.jacobian(features, x)
    torch.testing.assert_close(features.slopes(x[None])[0].T, expected)
