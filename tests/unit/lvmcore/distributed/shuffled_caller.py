"""A caller that makes most calls by copies of what is called, as other processes have them."""

from __future__ import annotations

import pickle
from typing import Any

from lvmcore.distributed.independent_calls import IndependentCalls
from lvmcore.errors import CancelledError

__all__ = ["ShuffledCaller"]


class ShuffledCaller:
    """Makes the first call here and the others by pickled copies, the last one first.

    Args:
        during: number of calls that end while the first is under way, one at each look.
        most: number of calls after which it is asked to stop; None for all.

    Attributes:
        order: places of the calls that copies made, in their order.
    """

    def __init__(self, during: int = 0, most: int | None = None) -> None:
        self._during, self._most = during, most
        self.order: list[int] = []

    def make(self, calls: IndependentCalls[Any, Any]) -> None:
        """Make all calls."""
        others = list(range(1, len(calls.items)))

        def one_elsewhere() -> None:
            assert calls.elsewhere is not None
            place = others.pop()
            item = pickle.loads(pickle.dumps(calls.items[place]))
            made = pickle.loads(pickle.dumps(calls.elsewhere()))(item)
            self.order.append(place)
            calls.done(place, pickle.loads(pickle.dumps(made)))

        def look() -> bool:
            if others and len(self.order) < self._during:
                one_elsewhere()
            return False

        calls.done(0, calls.own(calls.items[0], look))
        while others:
            if self._most is not None and len(self.order) + 1 >= self._most:
                raise CancelledError("Stopped before all parts of the run were done.")
            one_elsewhere()
