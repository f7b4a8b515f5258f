"""Independent calls: one after the other here, and who makes those within a call."""

from __future__ import annotations

from typing import Any

import pytest

from lvmcore.distributed.independent_calls import (
    IndependentCalls,
    Look,
    calls_are_shared,
    chosen_caller,
    make_calls,
)
from tests.unit.lvmcore.distributed.shuffled_caller import ShuffledCaller


def square(item: int) -> int:
    return item * item


def own_square(item: int, look: Look) -> int:
    assert not look()
    return square(item)


def squares(items: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    calls = IndependentCalls(
        items, own_square, lambda: square, lambda place, value: found.append((place, value))
    )
    make_calls(calls)
    return found


def test_calls_are_made_in_their_order_here() -> None:
    assert not calls_are_shared()
    assert squares([3, 4, 5]) == [(0, 9), (1, 16), (2, 25)]
    assert squares([]) == []


def test_a_caller_makes_them_in_any_order_until_it_is_no_longer_chosen() -> None:
    caller = ShuffledCaller()
    with chosen_caller(caller):
        assert calls_are_shared()
        assert squares([3, 4, 5]) == [(0, 9), (2, 25), (1, 16)]
    assert not calls_are_shared()
    assert squares([3]) == [(0, 9)]


def test_calls_that_only_this_process_can_make_are_made_here() -> None:
    caller, found = ShuffledCaller(), list[int]()
    calls: IndependentCalls[int, int] = IndependentCalls(
        [2, 3], own_square, None, lambda place, value: found.append(value)
    )
    with chosen_caller(caller):
        make_calls(calls)
    assert found == [4, 9]
    assert caller.order == []


def test_calls_within_a_call_are_made_in_its_process() -> None:
    caller, inner = ShuffledCaller(), list[Any]()

    def own(item: int, look: Look) -> int:
        del look
        assert not calls_are_shared()
        inner.extend(squares([item, item]))
        return item

    with chosen_caller(caller):
        make_calls(IndependentCalls([7], own, lambda: square, lambda place, value: None))
    assert inner == [(0, 49), (1, 49)]


def test_an_error_of_a_call_ends_all() -> None:
    def own(item: int, look: Look) -> int:
        del look
        raise ValueError(str(item))

    with pytest.raises(ValueError, match="1"):
        make_calls(IndependentCalls([1, 2], own, lambda: square, lambda place, value: None))
    assert not calls_are_shared()
