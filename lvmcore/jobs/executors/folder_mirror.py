"""A copy of a run's folder on another machine, kept up to date by the changes of its files.

One side writes the run, and describes what changed since the other side's copy; the other side
applies it. ``status.json`` is read first and written last, so that a copy never has a state whose
results it lacks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lvmcore.persistence import write_atomically
from lvmcore.runs.run_files import RunFiles, private_opener

__all__ = ["FileChange", "FileMark", "apply_changes", "changed_files"]

#: Files that only grow within an attempt; their new bytes are sent.
_GROWING = ("events.jsonl", "worker.log")
_BRANCHES = "branch-*.safetensors"


@dataclass(frozen=True)
class FileMark:
    """Version of a file.

    Attributes:
        inode: its inode, which an atomic replacement changes.
        size: bytes.
        modified: time of its last change, nanoseconds.
    """

    inode: int
    size: int
    modified: int


@dataclass(frozen=True)
class FileChange:
    """A change of a file.

    Attributes:
        name: name of the file in the folder.
        content: the new bytes from ``offset`` on; None if the file was deleted.
        offset: number of bytes that stay.
        mark: the file's version after the change; None if it was deleted.
    """

    name: str
    content: bytes | None
    offset: int = 0
    mark: FileMark | None = None


def changed_files(folder: Path, known: Mapping[str, FileMark]) -> list[FileChange]:
    """The changes of the files of a run since a copy of them was made.

    Args:
        folder: folder of the run, which may be written meanwhile.
        known: versions of the files in the copy, by name.

    Returns:
        The changes in the order in which they are to be applied.
    """
    status = RunFiles(folder).status.name
    names = _written_names(folder)
    found = {name: _change(folder / name, known.get(name)) for name in (status, *names)}
    gone = [FileChange(name, None) for name in known if not (folder / name).is_file()]
    changes = [found[name] for name in (*names, status)]
    return [*gone, *(change for change in changes if change is not None)]


def apply_changes(folder: Path, changes: Sequence[FileChange]) -> dict[str, FileMark | None]:
    """Make the changes in a copy of the folder.

    Args:
        folder: the folder of the copy.
        changes: from ``changed_files``, in its order.

    Returns:
        The new versions by name; None for a file that was deleted.

    Raises:
        OSError: a file could not be written.
    """
    for change in changes:
        path = folder / change.name
        if change.content is None:
            path.unlink(missing_ok=True)
        elif change.offset:
            _write_end(path, change.offset, change.content)
        else:
            write_atomically(path, change.content)
    return {change.name: change.mark for change in changes}


def _written_names(folder: Path) -> list[str]:
    """Names of the files that a worker writes, but the state."""
    files = RunFiles(folder)
    whole = (files.events, files.log, files.checkpoint, files.completed, files.learning_curve)
    branches = sorted(path.name for path in folder.glob(_BRANCHES))
    return [*(path.name for path in (*whole, *files.results)), *branches]


def _change(path: Path, known: FileMark | None) -> FileChange | None:
    """The change of one file; None if it is not there or has not changed."""
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            mark = FileMark(stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if mark == known:
                return None
            same = known is not None and known.inode == mark.inode and known.size <= mark.size
            offset = known.size if known and same and path.name in _GROWING else 0
            file.seek(offset)
            content = file.read(mark.size - offset)
    except FileNotFoundError:
        return None
    return FileChange(path.name, content, offset, mark)


def _write_end(path: Path, offset: int, content: bytes) -> None:
    """Replace what follows ``offset`` in a file."""
    with open(path, "ab", opener=private_opener) as file:
        file.truncate(offset)
        file.write(content)
