"""Calls that do not depend on one another, as the fits from several starts or to several folds.

They are made one after the other in this process, unless a ``Caller`` was chosen for it that also
has others make them at once. What a call returns depends on its item alone, and results are put
together by the place of the item, so that they are the same wherever and in whichever order the
calls are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Caller", "IndependentCalls", "Look", "calls_are_shared", "chosen_caller", "make_calls"]

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Collects what other processes have finished; True asks to stop.
Look = Callable[[], bool]


@dataclass(frozen=True)
class IndependentCalls(Generic[Item, Result]):
    """Calls with one item each.

    Attributes:
        items: what they are made with; another process gets a pickle of its item.
        own: makes a call in this process. Its second argument is called now and then meanwhile: it
            collects what other processes have finished, and returns whether the run is to stop.
        elsewhere: returns what makes a call in another process, a function that can be pickled. It
            is called once, when the first call is to be made in one. None where only this process
            can make the calls.
        done: called in this process with the place and the result of each call, in the order in
            which they end; it may raise an error to end all.
        fits: whether a call is a fit with the settings of the run, which needs the memory and the
            GPU of one.
    """

    items: Sequence[Item]
    own: Callable[[Item, Look], Result]
    elsewhere: Callable[[], Callable[[Item], Result]] | None
    done: Callable[[int, Result], None]
    fits: bool = False


class Caller(Protocol):
    """Makes independent calls."""

    def make(self, calls: IndependentCalls[Any, Any]) -> None:
        """Make all calls.

        Raises:
            CancelledError: a stop was requested while other processes made the last calls.
            Exception: that of a call, or of ``done``.
        """


class _OneAfterAnother:
    """Makes the calls in this process, in the order of their items."""

    def make(self, calls: IndependentCalls[Any, Any]) -> None:
        """Make all calls."""
        for place, item in enumerate(calls.items):
            calls.done(place, calls.own(item, _nothing))


def _nothing() -> bool:
    """There is nothing to collect; a stop is the matter of the call."""
    return False


_callers: list[Caller] = [_OneAfterAnother()]


def make_calls(calls: IndependentCalls[Any, Any]) -> None:
    """Make calls as chosen for this process; calls within a call are made in its process.

    Raises:
        CancelledError: a stop was requested while other processes made the last calls.
        Exception: that of a call, or of ``done``.
    """
    caller = _callers[0 if calls.elsewhere is None else -1]
    with chosen_caller(_callers[0]):
        caller.make(calls)


def calls_are_shared() -> bool:
    """Whether other processes may make independent calls of this one."""
    return _callers[-1] is not _callers[0]


@contextmanager
def chosen_caller(caller: Caller) -> Iterator[None]:
    """The independent calls of this process are made by a caller.

    Args:
        caller: the caller.
    """
    _callers.append(caller)
    try:
        yield
    finally:
        _callers.pop()
