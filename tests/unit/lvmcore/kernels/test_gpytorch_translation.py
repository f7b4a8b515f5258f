"""Kernels of gpytorch keep their values as kernel expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lvmcore.errors import UnsupportedError
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.kernels.gpytorch_translation import translated_kernel

K = gpytorch_kernels
COLUMNS = ("a", "b", "c")
MADE: dict[str, Callable[[], Any]] = {
    "rbf": lambda: K().RBFKernel(),
    "rbf(b, a)": lambda: K().RBFKernel(ard_num_dims=2, active_dims=(1, 0)),
    "matern52": lambda: K().MaternKernel(ard_num_dims=3),
    "matern32(c)": lambda: K().MaternKernel(nu=1.5, active_dims=(2,)),
    "matern12": lambda: K().MaternKernel(nu=0.5),
    "linear": lambda: K().LinearKernel(ard_num_dims=3),
    "linear(a, b)": lambda: K().LinearKernel(active_dims=(0, 1)),
    "constant": lambda: K().ConstantKernel(),
    "periodic": lambda: K().PeriodicKernel(),
    "periodic(b, c)": lambda: K().PeriodicKernel(ard_num_dims=2, active_dims=(1, 2)),
    "cosine(b)": lambda: K().CosineKernel(active_dims=(1,)),
    "rational_quadratic": lambda: K().RQKernel(ard_num_dims=3),
    "polynomial(degree=3)": lambda: K().PolynomialKernel(power=3),
    "piecewise_polynomial(a, smoothness=1)": lambda: K().PiecewisePolynomialKernel(
        q=1, active_dims=(0,)
    ),
    "spectral_mixture(a, c, n=3)": lambda: K().SpectralMixtureKernel(
        num_mixtures=3, ard_num_dims=2, active_dims=(0, 2)
    ),
    "rbf + linear(b)": lambda: (
        K().ScaleKernel(K().RBFKernel()) + K().LinearKernel(active_dims=(1,))
    ),
    "rbf(a) * periodic(b) * (linear + matern52)": lambda: (
        K().ScaleKernel(K().RBFKernel(active_dims=(0,)))
        * K().PeriodicKernel(active_dims=(1,))
        * K().ScaleKernel(K().ScaleKernel(K().LinearKernel()) + K().ScaleKernel(K().MaternKernel()))
    ),
    "rbf(c) + periodic(b, a) * linear(c)": lambda: (
        K().ScaleKernel(K().RBFKernel(active_dims=(2,)))
        + K().ScaleKernel(K().ScaleKernel(K().PeriodicKernel(active_dims=(1, 0))))
        * K().ScaleKernel(K().LinearKernel(active_dims=(2,)))
    ),
    "rbf(c, a) + constant(b)": lambda: K().ScaleKernel(
        K().AdditiveKernel(
            K().RBFKernel(active_dims=(1, 0), ard_num_dims=2),
            K().ConstantKernel(active_dims=(2,)),
        ),
        active_dims=(0, 2, 1),
    ),
}


def rows(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("text", MADE)
def test_a_translated_kernel_has_the_same_values(text: str) -> None:
    theirs = MADE[text]().double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in theirs.parameters():
            step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(step, alpha=0.3)
    scales = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    found = translated_kernel(theirs, COLUMNS, scales)
    assert str(found.expression) == text
    stored = CompositeKernel(read_kernel(text), COLUMNS, scales)  # as from a file
    stored.load_state_dict(found.state_dict())
    X, X2 = rows(9, 0), rows(5, 1)
    with torch.no_grad():
        expected = theirs(X, X2).to_dense()
        for kernel in (found, stored):
            torch.testing.assert_close(kernel(X, X2), expected, rtol=0, atol=1e-9)
            torch.testing.assert_close(kernel.diagonal(X), theirs(X, diag=True), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (lambda: K().ArcKernel(K().MaternKernel()), "ArcKernel of gpytorch cannot be stored"),
        (lambda: K().RBFKernel(batch_shape=torch.Size([2])), r"batch of \(2,\)"),
        (lambda: K().RBFKernel() + K().CylindricalKernel(3, K().RBFKernel()), "CylindricalKernel"),
        (lambda: K().PolynomialKernel(power=1), "degree=1"),
        (lambda: K().CosineKernel(), "one column"),
    ],
)
def test_a_kernel_without_a_counterpart_is_named(theirs: Callable[[], Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        translated_kernel(theirs(), COLUMNS, torch.ones(3, dtype=torch.float64))


def test_a_subclass_with_values_of_its_own_is_not_taken_for_its_base() -> None:
    class RBFKernel(K().RBFKernel):  # type: ignore[misc]
        """A kernel of the same name."""

    with pytest.raises(UnsupportedError, match="RBFKernel of gpytorch cannot be stored"):
        translated_kernel(RBFKernel(), COLUMNS, torch.ones(3, dtype=torch.float64))
