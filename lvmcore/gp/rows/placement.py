"""Where q(X) of a fit is: in this process, or in shards where the process was told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.distributed.choice import open_shards, shard_count
from lvmcore.errors import ConfigError
from lvmcore.gp.rows.labelled_block import BlockLabels, LabelledBlock
from lvmcore.gp.rows.latent_block import LatentBlock
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.gp.rows.sharded_rows import ShardedRows

__all__ = ["BlockMaker", "labelled_rows", "placed_rows", "refuse_shards"]

#: Makes the block of some rows from their q(X), their cells, and the slice of the table.
BlockMaker = Callable[[LatentRows, Tensor, slice], LatentBlock]


_REFUSED = "The rows of this fit cannot be in shards, because {why}."


def placed_rows(
    X: Tensor,
    variance: float,
    shared: Sequence[nn.Module],
    problem: FitProblem,
    make_block: BlockMaker | None = None,
) -> LatentRows:
    """q(X) at its start, in the shards that were chosen for this process, or here.

    Args:
        X: initial means, [N, Q].
        variance: initial variance of every dimension.
        shared: the path to the columns, then other modules that a row's terms need.
        problem: the problem to fit.
        make_block: makes the block of some rows; by default of the columns alone.

    Raises:
        ConfigError: a setting of the fit cannot be used with shards.
    """
    if not shard_count():
        return LatentRows(X, variance)
    _check(problem, shared[0])
    Y = problem.Y

    def block(rows: slice) -> LatentBlock:
        q, own = LatentRows(X[rows], variance), Y[rows].clone()
        if make_block is not None:
            return make_block(q, own, rows)
        return LatentBlock(shared[0], q, own, rows.start, shared[1:])

    return ShardedRows(open_shards(block, len(X)), shared, (len(X), X.shape[1]))


def labelled_rows(
    X: Tensor,
    variance: float,
    path: nn.Module,
    label_paths: Sequence[nn.Module],
    problem: FitProblem,
    weights: Sequence[ArrayLike],
) -> LatentRows:
    """``placed_rows`` of a fit with label columns.

    Args:
        X: initial means, [N, Q].
        variance: initial variance of every dimension.
        path: the path to the columns.
        label_paths: the Gaussian processes of each label column.
        problem: the problem to fit.
        weights: weight of each row, by label column, [N] each.
    """

    def block(q: LatentRows, Y: Tensor, rows: slice) -> LatentBlock:
        columns = [
            BlockLabels(
                np.flatnonzero(column.codes >= 0),
                column.codes[rows],
                np.asarray(weight, float)[rows],
                len(column.classes),
            )
            for column, weight in zip(problem.labels, weights, strict=True)
        ]
        return LabelledBlock(path, q, Y, rows.start, label_paths, columns)

    return placed_rows(X, variance, [path, *label_paths], problem, block)


def refuse_shards() -> None:
    """Check that the process has chosen no shards, for columns with likelihoods of their own.

    Raises:
        ConfigError: it has.
    """
    if shard_count():
        raise ConfigError(
            _REFUSED.format(why="its columns have likelihoods: set column_likelihood='gaussian'")
        )


def _check(problem: FitProblem, path: nn.Module) -> None:
    """Check that a fit can have its rows in shards.

    Raises:
        ConfigError: it cannot.
    """
    like, why = problem.table.like, ""
    if problem.observed is not None:
        why = "the table has missing cells: leave these rows out or fill them first"
    elif like.device.type != "cpu":
        why = f"they compute on CPUs, and the device is {like.device}: set device='cpu'"
    elif like.element_size() < 8 or problem.mixed:
        why = "they need double precision: set dtype='float64'"
    elif getattr(path, "composite", None) is not None:
        why = "they need the RBF kernel: set kernel='rbf'"
    if why:
        raise ConfigError(_REFUSED.format(why=why))
