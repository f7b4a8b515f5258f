"""Shapes in signatures are checked in every test, and not at every call."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from lvmcore.kernels.psi_exponents import pairs_from_full
from tests import shapes


def product(A: Float[Tensor, "N M"], b: Float[Tensor, " M"]) -> Float[Tensor, " N"]:
    return A @ b if len(b) == A.shape[1] else A[:, 0]


@pytest.fixture
def checked_product() -> Callable[..., Any]:
    decorated: Callable[..., Any] = shapes._jaxtyped(typechecker=shapes.checked)(product)
    return decorated


def test_the_engine_is_checked() -> None:
    with pytest.raises(TypeCheckError, match="pairs_from_full"):
        pairs_from_full(torch.ones(3, 4))


def test_the_first_calls_of_a_test_are_checked_and_then_some(
    checked_product: Callable[..., Any],
) -> None:
    A, right, wrong = torch.eye(3), torch.ones(3), torch.ones(2)
    refused = []
    for number in range(300):
        try:
            checked_product(A, wrong)
        except TypeCheckError:
            refused.append(number)
    assert refused == [*range(shapes.FIRST_CALLS), shapes.LATER_CALLS, 2 * shapes.LATER_CALLS]
    shapes.start_test()
    with pytest.raises(TypeCheckError):
        checked_product(A, wrong)
    assert torch.equal(checked_product(A, right), right)
