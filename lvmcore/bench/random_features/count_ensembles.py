"""Hidden counts by the mean density of several fits (``SRFLVM.ensemble``).

Rows, hidden cells and seeds are those of ``counts``, for the tables on which SRFLVM and the
autoencoder of counts are level there. The benchmark measures the gain of the average over kernels,
as ``held_out`` does for RFLVM; the autoencoder is fitted once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.random_features.counts import SEEDS, _load, _suggested_settings
from lvmcore.bench.random_features.hidden_counts import (
    count_scorer,
    evidence,
    fitted_model,
    hide_cells,
    nats_per_cell,
)
from lvmcore.models.latent.autoencoders.nbvae import NBVAE
from lvmcore.models.latent.srflvm import SRFLVM

__all__ = ["rows"]

#: Tables and dimensions in which a single fit is level with the autoencoder.
LEVEL = (("sc_mouse_bladder_2100x500", 2),)
FITS, FURTHER = 3, 150


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data, components in LEVEL:
        yield partial(_by_several_fits, data, components)


@cache
def _measure(data: str, components: int, seed: int) -> tuple[float, float]:
    """Nats per hidden cell of the ensemble, and of the autoencoder."""
    X, _ = _load(data)
    held, hidden = hide_cells(X.shape)
    varying = X[~held].std(axis=0) > 0
    fit, new = X[~held][:, varying], torch.as_tensor(X[held][:, varying])
    cells = torch.as_tensor(hidden[:, varying])
    first, _ = fitted_model(
        "negative binomial", fit, _suggested_settings(fit.shape, seed, components)
    )
    assert isinstance(first, SRFLVM)
    fits = first.ensemble(fit, FITS, max_iter=FURTHER)
    found = [evidence(one, count_scorer(one), new, cells) for one in fits]
    given, whole = (
        torch.stack(part).logsumexp(0) - math.log(FITS) for part in zip(*found, strict=True)
    )
    network = NBVAE.suggest(TableSize(n_rows=fit.shape[0], n_columns=fit.shape[1], cells="counts"))
    other = fitted_model(
        "NBVAE", fit, {**network, "n_components": components, "random_state": seed}
    )
    return float((whole - given).sum() / cells.sum()), nats_per_cell(*other, new, cells)


def _by_several_fits(data: str, components: int) -> BenchmarkRow:
    ours, others = zip(*(_measure(data, components, seed) for seed in SEEDS), strict=True)
    other = statistics.fmean(others)
    return BenchmarkRow(
        f"{data}: the same by the mean density of {FITS} fits, {components} dimensions, five seeds",
        statistics.fmean(ours),
        "nats",
        spread=statistics.pstdev(ours),
        floor=round(other, 4),
        reference=f"NBVAE {other:.4f} ± {statistics.pstdev(others):.4f}",
        settings={"data": data, "fits": FITS, "steps of further fits": FURTHER},
    )
