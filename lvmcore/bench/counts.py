"""SRFLVM on wide tables of counts (single cells), beside Gaussian columns, an autoencoder and PCA.

Held out: a fifth of the rows. Of each of them half of the cells are hidden, at random, the same for
every model. Every model is fitted to the other rows and places these by the same search, and the
figure is log p(hidden counts | shown counts) a hidden cell: the ratio of two marginal likelihoods,
each by the same importance sampling around the place that the row's cells ask for. Columns that are
constant in the rows of the fit are left out for every model. Gaussian columns learn log(1 + count),
and their density becomes the probability of a count y by its integral from log(y + ½) to
log(y + 3/2), for y = 0 from −∞: what would be rounded to y.

Maps: 1-nearest-neighbour accuracy of the rows of the fit where it has put them (``embedding_``), as
the other methods' are, two dimensions, stratified 5-fold; PCA, t-SNE and UMAP see log(1 + count).
No label is seen by any map.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.manifold import TSNE as SklearnTSNE
from torch import Tensor

from lvmcore.base import LatentVariableModel
from lvmcore.bench.report import Options, Row
from lvmcore.counts import Cells
from lvmcore.data import load_paper
from lvmcore.draws import mirrored_draws
from lvmcore.feature_decoding import PLACES
from lvmcore.gplvm import log_marginal
from lvmcore.inference import Placed, RowDecoder, infer_rows
from lvmcore.metrics import knn_accuracy
from lvmcore.models.nbvae import NBVAE
from lvmcore.models.srflvm import SRFLVM

__all__ = ["hide_cells", "log_of_rounded", "nats_a_cell", "rows"]

FloatArray = NDArray[np.float64]

MODELS = ("negative binomial", "Gaussian", "NBVAE")
SETS = ("sc_pbmc68k_700x765", "sc_mouse_bladder_2100x500")
SEEDS = range(3)
HELD_OUT, HIDDEN = 0.2, 0.5
MOST_SECONDS = 60.0
# Searches for a row's place.
STARTS = 6
COMPONENTS = 2

#: log p of the cells of rows Y [n, D] that are not NaN at places X [S, n, Q], [S, n].
LogCells = Callable[[Tensor, Tensor], Tensor]


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    for data in SETS:
        yield partial(_likelihood, data)
        yield partial(_accuracy, data)
        yield partial(_seconds, data)


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
    held[rng.permutation(shape[0])[: round(HELD_OUT * shape[0])]] = True
    return held, rng.random((int(held.sum()), shape[1])) < HIDDEN


@cache
def _load(data: str) -> tuple[FloatArray, NDArray[np.generic]]:
    table = load_paper(data)
    found = table.dataset(label=table.columns[-1].name)
    assert found.labels is not None
    return np.asarray(found.X), found.labels


def _settings_of(shape: tuple[int, ...], seed: int, cells: Cells = "counts") -> dict[str, Any]:
    """What ``SRFLVM`` is advised for such cells."""
    advised = SRFLVM.suggest(n_rows=shape[0], n_columns=shape[1], cells=cells)
    return {"n_components": COMPONENTS, "random_state": seed, **advised}


# ---- held-out cells ----------------------------------------------------------------------------


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
    """A model of counts that all vary, [N, D], and how it is scored.

    Args:
        name: one of ``MODELS``.
        Y: the rows of the fit.
        settings: its own.
    """
    if name == "NBVAE":
        network = NBVAE(**settings).fit(Y)
        rows = _NetworkRows(network)
        return network, Scored(rows, lambda Y: Y, rows.log_cells)
    if name == "Gaussian":
        gaussian = SRFLVM(**settings).fit(np.log1p(Y))
        return gaussian, _gaussian(gaussian)
    model = SRFLVM(**{**settings, "likelihood": "negative_binomial"}).fit(Y)
    return model, Scored(model._decoder, lambda Y: Y, model._decoder.log_density)


def nats_a_cell(model: LatentVariableModel, scored: Scored, Y: Tensor, hidden: Tensor) -> float:
    """log p(hidden cells | shown cells) of rows, a hidden cell.

    Args:
        model: fitted.
        scored: how.
        Y: counts, [B, D].
        hidden: [B, D].
    """
    q = model.embedding_
    fitted = [torch.as_tensor(part).double() for part in (q.mean, q.variance)]

    def evidence(Y: Tensor) -> Tensor:
        mean, variance = infer_rows(scored.decoder, scored.learned(Y), *fitted, starts=STARTS)
        with torch.no_grad():
            return log_marginal(scored.log_cells, Y, mean, variance)

    given = evidence(torch.where(hidden, torch.nan, Y))
    return float((evidence(Y) - given).sum() / hidden.sum())


@cache
def _held_out(data: str, seed: int) -> dict[str, float]:
    """Nats a hidden cell of each model."""
    X, _ = _load(data)
    held, hidden = hide_cells(X.shape)
    varying = X[~held].std(axis=0) > 0
    fit, new = X[~held][:, varying], torch.as_tensor(X[held][:, varying])
    cells = torch.as_tensor(hidden[:, varying])
    network = NBVAE.suggest(n_rows=fit.shape[0], n_columns=fit.shape[1], cells="counts")
    settings = {
        "negative binomial": _settings_of(fit.shape, seed),
        "Gaussian": _settings_of(fit.shape, seed, "any"),
        "NBVAE": {"n_components": COMPONENTS, "random_state": seed, **network},
    }
    return {
        name: nats_a_cell(*fitted_model(name, fit, settings[name]), new, cells) for name in MODELS
    }


def _likelihood(data: str) -> Row:
    found = [_held_out(data, seed) for seed in SEEDS]
    ours = [each["negative binomial"] for each in found]
    others = {name: statistics.fmean(each[name] for each in found) for name in MODELS[1:]}
    return Row(
        f"{data}: log likelihood of the hidden half of held-out rows, a cell, three seeds",
        statistics.fmean(ours),
        "nats",
        spread=statistics.pstdev(ours),
        floor=round(max(others.values()), 4),
        reference=", ".join(f"{name} {value:.3f}" for name, value in others.items()),
        settings={"data": data, "held out": HELD_OUT, "hidden": HIDDEN, **_whole_settings(data)},
    )


# ---- maps --------------------------------------------------------------------------------------


@cache
def _maps(data: str) -> tuple[list[float], list[float]]:
    """Accuracy and seconds of the fit of each seed."""
    X, y = _load(data)
    accuracy, seconds = [], []
    for seed in SEEDS:
        began = time.perf_counter()
        model = SRFLVM(**_settings_of(X.shape, seed)).fit(X)
        seconds.append(time.perf_counter() - began)
        accuracy.append(knn_accuracy(model.embedding_.mean, y, k=1))
    return accuracy, seconds


@cache
def _others(data: str) -> dict[str, float]:
    """Accuracy of maps of log(1 + count)."""
    import umap  # seconds of compiling, which no other row needs

    X, y = _load(data)
    libraries: dict[str, Any] = {
        "PCA": SklearnPCA(COMPONENTS),
        "t-SNE": SklearnTSNE(random_state=0),
        "UMAP": umap.UMAP(random_state=0, n_jobs=1),
    }
    threads = torch.get_num_threads()
    try:
        return {
            name: knn_accuracy(library.fit_transform(np.log1p(X)), y, k=1)
            for name, library in libraries.items()
        }
    finally:
        torch.set_num_threads(threads)  # numba's first loop sets those of all OpenMP code


def _whole_settings(data: str) -> dict[str, object]:
    settings = SRFLVM(**_settings_of(_load(data)[0].shape, 0)).get_params()
    return {"seeds": len(SEEDS), **settings}


def _accuracy(data: str) -> Row:
    others = _others(data)
    accuracy = _maps(data)[0]
    return Row(
        f"{data}: 1-NN accuracy of the 2-D map of counts, 5-fold, three seeds",
        statistics.fmean(accuracy),
        spread=statistics.pstdev(accuracy),
        floor=round(others["PCA"], 4),
        reference=", ".join(f"{name} {value:.3f}" for name, value in others.items()),
        settings={"data": data, "folds": 5, **_whole_settings(data)},
    )


def _seconds(data: str) -> Row:
    return Row(
        f"{data}: median seconds of a fit to counts",
        statistics.median(_maps(data)[1]),
        "s",
        ceiling=MOST_SECONDS,
        settings={"data": data, **_whole_settings(data)},
    )
