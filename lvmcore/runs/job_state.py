"""State of a run, as stored in ``status.json``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lvmcore.errors import DataError
from lvmcore.runs.job import Stage, Status, check_status, now

__all__ = ["JobState"]


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
    notes: tuple[str, ...] = ()
    attempt: int = 1
    earlier: float = 0.0
    memory: int | None = None

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
        try:
            return cls(
                status=check_status(stored["status"]),
                stage=stored["stage"],
                submitted=datetime.fromisoformat(stored["submitted"]),
                started=_moment(stored["started"]),
                ended=_moment(stored["ended"]),
                message=stored["message"],
                error=stored["error"],
                elbo=stored["elbo"],
                converged=stored["converged"],
                notes=tuple(stored["notes"]),
                attempt=int(stored.get("attempt", 1)),
                earlier=float(stored.get("earlier", 0.0)),
                memory=stored.get("memory"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"status.json is invalid: {error!r}.") from error

    def ending(self, status: Status, **parts: Any) -> JobState:
        """A copy that ended now with ``status``; ``parts`` are further fields to replace."""
        return dataclasses.replace(self, status=status, stage="finished", ended=now(), **parts)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
