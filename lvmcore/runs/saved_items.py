"""Named selections of rows and views of the map, saved with a run.

Each is a JSON object with a name; its keys are defined by the caller, except "axes" of a selection,
at any depth: the latent dimensions of a region that was drawn on the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.atomic_files import dump_json, read_json, write_json

__all__ = [
    "LONGEST_ITEM_NAME",
    "SavedItem",
    "SavedSelection",
    "SavedView",
    "delete_map_regions",
    "items_stamp",
    "read_items",
    "write_items",
]

#: Largest number of characters of the name of a selection or a view.
LONGEST_ITEM_NAME = 60
#: Largest number of selections, or of views, of a run, and of characters of the JSON of one.
MOST_ITEMS, LONGEST_ITEM = 50, 500_000


@dataclass(frozen=True)
class SavedItem:
    """A named JSON object of a run; a subclass says what it describes.

    Attributes:
        noun: what it is, in messages.
        name: its name, on one line, not blank.
        content: its definition, as JSON.

    Raises:
        ConfigError: the name is blank or too long, or the content too large.
    """

    noun: ClassVar[str]

    name: str
    content: Mapping[str, Any]

    def __post_init__(self) -> None:
        name = " ".join(self.name.split())
        if not name or len(name) > LONGEST_ITEM_NAME:
            raise ConfigError(
                f"The name of the {self.noun} has {len(name):,} characters: expected 1 to "
                f"{LONGEST_ITEM_NAME}."
            )
        if len(dump_json(self.content)) > LONGEST_ITEM:
            raise ConfigError(
                "The outline of the selection has too many corners to be kept: draw it again with "
                "fewer, or as a box."
            )
        object.__setattr__(self, "name", name)


class SavedSelection(SavedItem):
    """A named selection of rows."""

    noun = "selection"

    @property
    def drawn(self) -> bool:
        """Whether it has a region of the map, and so is invalid for another map."""
        return _has_key(self.content, "axes")


class SavedView(SavedItem):
    """A named view of the map."""

    noun = "view"


Item = TypeVar("Item", bound=SavedItem)


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


def read_items(path: Path, kind: type[Item]) -> tuple[Item, ...]:
    """The items in a file, in the order of their names; invalid ones are left out."""
    try:
        stored = read_json(path)
    except DataError:
        return ()
    found = []
    for name, content in sorted(stored.items()):
        if isinstance(content, dict):
            try:
                found.append(kind(name, content))
            except ConfigError:
                continue
    return tuple(found)


def write_items(path: Path, items: Sequence[SavedItem]) -> None:
    """Replace the file; of two items with the same name the later one is kept.

    Raises:
        ConfigError: there are too many.
    """
    by_name = {one.name: one.content for one in items}
    if len(by_name) > MOST_ITEMS:
        raise ConfigError(
            f"A run keeps {MOST_ITEMS} {items[0].noun}s at most. Delete one that is no longer "
            "needed, and save this one again."
        )
    write_json(path, by_name)


def delete_map_regions(path: Path) -> None:
    """Delete the selections drawn on a map that is deleted; selections by cells are kept.

    Raises:
        OSError: the file cannot be written.
    """
    kept = read_items(path, SavedSelection)
    others = [one for one in kept if not one.drawn]
    if not others:
        path.unlink(missing_ok=True)
    elif len(others) < len(kept):
        write_items(path, others)


def items_stamp(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file is replaced; None without a file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size
