"""The view of a run's map, with the earlier views for undo and the undone ones for redo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.state.values import KeyedValue

if TYPE_CHECKING:
    from app.analysis.map.map_view import MapView

__all__ = ["ViewHistory"]

_MOST_STEPS = 50


class ViewHistory:
    """The view of a run: ``session.views[run]``; None before the map was first drawn.

    A change of the view is a step that can be undone, up to 50 of them. A change of the clicked
    point or of the zoom alone is no step.

    Args:
        key: of the view in ``st.session_state``; those of the steps begin with it.
    """

    def __init__(self, key: str) -> None:
        self._current: KeyedValue[str, MapView | None] = KeyedValue(key, None)
        self._earlier: KeyedValue[str, tuple[MapView, ...]] = KeyedValue(f"{key}.earlier", ())
        self._undone: KeyedValue[str, tuple[MapView, ...]] = KeyedValue(f"{key}.undone", ())

    def __getitem__(self, run: str) -> MapView | None:
        return self._current[run]

    def __setitem__(self, run: str, view: MapView) -> None:
        """Record the view that the page shows; a new step forgets the undone ones."""
        current = self._current[run]
        if current is not None and not view.same_choices(current):
            self._earlier[run] = (*self._earlier[run], current)[-_MOST_STEPS:]
            self._undone[run] = ()
        self._current[run] = view

    def can_undo(self, run: str) -> bool:
        """Whether the run has an earlier view."""
        return bool(self._earlier[run])

    def can_redo(self, run: str) -> bool:
        """Whether the run has an undone view."""
        return bool(self._undone[run])

    def undo(self, run: str) -> MapView | None:
        """Make the previous view the current one, and return it.

        None without one, as a button may be clicked twice.
        """
        return self._move(run, self._earlier, self._undone)

    def redo(self, run: str) -> MapView | None:
        """Make the view that was undone last the current one, and return it; None without one."""
        return self._move(run, self._undone, self._earlier)

    def _move(
        self,
        run: str,
        source: KeyedValue[str, tuple[MapView, ...]],
        target: KeyedValue[str, tuple[MapView, ...]],
    ) -> MapView | None:
        current = self._current[run]
        if current is None or not source[run]:
            return None
        *others, view = source[run]
        source[run] = tuple(others)
        target[run] = (*target[run], current)
        self._current[run] = view
        return view

    def replace(self, run: str, change: Callable[[MapView], MapView]) -> None:
        """Change all views of a run, current, earlier and undone, without a step."""
        current = self._current[run]
        if current is not None:
            self._current[run] = change(current)
            for steps in (self._earlier, self._undone):
                steps[run] = tuple(map(change, steps[run]))
