"""Size of a step of a fit, and its measured time on a device.

Importing this module does not load torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

__all__ = ["Precision", "Workload", "measured_seconds", "step_work"]

#: Precision of a fit: in double, in single, or mixed, which is large products in single and
#: parameters, sums and factorisations in double.
Precision = Literal["float64", "float32", "mixed"]

# Repetitions of the measured step, of which the fastest counts, and its largest size.
_REPEATS, _MOST_ROWS, _MOST_WIDTH = 3, 20_000, 4096
# Settings that give the width of a step, and the width where they are advised for the table.
_WIDTHS, _USUAL_WIDTH = ("n_inducing", "n_features", "n_hidden"), 50


@dataclass(frozen=True)
class Workload:
    """Size of a step of a fit.

    Attributes:
        rows: rows of a step.
        columns: D.
        width: inducing inputs, features, or units of a layer.
        precision: of the products.
    """

    rows: int
    columns: int
    width: int
    precision: Precision = "float64"

    @property
    def products(self) -> int:
        """Multiplications of a step: rows with the width's square and with the columns."""
        return self.rows * self.width * (self.width + self.columns) + self.width**3 // 3

    @property
    def memory(self) -> int:
        """Bytes of the table, and of some arrays of rows by width."""
        size = 4 if self.precision == "float32" else 8
        return size * self.rows * (self.columns + 8 * self.width)


def step_work(settings: Mapping[str, Any], n_rows: int, n_columns: int) -> Workload:
    """The size of a step of a fit.

    Args:
        settings: of the model; a model without a number of inducing inputs, features or units is
            taken for one of a kernel matrix of all rows.
        n_rows: N.
        n_columns: D.
    """
    named = [name for name in _WIDTHS if name in settings]
    width = (settings[named[0]] or _USUAL_WIDTH) if named else n_rows
    rows = min(n_rows, settings.get("batch_size") or n_rows)
    return Workload(rows, n_columns, min(int(width), n_rows), settings.get("dtype", "float64"))


@cache
def measured_seconds(device: str, work: Workload) -> float:
    """Seconds of the products and the factorisation of a step on a device, the fastest of three.

    Of more rows than 20,000 so many are measured, and the time is scaled to all.
    """
    import torch

    kind = torch.float64 if work.precision == "float64" else torch.float32
    rows, width = min(work.rows, _MOST_ROWS), min(work.width, _MOST_WIDTH)
    Y = torch.ones(rows, work.columns, dtype=kind, device=device)
    K = torch.full((rows, width), 0.5, dtype=kind, device=device)
    eye = torch.eye(width, dtype=kind, device=device)

    def step() -> float:
        E = K.exp()
        sums, first = E.T @ E, E.T @ Y
        factor = torch.linalg.cholesky_ex(sums + rows * width * eye)[0]
        return float(torch.linalg.solve_triangular(factor, first, upper=False).sum())

    return min(_seconds(step) for _ in range(1 + _REPEATS)) * max(1.0, work.rows / rows)


def _seconds(step: Callable[[], float]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began
