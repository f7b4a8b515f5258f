"""What ``status.json`` holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lvmcore.errors import ConfigError, DataError
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


__all__ = ["LONGEST_NAME", "LONGEST_NOTE", "JobNotes"]

#: Characters of a run's name and of its note, at most.
LONGEST_NAME, LONGEST_NOTE = 200, 10_000


@dataclass(frozen=True)
class JobNotes:
    """What ``about.json`` holds.

    Attributes:
        name: on one line; blank for the one that the run was asked for under.
        note: blank without one.
    """

    name: str = ""
    note: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> JobNotes:
        """From about.json; what is no text counts as blank."""
        name, note = (stored.get(part) for part in ("name", "note"))
        return cls(name if isinstance(name, str) else "", note if isinstance(note, str) else "")

    def named(self, name: str) -> JobNotes:
        """With another name.

        Raises:
            ConfigError: it is too long.
        """
        line = " ".join(name.split())
        if len(line) > LONGEST_NAME:
            raise ConfigError(
                f"The name has {len(line):,} characters: expected at most {LONGEST_NAME}. The "
                "note of the run has room for more."
            )
        return replace(self, name=line)

    def noted(self, note: str) -> JobNotes:
        """With another note.

        Raises:
            ConfigError: it is too long.
        """
        text = note.strip()
        if len(text) > LONGEST_NOTE:
            raise ConfigError(
                f"The note has {len(text):,} characters: expected at most {LONGEST_NOTE:,}. Keep "
                "the rest in a file of your own."
            )
        return replace(self, note=text)
