"""Provenance of a figure: the machine, its speed, the versions and the commit."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from lvmcore.base.validation import package_version
from lvmcore.jobs.machine_limits import cores
from lvmcore.numerics.threads import torch_threads

__all__ = ["commit_hash", "describe_machine", "matrix_product_seconds"]


def matrix_product_seconds(repeats: int = 5, threads: int | None = None) -> float:
    """Median seconds of a float64 2048 x 2048 matrix product, the measure of a machine's speed.

    Args:
        repeats: number of products.
        threads: number of threads; None for all cores, however few a fit uses.
    """
    A = torch.randn(2048, 2048, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    seconds = []
    with torch_threads(threads or cores()):
        A @ A
        for _ in range(repeats):
            start = time.perf_counter()
            A @ A
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def describe_machine() -> dict[str, Any]:
    """Machine and versions, as JSON values."""
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "latentboard": package_version(),
        "matrix product, seconds": round(matrix_product_seconds(), 3),
    }


def commit_hash() -> str:
    """Short hash of the checked-out commit; "unknown" without git or outside a clone."""
    root = Path(str(files("lvmcore"))).parent
    try:
        # A package installed inside another project's clone must not report that project's commit.
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return "unknown"
        return _git(root, "rev-parse", "--short", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    """Output of a git command in a folder."""
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)
    return done.stdout.strip()
