"""SRFLVM on wide tables of counts (single cells), beside Gaussian columns, an autoencoder and PCA.

Held out: a fifth of the rows, 80 at most. Of each of them half of the cells are hidden, at random,
the same for every model; the models have as many dimensions as each other, two and then five.
Every model is fitted to the other rows and places these by the same search; the figure is that of
``hidden_counts``. Columns that are constant in the rows of the fit are left out for every model.

Maps: 1-nearest-neighbour accuracy of the rows of the fit where it has put them (``embedding_``), as
the other methods' are, two dimensions, stratified 5-fold; PCA, t-SNE and UMAP see log(1 + count).
No label is seen by any map.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.manifold import TSNE as SklearnTSNE

from lvmcore.bench.hidden_counts import (
    HIDDEN,
    SCORED,
    fitted_model,
    hide_cells,
    nats_a_cell,
)
from lvmcore.bench.report import Options, Row
from lvmcore.counts import Cells
from lvmcore.data import load_paper
from lvmcore.metrics import knn_accuracy
from lvmcore.models.nbvae import NBVAE
from lvmcore.models.srflvm import SRFLVM

__all__ = ["rows"]

FloatArray = NDArray[np.float64]

SETS = ("sc_pbmc68k_700x765", "sc_mouse_bladder_2100x500")
SEEDS = range(5)
#: Dimensions of the maps, and of the models whose held-out cells are looked at.
COMPONENTS, DIMENSIONS = 2, (2, 5)


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    for data in SETS:
        for components in DIMENSIONS:
            yield partial(_likelihood, data, components)
        yield partial(_accuracy, data)
        yield partial(_seconds, data)


@cache
def _load(data: str) -> tuple[FloatArray, NDArray[np.generic]]:
    table = load_paper(data)
    found = table.dataset(label=table.columns[-1].name)
    assert found.labels is not None
    return np.asarray(found.X), found.labels


def _settings_of(
    shape: tuple[int, ...], seed: int, components: int = COMPONENTS, cells: Cells = "counts"
) -> dict[str, Any]:
    """What ``SRFLVM`` is advised for such cells."""
    advised = SRFLVM.suggest(n_rows=shape[0], n_columns=shape[1], cells=cells)
    return {**advised, "n_components": components, "random_state": seed}


# ---- held-out cells ----------------------------------------------------------------------------


@cache
def _held_out(data: str, components: int, seed: int) -> dict[str, float]:
    """Nats a hidden cell of each model."""
    X, _ = _load(data)
    held, hidden = hide_cells(X.shape)
    varying = X[~held].std(axis=0) > 0
    fit, new = X[~held][:, varying], torch.as_tensor(X[held][:, varying])
    cells = torch.as_tensor(hidden[:, varying])
    network = NBVAE.suggest(n_rows=fit.shape[0], n_columns=fit.shape[1], cells="counts")
    settings = {
        "negative binomial": _settings_of(fit.shape, seed, components),
        "Gaussian": _settings_of(fit.shape, seed, components, "any"),
        "NBVAE": {**network, "n_components": components, "random_state": seed},
    }
    return {
        name: nats_a_cell(*fitted_model(name, fit, settings[name]), new, cells) for name in SCORED
    }


def _likelihood(data: str, components: int) -> Row:
    found = [_held_out(data, components, seed) for seed in SEEDS]
    ours = [each["negative binomial"] for each in found]
    others = {name: [each[name] for each in found] for name in SCORED[1:]}
    told = [
        f"{name} {statistics.fmean(each):.4f} ± {statistics.pstdev(each):.4f}"
        for name, each in others.items()
    ]
    rows = int(hide_cells(_load(data)[0].shape)[0].sum())
    return Row(
        f"{data}: log likelihood of the hidden half of held-out rows, a cell, "
        f"{components} dimensions, five seeds",
        statistics.fmean(ours),
        "nats",
        spread=statistics.pstdev(ours),
        floor=round(max(map(statistics.fmean, others.values())), 4),
        reference=", ".join(told),
        settings={
            "data": data,
            "rows held out": rows,
            "hidden": HIDDEN,
            **_whole_settings(data, components),
        },
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


def _whole_settings(data: str, components: int = COMPONENTS) -> dict[str, object]:
    settings = SRFLVM(**_settings_of(_load(data)[0].shape, 0, components)).get_params()
    return {"seeds": len(SEEDS), **settings}


def _accuracy(data: str) -> Row:
    others = _others(data)
    accuracy = _maps(data)[0]
    return Row(
        f"{data}: 1-NN accuracy of the 2-D map of counts, 5-fold, five seeds",
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
        reference="asked on a quiet machine, by two cores: 20 s",
        settings={"data": data, **_whole_settings(data)},
    )
