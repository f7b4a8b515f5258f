"""Psi statistics against Monte Carlo, against plain loops, and whole against in chunks."""

import pytest
import torch
from torch import Tensor

from lvmcore.kernels import psi_exponents
from lvmcore.kernels.psi_statistics import (
    PsiSums,
    psi0,
    psi1,
    psi2_contraction,
    psi_sums,
    sampled_psi_sums,
)
from lvmcore.kernels.stationary import RBF, Linear
from tests.unit.lvmcore.small_problems import Small, small_problem

DRAWS = 200_000
# Largest deviation allowed, in standard errors: of some 200 normal numbers, one in 10 000 times.
ERRORS = 5.0


def monte_carlo(kernel: RBF | Linear, p: Small, row: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draws of k(x, x) [S], k(x, Z) [S, M] and k(Z, x) k(x, Z) [S, M, M] for x ~ q(x_row)."""
    generator = torch.Generator().manual_seed(row)
    noise = torch.randn(DRAWS, p.mean.shape[1], generator=generator, dtype=torch.float64)
    x = p.mean[row] + p.variance[row].sqrt() * noise
    if isinstance(kernel, RBF):
        distance = (x[:, None] - p.Z).square() / kernel.lengthscales.square()
        K = kernel.variance * (-0.5 * distance.sum(-1)).exp()
        own = kernel.variance.expand(DRAWS)
    else:
        K = (x[:, None] * p.Z * kernel.variances).sum(-1)
        own = (x * x * kernel.variances).sum(-1)
    return own, K, K[:, :, None] * K[:, None, :]


def assert_mean_is(expected: Tensor, draws: Tensor) -> None:
    """The mean of ``draws`` (over the first axis) is ``expected``, within its standard error."""
    error = draws.std(0) / DRAWS**0.5
    # The draws are many enough for a deviation of a quarter of the typical entry to show.
    assert ERRORS * float(error.max()) < 0.25 * float(expected.abs().mean())
    deviation = (draws.mean(0) - expected).abs()
    assert bool((deviation <= ERRORS * error + 1e-12).all())


def one_row(p: Small, row: int) -> tuple[Tensor, Tensor]:
    return p.mean[row : row + 1], p.variance[row : row + 1]


def loop_psi2(kernel: RBF, p: Small) -> Tensor:
    """psi2 of each row, [N, M, M], entry by entry from the product of one-dimensional factors."""
    N, Q = p.mean.shape
    M = len(p.Z)
    out = torch.empty(N, M, M, dtype=torch.float64)
    for n in range(N):
        for a in range(M):
            for b in range(M):
                value = float(kernel.variance) ** 2
                for q in range(Q):
                    square = kernel.lengthscales[q] ** 2
                    S, mu = p.variance[n, q], p.mean[n, q]
                    middle = 0.5 * (p.Z[a, q] + p.Z[b, q])
                    exponent = (p.Z[a, q] - p.Z[b, q]) ** 2 / (4 * square)
                    exponent = exponent + (mu - middle) ** 2 / (2 * S + square)
                    value = value * (1 + 2 * S / square) ** -0.5 * (-exponent).exp()
                out[n, a, b] = value
    return out


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_each_statistic_is_the_mean_of_its_draws(kind: str, row: int) -> None:
    p = small_problem(N=3, Q=2, M=4)
    kernel: RBF | Linear = p.rbf if kind == "rbf" else p.linear
    own, K, KK = monte_carlo(kernel, p, row)
    mean, variance = one_row(p, row)
    if kind == "linear":
        assert_mean_is(psi0(kernel, mean, variance), own)
    else:
        assert float(psi0(kernel, mean, variance)) == pytest.approx(float(own[0]))
    assert_mean_is(psi1(kernel, mean, variance, p.Z)[0], K)
    sums = psi_sums(kernel, mean, variance, p.Z, p.Y[row : row + 1])
    assert_mean_is(sums.psi2, KK)


def test_psi2_of_the_rbf_equals_the_product_of_its_factors() -> None:
    p = small_problem(Q=3)
    expected = loop_psi2(p.rbf, p).sum(0)
    got = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y).psi2
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=0)


def test_statistics_without_variance_are_those_of_the_kernel() -> None:
    p = small_problem()
    none = torch.zeros_like(p.variance)
    for kernel in (p.rbf, p.linear):
        K = kernel(p.mean, p.Z)
        sums = psi_sums(kernel, p.mean, none, p.Z, p.Y)
        torch.testing.assert_close(sums.psi0, kernel.diagonal(p.mean).sum())
        torch.testing.assert_close(sums.psi1Y, K.T @ p.Y)
        torch.testing.assert_close(sums.psi2, K.T @ K)


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_sums_add_up_over_rows(kind: str) -> None:
    p = small_problem()
    kernel = p.rbf if kind == "rbf" else p.linear
    whole = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    rows = [psi_sums(kernel, *one_row(p, n), p.Z, p.Y[n : n + 1]) for n in range(len(p.Y))]
    for name in ("psi0", "psi1Y", "psi2"):
        total = torch.stack([getattr(row, name) for row in rows]).sum(0)
        torch.testing.assert_close(getattr(whole, name), total)
    torch.testing.assert_close(whole.psi1Y, psi1(kernel, p.mean, p.variance, p.Z).T @ p.Y)


def test_psi2_contraction_is_the_trace_of_each_row() -> None:
    p = small_problem()
    weights = torch.randn(5, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    weights = weights + weights.T
    expected = (loop_psi2(p.rbf, p) * weights).sum((1, 2))
    got = psi2_contraction(p.rbf, p.mean, p.variance, p.Z, weights)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


def test_far_from_the_origin_no_digits_are_lost() -> None:
    p = small_problem()
    here = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y)
    there = psi_sums(p.rbf, p.mean + 1e4, p.variance, p.Z + 1e4, p.Y)
    torch.testing.assert_close(there.psi2, here.psi2, rtol=1e-8, atol=0)
    torch.testing.assert_close(there.psi1Y, here.psi1Y, rtol=1e-8, atol=1e-10)


def leaves(p: Small) -> list[Tensor]:
    """What the statistics depend on, ready for gradients: Y, μ, log S, Z, log v, log ℓ."""
    kernel = p.rbf
    raw = [p.Y, p.mean, p.variance.log(), p.Z, kernel.variance.log(), kernel.lengthscales.log()]
    return [leaf.clone().requires_grad_() for leaf in raw]


def sums_of(inputs: list[Tensor], chunk_cells: int) -> PsiSums:
    Y, mean, log_S, Z, log_v, log_l = inputs
    kernel = RBF(log_v.exp(), log_l.exp())
    return psi_sums(kernel, mean, log_S.exp(), Z, Y, chunk_cells=chunk_cells)


@pytest.mark.parametrize("kept", [0, 100, 1 << 20])
@pytest.mark.parametrize("chunk_cells", [1, 30, 61, 135])
def test_chunks_change_neither_values_nor_gradients(
    chunk_cells: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With M = 5 there are 15 pairs: chunks of 1, 2, 4 and 9 rows of psi2, the last one ragged.

    Kept for the backward pass are the exponentials of nothing, of psi1 alone, and of both.
    """
    monkeypatch.setattr("lvmcore.kernels.psi_exponents.CACHE_CELLS", kept)
    p = small_problem(N=17)
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    b = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    results = []
    for cells in (chunk_cells, 1 << 20):
        inputs = leaves(p)
        sums = sums_of(inputs, cells)
        value = sums.psi0 + (a * sums.psi1Y).sum() + (b * sums.psi2).sum()
        results.append([sums.psi1Y, sums.psi2, *torch.autograd.grad(value, inputs)])
    for chunked, whole in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kept", [0, 1 << 20])
@pytest.mark.parametrize("chunk_cells", [20, 1 << 20])
def test_gradients_of_the_rbf_statistics_are_exact(
    chunk_cells: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lvmcore.kernels.psi_exponents.CACHE_CELLS", kept)
    p = small_problem(N=4, D=2, M=3)

    def statistics(*inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sums = sums_of(list(inputs), chunk_cells)
        return sums.psi0, sums.psi1Y, sums.psi2

    assert torch.autograd.gradcheck(statistics, leaves(p))


def test_a_second_backward_pass_finds_the_same() -> None:
    inputs = leaves(small_problem(N=4, D=2, M=3))
    sums = sums_of(inputs, 20)
    value = sums.psi1Y.square().sum() + sums.psi2.square().sum()
    once = torch.autograd.grad(value, inputs, retain_graph=True)
    for first, second in zip(once, torch.autograd.grad(value, inputs), strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_gradients_of_the_linear_statistics_are_exact() -> None:
    p = small_problem(N=4, D=2, M=3)

    def statistics(mean: Tensor, log_S: Tensor, Z: Tensor, log_a: Tensor) -> tuple[Tensor, ...]:
        sums = psi_sums(Linear(log_a.exp()), mean, log_S.exp(), Z, p.Y)
        return sums.psi0, sums.psi1Y, sums.psi2

    raw = [p.mean, p.variance.log(), p.Z, p.linear.variances.log()]
    assert torch.autograd.gradcheck(statistics, [leaf.clone().requires_grad_() for leaf in raw])


def test_single_precision_sums_in_double() -> None:
    p = small_problem(N=200)
    single = [t.float() for t in (p.mean, p.variance, p.Z, p.Y)]
    kernel = RBF(p.rbf.variance.float(), p.rbf.lengthscales.float())
    got = psi_sums(kernel, *single)
    exact = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y)
    assert got.psi2.dtype == got.psi1Y.dtype == torch.float64
    torch.testing.assert_close(got.psi2, exact.psi2, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got.psi1Y, exact.psi1Y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_sums_from_draws_average_to_those_in_closed_form(kind: str) -> None:
    p = small_problem()
    kernel = p.rbf if kind == "rbf" else p.linear
    expected = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    generator = torch.Generator().manual_seed(0)
    draws = []
    for _ in range(4000):
        noise = torch.randn(p.mean.shape, generator=generator, dtype=torch.float64)
        X = p.mean + p.variance.sqrt() * noise
        sums = sampled_psi_sums(kernel, X, p.Z, p.Y)
        draws.append(torch.cat([part.reshape(-1) for part in (sums.psi0, sums.psi1Y, sums.psi2)]))
    found = torch.stack(draws)
    wanted = torch.cat(
        [part.reshape(-1) for part in (expected.psi0, expected.psi1Y, expected.psi2)]
    )
    error = found.std(0) / len(found) ** 0.5
    assert bool(((found.mean(0) - wanted).abs() <= ERRORS * error + 1e-9).all())


def test_the_gradient_by_a_long_lengthscale_keeps_its_digits_in_float32() -> None:
    p = small_problem()
    grads = []
    for dtype in (torch.float64, torch.float32):
        ell = torch.full((2,), 3000.0, dtype=dtype, requires_grad=True)
        kernel = RBF(torch.tensor(1.3, dtype=dtype), ell)
        parts = [tensor.to(dtype) for tensor in (p.mean, p.variance, p.Z, p.Y)]
        sums = psi_sums(kernel, *parts)
        grads.append(torch.autograd.grad(sums.psi1Y.sum() + sums.psi2.sum(), ell)[0].double())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=0)


def test_nothing_is_kept_where_no_gradient_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    inside = psi_exponents.PsiExponentials.__init__

    def watched(*arguments: object, keeps: bool) -> None:
        kept.append(keeps)
        inside(*arguments, keeps=keeps)  # type: ignore[arg-type]

    monkeypatch.setattr(psi_exponents.PsiExponentials, "__init__", watched)
    inputs = leaves(small_problem())
    with torch.no_grad():
        sums_of(inputs, 20)
    sums_of(inputs, 20)
    assert kept == [False, False, True, True]
