"""Quadratic forms, against the products written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lvmcore.numerics.quadratic_forms import quadratic_forms, shared_quadratic_forms

B, S, R = 6, 3, 4
ORDERS = [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [1, 1, 1, 4], [5, 0, 5, 5, 2], [3]]


@pytest.fixture
def matrices(generator: torch.Generator) -> Tensor:
    A = torch.randn(B, R, R, generator=generator, dtype=torch.float64)
    return A + A.mT


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cached", [1, 2 * R * R, 1 << 18])
def test_forms_equal_their_sums(
    matrices: Tensor,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
    order: list[int],
    cached: int,
) -> None:
    monkeypatch.setattr("lvmcore.numerics.quadratic_forms.CACHE_CELLS", cached)
    v = torch.randn(len(order), S, R, generator=generator, dtype=torch.float64)
    expected = torch.einsum("nsr,nrq,nsq->n", v, matrices[order], v)
    torch.testing.assert_close(quadratic_forms(v, matrices, torch.tensor(order)), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_are_right_twice(
    matrices: Tensor, generator: torch.Generator, order: list[int]
) -> None:
    v = torch.randn(len(order), S, R, generator=generator, dtype=torch.float64).requires_grad_()

    def forms(v: Tensor) -> Tensor:
        return quadratic_forms(v, matrices, torch.tensor(order))

    torch.autograd.gradcheck(forms, (v,))
    torch.autograd.gradgradcheck(forms, (v,))


@pytest.mark.parametrize("cached", [1, 3 * R, 1 << 18])
def test_forms_of_shared_vectors_equal_their_sums(
    matrices: Tensor, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    monkeypatch.setattr("lvmcore.numerics.quadratic_forms.CACHE_CELLS", cached)
    a = torch.randn(R, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    roots = torch.randn(B, R, R, generator=generator, dtype=torch.float64, requires_grad=True)
    expected = torch.einsum("mn,cmk,kn->cn", a, matrices, a)
    torch.testing.assert_close(shared_quadratic_forms(a, matrices), expected)
    assert torch.autograd.gradcheck(lambda a: shared_quadratic_forms(a, matrices), (a,))
    # By the matrices too, along symmetric ones.
    assert torch.autograd.gradcheck(lambda a, F: shared_quadratic_forms(a, F @ F.mT), (a, roots))
