"""What ``status.json`` holds."""

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
    """What ``status.json`` holds: see ``Job`` for the meaning of each part."""

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
        """As status.json holds it."""
        stored = dataclasses.asdict(self)
        for moment in ("submitted", "started", "ended"):
            stored[moment] = None if stored[moment] is None else stored[moment].isoformat()
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> JobState:
        """From what ``to_json`` gave.

        Raises:
            DataError: a part is missing or makes no sense.
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
            raise DataError(f"status.json makes no sense: {error!r}.") from error

    def ending(self, status: Status, **parts: Any) -> JobState:
        """This state, ended now as ``status``."""
        return dataclasses.replace(self, status=status, stage="finished", ended=now(), **parts)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
