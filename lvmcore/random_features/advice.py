"""Recommended settings of a random-feature model for a table."""

from __future__ import annotations

from lvmcore.base.advice import LONG_TABLE, advised_likelihood, advised_steps
from lvmcore.base.table_size import TableSize
from lvmcore.parameters import Advised
from lvmcore.random_features.construction import BATCH

__all__ = ["advised_settings"]

# Number of counts above which single precision is recommended.
MANY_COUNTS = 200_000
# Recommended steps for counts: from 500 to this number, bounds rise by 0.02 nats a cell or more.
STEPS_OF_COUNTS = 1000
# Recommended passes over the rows, and maximum of the recommended steps.
PASSES, MOST_STEPS = 20, 3000


def advised_settings(size: TableSize) -> dict[str, Advised]:
    """The likelihood for the type of the cells; for counts fewer features and more steps.

    A table of counts has a precision for each cell, so a step costs N × D × R², against
    N × R (R + D) for numbers.
    """
    n_rows, n_columns, cells = size.n_rows, size.n_columns, size.cells
    found = advised_likelihood(cells)
    if found:
        reason = f"each of {n_rows * n_columns:,} cells has its own weight, which takes time"
        found["n_features"] = Advised(50, f"{reason} quadratic in the features")
    if cells == "counts":
        why = "after 500 steps the bound of a table of counts often still rises"
        found["max_iter"] = Advised(STEPS_OF_COUNTS, why)
    if found and n_rows * n_columns > MANY_COUNTS:
        found["dtype"] = Advised("float32", f"{reason}, half of it in single precision")
    elif found and n_rows > LONG_TABLE:
        found["max_iter"] = advised_steps(n_rows)
    elif PASSES * n_rows > 500 * BATCH:
        steps = min(MOST_STEPS, PASSES * n_rows // BATCH)
        batch = f"a step uses {BATCH:,} of {n_rows:,} rows, if they are complete"
        why = f"{batch}, and these are {PASSES} passes over the rows"
        found["max_iter"] = Advised(steps, why)
    return found
