"""Sums, optimisers and checkpoints of rows in shards are those of the same rows in one place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.row_block import split_rows
from lvmcore.distributed.row_sums import row_sums
from lvmcore.distributed.sharded_state import ShardedParameterState
from lvmcore.distributed.sharded_vectors import ShardedVectors
from lvmcore.distributed.shards import ShardLostError, Shards
from lvmcore.errors import NumericalError
from lvmcore.numerics.lbfgs import LBFGS, Point
from lvmcore.training.parameter_state import ParameterState, ParameterVectors
from tests.unit.lvmcore.distributed.quadratic_block import (
    Own,
    QuadraticBlock,
    Shared,
    local_shards,
    loss_of,
)

N, Q = 23, 3
SPLITS = [[N], [11, N], [2, 3, N], [1, 4, 5, 9, 16, 22, N]]
SHAPES: list[tuple[int, ...]] = [(N, Q), (N, 1)]


@pytest.fixture
def problem() -> tuple[Shared, Own, Tensor]:
    draw = torch.Generator().manual_seed(1)

    def some(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    return Shared(some(Q)), Own(some(N, Q), 0.3 * some(N, 1)), some(N, Q)


def total(fit: Tensor, curved: Tensor) -> Tensor:
    """A function of the sums that weighs them unevenly."""
    return (1 + fit).log() * 3 + (curved * torch.arange(1, Q + 1)).sum()


def own_gradients(shards: Shards, space: ShardedVectors, key: int) -> np.ndarray:
    """The gradient that the shards hold, in the order of the parameters on one machine."""
    parts = shards.ask("vectors.parts", [key])
    return np.concatenate([np.concatenate(p, axis=1)[0] for p in zip(*parts, strict=True)])


@pytest.mark.parametrize("ends", SPLITS)
def test_sums_and_gradients_are_those_of_all_rows(
    problem: tuple[Shared, Own, Tensor], ends: list[int]
) -> None:
    shared, own, Y = problem
    shards = local_shards(shared, own, Y, ends)
    value = total(*row_sums(shards, [shared.slope], None))
    expected = total(*loss_of(shared, own, Y))
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
    wanted = torch.autograd.grad(expected, [own.position, own.scale, shared.slope])
    vectors = ShardedVectors([shared.slope], shards, SHAPES)
    found = vectors.gradient(value)
    assert found is not None
    own_part = own_gradients(shards, vectors, found.key)
    np.testing.assert_allclose(
        own_part, torch.cat([g.reshape(-1) for g in wanted[:2]]).numpy(), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(vectors.rows([found])[0, -Q:], wanted[2].numpy(), rtol=1e-12)


def test_no_gradient_is_kept_where_none_is_wanted(problem: tuple[Shared, Own, Tensor]) -> None:
    shared, own, Y = problem
    shards = local_shards(shared, own, Y, [9, N])
    with torch.no_grad():
        value = total(*row_sums(shards, [shared.slope], None))
    assert not value.requires_grad
    torch.testing.assert_close(value, total(*loss_of(shared, own, Y)))


def test_an_error_in_a_block_is_raised_and_the_shards_go_on(
    problem: tuple[Shared, Own, Tensor],
) -> None:
    shared, own, Y = problem
    shards = local_shards(shared, own, Y, [9, N])
    with pytest.raises(NumericalError, match="broken block"):
        row_sums(shards, [shared.slope], "break")
    value = total(*row_sums(shards, [shared.slope], None))
    torch.testing.assert_close(value, total(*loss_of(shared, own, Y)))


def descend(objective: Any, vectors: ParameterVectors, scales: Any, steps: int) -> list[float]:
    """The values of some iterations of LBFGS."""

    def evaluate(x: Any) -> Point:
        vectors.move(x)
        value = objective()
        return Point(vectors.position(), float(value.detach()), vectors.gradient(value))

    solver: LBFGS = vectors.optimiser(1e-9)
    at, values = evaluate(vectors.position()), []
    for _ in range(steps):
        solver.scales = vectors.scales(scales())
        at = solver.iterate(at, evaluate)
        values.append(at.value)
    return values


@pytest.mark.parametrize("ends", SPLITS)
def test_lbfgs_on_inner_products_has_the_iterates_of_the_two_loop_recursion(
    problem: tuple[Shared, Own, Tensor], ends: list[int]
) -> None:
    shared, own, Y = problem
    shards = local_shards(shared, own, Y, ends)
    here = ShardedVectors([shared.slope], shards, SHAPES)
    start = shared.slope.detach().clone()
    found = descend(
        lambda: total(*row_sums(shards, [shared.slope], None)),
        here,
        lambda: [torch.full((Q,), 0.3, dtype=torch.float64)],
        30,
    )
    reached = shared.slope.detach().clone()
    with torch.no_grad():
        shared.slope.copy_(start)
    parameters = [own.position, own.scale, shared.slope]
    expected = descend(
        lambda: total(*loss_of(shared, own, Y)),
        ParameterVectors(parameters),
        lambda: [
            0.5 + own.position.detach().square(),
            own.scale.detach().exp(),
            torch.full((Q,), 0.3, dtype=torch.float64),
        ],
        30,
    )
    np.testing.assert_allclose(found[:12], expected[:12], rtol=1e-10)
    np.testing.assert_allclose(found[-1], expected[-1], rtol=1e-8)
    np.testing.assert_allclose(reached, shared.slope.detach(), rtol=1e-3)
    assert found[-1] < found[0] - 1


@pytest.mark.parametrize("ends", SPLITS)
def test_a_checkpoint_is_that_of_one_machine_and_is_read_by_any_number_of_shards(
    problem: tuple[Shared, Own, Tensor], ends: list[int]
) -> None:
    shared, own, Y = problem
    shards, same = local_shards(shared, own, Y, ends), Shared(shared.slope.data)
    state = ShardedParameterState([shared.slope], shards, SHAPES)
    whole = ParameterState([own.position, own.scale, same.slope])
    assert state.sizes == whole.sizes
    for rate in (0.1, 0.05):
        state.zero_grad()
        total(*row_sums(shards, [shared.slope], None)).backward()
        state.step(rate)
        whole.zero_grad()
        total(*loss_of(same, own, Y)).backward()
        whole.step(rate)
        if rate == 0.1:
            state.copy()
            whole.copy()
    found, expected = state.arrays(), whole.arrays()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-10, atol=1e-13)
    other = local_shards(shared, Own(torch.zeros(N, Q).double(), own.scale.data), Y, [6, 7, N])
    again = ShardedParameterState([Shared(torch.zeros(Q).double()).slope], other, SHAPES)
    again.restore(expected)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, expected[name])
    again.restore_copies()
    np.testing.assert_array_equal(again.arrays()["parameter.0"], expected["sound.0"])
    again.forget_moments()
    assert not any(name.startswith("adam") for name in again.arrays())


def test_pairs_of_lbfgs_are_read_by_another_number_of_shards(
    problem: tuple[Shared, Own, Tensor],
) -> None:
    shared, own, Y = problem
    first = ShardedVectors([shared.slope], local_shards(shared, own, Y, [9, N]), SHAPES)
    kept = np.random.default_rng(0).standard_normal((4, N * Q + N + Q))
    vectors = first.from_rows(kept)
    np.testing.assert_array_equal(first.rows(vectors), kept)
    one = ParameterVectors([own.position, own.scale, shared.slope])
    np.testing.assert_array_equal(one.rows(one.from_rows(kept)), kept)
    assert first.rows([]).shape == one.rows([]).shape == (0, N * Q + N + Q)
    assert vectors[1] @ vectors[2] == pytest.approx(kept[1] @ kept[2])
    assert len(vectors[0]) == kept.shape[1]


def test_vectors_without_a_name_are_deleted_in_the_shards(
    problem: tuple[Shared, Own, Tensor],
) -> None:
    shared, own, Y = problem
    vectors = ShardedVectors([shared.slope], local_shards(shared, own, Y, [9, N]), SHAPES)
    found = vectors.position()
    for _ in range(50):
        found = found * 0.5 + found
    assert found.norm() > 0
    assert len(vectors._space.own._vectors) < 8


@pytest.mark.parametrize(("rows", "parts"), [(10, 1), (10, 3), (2, 5), (1000, 7)])
def test_blocks_cover_the_rows_and_are_of_like_size(rows: int, parts: int) -> None:
    found = split_rows(rows, parts)
    numbers = [n for block in found for n in range(block.start, block.stop)]
    assert numbers == list(range(rows))
    sizes = {block.stop - block.start for block in found}
    assert len(found) == min(rows, parts)
    assert max(sizes) - min(sizes) <= 1


@pytest.fixture
def processes(problem: tuple[Shared, Own, Tensor]) -> Iterator[list[ProcessConnection]]:
    shared, own, Y = problem
    made = [
        ProcessConnection(
            QuadraticBlock(shared, Own(own.position[p].data, own.scale[p].data), Y[p])
        )
        for p in (slice(0, 9), slice(9, N))
    ]
    yield made
    for connection in made:
        connection.close()


def test_processes_compute_the_sums_and_one_that_ends_is_reported(
    problem: tuple[Shared, Own, Tensor], processes: list[ProcessConnection]
) -> None:
    shared, own, Y = problem
    shards = Shards(processes, [slice(0, 9), slice(9, N)])
    value = total(*row_sums(shards, [shared.slope], None))
    expected = total(*loss_of(shared, own, Y))
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
    value.backward()
    (wanted,) = torch.autograd.grad(expected, [shared.slope])
    torch.testing.assert_close(shared.slope.grad, wanted)
    with pytest.raises(NumericalError, match="broken block"):
        row_sums(shards, [shared.slope], "break")
    # Ctrl-C in a terminal reaches the fit alone.
    assert {os.getsid(process.pid) for process in processes}.isdisjoint({os.getsid(0)})
    processes[1]._process.kill()
    processes[1]._process.wait()
    with pytest.raises(ShardLostError, match="last checkpoint"):
        row_sums(shards, [shared.slope], None)
