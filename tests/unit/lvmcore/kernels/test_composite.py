"""Composed kernels, against scikit-learn's and gpytorch's own and sums written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import kernels as sk
from torch import Tensor

from lvmcore.kernels.catalogue import KERNEL_TYPES, read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.gpytorch_components import gpytorch_kernels

COLUMNS = ("a", "b", "c")


@pytest.fixture
def X() -> Tensor:
    return torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def X2() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def kernel(text: str, columns: tuple[str, ...] = COLUMNS) -> CompositeKernel:
    """A kernel at random parameters."""
    scales = torch.ones(len(columns), dtype=torch.float64)
    found = CompositeKernel(read_kernel(text), columns, scales)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in found.parameters():
            if parameter.requires_grad:
                step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(step, alpha=0.3)
    return found


def number(value: Tensor) -> float:
    return float(value.detach())


def scales_of(found: CompositeKernel) -> np.ndarray[Any, Any]:
    component: Any = found.only_component
    return component.log_lengthscales.detach().exp().numpy()


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("rbf", sk.RBF),
        ("matern52", lambda scales: sk.Matern(scales, nu=2.5)),
        ("matern32", lambda scales: sk.Matern(scales, nu=1.5)),
        ("matern12", lambda scales: sk.Matern(scales, nu=0.5)),
    ],
)
def test_stationary_kernels_are_those_of_scikit_learn(
    X: Tensor, X2: Tensor, name: str, theirs: Any
) -> None:
    found = kernel(name)
    expected = theirs(scales_of(found))(X.numpy(), X2.numpy())
    v = number(found.summands[0].variance)
    np.testing.assert_allclose(found(X, X2).detach().numpy(), v * expected, rtol=1e-10)


def test_other_kernels_are_those_of_scikit_learn(X: Tensor, X2: Tensor) -> None:
    x, x2 = X[:, :1].numpy(), X2[:, :1].numpy()
    periodic: Any = kernel("periodic(a)").only_component.kernel
    # scikit-learn's ℓ² is gpytorch's ℓ.
    theirs = sk.ExpSineSquared(
        math.sqrt(number(periodic.lengthscale)), number(periodic.period_length)
    )
    np.testing.assert_allclose(
        periodic(X[:, :1], X2[:, :1]).to_dense().detach().numpy(), theirs(x, x2), rtol=1e-10
    )
    quadratic: Any = kernel("rational_quadratic(a)").only_component.kernel
    theirs = sk.RationalQuadratic(number(quadratic.lengthscale), number(quadratic.alpha))
    np.testing.assert_allclose(
        quadratic(X[:, :1], X2[:, :1]).to_dense().detach().numpy(), theirs(x, x2), rtol=1e-10
    )
    linear = kernel("linear(a)")
    v = number(linear.summands[0].variance)
    np.testing.assert_allclose(
        linear(X, X2).detach().numpy(), v * sk.DotProduct(0)(x, x2), rtol=1e-10
    )


@pytest.mark.parametrize("name", ["periodic", "rational_quadratic"])
def test_kernels_written_out_are_those_of_gpytorch_whose_parameters_they_have(
    X: Tensor, X2: Tensor, name: str
) -> None:
    """Values and gradients, of one column and of three."""
    for columns in (COLUMNS, COLUMNS[:1]):
        component: Any = kernel(name, columns).only_component
        A, B = X[:, : len(columns)], X2[:, : len(columns)]
        mine, theirs = component(A, B), component.kernel(A, B).to_dense()
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
        weights = torch.randn(mine.shape, generator=torch.Generator().manual_seed(3)).double()
        parameters = list(component.parameters())
        for one, other in zip(
            torch.autograd.grad((mine * weights).sum(), parameters),
            torch.autograd.grad((theirs * weights).sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_stationary_kernels_are_those_of_gpytorch(X: Tensor, X2: Tensor) -> None:
    kernels = gpytorch_kernels()
    for name, made in {
        "rbf": kernels.RBFKernel(ard_num_dims=3),
        "matern52": kernels.MaternKernel(2.5, ard_num_dims=3),
        "matern12": kernels.MaternKernel(0.5, ard_num_dims=3),
    }.items():
        found, theirs = kernel(name), made.double()
        theirs.lengthscale = torch.as_tensor(scales_of(found))
        expected = found.summands[0].variance * theirs(X, X2).to_dense()
        torch.testing.assert_close(found(X, X2), expected, rtol=1e-8, atol=1e-10)


def test_sums_and_products_are_those_written_out(X: Tensor, X2: Tensor) -> None:
    found = kernel("rbf(a) + periodic(b, period=2) * matern12 + linear * (rbf(c, a) + constant)")
    first, second, third = found.summands
    rbf, periodic, matern = (
        first.factors[0].component,  # type: ignore[union-attr]
        *(factor.component for factor in second.factors),  # type: ignore[union-attr]
    )
    linear, inner = third.factors
    assert isinstance(inner, CompositeKernel)
    A, A2 = X[:, :1], X2[:, :1]
    expected = first.variance * rbf(A, A2)
    expected = expected + second.variance * periodic(X[:, 1:2], X2[:, 1:2]) * matern(X, X2)
    bracket = inner.summands[0].factors[0].component(X[:, [2, 0]], X2[:, [2, 0]])  # type: ignore[union-attr]
    bracket = bracket + inner.summands[1].variance
    expected = expected + third.variance * linear.component(X, X2) * bracket  # type: ignore[union-attr]
    torch.testing.assert_close(found(X, X2), expected)
    assert number(inner.summands[0].variance) == 1  # the variance of the product sets its scale
    assert number(periodic.period) == pytest.approx(2)


EVERY = [f"{name}(a)" if kind.one_column else name for name, kind in KERNEL_TYPES.items()]
COMPOSED = "rbf(a) + periodic(b, period=2) * matern12 + linear * (rbf(c) + constant)"


@pytest.mark.parametrize("text", [*EVERY, COMPOSED])
def test_a_kernel_is_symmetric_positive_with_its_diagonal(X: Tensor, text: str) -> None:
    found = kernel(text)
    with torch.no_grad():
        K = found(X, X)
        torch.testing.assert_close(found.diagonal(X), K.diagonal())
    torch.testing.assert_close(K, K.T)
    assert float(torch.linalg.eigvalsh(K).min()) > -1e-10
    assert found.relevance.shape == (3,)
    assert bool((found.relevance >= 0).all())


@pytest.mark.parametrize("text", [*EVERY, COMPOSED])
def test_gradients_are_those_of_differences(X: Tensor, X2: Tensor, text: str) -> None:
    found = kernel(text)
    named = {name: p for name, p in found.named_parameters() if p.requires_grad}

    def value(*parameters: Tensor) -> Tensor:
        given = dict(zip(named, parameters, strict=True))
        return torch.func.functional_call(found, given, (X, X2))

    at = tuple(p.detach().clone().requires_grad_() for p in named.values())
    assert torch.autograd.gradcheck(value, at)


def test_relevance_is_that_of_slopes_for_an_rbf_and_adds_up_over_factors() -> None:
    rbf = kernel("rbf")
    np.testing.assert_allclose(rbf.relevance.detach().numpy(), scales_of(rbf) ** -2)
    product = kernel("rbf(a) * rbf(a, b)")
    one, two = (factor.relevance for factor in product.summands[0].factors)
    torch.testing.assert_close(product.relevance, one + two)
    mixed = kernel("rbf(a) + constant")
    v, c = (number(summand.variance) for summand in mixed.summands)
    expected = v / (v + c) * number(mixed.summands[0].relevance[0])
    assert number(mixed.relevance[0]) == pytest.approx(expected)


def test_a_given_period_is_in_the_unit_of_its_column_and_stays() -> None:
    scales = torch.tensor([4.0, 0.5], dtype=torch.float64)
    found = CompositeKernel(read_kernel("periodic(b, period=3)"), ("a", "b"), scales)
    component: Any = found.only_component
    assert number(component.period) == pytest.approx(6)
    assert not component.kernel.raw_period_length.requires_grad
    assert found.columns_of_free_periods() == []
    free = CompositeKernel(read_kernel("rbf * periodic(b) + cosine(a)"), ("a", "b"), scales)
    assert free.columns_of_free_periods() == [1, 0]
    free.set_free_period(1, 1.5)
    cosine: Any = free.summands[1].factors[0]
    x = torch.tensor([[0.0, 0.0], [1.5, 0.0], [0.75, 0.0]], dtype=torch.float64)
    waves = cosine(x, x[:1]).detach()[:, 0]
    torch.testing.assert_close(waves, torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))


@pytest.mark.parametrize(
    "text",
    [
        "rbf + matern12",
        "linear * matern32 + constant",
        "periodic(b)",
        "cosine(a) + polynomial",
        "rational_quadratic * (linear + periodic(b))",
        "piecewise_polynomial",
        "spectral_mixture(n=2) + rbf",
    ],
)
def test_rows_of_several_draws_have_the_kernel_of_each_draw(text: str) -> None:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    Z = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    k = kernel(text, ("a", "b"))
    found = k.forward(X, Z)
    torch.testing.assert_close(found, torch.stack([k.forward(one, Z) for one in X]))
    torch.testing.assert_close(k.forward(Z, X), found.mT)
    own = k.forward(X, X).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(k.diagonal(X), own, rtol=0, atol=1e-7)
    Z.requires_grad_()
    apart = ~torch.eye(len(Z), dtype=torch.bool)  # Matérn 1/2 has a kink at distance 0
    assert torch.autograd.gradcheck(lambda z: k.forward(z, z)[apart], (Z,), atol=1e-5)
    assert torch.autograd.gradcheck(lambda z: k.forward(X[:2], z), (Z,), atol=1e-5)


@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
def test_a_spectral_mixture_is_that_of_gpytorch_with_value_1_at_0(
    X: Tensor, X2: Tensor, columns: tuple[str, ...]
) -> None:
    found = kernel("spectral_mixture(n=3)", columns)
    component: Any = found.only_component
    X, X2 = X[:, : len(columns)], X2[:, : len(columns)]
    theirs = gpytorch_kernels().SpectralMixtureKernel(num_mixtures=3, ard_num_dims=len(columns))
    theirs = theirs.double()
    theirs.load_state_dict(component.kernel.state_dict())
    own = theirs(X[:1], X[:1]).to_dense()[0, 0]
    torch.testing.assert_close(component(X, X2), theirs(X, X2).to_dense() / own)
    # the formula, column by column
    w, mu, s = (
        part.detach().numpy()
        for part in (theirs.mixture_weights, theirs.mixture_means, theirs.mixture_scales)
    )
    tau = (X[:, None] - X2[None]).numpy()
    expected = np.ones(tau.shape[:2])
    for h in range(len(columns)):
        waves = [
            w[i]
            * np.exp(-2 * (np.pi * s[i, 0, h] * tau[..., h]) ** 2)
            * np.cos(2 * np.pi * mu[i, 0, h] * tau[..., h])
            for i in range(3)
        ]
        expected *= sum(waves) / w.sum()
    np.testing.assert_allclose(component(X, X2).detach().numpy(), expected, atol=1e-12)
    # relevance: the curvature at 0
    step = 1e-4
    for h in range(len(columns)):
        moved = torch.zeros(1, len(columns), dtype=torch.float64)
        moved[0, h] = step
        bend = 2 * (1 - number(component(moved, 0 * moved)[0, 0])) / step**2
        assert bend == pytest.approx(number(component.relevance[h]), rel=1e-4)


def test_a_spectral_mixture_starts_at_the_likely_periods() -> None:
    x = torch.linspace(-1.7, 1.7, 120, dtype=torch.float64)[:, None]
    y = torch.sin(2 * torch.pi * x[:, 0] / 0.4) + 0.7 * torch.cos(2 * torch.pi * x[:, 0] / 0.15)
    definition = KernelDefinition(read_kernel("spectral_mixture(n=3)"), ("a",), (1.0,))
    (start,) = definition.starts(x, y)
    component: Any = start.only_component
    periods = 1 / component.kernel.mixture_means.detach()[:, 0, 0]
    np.testing.assert_allclose(periods[:2], [0.4, 0.15], rtol=0.05)


@pytest.mark.parametrize("start", [True, False])
def test_further_inputs_of_a_definition_keep_its_start(X: Tensor, X2: Tensor, start: bool) -> None:
    """With the further inputs at 0 the kernel is the one without them."""
    text = "rbf + linear(b) + matern32(a) * periodic(c) + polynomial(b)"
    fitted = kernel(text)
    definition = KernelDefinition(read_kernel(text), COLUMNS, (1.0, 1.0, 1.0))
    if start:
        definition = definition.starting_at(fitted)
    wide = definition.with_inputs(("d", "e"))
    assert wide.columns == ("a", "b", "c", "d", "e")
    made, narrow = wide.made(X), definition.made(X)
    joined = [torch.nn.functional.pad(rows, (0, 2)) for rows in (X, X2)]
    same = torch.allclose(made.forward(*joined), narrow.forward(X, X2))
    assert same == start  # initial lengthscales depend on the number of inputs
    moved = joined[0] + torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]).double()
    assert (made.forward(moved, joined[1]) - made.forward(*joined)).abs().max() > 1e-3
    line = KernelDefinition(read_kernel("linear"), COLUMNS, (1.0, 1.0, 1.0))
    line = line.starting_at(kernel("linear"))
    before, after = (d.made(X).relevance[:3] for d in (line, line.with_inputs(("d",))))
    torch.testing.assert_close(after / after.sum(), before / before.sum())
    named = KernelDefinition(read_kernel("matern32(a)"), COLUMNS, (1.0, 1.0, 1.0))
    alone = named.with_inputs(("d", "e")).made(X)
    torch.testing.assert_close(alone.forward(moved, joined[1]), named.made(X).forward(X, X2))
