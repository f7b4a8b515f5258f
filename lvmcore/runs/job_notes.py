"""User-edited name and note of a run."""

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
    """Content of ``about.json``.

    Attributes:
        name: name of the run, on one line; blank for the name in its description.
        note: note; blank for none.
    """

    name: str = ""
    note: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> JobNotes:
        """From the content of ``about.json``; a value that is not a string counts as blank."""
        name, note = (stored.get(part) for part in ("name", "note"))
        return cls(name if isinstance(name, str) else "", note if isinstance(note, str) else "")

    def named(self, name: str) -> JobNotes:
        """A copy with another name.

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
        """A copy with another note.

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
