"""State of a run, as stored in ``status.json``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lvmcore.devices import Computation
from lvmcore.errors import DataError
from lvmcore.runs.atomic_files import as_record
from lvmcore.runs.job import Stage, Status, now

__all__ = ["JobState", "Reason"]

#: Reasons of an early stop.
Reason = Literal["cancelled", "interrupted"]


@dataclass(frozen=True)
class JobState:
    """State of a run, as stored in ``status.json``; the fields are described in ``Job``."""

    status: Status
    stage: Stage
    submitted: datetime
    started: datetime | None = None
    ended: datetime | None = None
    message: str | None = None
    error: str | None = None
    elbo: float | None = None
    converged: bool | None = None
    rise: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    attempt: int = 1
    earlier: float = 0.0
    memory: int | None = None
    computation: Computation | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as in ``status.json``."""
        stored = dataclasses.asdict(self)
        for moment in ("submitted", "started", "ended"):
            stored[moment] = None if stored[moment] is None else stored[moment].isoformat()
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> JobState:
        """The state from its JSON form.

        Raises:
            DataError: a field is missing or invalid.
        """
        state = as_record(stored, cls, "status.json")
        for moment in (state.submitted, state.started, state.ended):
            if moment is not None and (moment.tzinfo is None or not 1990 < moment.year < 9000):
                raise DataError(f"status.json is damaged: {moment} is no time of a run.")
        if state.earlier < 0 or (state.memory or 0) < 0 or state.attempt < 1:
            raise DataError("status.json is damaged: a number is negative.")
        return state

    def ending(self, status: Status, **parts: Any) -> JobState:
        """A copy that ended now with ``status``; ``parts`` are further fields to replace."""
        return dataclasses.replace(self, status=status, stage="finished", ended=now(), **parts)
