"""User-edited name, note and tags of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lvmcore.errors import ConfigError

__all__ = ["LONGEST_NAME", "LONGEST_NOTE", "LONGEST_TAG", "MOST_TAGS", "JobNotes"]

#: Characters of a run's name and of its note, at most.
LONGEST_NAME, LONGEST_NOTE = 200, 10_000
#: Characters of a tag, and tags of a run, at most.
LONGEST_TAG, MOST_TAGS = 40, 20


@dataclass(frozen=True)
class JobNotes:
    """Content of ``about.json``.

    Attributes:
        name: name of the run, on one line; blank for the name in its description.
        note: note; blank for none.
        tags: tags, each on one line, all different.
    """

    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> JobNotes:
        """From the content of ``about.json``; what is of another type counts as blank."""
        name, note = (stored.get(part) for part in ("name", "note"))
        tags = stored.get("tags")
        return cls(
            name if isinstance(name, str) else "",
            note if isinstance(note, str) else "",
            tuple(one for one in tags if isinstance(one, str)) if isinstance(tags, list) else (),
        )

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

    def tagged(self, tags: Iterable[str]) -> JobNotes:
        """A copy with other tags; blank ones and repetitions are left out.

        Raises:
            ConfigError: a tag is too long, or there are too many.
        """
        found = tuple(dict.fromkeys(line for tag in tags if (line := " ".join(tag.split()))))
        longest = max(found, key=len, default="")
        if len(longest) > LONGEST_TAG:
            raise ConfigError(
                f"The tag {longest[:LONGEST_TAG]!r}… has {len(longest):,} characters: expected at "
                f"most {LONGEST_TAG}."
            )
        if len(found) > MOST_TAGS:
            raise ConfigError(f"The run has {len(found)} tags: expected at most {MOST_TAGS}.")
        return replace(self, tags=found)
