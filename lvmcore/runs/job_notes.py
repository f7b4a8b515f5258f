"""The name and the note that people give to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lvmcore.errors import ConfigError

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
