"""A choice of the session with its earlier values for undo, and the undone ones for redo."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq
from typing import Generic, TypeVar

from app.state.values import KeyedValue

__all__ = ["History"]

T = TypeVar("T")

_MOST_STEPS = 50


class History(Generic[T]):
    """A choice that belongs to a run or a table: ``session.views[run]``; None before the first.

    A change is a step that can be undone, up to 50 of them.

    Args:
        key: of the choice in ``st.session_state``; those of the steps begin with it.
        same: whether two choices differ by no step.
    """

    def __init__(self, key: str, same: Callable[[T, T], bool] = eq) -> None:
        self._same = same
        self._current: KeyedValue[str, T | None] = KeyedValue(key, None)
        self._earlier: KeyedValue[str, tuple[T, ...]] = KeyedValue(f"{key}.earlier", ())
        self._undone: KeyedValue[str, tuple[T, ...]] = KeyedValue(f"{key}.undone", ())

    def __getitem__(self, owner: str) -> T | None:
        return self._current[owner]

    def __setitem__(self, owner: str, choice: T) -> None:
        """Record what the page shows; a new step forgets the undone ones."""
        current = self._current[owner]
        if current is not None and not self._same(choice, current):
            self._earlier[owner] = (*self._earlier[owner], current)[-_MOST_STEPS:]
            self._undone[owner] = ()
        self._current[owner] = choice

    def can_undo(self, owner: str) -> bool:
        """Whether there is an earlier choice."""
        return bool(self._earlier[owner])

    def can_redo(self, owner: str) -> bool:
        """Whether there is an undone choice."""
        return bool(self._undone[owner])

    def undo(self, owner: str) -> T | None:
        """Make the previous choice the current one, and return it.

        None without one, as a button may be clicked twice.
        """
        return self._move(owner, self._earlier, self._undone)

    def redo(self, owner: str) -> T | None:
        """Make the choice that was undone last the current one, and return it; None without one."""
        return self._move(owner, self._undone, self._earlier)

    def _move(
        self,
        owner: str,
        source: KeyedValue[str, tuple[T, ...]],
        target: KeyedValue[str, tuple[T, ...]],
    ) -> T | None:
        current = self._current[owner]
        if current is None or not source[owner]:
            return None
        *others, choice = source[owner]
        source[owner] = tuple(others)
        target[owner] = (*target[owner], current)
        self._current[owner] = choice
        return choice

    def replace(self, owner: str, change: Callable[[T], T]) -> None:
        """Change all choices of an owner, current, earlier and undone, without a step."""
        current = self._current[owner]
        if current is not None:
            self._current[owner] = change(current)
            for steps in (self._earlier, self._undone):
                steps[owner] = tuple(map(change, steps[owner]))
