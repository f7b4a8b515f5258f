"""Named selections of rows, saved with a run.

A selection is a JSON object with a name; its keys are defined by the caller, except "axes", at any
depth: the latent dimensions of a region that was drawn on the map.
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
    "delete_map_regions",
    "read_selections",
    "selections_stamp",
    "write_selections",
]

#: Largest number of characters of a selection's name.
LONGEST_SELECTION_NAME = 60
#: Largest number of selections of a run, and of characters of the JSON of one of them.
MOST_SELECTIONS, LONGEST_SELECTION = 50, 500_000


@dataclass(frozen=True)
class SavedSelection:
    """A named selection of rows.

    Attributes:
        name: its name, on one line, not blank.
        content: its definition, as JSON.

    Raises:
        ConfigError: the name is blank or too long, or the content too large.
    """

    name: str
    content: Mapping[str, Any]

    @property
    def drawn(self) -> bool:
        """Whether it has a region of the map, and so is invalid for another map."""
        return _has_key(self.content, "axes")

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


def _has_key(content: Any, key: str) -> bool:
    """Whether JSON has an object with a key, at any depth."""
    remaining = [content]
    while remaining:
        one = remaining.pop()
        if isinstance(one, Mapping):
            if key in one:
                return True
            remaining.extend(one.values())
        elif isinstance(one, list):
            remaining.extend(one)
    return False


def read_selections(path: Path) -> tuple[SavedSelection, ...]:
    """The selections in a file, in the order of their names; invalid ones are left out."""
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
    """Replace the file; of two selections with the same name the later one is kept.

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


def delete_map_regions(path: Path) -> None:
    """Delete the selections drawn on a map that is deleted; selections by cells are kept.

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
    """A value that changes whenever the file is replaced; None without a file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size
