"""Disk usage of a store, by dataset and by run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskUsage", "folder_bytes", "measure_usage"]


@dataclass(frozen=True)
class DiskUsage:
    """Disk usage, bytes.

    Attributes:
        datasets: usage of each dataset, by its digest.
        runs: usage of each run, by its id.
        bin: usage of what was deleted and can be restored.
    """

    datasets: Mapping[str, int]
    runs: Mapping[str, int]
    bin: int = 0

    @property
    def total(self) -> int:
        """Usage of all datasets and runs, without the bin."""
        return sum(self.datasets.values()) + sum(self.runs.values())


def measure_usage(datasets: Path, runs: Path, bin: Path) -> DiskUsage:
    """Measure the subfolders of two folders, one for each dataset and run, and a third folder."""
    return DiskUsage(_by_name(datasets), _by_name(runs), folder_bytes(bin))


def _by_name(parent: Path) -> dict[str, int]:
    """Usage of each subfolder; links are not followed."""
    folders = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    return {path.name: folder_bytes(path) for path in folders}


def folder_bytes(folder: Path) -> int:
    """Bytes of the files in a folder; a file with n hard links counts as 1/n of its size.

    Files deleted during the measurement count as 0, as does a folder that does not exist.
    """
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    found = entry.stat(follow_symlinks=False)
                    total += found.st_size // max(1, found.st_nlink)
            except OSError:
                continue
    return total
