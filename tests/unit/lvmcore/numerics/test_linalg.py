"""Jittered factorisation."""

import pytest
import torch

from lvmcore.errors import NumericalError
from lvmcore.numerics import linalg
from lvmcore.numerics.linalg import JITTERS, cholesky, cholesky_batch, solve_lower, solve_upper

EYE = torch.eye(4, dtype=torch.float64)


def sound() -> torch.Tensor:
    root = torch.tensor([[2.0, 0, 0], [0.5, 1.0, 0], [-0.3, 0.2, 1.5]], dtype=torch.float64)
    return root @ root.T


def test_factor_gives_the_matrix_back_with_its_least_jitter() -> None:
    A = sound()
    L, jitter = cholesky(A, "A")
    assert jitter == JITTERS[0]
    expected = A + jitter * A.diagonal().mean() * torch.eye(3, dtype=A.dtype)
    torch.testing.assert_close(L @ L.T, expected, rtol=1e-14, atol=1e-14)
    assert torch.equal(L, L.tril())


def test_exact_uses_no_jitter_where_none_is_needed() -> None:
    A = sound()
    L, jitter = cholesky(A, "A", exact=True)
    assert jitter == 0.0
    torch.testing.assert_close(L @ L.T, A, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("below_zero", "expected"), [(1e-9, 1e-8), (5e-8, 1e-7), (5e-6, 1e-5), (5e-5, 1e-4)]
)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_jitter_rises_only_as_far_as_it_must(
    below_zero: float, expected: float, scale: float
) -> None:
    """An eigenvalue a little below zero, whatever the units of the matrix."""
    A = EYE.clone()
    A[0, 0] = -below_zero
    L, jitter = cholesky(scale * A, "A")
    assert jitter == expected
    assert bool(torch.isfinite(L).all())


@pytest.mark.parametrize("bad", [-1.0, torch.nan, torch.inf])
def test_what_cannot_be_factorised_is_named_with_advice(bad: float) -> None:
    A = EYE.clone()
    A[2, 2] = bad
    with pytest.raises(NumericalError, match=r"The kernel matrix \[4 x 4\].*Try fewer inducing"):
        cholesky(A, "The kernel matrix")


def test_single_precision_is_factorised_in_double() -> None:
    L, _ = cholesky(sound().float(), "A")
    assert L.dtype == torch.float64


def test_gradient_passes_through() -> None:
    A = sound().requires_grad_()
    L, _ = cholesky(A, "A", exact=True)
    (gradient,) = torch.autograd.grad(2 * L.diagonal().log().sum(), A)
    torch.testing.assert_close(gradient, torch.linalg.inv(A.detach()))


def test_triangular_solves() -> None:
    L, _ = cholesky(sound(), "A")
    B = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    torch.testing.assert_close(L @ solve_lower(L, B), B)
    torch.testing.assert_close(L.T @ solve_upper(L, B), B)


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (2, 1), (2, 2)])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_batch_with_one_matrix_that_is_not_finite_is_refused(
    bad: float, place: tuple[int, int]
) -> None:
    A = torch.stack([sound(), sound()])
    A[1, place[0], place[1]] = A[1, place[1], place[0]] = bad
    with pytest.raises(NumericalError, match=r"A \[3 x 3\] could not be factorised"):
        cholesky_batch(A, "A")


def test_the_gradient_of_a_factor_includes_the_scale_of_its_jitter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linalg, "JITTERS", (1e-2,))
    half = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def factor(half: torch.Tensor) -> torch.Tensor:
        return cholesky(half @ half.T, "A")[0]

    assert torch.autograd.gradcheck(factor, [half.requires_grad_()])
