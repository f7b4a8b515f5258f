"""Recommended settings for a table, from its numbers of rows, columns and classes."""

from __future__ import annotations

import sys
from typing import Literal

from lvmcore.base.table_size import TableSize
from lvmcore.parameters import Advised
from lvmcore.preprocessing.cell_types import Cells

#: Layouts of the inducing inputs: free, or on a grid.
InducingLayout = Literal["free", "grid"]

# Number of rows above which the recommended steps keep a fit within two minutes on two cores; steps
# times rows of any fit, and of a map of a complete table without labels, whose steps are cheap:
# 100,000 rows of 50 columns converged after 501 steps and 62 s of one core.
LONG_TABLE = 20_000
LONG_TABLE_ROW_STEPS, COMPLETE_MAP_ROW_STEPS = 12_000_000, 30_000_000
# Steps of a map with missing cells that use a subset of the rows, and the most of those that use
# all, whose product with the rows keeps them within a minute.
SUBSET_STEPS, WHOLE_STEPS, WHOLE_ROW_STEPS = 650, 250, 10_000_000
# Inducing inputs of a map without labels for up to so many rows: free, free with missing cells, and
# on a grid.
FREE_INDUCING = ((300, 25), (1000, 50), (4000, 100), (LONG_TABLE, 50), (sys.maxsize, 25))
INCOMPLETE_MAP_INDUCING = ((1000, 25), (LONG_TABLE, 50), (sys.maxsize, 25))
GRID_INDUCING = ((1000, 100), (4000, 225), (LONG_TABLE, 144), (sys.maxsize, 49))
# Number of rows above which a fit by mini-batches takes larger steps.
MANY_ROWS = 5000
# Number of columns above which label-aware models should share one noise variance.
WIDE_TABLE = 30


def long_table_steps(n_rows: int) -> int:
    """Steps for a table longer than ``LONG_TABLE``, ∝ 1/rows between 100 and 300."""
    return min(300, max(100, LONG_TABLE_ROW_STEPS // n_rows))


def advised_map_steps(n_rows: int) -> Advised:
    """Steps of a complete map without labels of a table longer than ``LONG_TABLE``."""
    return Advised(
        min(900, max(100, COMPLETE_MAP_ROW_STEPS // n_rows)),
        f"each step uses all {n_rows:,} rows, and so many take about a minute on two cores",
    )


def advised_incomplete_map_steps(n_rows: int) -> Advised:
    """Steps of a map with missing cells of a table longer than ``LONG_TABLE``."""
    whole = min(WHOLE_STEPS, max(50, WHOLE_ROW_STEPS // n_rows))
    return Advised(
        SUBSET_STEPS + whole,
        f"the last {whole} steps use all {n_rows:,} rows, and take about a minute on two cores",
    )


def advised_steps(n_rows: int) -> Advised:
    """Steps for a table longer than ``LONG_TABLE``, with the reason."""
    return Advised(
        long_table_steps(n_rows),
        f"each step uses all {n_rows:,} rows, and so many take about two minutes on two cores",
    )


def advised_likelihood(cells: Cells) -> dict[str, Advised]:
    """The likelihood for the type of the cells, unless they are real numbers, with the reason."""
    if cells == "counts":
        return {"likelihood": Advised("negative_binomial", "every cell is a count")}
    if cells == "binary":
        return {"likelihood": Advised("bernoulli", "every cell is 0 or 1")}
    return {}


def advised_inducing(count: int, n_rows: int, n_classes: int) -> Advised:
    """``count`` inducing inputs for a long table or for many classes, with the reason."""
    what = f"{n_rows:,} rows" if n_rows > 1000 or n_classes <= 5 else f"{n_classes} classes"
    return Advised(count, f"{what} have more structure than fewer inducing inputs can represent")


def advised_map(size: TableSize) -> dict[str, Advised]:
    """Dimensions, noise and inducing inputs of a map without labels.

    A map is looked at in two dimensions, with all columns alike; more dimensions and a noise for
    each column predict missing cells better. There are as many inducing inputs as a minute of
    steps allows.
    """
    if size.incomplete:
        found = {
            "n_components": Advised("ard", "more dimensions predict missing cells better"),
            "noise": Advised("column", "each filled cell has the uncertainty of its own column"),
        }
    else:
        found = {"n_components": Advised(min(2, size.n_columns)), "noise": Advised("shared")}
    M = map_inducing("free", size.n_rows, incomplete=size.incomplete)
    return found | {"n_inducing": Advised(M)}


def map_inducing(layout: InducingLayout, n_rows: int, *, incomplete: bool) -> int:
    """Inducing inputs of a map without labels."""
    free = INCOMPLETE_MAP_INDUCING if incomplete else FREE_INDUCING
    limits: tuple[tuple[int, int], ...] = GRID_INDUCING if layout == "grid" else free
    return next(M for most, M in limits if n_rows <= most)


def advised_batches() -> Advised:
    """Steps of a fit by mini-batches to more than 1000 rows, with the reason."""
    return Advised(2000, "a step uses one batch, and this table needs more batches")


def advised_batch_rate(rate: float, n_rows: int) -> Advised:
    """A high learning rate for mini-batches of more than ``MANY_ROWS`` rows, with the reason."""
    return Advised(
        rate, f"with {n_rows:,} rows a batch is alike the next, and the fit converges sooner"
    )


def advised_noise(n_columns: int) -> Advised:
    """One noise variance for all columns of a wide table, with the reason."""
    return Advised(
        "shared",
        f"some of {n_columns:,} columns hardly vary, and with a noise of its own a rare spike in "
        "one would outweigh the others",
    )


def advised_components(n_columns: int, n_classes: int) -> Advised:
    """More dimensions for many classes in a wide table, with the reason."""
    return Advised(
        20,
        f"{n_classes} classes in {n_columns:,} columns need more dimensions for their separation",
    )
