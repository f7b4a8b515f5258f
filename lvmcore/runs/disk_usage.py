"""Disk usage of a store, by dataset and by run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskUsage", "measure_usage"]


@dataclass(frozen=True)
class DiskUsage:
    """Disk usage, bytes.

    Attributes:
        datasets: usage of each dataset, by its digest.
        runs: usage of each run, by its id.
    """

    datasets: Mapping[str, int]
    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        """Usage of all datasets and runs."""
        return sum(self.datasets.values()) + sum(self.runs.values())


def measure_usage(datasets: Path, runs: Path) -> DiskUsage:
    """Measure the subfolders of two folders: one for each dataset, one for each run."""
    return DiskUsage(_by_name(datasets), _by_name(runs))


def _by_name(parent: Path) -> dict[str, int]:
    """Usage of each subfolder; links are not followed."""
    folders = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    return {path.name: _bytes(path) for path in folders}


def _bytes(folder: Path) -> int:
    """Bytes of the files in a folder; a file with n hard links counts as 1/n of its size.

    Files deleted during the measurement count as 0.
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
