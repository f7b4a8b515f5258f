"""The selected rows of a run's map, with the earlier selections for undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.state.values import KeyedValue

if TYPE_CHECKING:
    from app.analysis.map.selections import Selection

__all__ = ["SelectionHistory"]

_MAX_EARLIER = 20


class SelectionHistory:
    """The selection of a run: ``session.selection[run] = region``; None selects nothing.

    An assignment of another selection can be undone, up to 20 of them.

    Args:
        key: of the selection in ``st.session_state``.
        earlier_key: of the earlier selections.
    """

    def __init__(self, key: str, earlier_key: str) -> None:
        self._current: KeyedValue[str, Selection | None] = KeyedValue(key, None)
        self._earlier: KeyedValue[str, tuple[Selection | None, ...]] = KeyedValue(earlier_key, ())

    def __getitem__(self, run: str) -> Selection | None:
        return self._current[run]

    def __setitem__(self, run: str, selection: Selection | None) -> None:
        self.set(run, selection)

    def set(self, run: str, selection: Selection | None) -> None:
        """Select rows of a run; for callbacks, which cannot hold an assignment."""
        current = self._current[run]
        if selection != current:
            self._earlier[run] = (*self._earlier[run], current)[-_MAX_EARLIER:]
            self._current[run] = selection

    def remove(self, run: str, matches: Callable[[Selection], bool]) -> None:
        """Remove the selections of a run that match, current and earlier, without undo."""
        current = self._current[run]
        remaining = (one for one in self._earlier[run] if one is None or not matches(one))
        self._earlier[run] = tuple(remaining)
        self._current[run] = None if current is not None and matches(current) else current

    def can_undo(self, run: str) -> bool:
        """Whether the run has an earlier selection."""
        return bool(self._earlier[run])

    def undo(self, run: str) -> None:
        """Select the previous selection again, if there is one: a button may be clicked twice."""
        if not self._earlier[run]:
            return
        *others, previous = self._earlier[run]
        self._earlier[run] = tuple(others)
        self._current[run] = previous
