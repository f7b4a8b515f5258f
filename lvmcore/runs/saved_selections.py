"""Selections of rows that somebody named and kept with a run.

What describes a selection is up to whoever keeps it: here it is a JSON object under a name. One
thing is agreed on: a selection that was drawn on the map names the latent dimensions under "axes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.atomic_files import dump_json, read_json, write_json

__all__ = [
    "LONGEST_SELECTION_NAME",
    "SavedSelection",
    "drop_drawn",
    "read_selections",
    "selections_stamp",
    "write_selections",
]

#: Characters of a selection's name, at most.
LONGEST_SELECTION_NAME = 60
#: Selections that a run keeps, and characters that one of them may take, at most.
MOST_SELECTIONS, LONGEST_SELECTION = 50, 500_000


@dataclass(frozen=True)
class SavedSelection:
    """A selection under a name.

    Attributes:
        name: on one line, not blank.
        content: what describes it, as JSON.

    Raises:
        ConfigError: the name is blank or too long, or the content too large.
    """

    name: str
    content: Mapping[str, Any]

    @property
    def drawn(self) -> bool:
        """Whether it is a region of the map, and means nothing on another one."""
        return "axes" in self.content

    def __post_init__(self) -> None:
        name = " ".join(self.name.split())
        if not name or len(name) > LONGEST_SELECTION_NAME:
            raise ConfigError(
                f"The name of the selection has {len(name):,} characters: expected 1 to "
                f"{LONGEST_SELECTION_NAME}."
            )
        if len(dump_json(self.content)) > LONGEST_SELECTION:
            raise ConfigError(
                "The outline of the selection has too many corners to be kept: draw it again with "
                "fewer, or as a box."
            )
        object.__setattr__(self, "name", name)


def read_selections(path: Path) -> tuple[SavedSelection, ...]:
    """The selections in a file, in the order of their names; what makes no sense is left out."""
    try:
        stored = read_json(path)
    except DataError:
        return ()
    found = []
    for name, content in sorted(stored.items()):
        if isinstance(content, dict):
            try:
                found.append(SavedSelection(name, content))
            except ConfigError:
                continue
    return tuple(found)


def write_selections(path: Path, selections: Sequence[SavedSelection]) -> None:
    """Replace the file; of two selections of one name the later one is kept.

    Raises:
        ConfigError: there are too many.
    """
    by_name = {one.name: one.content for one in selections}
    if len(by_name) > MOST_SELECTIONS:
        raise ConfigError(
            f"A run keeps {MOST_SELECTIONS} selections at most. Delete one that is no longer "
            "needed, and save this one again."
        )
    write_json(path, by_name)


def drop_drawn(path: Path) -> None:
    """Let go of the selections that were drawn on a map which goes; those of cells stay.

    Raises:
        OSError: the file cannot be written.
    """
    kept = read_selections(path)
    others = [one for one in kept if not one.drawn]
    if not others:
        path.unlink(missing_ok=True)
    elif len(others) < len(kept):
        write_selections(path, others)


def selections_stamp(path: Path) -> tuple[int, int, int] | None:
    """What is another one whenever the file was replaced; None without a file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size
