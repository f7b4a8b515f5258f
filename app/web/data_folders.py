"""The files of the server's machine that a page may read: any, or those in the opened folders.

A dashboard that only this machine can reach is its owner's, who may read any file. One that others
can reach reads files in place only in the folders that its administrator opened by
``latentboard --data-folder``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.web.application import is_shared
from lvmcore.data.table_files import find_table_files
from lvmcore.errors import DataError

__all__ = ["FOLDERS", "allowed_files", "offers_files", "open_folders", "opened_folders"]

#: Environment variable with the opened folders, separated as those of PATH are.
FOLDERS = "LATENTBOARD_DATA_FOLDERS"


def open_folders(folders: Iterable[Path]) -> None:
    """Open folders for the tables of this server and its processes.

    Raises:
        DataError: one is no folder.
    """
    found = [folder.expanduser().resolve() for folder in folders]
    for folder in found:
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder: expected one that holds tables.")
    os.environ[FOLDERS] = os.pathsep.join(map(str, found))


def opened_folders() -> tuple[Path, ...]:
    """The opened folders, without symbolic links."""
    listed = os.environ.get(FOLDERS, "")
    return tuple(Path(part).resolve() for part in listed.split(os.pathsep) if part)


def offers_files() -> bool:
    """Whether tables can be registered in place at all."""
    return not is_shared() or bool(opened_folders())


def allowed_files(sources: Sequence[str]) -> list[Path]:
    """The files of a table, which this server may read.

    Args:
        sources: paths of files or folders.

    Raises:
        DataError: a path does not exist, or is not in an opened folder; of paths outside, the
            message does not say whether they exist.
    """
    if is_shared():
        for source in sources:
            _check(Path(source).expanduser(), source)
    found = find_table_files(sources)
    if is_shared():
        for path in found:  # a link in an opened folder may lead out of it
            _check(path, str(path))
    return found


def _check(path: Path, shown: str) -> None:
    folders = opened_folders()
    try:
        inside = any(path.resolve().is_relative_to(folder) for folder in folders)
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        opened = ", ".join(map(str, folders)) or "none"
        raise DataError(
            f"{shown!r} is not in a folder that this server may read tables from. The opened "
            f"folders are: {opened}. Its administrator can open others."
        )
