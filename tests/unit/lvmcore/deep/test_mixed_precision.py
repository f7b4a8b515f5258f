"""Mixed precision of a deep layer: rows in single, factorisations in double."""

import pytest
import torch

from lvmcore.deep.layer_kernel import (
    MIXED_JITTER,
    LayerKernel,
    StationaryLayerKernel,
    whitened_moments,
)
from lvmcore.kernels.stationary import StationaryName


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def layer_kernel(kernel: StationaryName = "rbf", *, mixed: bool) -> LayerKernel:
    lengthscales, variance = torch.full((3,), 1.5).double(), torch.tensor(2.0).double()
    return StationaryLayerKernel.from_inputs(
        variance, lengthscales, drawn(30, 3), kernel=kernel, mixed=mixed
    )


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
def test_covariances_of_rows_are_those_of_double_to_single_precision(
    kernel: StationaryName,
) -> None:
    X = 3 * drawn(200, 3, seed=1)
    double, mixed = (layer_kernel(kernel, mixed=one).cross(X) for one in (False, True))
    assert mixed.dtype == torch.float64
    assert torch.equal(mixed, mixed.float().double())
    assert float((mixed - double).abs().max()) < 1e-6


def test_moments_are_those_of_whitened_rows() -> None:
    """Beside a dense computation in double with the same jitter."""
    found = layer_kernel(mixed=True)
    k = found.cross(drawn(200, 3, seed=1))
    mean, root = drawn(4, 30, seed=2), 0.5 * torch.linalg.qr(drawn(30, 30, seed=3))[0].tril()[None]
    a = torch.linalg.inv(found.C) @ k
    product, form = whitened_moments(found, k, mean, root)
    assert product.dtype == form.dtype == torch.float64
    expected = a.square().sum(0) - (root[0] @ a).square().sum(0)
    assert float((product - mean @ a).abs().max()) < 2e-3
    assert float((form[0] - expected).abs().max()) < 2e-4
    usual = whitened_moments(layer_kernel(mixed=False), k, mean, root)[1]
    assert float((form - usual).abs().max()) < 1e-3  # the jitter is another one


def test_a_product_with_the_inverse_in_single_would_lose_the_variance() -> None:
    """Why rows are whitened: the same form by K⁻¹ has an error a hundred times as large."""
    found = layer_kernel(mixed=True)
    k = found.cross(0.5 * drawn(200, 3, seed=1))
    exact = (torch.linalg.inv(found.C) @ k).square().sum(0)
    whitened = whitened_moments(found, k, drawn(1, 30))[1][0]
    inverse = ((found.precision.float() @ k.float()) * k.float()).sum(0).double()
    ours, theirs = (float((one - exact).abs().max()) for one in (whitened, inverse))
    assert ours < 1e-4
    assert theirs > 10 * ours


def test_the_gradient_is_close_to_that_of_double() -> None:
    X, mean = drawn(100, 3, seed=1), drawn(2, 30, seed=2)

    def gradient(*, mixed: bool) -> torch.Tensor:
        Z = drawn(30, 3).requires_grad_()
        scale = torch.ones(3, dtype=torch.float64)
        made = StationaryLayerKernel.from_inputs(scale.sum() / 3, scale, Z, mixed=mixed)
        product, form = whitened_moments(made, made.cross(X), mean)
        found: torch.Tensor = torch.autograd.grad(product.sum() - form.sum(), Z)[0]
        return found

    double, mixed = (gradient(mixed=one) for one in (False, True))
    assert mixed.dtype == torch.float64
    assert float((mixed - double).norm()) < 2e-3 * float(double.norm())


def test_the_jitter_is_in_the_matrix() -> None:
    found = layer_kernel(mixed=True)
    K = found.C @ found.C.mT
    assert float((K.diagonal() - 2.0 * (1 + MIXED_JITTER)).abs().max()) < 1e-12
