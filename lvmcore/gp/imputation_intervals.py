"""Imputation of missing cells under q(x), and calibration of its intervals on held-out cells.

Residuals of fitted cells are smaller than errors on missing ones: where few cells are observed, the
intervals of imputed cells are too narrow. After the fit, some observed cells are therefore held
out, the fit is continued without them for some steps, their rows are inferred from the remaining
cells, and the errors on the held-out cells give the factor by which the intervals are widened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from lvmcore.base.fit_problem import FitProblem
from lvmcore.gp.latent_inference import RowDecoder, infer_modes
from lvmcore.gp.paths import LatentRows
from lvmcore.preprocessing.table_rows import InMemoryRows

__all__ = [
    "HELD_ROWS",
    "ConditionedRows",
    "fill_rows",
    "hold_out_cells",
    "interval_scale",
    "scale_by_steps",
]

# Nominal level of the calibrated intervals.
LEVEL = 0.9
# Maximum number of rows with held-out cells, and the held-out share of their observed cells.
HELD_ROWS = 500
HELD_SHARE = 0.1
# Number of cells as which the pooled cells of all columns count beside a column's own.
POOLED_CELLS = 50
# Maximum steps of the continuation without the held-out cells; also at most a tenth of the fit's.
SETTLING_STEPS = 30
# Standard normal quantiles added to the pooled cells, for tables with few held-out cells.
NORMAL_CELLS = 20


class ImputationDecoder(RowDecoder, Protocol):
    """A fitted data path that imputes cells."""

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y for x ~ N(mean, diag variance)."""


def fill_rows(
    decoder: ImputationDecoder, Y: Tensor, mean: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Moments of y under the mixture posterior of each row's position.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].

    Returns:
        Mean, variance (noise included) and noise variance of every cell, [B, D] each.
    """
    means, variances, weights = infer_modes(decoder, Y, mean, variance)
    first = second = noise = torch.zeros_like(Y)
    for k in range(weights.shape[1]):
        centre, spread, own = decoder.moments(means[:, k], variances[:, k])
        weight = weights[:, k : k + 1]
        first = first + weight * centre
        second = second + weight * (spread + centre.square())
        noise = noise + weight * own
    return first, torch.maximum(second - first.square(), noise), noise


@dataclass(frozen=True)
class ConditionedRows:
    """A fit continued without the held-out cells.

    Attributes:
        decoder: the fitted data path.
        mean: means of the rows, [N, Q].
        variance: their variances, [N, Q].
    """

    decoder: ImputationDecoder
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, decoder: ImputationDecoder, rows: LatentRows) -> Self:
        """From a data path and the rows that it was fitted with."""
        return cls(decoder, rows.mean.detach().double(), rows.variance.detach().double())


def hold_out_cells(observed: Tensor, generator: torch.Generator) -> Tensor:
    """Mask of a tenth of the observed cells of up to 500 rows; each row keeps a cell, [N, D]."""
    known = observed.cpu()
    rows = torch.randperm(len(known), generator=generator)[:HELD_ROWS]
    held = torch.zeros_like(known)
    held[rows] = known[rows] & (torch.rand(known[rows].shape, generator=generator) < HELD_SHARE)
    return (held & (known & ~held).any(1, keepdim=True)).to(observed.device)


@torch.no_grad()
def interval_scale(
    conditioned: ConditionedRows, Y: Tensor, observed: Tensor, held: Tensor
) -> Tensor:
    """Factor of each column's standard deviation for a 90 % coverage of 90 % intervals, [D].

    A column's factor is the 90 % quantile of |error|/sd of its held-out cells, with the cells of
    all columns pooled in at the weight of 50 cells, over the normal quantile; at least 1.

    Args:
        conditioned: the fit without the held-out cells.
        Y: standardised rows of the fit, [N, D]; values of missing cells are not used.
        observed: True where a cell is observed, [N, D].
        held: True where an observed cell is held out, [N, D].
    """
    rows = torch.nonzero(held.any(1))[:, 0]
    if not len(rows):
        return torch.ones_like(Y[0])
    known = torch.where((observed & ~held)[rows], Y[rows], torch.nan)
    filled, spread, _ = fill_rows(
        conditioned.decoder, known, conditioned.mean, conditioned.variance
    )
    row, column = torch.nonzero(held[rows], as_tuple=True)
    away = (Y[rows] - filled)[row, column].abs() / spread[row, column].sqrt()
    return _scales(away.double(), column, Y.shape[1]).to(Y)


def scale_by_steps(
    problem: FitProblem,
    generator: torch.Generator,
    steps: int,
    continue_fit: Callable[[FitProblem, int], ConditionedRows],
) -> Tensor:
    """``interval_scale`` of a fit continued for some steps without the held-out cells, [D].

    Args:
        problem: the problem that was fitted; some of its cells are missing.
        generator: of the choice of held-out cells.
        steps: steps of the fit; the continuation takes a tenth of them, at most ``SETTLING_STEPS``.
        continue_fit: continues the fit on a problem with fewer cells for a number of steps.
    """
    Y, observed = problem.table.take(slice(None))
    assert observed is not None
    held = hold_out_cells(observed, generator)
    fewer = replace(
        problem,
        table=InMemoryRows(Y.masked_fill(held, 0.0), observed & ~held),
        generator=generator,
        callback=None,
        checkpoint=None,
    )
    conditioned = continue_fit(fewer, min(SETTLING_STEPS, steps // 10))
    return interval_scale(conditioned, Y.to(conditioned.mean), observed, held)


def _scales(away: Tensor, column: Tensor, n_columns: int) -> Tensor:
    """Each column's factor, [D], from |error|/sd of cells [n] and the cells' columns [n]."""
    ranks = (torch.arange(NORMAL_CELLS).to(away) + 0.5) / NORMAL_CELLS
    away = torch.cat([away, _half_normal(ranks)])
    column = torch.cat([column, column.new_full((NORMAL_CELLS,), -1)])  # −1: no column
    order = away.argsort()
    away, column = away[order], column[order]
    pooled = POOLED_CELLS / len(away) * torch.arange(1, len(away) + 1).to(away)
    bound = away.new_empty(n_columns)
    for d in range(n_columns):
        own = (column == d).cumsum(0)
        # Weighted empirical distribution function of the column's and the pooled cells.
        share = (own + pooled) / (own[-1] + POOLED_CELLS)
        bound[d] = away[int(torch.searchsorted(share, LEVEL))]
    return (bound / _half_normal(away.new_tensor(LEVEL))).clamp_min(1.0)


def _half_normal(share: Tensor) -> Tensor:
    """Quantile of |N(0, 1)| at a probability."""
    value: Tensor = torch.special.ndtri(0.5 * (1 + share))
    return value
