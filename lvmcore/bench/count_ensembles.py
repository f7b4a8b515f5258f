"""Counts of which cells are hidden, by the mean density of several fits (``SRFLVM.ensemble``).

Rows, hidden cells and seeds are those of ``counts``. Where that finds SRFLVM and the autoencoder of
counts level, this asks what the average over kernels adds, as ``held_out`` does beside RFLVM; the
autoencoder is fitted once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from lvmcore.bench.counts import SEEDS, _load, _settings_of
from lvmcore.bench.hidden_counts import (
    evidence,
    fitted_model,
    hide_cells,
    nats_a_cell,
    scored_counts,
)
from lvmcore.bench.report import Options, Row
from lvmcore.models.nbvae import NBVAE
from lvmcore.models.srflvm import SRFLVM

__all__ = ["rows"]

#: Tables and dimensions in which a single fit is level with the autoencoder.
LEVEL = (("sc_mouse_bladder_2100x500", 2),)
FITS, FURTHER = 3, 150


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    for data, components in LEVEL:
        yield partial(_by_several_fits, data, components)


@cache
def _measure(data: str, components: int, seed: int) -> tuple[float, float]:
    """Nats a hidden cell by the ensemble, and by the autoencoder."""
    X, _ = _load(data)
    held, hidden = hide_cells(X.shape)
    varying = X[~held].std(axis=0) > 0
    fit, new = X[~held][:, varying], torch.as_tensor(X[held][:, varying])
    cells = torch.as_tensor(hidden[:, varying])
    first, _ = fitted_model("negative binomial", fit, _settings_of(fit.shape, seed, components))
    assert isinstance(first, SRFLVM)
    fits = first.ensemble(fit, FITS, max_iter=FURTHER)
    found = [evidence(one, scored_counts(one), new, cells) for one in fits]
    given, whole = (
        torch.stack(part).logsumexp(0) - math.log(FITS) for part in zip(*found, strict=True)
    )
    network = NBVAE.suggest(n_rows=fit.shape[0], n_columns=fit.shape[1], cells="counts")
    other = fitted_model(
        "NBVAE", fit, {**network, "n_components": components, "random_state": seed}
    )
    return float((whole - given).sum() / cells.sum()), nats_a_cell(*other, new, cells)


def _by_several_fits(data: str, components: int) -> Row:
    ours, others = zip(*(_measure(data, components, seed) for seed in SEEDS), strict=True)
    other = statistics.fmean(others)
    return Row(
        f"{data}: the same by the mean density of {FITS} fits, {components} dimensions, five seeds",
        statistics.fmean(ours),
        "nats",
        spread=statistics.pstdev(ours),
        floor=round(other, 4),
        reference=f"NBVAE {other:.4f} ± {statistics.pstdev(others):.4f}",
        settings={"data": data, "fits": FITS, "steps of further fits": FURTHER},
    )
