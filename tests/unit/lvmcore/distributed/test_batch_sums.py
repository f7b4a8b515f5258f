"""Sums over batches of rows in shards are those of the same rows in one place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from lvmcore.distributed.batch_block import BatchBlock
from lvmcore.distributed.batch_sums import BatchSums
from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.shards import LocalConnection, ShardLostError, Shards

N, Q = 23, 3
SPLITS = [[N], [11, N], [2, 3, N], [1, 4, 5, 9, 16, 22, N]]
BATCHES = [[4, 22, 0, 13, 7], [12, 19], list(range(N))]


class Slope(nn.Module):
    """A slope that all rows share [Q], and a shift that a step changes beside it [Q]."""

    shift: Tensor

    def __init__(self, slope: Tensor) -> None:
        super().__init__()
        self.slope = nn.Parameter(slope.clone())
        self.register_buffer("shift", torch.zeros(Q, dtype=torch.float64))


def loss_of(
    model: Slope, Y: Tensor, inputs: Tensor, noise: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Two sums over rows, coupled and not quadratic, [] and [Q]; and one without a gradient."""
    drawn = inputs + 0.1 * noise[0]
    fit = (Y - drawn * model.slope - model.shift).square().sum()
    curved = (drawn * model.slope).sin().sum(0)
    return scale * fit, curved, Y.square().sum(0)


class Block(BatchBlock):
    """Rows Y [n, Q]."""

    def __init__(self, shared: Slope, Y: Tensor) -> None:
        super().__init__(shared)
        self.model, self.Y = shared, Y

    @property
    def state(self) -> Sequence[Tensor]:
        return [self.model.shift]

    def batch_sums(self, rows: Tensor, scale: float, noise: Tensor | None) -> tuple[Tensor, ...]:
        assert noise is not None
        assert self.inputs is not None
        return loss_of(self.model, self.Y[rows], self.inputs, noise, scale)


def some(*shape: int, seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def sums_of(model: Slope, Y: Tensor, ends: list[int], connect: type = LocalConnection) -> BatchSums:
    rows = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    shards = Shards([connect(Block(model, Y[part].clone())) for part in rows], rows)
    return BatchSums(shards, [model], [model.shift])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("ends", SPLITS)
def test_sums_and_gradients_are_those_of_the_batch(ends: list[int], batch: list[int]) -> None:
    model, Y, rows = Slope(some(Q)), some(N, Q, seed=2), torch.tensor(batch)
    inputs = some(len(batch), Q, seed=3).requires_grad_()
    noise, sums = some(1, len(batch), Q, seed=4), sums_of(model, Y, ends)
    model.shift.copy_(some(Q, seed=5))  # the shards take it with the batch
    found = sums.of_batch(rows, 2.5, noise, inputs)
    expected = loss_of(model, Y[rows], inputs, noise, 2.5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)

    def slopes(parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
        total = (1 + parts[0]).log() * 3 + (parts[1] * torch.arange(1, Q + 1)).sum()
        return torch.autograd.grad(total, [model.slope, inputs])

    for one, other in zip(slopes(found), slopes(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_a_sum_that_is_not_used_needs_no_gradient() -> None:
    model, Y, rows = Slope(some(Q)), some(N, Q, seed=2), torch.tensor(BATCHES[0])
    inputs, noise = some(5, Q, seed=3), some(1, 5, Q, seed=4)
    fit = sums_of(model, Y, [9, N]).of_batch(rows, 1.0, noise, inputs)[0]
    (found,) = torch.autograd.grad(fit, [model.slope])
    fit = loss_of(model, Y[rows], inputs, noise, 1.0)[0]
    torch.testing.assert_close(found, torch.autograd.grad(fit, [model.slope])[0])


def test_parameters_may_change_in_place_between_the_sums_and_their_gradient() -> None:
    """As natural gradients do, which follow the sums of a step."""
    model, Y, rows = Slope(some(Q)), some(N, Q, seed=2), torch.tensor(BATCHES[0])
    inputs, noise = some(5, Q, seed=3), some(1, 5, Q, seed=4)
    wanted = torch.autograd.grad(loss_of(model, Y[rows], inputs, noise, 1.0)[0], [model.slope])[0]
    fit = sums_of(model, Y, [9, N]).of_batch(rows, 1.0, noise, inputs)[0]
    with torch.no_grad():
        model.slope.mul_(2)
    torch.testing.assert_close(torch.autograd.grad(fit, [model.slope])[0], wanted)


def test_a_batch_over_processes_is_that_of_one_and_a_lost_one_is_named() -> None:
    model, Y, rows = Slope(some(Q)), some(N, Q, seed=2), torch.tensor(BATCHES[0])
    inputs, noise = some(5, Q, seed=3), some(1, 5, Q, seed=4)
    sums = sums_of(model, Y, [7, N], ProcessConnection)
    found = sums.of_batch(rows, 1.5, noise, inputs)
    for one, other in zip(found, loss_of(model, Y[rows], inputs, noise, 1.5), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)
    lost = sums._shards._connections[1]
    assert isinstance(lost, ProcessConnection)
    lost._process.kill()
    lost._process.wait()
    with pytest.raises(ShardLostError, match="last checkpoint"):
        sums.of_batch(rows, 1.5, noise, inputs)
