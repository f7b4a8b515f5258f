"""What machine a figure was measured on, and how fast it was just then."""

from __future__ import annotations

import os
import platform
import statistics
import time
from typing import Any

import numpy as np
import sklearn
import torch

from lvmcore.checks import package_version

__all__ = ["describe", "matrix_product_seconds"]


def matrix_product_seconds(repeats: int = 5) -> float:
    """Median seconds of a float64 2048 x 2048 matrix product, the yardstick of a machine."""
    A = torch.randn(2048, 2048, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A @ A
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        A @ A
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def describe() -> dict[str, Any]:
    """Machine and versions, as JSON holds them."""
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
