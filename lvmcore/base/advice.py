"""Settings advised for a table, from its rows and columns."""

from __future__ import annotations

from lvmcore.parameters import Advised
from lvmcore.preprocessing.cell_types import Cells

# From so many rows on, the suggested number of steps keeps a fit within two minutes on two cores.
LONG_TABLE = 20_000
LONG_TABLE_ROW_STEPS = 12_000_000
# From more columns than this on, label-aware models are advised one noise for all of them.
WIDE_TABLE = 30


def long_table_steps(n_rows: int) -> int:
    """Steps that suit a table longer than ``LONG_TABLE``: the longer it is, the fewer."""
    return min(300, max(100, LONG_TABLE_ROW_STEPS // n_rows))


def advised_steps(n_rows: int) -> Advised:
    """The steps that suit a table longer than ``LONG_TABLE``, and why."""
    return Advised(
        long_table_steps(n_rows),
        f"each step uses all {n_rows:,} rows, and so many end in about two minutes on two cores",
    )


def advised_likelihood(cells: Cells) -> dict[str, Advised]:
    """The likelihood that the cells of a table ask for, where it is none of numbers, and why."""
    if cells == "counts":
        return {"likelihood": Advised("negative_binomial", "every cell is a count")}
    if cells == "binary":
        return {"likelihood": Advised("bernoulli", "every cell is 0 or 1")}
    return {}


def advised_inducing(count: int, n_rows: int, n_classes: int) -> Advised:
    """So many inducing inputs for a long table, or for many classes, and why."""
    what = f"{n_rows:,} rows hold" if n_rows > 1000 else f"{n_classes} classes make for"
    return Advised(count, f"{what} more structure than fewer places can remember")


def advised_noise(n_columns: int) -> Advised:
    """One noise for all columns of a wide table, and why."""
    return Advised(
        "shared",
        f"some of {n_columns:,} columns hardly vary, and with a noise of its own a rare spike in "
        "one would outweigh the others",
    )


def advised_components(n_columns: int, n_classes: int) -> Advised:
    """More dimensions for many classes in a wide table, and why."""
    return Advised(
        20, f"{n_classes} classes in {n_columns:,} columns need more dimensions to part in"
    )
