"""Kernels of an expression over a map: psi statistics against Monte Carlo, closed forms, slopes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.gp.paths import KernelPath
from lvmcore.kernels import expression_psi_sums
from lvmcore.kernels.catalogue import KERNEL_TYPES, read_kernel
from lvmcore.kernels.expression_kernel import (
    LARGEST_VARIANCE,
    ExpressionKernel,
    kernel_arrays,
    kernel_from_arrays,
    map_kernel,
    map_kernel_module,
)
from lvmcore.kernels.psi_statistics import (
    PsiSums,
    expected_diagonal,
    masked_psi_sums,
    pair_weights,
    psi0,
    psi1,
    psi2_contraction,
    psi2_products,
    psi2_row_contraction,
    psi_sums,
)
from lvmcore.kernels.stationary import RBF, Linear
from lvmcore.numerics.quasi_random import matched_draws
from lvmcore.preprocessing.observed_cells import ObservedCells
from tests.unit.lvmcore.small_problems import Small, small_problem

SUM = "rbf(z1) * periodic(z2) + linear + constant"
EXPRESSIONS = ["matern52", "matern32", "rational_quadratic", SUM]


def kernel_of(text: str, Q: int = 2, draws: int | None = None) -> ExpressionKernel:
    """The kernel of an expression with different values of all its parameters."""
    module = map_kernel_module(read_kernel(text), torch.zeros(1, Q, dtype=torch.float64))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise.to(parameter), alpha=0.3)
    return ExpressionKernel.of(module, draws)


def closed(kernel: ExpressionKernel) -> RBF:
    """The RBF kernel of the expression ``rbf``."""
    return RBF(kernel.variance.detach(), kernel.lengthscales.detach())


def parts(sums: PsiSums) -> list[Tensor]:
    return [sums.psi0, sums.psi1Y, sums.psi2]


def test_means_over_matched_draws_are_exact_to_third_order() -> None:
    e = matched_draws(32, 5, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(e.T @ e / 32, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(e.mean(0), torch.zeros(5, dtype=torch.float64))
    third = torch.einsum("si,sj,sk->ijk", e, e, e) / 32
    torch.testing.assert_close(third, torch.zeros_like(third))
    # Normal draws have a fourth moment of 3.
    many = matched_draws(2048, 5, torch.zeros((), dtype=torch.float64))
    assert float((many.pow(4).mean(0) - 3).abs().max()) < 0.1


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_psi_statistics_are_the_means_of_independent_draws(text: str) -> None:
    p, kernel, S = small_problem(N=1, M=4), kernel_of(text, draws=2048), 200_000
    noise = torch.randn(S, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    X = p.mean[0] + p.variance[0].sqrt() * noise
    with torch.no_grad():
        K, own = kernel.composite.forward(X, p.Z), kernel.composite.diagonal(X)
        ratio = kernel.variance / sum(s.variance for s in kernel.composite.summands)
        K, own = ratio * K, ratio * own
        found = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
        first = psi1(kernel, p.mean, p.variance, p.Z)[0]
    pairs = (K[:, :, None] * K[:, None, :]).reshape(S, -1)
    for got, draws in ((found.psi0[None], own[:, None]), (first, K), (found.psi2.ravel(), pairs)):
        error = draws.std(0) / S**0.5
        # The quasi-random mean has an error of its own, far below a hundredth.
        away = (got - draws.mean(0)).abs()
        assert bool((away <= 5 * error + 2e-3 * draws.mean(0).abs()).all())
        assert float(error.max()) < 0.02 * float(draws.mean(0).abs().max())


def test_the_error_falls_with_the_number_of_draws() -> None:
    p = small_problem(N=30, M=12)
    kernel = kernel_of("rbf")
    exact = psi_sums(closed(kernel), p.mean, p.variance, p.Z, p.Y)

    def error(draws: int) -> float:
        found = psi_sums(kernel_of("rbf", draws=draws), p.mean, p.variance, p.Z, p.Y)
        return float(((found.psi2 - exact.psi2).norm() / exact.psi2.norm()).detach())

    few, usual, many = error(8), error(32), error(2048)
    assert many < 0.3 * usual < 0.3 * few
    assert usual < 1e-2


def test_those_of_a_linear_kernel_are_exact() -> None:
    p, kernel = small_problem(N=7, Q=3), kernel_of("linear", Q=3)
    summand = kernel.composite.summands[0]
    weights = kernel.relevance.detach() * summand.variance.detach()
    bounded = float(kernel.variance.detach() / summand.variance.detach())
    exact = Linear(weights * bounded)
    want = psi_sums(exact, p.mean, p.variance, p.Z, p.Y)
    got = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    for one, other in zip(parts(got), parts(want), strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=1e-12, atol=1e-12)


def test_blocks_of_rows_change_neither_sums_nor_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p, kernel = small_problem(N=9), kernel_of(SUM)
    mask = torch.rand(p.Y.shape, generator=torch.Generator().manual_seed(2)) > 0.3
    cells = ObservedCells.from_mask(mask, p.Y)
    inputs = [t.clone().requires_grad_() for t in (p.mean, p.variance, p.Z)]
    inputs += list(kernel.composite.parameters())

    def values() -> list[Tensor]:
        whole = psi_sums(kernel, *inputs[:3], p.Y)
        masked = masked_psi_sums(kernel, *inputs[:3], p.Y * mask, cells)
        sums = [*parts(whole), masked.psi0, masked.psi1Y, masked.psi2]
        total = sum((one * torch.ones_like(one).cumsum(0)).sum() for one in sums)
        assert isinstance(total, Tensor)
        return [*sums, *torch.autograd.grad(total, inputs, allow_unused=True)]

    whole = values()
    monkeypatch.setattr(expression_psi_sums, "BLOCK_CELLS", 32 * 5 * 2)
    for kept in (1 << 22, 0):  # the blocks are kept for the gradient, or computed again
        monkeypatch.setattr(expression_psi_sums, "KEPT_CELLS", kept)
        for one, other in zip(values(), whole, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("text", ["matern52", SUM])
def test_gradients_are_those_of_differences(text: str) -> None:
    p, kernel = small_problem(N=3, M=3), kernel_of(text)
    free = [p for p in kernel.composite.parameters() if p.requires_grad]
    inputs = [t.clone().requires_grad_() for t in (p.mean, p.variance, p.Z)]

    def sums(*_: Tensor) -> tuple[Tensor, ...]:
        return tuple(parts(psi_sums(kernel, *inputs, p.Y)))

    assert torch.autograd.gradcheck(sums, (*inputs, *free))


def test_masked_sums_are_those_of_each_columns_rows() -> None:
    p, kernel = small_problem(N=8), kernel_of(SUM)
    mask = torch.rand(p.Y.shape, generator=torch.Generator().manual_seed(2)) > 0.4
    cells = ObservedCells.from_mask(mask, p.Y)
    with torch.no_grad():
        found = masked_psi_sums(kernel, p.mean, p.variance, p.Z, p.Y * mask, cells)
        for d in range(p.Y.shape[1]):
            rows = mask[:, d]
            own = psi_sums(kernel, p.mean[rows], p.variance[rows], p.Z, p.Y[rows, d : d + 1])
            torch.testing.assert_close(found.psi0[d], own.psi0)
            torch.testing.assert_close(found.psi1Y[:, d], own.psi1Y[:, 0])
            i, j = torch.triu_indices(5, 5)
            torch.testing.assert_close(found.psi2[:, found.groups[d]], own.psi2[i, j])


def test_statistics_of_rows_add_up() -> None:
    p, kernel = small_problem(N=6), kernel_of(SUM)
    rows = (kernel, p.mean, p.variance)
    W = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    W = W + W.mT
    with torch.no_grad():
        sums = psi_sums(*rows, p.Z, p.Y)
        torch.testing.assert_close(psi0(*rows), sums.psi0)
        torch.testing.assert_close(expected_diagonal(*rows).sum(), sums.psi0)
        torch.testing.assert_close(psi1(*rows, p.Z).T @ p.Y, sums.psi1Y)
        traces = (W @ sums.psi2).diagonal(dim1=1, dim2=2).sum(1)
        products = psi2_products(*rows, p.Z, pair_weights(W))
        torch.testing.assert_close(products.sum(0), traces)
        torch.testing.assert_close(psi2_contraction(*rows, p.Z, W[0]), products[:, 0])
        each = pair_weights(W[:1]).expand(len(p.mean), -1)
        torch.testing.assert_close(psi2_row_contraction(*rows, p.Z, each), products[:, 0])


def test_its_variance_is_bounded_as_that_of_the_rbf_kernel() -> None:
    p = small_problem()
    path, other = KernelPath(p.Z), KernelPath(p.Z, read_kernel("rbf"))
    assert path.composite is None
    assert other.composite is not None
    for log_variance in (-3.0, 0.0, 4.0, 9.0):
        with torch.no_grad():
            path.log_variance.fill_(log_variance)
            other.composite.summands[0].log_variance.fill_(log_variance)
            torch.testing.assert_close(other.kernel(p.mean, p.Z), path.kernel(p.mean, p.Z))
            torch.testing.assert_close(other.kernel.diagonal(p.mean), path.kernel.diagonal(p.mean))
            assert float(other.kernel.variance) < LARGEST_VARIANCE


@pytest.mark.parametrize(
    ("text", "covariance"),
    [
        ("rbf", lambda k: (k.variance * k.relevance).diag()),
        ("matern52", lambda k: (5 / 3 * k.variance * k.relevance).diag()),
        ("matern32", lambda k: (3 * k.variance * k.relevance).diag()),
        ("linear", lambda k: (k.variance * k.relevance).diag()),
        ("constant", lambda k: torch.zeros(2, 2, dtype=torch.float64)),
        ("matern12", lambda k: torch.zeros(2, 2, dtype=torch.float64)),
    ],
)
def test_the_slopes_of_the_prior(
    text: str, covariance: Callable[[ExpressionKernel], Tensor]
) -> None:
    p, kernel = small_problem(), kernel_of(text)
    with torch.no_grad():
        found = kernel.slope_covariance(p.mean)
        # A Matérn-3/2 process has no second derivative: its difference is of the order of the step.
        torch.testing.assert_close(
            found, covariance(kernel).expand(len(p.mean), 2, 2), rtol=2e-3, atol=2e-6
        )
    assert kernel.is_smooth is (text != "matern12")


@pytest.mark.parametrize("text", ["rbf", SUM, "polynomial(degree=3)"])
def test_slopes_are_the_derivatives_of_the_kernel(text: str) -> None:
    p, kernel = small_problem(N=3), kernel_of(text).detached()
    X = p.mean.requires_grad_()
    found = kernel.slopes(X, p.Z)
    for m in range(len(p.Z)):
        (want,) = torch.autograd.grad(kernel(X, p.Z[m : m + 1]).sum(), X)
        torch.testing.assert_close(found[:, :, m], want, rtol=1e-6, atol=1e-7)
    assert found.requires_grad  # a shortest path is found by the gradient of the metric


@pytest.mark.parametrize("name", list(KERNEL_TYPES))
def test_every_kernel_comes_back_from_its_arrays(name: str) -> None:
    text = f"{name}(z1)" if KERNEL_TYPES[name].one_column else name
    p, kernel = small_problem(), kernel_of(f"{text} * rbf(z2) + constant")
    arrays = {name: array.copy() for name, array in kernel_arrays(kernel, "data.").items()}
    again = kernel_from_arrays(arrays, "data.", p.Z)
    assert isinstance(again, ExpressionKernel)
    assert not any(parameter.requires_grad for parameter in again.composite.parameters())
    with torch.no_grad():
        np.testing.assert_array_equal(again(p.mean, p.Z), kernel(p.mean, p.Z))
        np.testing.assert_array_equal(again.diagonal(p.mean), kernel.diagonal(p.mean))
        assert bool(torch.isfinite(kernel.slope_covariance(p.mean)).all())
        np.testing.assert_array_equal(again.relevance, kernel.relevance)


def test_an_rbf_kernel_comes_back_from_the_arrays_of_earlier_files() -> None:
    p = small_problem()
    arrays = {"a.variance": np.array([1.3]), "a.lengthscales": np.array([0.8, 1.5])}
    found = kernel_from_arrays(arrays, "a.", p.Z)
    assert isinstance(found, RBF)
    torch.testing.assert_close(found(p.mean, p.Z), p.rbf(p.mean, p.Z))


@pytest.mark.parametrize("text", ["rbf", " rbf ", "(rbf)"])
def test_the_rbf_kernel_of_all_dimensions_is_the_closed_one(text: str) -> None:
    assert map_kernel(text, 3) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rbf + ", "ends too early"),
        ("matern", "did you mean matern"),
        ("rbf(alcohol)", r"names 'alcohol', but it acts on the dimensions of the map.*rbf\(z1\)"),
        ("rbf(z0)", "z1, z2 and so on"),
        ("rbf + periodic(z3)", "names z3, but the map has 2 dimensions, z1 to z2"),
        ("cosine", r"acts on one dimension, and the map has 2: name them, as in cosine\(z1\)"),
        ("periodic(period=0)", "period=0 of the kernel periodic cannot be used"),
    ],
)
def test_a_kernel_that_the_map_cannot_have_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        map_kernel(text, 2)


def test_long_expressions_of_many_dimensions_have_enough_draws() -> None:
    p = Small(*(torch.zeros(2, 20, dtype=torch.float64) for _ in range(4)), torch.ones(20))
    kernel = kernel_of("linear", Q=20)
    assert kernel.draws.shape == (64, 20)
    one = torch.ones(2, 20, dtype=torch.float64)
    found = psi_sums(kernel, p.mean, one, one, p.Y).psi2.detach()
    exact = psi_sums(
        Linear(kernel.variance.detach() * kernel.relevance.detach()), p.mean, one, one, p.Y
    ).psi2
    torch.testing.assert_close(found, exact)
