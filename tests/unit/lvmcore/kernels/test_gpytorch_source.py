"""The source of a kernel makes the kernel of gpytorch with the same values."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lvmcore.kernels.catalogue import KERNEL_TYPES, read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.kernels.gpytorch_source import DENSE_LINEAR, composite_source, stationary_source
from lvmcore.kernels.stationary import RBF

COLUMNS = ("a", "b", "c")
NAMES = [f"{name}(b)" for name in KERNEL_TYPES]
NAMES += [name for name, kind in KERNEL_TYPES.items() if not kind.one_column]
COMPOSED = [
    "rbf(a) + linear(b, c) * periodic(c)",
    "linear * linear(b) + constant",
    "rbf * (linear + matern32(c, a) * polynomial(b, degree=3)) + piecewise_polynomial",
    "spectral_mixture(a, b, n=2) * rational_quadratic + cosine(c) + matern12",
]


def rows(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=generator, dtype=torch.float64)


def random_kernel(text: str) -> CompositeKernel:
    kernel = CompositeKernel(read_kernel(text), COLUMNS, torch.ones(3, dtype=torch.float64))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in kernel.parameters():
            if parameter.requires_grad:
                step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(step, alpha=0.3)
    return kernel


@pytest.mark.parametrize("text", [*NAMES, *COMPOSED])
def test_the_source_makes_the_same_kernel(text: str) -> None:
    gpytorch_kernels()
    import gpytorch

    kernel = random_kernel(text)
    found = composite_source(kernel)
    names: dict[str, Any] = {"gpytorch": gpytorch, "torch": torch}
    exec(DENSE_LINEAR, names)
    made = eval(found.source, names).double()
    made.load_state_dict(found.module.state_dict())
    X, X2 = rows(9, 0), rows(5, 1)
    with torch.no_grad():
        for first, second in ((X, X2), (X, X)):
            expected = kernel(first, second)
            torch.testing.assert_close(made(first, second).to_dense(), expected, rtol=0, atol=1e-7)
        diagonal = made(X, X, diag=True)
        torch.testing.assert_close(diagonal, kernel.diagonal(X), rtol=0, atol=1e-7)


def test_a_stationary_kernel_has_its_variance_and_lengthscales() -> None:
    v, scales = torch.tensor(2.5).double(), torch.tensor([0.3, 1.0, 4.0]).double()
    found = stationary_source("rbf", v, scales)
    X, X2 = rows(9, 0), rows(5, 1)
    expected = RBF(v, scales)(X, X2)
    torch.testing.assert_close(found.module(X, X2).to_dense().detach(), expected)
