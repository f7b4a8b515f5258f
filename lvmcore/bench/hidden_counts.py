"""Tables of counts of which cells are hidden: how a fitted model says what they hold.

The figure is log p(hidden counts | shown counts) a hidden cell, the ratio of two marginal
likelihoods, each by the same importance sampling around the place that the row's cells ask for.
Gaussian columns learn log(1 + count), and their density becomes the probability of a count y by its
integral from log(y + ½) to log(y + 3/2), for y = 0 from −∞: what would be rounded to y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import LatentVariableModel
from lvmcore.draws import mirrored_draws
from lvmcore.feature_decoding import PLACES
from lvmcore.gplvm import log_marginal
from lvmcore.inference import Placed, RowDecoder, infer_rows
from lvmcore.models.nbvae import NBVAE
from lvmcore.models.srflvm import SRFLVM

__all__ = [
    "SCORED",
    "Scored",
    "evidence",
    "fitted_model",
    "hide_cells",
    "log_of_rounded",
    "nats_a_cell",
    "scored_counts",
]

FloatArray = NDArray[np.float64]
#: log p of the cells of rows Y [n, D] that are not NaN at places X [S, n, Q], [S, n].
LogCells = Callable[[Tensor, Tensor], Tensor]

#: The models that can be scored.
SCORED = ("negative binomial", "Gaussian", "NBVAE")
HELD_OUT, HIDDEN = 0.2, 0.5
# Rows held out at most: to place one takes longer than to fit it.
MOST_HELD_OUT = 80
# Searches for a row's place.
STARTS = 6


def hide_cells(
    shape: tuple[int, int], seed: int = 0
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are held out, [N], and which of their cells are hidden, [held out, D].

    Args:
        shape: N and D.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    held = np.zeros(shape[0], dtype=np.bool_)
    count = min(MOST_HELD_OUT, round(HELD_OUT * shape[0]))
    held[rng.permutation(shape[0])[:count]] = True
    return held, rng.random((int(held.sum()), shape[1])) < HIDDEN


@dataclass(frozen=True)
class _NetworkRows:
    """The decoder of an autoencoder of counts, as ``infer_rows`` wants it.

    Attributes:
        model: fitted.
    """

    model: NBVAE

    @property
    def row_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return self.gap_numbers

    @property
    def gap_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return PLACES * (len(self.model.dispersion_) + self.model.n_hidden)

    def reconstruct(self, X: Tensor) -> Tensor:
        """See ``inference.RowDecoder``."""
        return self.comparable(self.model._decode(X)[0])

    def comparable(self, Y: Tensor) -> Tensor:
        """See ``inference.RowDecoder``."""
        return torch.log1p(Y)

    def whole(self, Y: Tensor) -> Placed:
        """See ``inference.RowDecoder``."""
        return _NetworkCells(self, Y)

    def observe(self, Y: Tensor) -> Placed:
        """See ``inference.RowDecoder``."""
        return _NetworkCells(self, Y)

    def log_cells(self, Y: Tensor, X: Tensor) -> Tensor:
        """See ``LogCells``."""
        psi = self.model._log_odds(X.flatten(0, 1))
        psi = psi.reshape(*X.shape[:2], psi.shape[1])
        cells = self.model._family.log_probability(torch.nan_to_num(Y), psi)
        return torch.where(torch.isnan(Y), 0.0, cells).sum(-1)


@dataclass(frozen=True)
class _NetworkCells:
    """Rows as a function of where they lie, see ``inference.Placed``."""

    decoder: _NetworkRows
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``inference.Placed``."""
        X = mean + variance.sqrt() * mirrored_draws(PLACES, mean.shape[1], mean)[:, None, :]
        return self.decoder.log_cells(self.Y[rows], X).mean(0)


def log_of_rounded(counts: Tensor, mean: Tensor, sd: Tensor) -> Tensor:
    """log P(log(y + ½) < z < log(y + 3/2)), z ~ N(mean, sd²), from −∞ for y = 0."""
    upper = (torch.log(counts + 1.5) - mean) / sd
    lower = torch.where(counts > 0, (torch.log(counts + 0.5) - mean) / sd, -torch.inf)
    # Both ends in the tail below the mean, where differences keep their digits.
    above = lower > 0
    low, high = torch.where(above, -upper, lower), torch.where(above, -lower, upper)
    log_high = torch.special.log_ndtr(high)
    share = (torch.special.log_ndtr(low) - log_high).exp()
    found: Tensor = log_high + torch.log1p(-share.clamp_max(1 - 1e-12))
    return found


@dataclass(frozen=True)
class Scored:
    """A fitted model, as its held-out cells are scored.

    Attributes:
        decoder: places rows by what they show.
        learned: what it learned in the place of counts.
        log_cells: of counts.
    """

    decoder: RowDecoder
    learned: Callable[[Tensor], Tensor]
    log_cells: LogCells


def _gaussian(model: SRFLVM) -> Scored:
    """Gaussian columns that learned log(1 + count)."""
    standard, decoder = model._standardiser, model._decoder
    centre, scale = torch.as_tensor(standard.mean), torch.as_tensor(standard.scale)

    def log_cells(Y: Tensor, X: Tensor) -> Tensor:
        mean, pool = decoder.roughly(X)
        variance = pool * decoder.weights.share + torch.as_tensor(model.noise_variance_)
        cells = log_of_rounded(torch.nan_to_num(Y), centre + scale * mean, scale * variance.sqrt())
        return torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    return Scored(decoder, lambda Y: (torch.log1p(Y) - centre) / scale, log_cells)


def fitted_model(
    name: str, Y: FloatArray, settings: dict[str, Any]
) -> tuple[LatentVariableModel, Scored]:
    """A model of counts that all vary, [N, D], fitted on the CPU, and how it is scored.

    Args:
        name: one of ``SCORED``.
        Y: the rows of the fit.
        settings: its own.
    """
    settings = {**settings, "device": "cpu"}
    if name == "NBVAE":
        network = NBVAE(**settings).fit(Y)
        rows = _NetworkRows(network)
        return network, Scored(rows, lambda Y: Y, rows.log_cells)
    if name == "Gaussian":
        gaussian = SRFLVM(**settings).fit(np.log1p(Y))
        return gaussian, _gaussian(gaussian)
    model = SRFLVM(**{**settings, "likelihood": "negative_binomial"}).fit(Y)
    return model, scored_counts(model)


def scored_counts(model: SRFLVM) -> Scored:
    """A fit to counts as its held-out cells are scored."""
    return Scored(model._decoder, lambda Y: Y, model._decoder.log_density)


def nats_a_cell(model: LatentVariableModel, scored: Scored, Y: Tensor, hidden: Tensor) -> float:
    """log p(hidden cells | shown cells) of rows, a hidden cell.

    Args:
        model: fitted.
        scored: how.
        Y: counts, [B, D].
        hidden: [B, D].
    """
    given, whole = evidence(model, scored, Y, hidden)
    return float((whole - given).sum() / hidden.sum())


def evidence(
    model: LatentVariableModel, scored: Scored, Y: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(shown cells) and log p(all cells) of rows, [B] each; see ``nats_a_cell``."""
    q = model.embedding_
    fitted = [torch.as_tensor(part).double() for part in (q.mean, q.variance)]

    def of(Y: Tensor) -> Tensor:
        mean, variance = infer_rows(scored.decoder, scored.learned(Y), *fitted, starts=STARTS)
        with torch.no_grad():
            return log_marginal(scored.log_cells, Y, mean, variance)

    return of(torch.where(hidden, torch.nan, Y)), of(Y)
