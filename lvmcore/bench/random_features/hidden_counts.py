"""Score of hidden counts: log p(hidden counts | observed counts) per hidden cell.

It is the ratio of two marginal likelihoods, each estimated by importance sampling around the row's
inferred latent position. Gaussian columns model log(1 + count); the probability of a count y is the
integral of their density from log(y + ½) to log(y + 3/2), from −∞ for y = 0: the values that round
to y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.gp.latent_inference import InferredRows, RowDecoder, infer_rows
from lvmcore.models.latent.autoencoders.nbvae import NBVAE
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.quasi_random import antithetic_draws
from lvmcore.random_features.decoder import LATENT_DRAWS
from lvmcore.random_features.gaussian_decoder import GaussianFeatureDecoder

__all__ = [
    "SCORED",
    "CountScorer",
    "count_scorer",
    "evidence",
    "fitted_model",
    "hide_cells",
    "log_rounded_normal",
    "nats_per_cell",
]

#: log p of the non-NaN cells of rows Y [n, D] at latent positions X [S, n, Q], [S, n].
LogCells = Callable[[Tensor, Tensor], Tensor]

#: The models that can be scored.
SCORED = ("negative binomial", "Gaussian", "NBVAE")
HELD_OUT, HIDDEN = 0.2, 0.5
# Maximal number of held-out rows: inference of a row takes longer than its fit.
MAX_HELD_OUT = 80
# Starts of the search for a row's latent position.
STARTS = 6


def hide_cells(
    shape: tuple[int, int], seed: int = 0
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the held-out rows, [N], and of their hidden cells, [held out, D].

    Args:
        shape: N and D.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    held = np.zeros(shape[0], dtype=np.bool_)
    count = min(MAX_HELD_OUT, round(HELD_OUT * shape[0]))
    held[rng.permutation(shape[0])[:count]] = True
    return held, rng.random((int(held.sum()), shape[1])) < HIDDEN


@dataclass(frozen=True)
class _NetworkRows:
    """The decoder of an autoencoder of counts, in the interface of ``infer_rows``.

    Attributes:
        model: the fitted model.
    """

    model: NBVAE

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return self.incomplete_row_size

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return LATENT_DRAWS * (len(self.model.dispersion_) + self.model.n_hidden)

    def reconstruct(self, X: Tensor) -> Tensor:
        """See ``RowDecoder``."""
        return self.distance_features(self.model._decode(X)[0])

    def distance_features(self, Y: Tensor) -> Tensor:
        """See ``RowDecoder``."""
        return torch.log1p(Y)

    def complete_rows(self, Y: Tensor) -> InferredRows:
        """See ``RowDecoder``."""
        return _NetworkCells(self, Y)

    def observed_rows(self, Y: Tensor) -> InferredRows:
        """See ``RowDecoder``."""
        return _NetworkCells(self, Y)

    def log_cells(self, Y: Tensor, X: Tensor) -> Tensor:
        """See ``LogCells``."""
        psi = self.model._log_odds(X.flatten(0, 1))
        psi = psi.reshape(*X.shape[:2], psi.shape[1])
        cells = self.model._family.log_probability(torch.nan_to_num(Y), psi)
        return torch.where(torch.isnan(Y), 0.0, cells).sum(-1)


@dataclass(frozen=True)
class _NetworkCells:
    """Rows as a function of their latent positions, see ``InferredRows``."""

    decoder: _NetworkRows
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``InferredRows``."""
        X = mean + variance.sqrt() * antithetic_draws(LATENT_DRAWS, mean.shape[1], mean)[:, None, :]
        return self.decoder.log_cells(self.Y[rows], X).mean(0)


def log_rounded_normal(counts: Tensor, mean: Tensor, sd: Tensor) -> Tensor:
    """log P(log(y + ½) < z < log(y + 3/2)), z ~ N(mean, sd²), from −∞ for y = 0."""
    upper = (torch.log(counts + 1.5) - mean) / sd
    lower = torch.where(counts > 0, (torch.log(counts + 0.5) - mean) / sd, -torch.inf)
    # Both limits are moved to the lower tail, where the difference is accurate.
    above = lower > 0
    low, high = torch.where(above, -upper, lower), torch.where(above, -lower, upper)
    log_high = torch.special.log_ndtr(high)
    share = (torch.special.log_ndtr(low) - log_high).exp()
    found: Tensor = log_high + torch.log1p(-share.clamp_max(1 - 1e-12))
    return found


@dataclass(frozen=True)
class CountScorer:
    """The functions of a fitted model that score its hidden cells.

    Attributes:
        decoder: infers the latent positions of rows from their observed cells.
        learned: transform of the counts that the model was fitted to.
        log_cells: log probability of counts.
    """

    decoder: RowDecoder
    learned: Callable[[Tensor], Tensor]
    log_cells: LogCells


def _gaussian_scorer(model: SRFLVM) -> CountScorer:
    """Scorer of Gaussian columns fitted to log(1 + count)."""
    standard, decoder = model._standardiser, model._decoder
    assert isinstance(decoder, GaussianFeatureDecoder)
    centre, scale = torch.as_tensor(standard.mean), torch.as_tensor(standard.scale)

    def log_cells(Y: Tensor, X: Tensor) -> Tensor:
        mean, pool = decoder.pooled_functions(X)
        variance = pool * decoder.weights.share + torch.as_tensor(model.noise_variance_)
        cells = log_rounded_normal(
            torch.nan_to_num(Y), centre + scale * mean, scale * variance.sqrt()
        )
        return torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    return CountScorer(decoder, lambda Y: (torch.log1p(Y) - centre) / scale, log_cells)


def fitted_model(
    name: str, Y: FloatArray, settings: dict[str, Any]
) -> tuple[LatentVariableModel, CountScorer]:
    """Fit a model to counts on the CPU, and return it with its scorer.

    Args:
        name: one of ``SCORED``.
        Y: training rows without constant columns, [N, D].
        settings: settings of the model.
    """
    settings = {**settings, "device": "cpu"}
    if name == "NBVAE":
        network = NBVAE(**settings).fit(Y)
        rows = _NetworkRows(network)
        return network, CountScorer(rows, lambda Y: Y, rows.log_cells)
    if name == "Gaussian":
        gaussian = SRFLVM(**settings).fit(np.log1p(Y))
        return gaussian, _gaussian_scorer(gaussian)
    model = SRFLVM(**{**settings, "likelihood": "negative_binomial"}).fit(Y)
    return model, count_scorer(model)


def count_scorer(model: SRFLVM) -> CountScorer:
    """Scorer of a model fitted to counts."""
    return CountScorer(model._decoder, lambda Y: Y, model._decoder.log_density)


def nats_per_cell(
    model: LatentVariableModel, scored: CountScorer, Y: Tensor, hidden: Tensor
) -> float:
    """log p(hidden cells | observed cells) of rows, nats per hidden cell.

    Args:
        model: the fitted model.
        scored: its scorer.
        Y: counts, [B, D].
        hidden: mask of the hidden cells, [B, D].
    """
    given, whole = evidence(model, scored, Y, hidden)
    return float((whole - given).sum() / hidden.sum())


def evidence(
    model: LatentVariableModel, scored: CountScorer, Y: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(observed cells) and log p(all cells) of rows, [B] each; see ``nats_per_cell``."""
    q = model.embedding_
    fitted = [torch.as_tensor(part).double() for part in (q.mean, q.variance)]

    def of(Y: Tensor) -> Tensor:
        mean, variance = infer_rows(scored.decoder, scored.learned(Y), *fitted, starts=STARTS)
        with torch.no_grad():
            return log_marginal(scored.log_cells, Y, mean, variance)

    return of(torch.where(hidden, torch.nan, Y)), of(Y)
