"""Threads of torch's operations."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lvmcore import FastLDGD
from lvmcore.numerics.threads import torch_threads


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_threads_are_as_before_afterwards() -> None:
    with torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="stop"), torch_threads(1):
        raise ValueError("stop")
    assert torch.get_num_threads() == 2


def test_batches_are_computed_in_one_thread() -> None:
    seen: list[int] = []
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = FastLDGD(n_components=2, n_inducing=8, max_iter=3)
    model.fit(X, ["a", "b"] * 15, callback=lambda step: bool(seen.append(torch.get_num_threads())))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
