"""Cells filled under q(x), and how wide their intervals have to be, by cells known but held out.

What a model has fitted it follows better than it foretells the rest: where few cells are observed,
the intervals of the others come out too narrow. So some observed cells are hidden once the fit is
over, it goes on without them for some steps, which makes it forget them, their rows are placed by
what is left, and how far off the hidden cells are filled shows how wide the intervals have to be.
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

# The intervals that are made to hold what they promise.
LEVEL = 0.9
# Rows of which cells are held out, at most, and the share of their observed cells.
HELD_ROWS = 500
HELD_SHARE = 0.1
# As how many cells those of all columns count beside a column's own.
POOLED_CELLS = 50
# Steps in which a fit may forget cells that are held out, a tenth of its own at most.
SETTLING_STEPS = 30
# Cells of a standard normal that count beside all, for tables that have few.
NORMAL_CELLS = 20


class ImputationDecoder(RowDecoder, Protocol):
    """A fitted data path, as far as it fills cells."""

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y for x ~ N(mean, diag variance)."""


def fill_rows(
    decoder: ImputationDecoder, Y: Tensor, mean: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Moments of y under all places that the cells of a row leave open.

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
    """A fit that has gone on without the cells that are held out.

    Attributes:
        decoder: its data path.
        mean: means of its rows, [N, Q].
        variance: their variances, [N, Q].
    """

    decoder: ImputationDecoder
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, decoder: ImputationDecoder, rows: LatentRows) -> Self:
        """A data path and the rows that it was fitted with."""
        return cls(decoder, rows.mean.detach(), rows.variance.detach())


def hold_out_cells(observed: Tensor, generator: torch.Generator) -> Tensor:
    """A tenth of the observed cells of up to 500 rows, each left one at least, [N, D]."""
    known = observed.cpu()
    rows = torch.randperm(len(known), generator=generator)[:HELD_ROWS]
    held = torch.zeros_like(known)
    held[rows] = known[rows] & (torch.rand(known[rows].shape, generator=generator) < HELD_SHARE)
    return (held & (known & ~held).any(1, keepdim=True)).to(observed.device)


@torch.no_grad()
def interval_scale(settled: ConditionedRows, Y: Tensor, observed: Tensor, held: Tensor) -> Tensor:
    """Factor of each column's standard deviation with which 90 % intervals hold 90 %, [D].

    A column's factor is the quantile of |error|/sd of its own held-out cells, with those of all
    columns counted as 50 cells more, over the normal one; it is never below 1.

    Args:
        settled: the fit without the cells held out.
        Y: standardised rows of the fit, [N, D]; what they hold where missing does not matter.
        observed: True where a cell is observed, [N, D].
        held: True where such a cell is held out, [N, D].
    """
    rows = torch.nonzero(held.any(1))[:, 0]
    if not len(rows):
        return torch.ones_like(Y[0])
    known = torch.where((observed & ~held)[rows], Y[rows], torch.nan)
    filled, spread, _ = fill_rows(settled.decoder, known, settled.mean, settled.variance)
    row, column = torch.nonzero(held[rows], as_tuple=True)
    away = (Y[rows] - filled)[row, column].abs() / spread[row, column].sqrt()
    return _scales(away.double(), column, Y.shape[1]).to(Y)


def scale_by_steps(
    problem: FitProblem,
    generator: torch.Generator,
    steps: int,
    go_on: Callable[[FitProblem, int], ConditionedRows],
) -> Tensor:
    """``interval_scale`` of a fit that goes on for some steps without the cells held out, [D].

    Args:
        problem: what was fitted; some of its cells are missing.
        generator: of the cells held out.
        steps: that the fit took; it goes on for a tenth of them, ``SETTLING_STEPS`` at most.
        go_on: fits fewer cells for so many steps, from where the fit ended.
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
    settled = go_on(fewer, min(SETTLING_STEPS, steps // 10))
    return interval_scale(settled, Y.to(settled.mean), observed, held)


def _scales(away: Tensor, column: Tensor, n_columns: int) -> Tensor:
    """Each column's factor, [D], from |error|/sd of cells [n] and the columns they are of [n]."""
    ranks = (torch.arange(NORMAL_CELLS).to(away) + 0.5) / NORMAL_CELLS
    away = torch.cat([away, _half_normal(ranks)])
    column = torch.cat([column, column.new_full((NORMAL_CELLS,), -1)])  # of none
    order = away.argsort()
    away, column = away[order], column[order]
    pooled = POOLED_CELLS / len(away) * torch.arange(1, len(away) + 1).to(away)
    bound = away.new_empty(n_columns)
    for d in range(n_columns):
        own = (column == d).cumsum(0)
        # Share of a column's cells, its own and all, up to each of them.
        share = (own + pooled) / (own[-1] + POOLED_CELLS)
        bound[d] = away[int(torch.searchsorted(share, LEVEL))]
    return (bound / _half_normal(away.new_tensor(LEVEL))).clamp_min(1.0)


def _half_normal(share: Tensor) -> Tensor:
    """What so large a share of |N(0, 1)| stays below."""
    value: Tensor = torch.special.ndtri(0.5 * (1 + share))
    return value
