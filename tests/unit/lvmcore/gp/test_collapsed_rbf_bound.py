"""The collapsed bound in one function against its parts, and against finite differences."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.gp.collapsed_rbf_bound import (
    collapsed_rbf_bound,
    collapsed_sums_bound,
    column_noises,
    one_noise,
)
from lvmcore.kernels.psi_statistics import PsiSums, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics import linalg
from tests.unit.lvmcore.small_problems import Small, small_problem

NAMES = ("mean", "log S", "Z", "log v", "log l", "log noise")


def leaves(p: Small, *, shared: bool) -> list[Tensor]:
    """What the bound depends on, ready for gradients; see NAMES."""
    noise = p.noise[:1] if shared else p.noise
    raw = [p.mean, p.variance.log(), p.Z, p.rbf.variance.log(), p.rbf.lengthscales.log()]
    return [leaf.clone().requires_grad_() for leaf in (*raw, noise.log())]


def fused(p: Small, *inputs: Tensor) -> Tensor:
    mean, log_S, Z, log_v, log_l, log_noise = inputs
    kernel = RBF(log_v.exp(), log_l.exp())
    return collapsed_rbf_bound(kernel, mean, log_S.exp(), Z, p.Y, log_noise.exp(), p.squares)


def kernel_matrix(kernel: RBF, Z: Tensor) -> Tensor:
    scaled = (Z[:, None] - Z) / kernel.lengthscales
    return kernel.variance * (-0.5 * scaled.square().sum(-1)).exp()


def composed(p: Small, *inputs: Tensor) -> Tensor:
    """By automatic differentiation of the kernel matrix, and of psi1 and psi2 of every row."""
    mean, log_S, Z, log_v, log_l, log_noise = inputs
    kernel, S = RBF(log_v.exp(), log_l.exp()), log_S.exp()
    square = kernel.lengthscales.square()
    first = (-0.5 * (mean[:, None] - Z).square() / (S + square)[:, None]).sum(-1).exp()
    first = kernel.variance * first / (1 + S / square).prod(1).sqrt()[:, None]
    middle = 0.5 * (Z[:, None] + Z)
    apart = 0.25 * ((Z[:, None] - Z).square() / square).sum(-1)
    away = (mean[:, None, None] - middle).square() / (2 * S + square)[:, None, None]
    scale = kernel.variance.square() / (1 + 2 * S / square).prod(1).sqrt()
    second = (scale[:, None, None] * (-apart - away.sum(-1)).exp()).sum(0)
    # Each column by its own density: N(y; 0, Q + σ² I) less the trace term, with Q = psi1 K⁻¹ psi1ᵀ
    # replaced by its expectation: B = σ² K + psi2.
    K = kernel_matrix(kernel, Z)
    K = K + linalg.JITTERS[0] * kernel.variance * torch.eye(len(Z), dtype=K.dtype)
    total = mean.new_zeros(())
    noise = log_noise.exp().expand(p.Y.shape[1])
    for y, s in zip(p.Y.T, noise, strict=True):
        B = s * K + second
        b = first.T @ y
        N, M = len(y), len(Z)
        log_det = torch.logdet(B) - torch.logdet(K) + (N - M) * s.log()
        fit = (y @ y - b @ torch.linalg.solve(B, b)) / s
        trace = (N * kernel.variance - torch.linalg.solve(K, second).trace()) / s
        total = total - 0.5 * (N * math.log(2 * math.pi) + log_det + fit + trace)
    return total


def assert_same(p: Small, *, shared: bool, rtol: float = 1e-10) -> None:
    results = []
    for route in (fused, composed):
        inputs = leaves(p, shared=shared)
        value = route(p, *inputs)
        results.append([value, *torch.autograd.grad(value, inputs)])
    for name, got, expected in zip(("value", *NAMES), *results, strict=True):
        scale = float(expected.detach().abs().max())
        torch.testing.assert_close(
            got, expected, rtol=rtol, atol=rtol * scale, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("cached", [0, 1 << 20])
@pytest.mark.parametrize("jitter", [1e-8, 1e-2])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("size", [{"N": 9}, {"N": 30, "D": 2, "Q": 5, "M": 7}, {"Q": 1, "M": 2}])
def test_value_and_gradients_are_those_of_the_plain_formula(
    size: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    *,
    shared: bool,
    jitter: float,
    cached: int,
) -> None:
    """The jitter is a share of the kernel's variance, so it has a gradient too."""
    monkeypatch.setattr(linalg, "JITTERS", (jitter,))
    monkeypatch.setattr("lvmcore.kernels.psi_exponents.CACHE_CELLS", cached)
    assert_same(small_problem(**size), shared=shared)


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_is_that_of_finite_differences(*, shared: bool) -> None:
    p = small_problem(N=6, D=2, M=3)

    def bound(*inputs: Tensor) -> Tensor:
        return fused(p, *inputs)

    assert torch.autograd.gradcheck(bound, leaves(p, shared=shared), atol=1e-5, rtol=1e-5)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmcore.kernels.rbf_psi_sums.CHUNK_CELLS", 40)
    monkeypatch.setattr("lvmcore.kernels.rbf_psi_sums.SHARED_CHUNK_CELLS", 40)
    assert_same(small_problem(N=17), shared=True)


@pytest.mark.parametrize("shared", [True, False])
def test_without_gradient_the_value_is_the_same(*, shared: bool) -> None:
    p = small_problem()
    inputs = leaves(p, shared=shared)
    with torch.no_grad():
        alone = fused(p, *inputs)
    torch.testing.assert_close(alone, fused(p, *inputs).detach(), rtol=1e-13, atol=0)
    assert not alone.requires_grad


def test_one_noise_is_as_many_equal_ones() -> None:
    p = small_problem(shared=True)
    one, each = leaves(p, shared=True), leaves(p, shared=False)
    values = fused(p, *one), fused(p, *each)
    torch.testing.assert_close(*values, rtol=1e-12, atol=0)
    by_one, by_each = (
        torch.autograd.grad(value, inputs[-1])[0]
        for value, inputs in zip(values, (one, each), strict=True)
    )
    torch.testing.assert_close(by_one[0], by_each.sum(), rtol=1e-11, atol=0)


@pytest.mark.parametrize("error", [-1e-3, -3e-5])
def test_where_rounding_errors_reach_the_noise_the_eigenvectors_serve(error: float) -> None:
    """They may leave G with a negative eigenvalue, with which B may still have a root."""
    L = torch.linspace(0.5, 2.0, 9).double().reshape(3, 3).tril()
    G = torch.diag(torch.tensor([2.0, 0.5, error]).double())
    P, rest = torch.linspace(-1, 1, 6).double().reshape(3, 2), torch.full((2,), 3.0).double()
    one, each = torch.full((1,), 1e-4).double(), torch.full((2,), 1e-4).double()
    value, T, values, rotated, slopes = one_noise(L, G, P, rest, one, 8)
    expected = column_noises(L, G, P, rest, each, 8)
    assert torch.isfinite(value)
    torch.testing.assert_close((value, T, values, rotated), expected[:4])
    torch.testing.assert_close((slopes.G, slopes.P), (expected[4].G, expected[4].P))
    torch.testing.assert_close(slopes.noise, expected[4].noise.sum().reshape(1))


def test_single_precision_is_computed_in_double() -> None:
    p = small_problem(N=40)
    single = Small(*(t.float() for t in (p.mean, p.variance, p.Z, p.Y, p.noise)))
    got = fused(single, *leaves(single, shared=True))
    assert got.dtype == torch.float64
    torch.testing.assert_close(got, fused(p, *leaves(p, shared=True)), rtol=1e-5, atol=0)


def test_a_second_backward_pass_finds_the_same_and_the_gradient_is_scaled() -> None:
    p = small_problem()
    inputs = leaves(p, shared=True)
    value = 3 * fused(p, *inputs)
    once = torch.autograd.grad(value, inputs, retain_graph=True)
    again = torch.autograd.grad(value, inputs)
    plain = torch.autograd.grad(fused(p, *inputs), inputs)
    for first, second, third in zip(once, again, plain, strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(first, 3 * third, rtol=1e-12, atol=0)


@pytest.mark.parametrize("shared", [True, False])
def test_numbers_that_are_not_finite_are_reported(*, shared: bool) -> None:
    p = small_problem()
    inputs: list[Any] = leaves(p, shared=shared)
    inputs[0] = torch.full_like(p.mean, float("nan"))
    with pytest.raises(NumericalError, match="not finite"):
        fused(p, *inputs)
    inputs = leaves(p, shared=shared)
    inputs[2] = torch.full_like(p.Z, float("nan"))
    with pytest.raises(NumericalError, match="could not be factorised"):
        fused(p, *inputs)


@pytest.mark.parametrize("shared", [False, True])
def test_the_bound_from_sums_has_the_gradients_of_finite_differences(shared: bool) -> None:
    p = small_problem()
    noise = p.noise[:1] if shared else p.noise
    psi = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y)
    Kuu = kernel_matrix(p.rbf, p.Z)
    inputs = [t.clone().requires_grad_() for t in (psi.psi0, psi.psi1Y, psi.psi2, Kuu, noise)]

    def bound(*parts: Tensor) -> Tensor:
        psi0, psi1Y, psi2, K, s = parts
        sums = PsiSums(psi0, psi1Y, 0.5 * (psi2 + psi2.T))
        return collapsed_sums_bound(sums, 0.5 * (K + K.T), s, p.squares, len(p.Y))

    torch.testing.assert_close(
        bound(*inputs), fused(p, *leaves(p, shared=shared)), rtol=1e-11, atol=0
    )
    assert torch.autograd.gradcheck(bound, inputs, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert not bound(*inputs).requires_grad
