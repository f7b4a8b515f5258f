"""How much room a store takes on the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskUsage", "measure_usage"]


@dataclass(frozen=True)
class DiskUsage:
    """Room on the disk, in bytes of files.

    Attributes:
        datasets: of each dataset, by its digest.
        runs: of each run, by its id.
    """

    datasets: Mapping[str, int]
    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        """Of all datasets and runs."""
        return sum(self.datasets.values()) + sum(self.runs.values())


def measure_usage(datasets: Path, runs: Path) -> DiskUsage:
    """Measure the folders below two folders: one for each dataset, one for each run."""
    return DiskUsage(_by_name(datasets), _by_name(runs))


def _by_name(parent: Path) -> dict[str, int]:
    return {path.name: _bytes(path) for path in parent.iterdir() if path.is_dir()}


def _bytes(folder: Path) -> int:
    """Bytes of the files in a folder, a part of those that others hold too.

    What goes away meanwhile counts nothing.
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
