"""SRFLVM on wide tables of counts (single cells), compared with Gaussian columns, NBVAE and PCA.

Hidden cells: a fifth of the rows, 80 at most, is held out, and a random half of their cells is
hidden, the same for every model. The models have the same number of dimensions, two and then five.
Every model is fitted to the other rows and infers the held-out rows by the same search; the score
is that of ``hidden_counts``. Columns that are constant in the training rows are left out for all.

Maps: 1-nearest-neighbour accuracy of the training rows at ``embedding_``, as for the other methods,
in two dimensions, stratified 5-fold; PCA, t-SNE and UMAP use log(1 + count). No map uses labels.
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

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.random_features.hidden_counts import (
    HIDDEN,
    SCORED,
    fitted_model,
    hide_cells,
    nats_per_cell,
)
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models.latent.autoencoders.nbvae import NBVAE
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.cell_types import Cells

__all__ = ["rows"]


DATASETS = ("sc_pbmc68k_700x765", "sc_mouse_bladder_2100x500")
SEEDS = range(5)
#: Dimensions of the maps, and of the models of hidden cells.
COMPONENTS, DIMENSIONS = 2, (2, 5)


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data in DATASETS:
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


def _suggested_settings(
    shape: tuple[int, ...], seed: int, components: int = COMPONENTS, cells: Cells = "counts"
) -> dict[str, Any]:
    """Suggested settings of ``SRFLVM`` for counts."""
    advised = SRFLVM.suggest(TableSize(n_rows=shape[0], n_columns=shape[1], cells=cells))
    return {**advised, "n_components": components, "random_state": seed}


# ---- held-out cells ----------------------------------------------------------------------------


@cache
def _held_out_scores(data: str, components: int, seed: int) -> dict[str, float]:
    """Nats per hidden cell of each model."""
    X, _ = _load(data)
    held, hidden = hide_cells(X.shape)
    varying = X[~held].std(axis=0) > 0
    fit, new = X[~held][:, varying], torch.as_tensor(X[held][:, varying])
    cells = torch.as_tensor(hidden[:, varying])
    network = NBVAE.suggest(TableSize(n_rows=fit.shape[0], n_columns=fit.shape[1], cells="counts"))
    settings = {
        "negative binomial": _suggested_settings(fit.shape, seed, components),
        "Gaussian": _suggested_settings(fit.shape, seed, components, "any"),
        "NBVAE": {**network, "n_components": components, "random_state": seed},
    }
    return {
        name: nats_per_cell(*fitted_model(name, fit, settings[name]), new, cells) for name in SCORED
    }


def _likelihood(data: str, components: int) -> BenchmarkRow:
    found = [_held_out_scores(data, components, seed) for seed in SEEDS]
    ours = [each["negative binomial"] for each in found]
    others = {name: [each[name] for each in found] for name in SCORED[1:]}
    values = [
        f"{name} {statistics.fmean(each):.4f} ± {statistics.pstdev(each):.4f}"
        for name, each in others.items()
    ]
    rows = int(hide_cells(_load(data)[0].shape)[0].sum())
    return BenchmarkRow(
        f"{data}: log likelihood of the hidden half of held-out rows, a cell, "
        f"{components} dimensions, five seeds",
        statistics.fmean(ours),
        "nats",
        spread=statistics.pstdev(ours),
        floor=round(max(map(statistics.fmean, others.values())), 4),
        reference=", ".join(values),
        settings={
            "data": data,
            "rows held out": rows,
            "hidden": HIDDEN,
            **_settings(data, components),
        },
    )


# ---- maps --------------------------------------------------------------------------------------


@cache
def _map_scores(data: str) -> tuple[list[float], list[float]]:
    """Accuracy and seconds of the fit of each seed."""
    X, y = _load(data)
    accuracy, seconds = [], []
    for seed in SEEDS:
        start = time.perf_counter()
        model = SRFLVM(**_suggested_settings(X.shape, seed)).fit(X)
        seconds.append(time.perf_counter() - start)
        accuracy.append(knn_accuracy(model.embedding_.mean, y, k=1))
    return accuracy, seconds


@cache
def _baseline_accuracies(data: str) -> dict[str, float]:
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


def _settings(data: str, components: int = COMPONENTS) -> dict[str, object]:
    settings = SRFLVM(**_suggested_settings(_load(data)[0].shape, 0, components)).get_params()
    return {"seeds": len(SEEDS), **settings}


def _accuracy(data: str) -> BenchmarkRow:
    others = _baseline_accuracies(data)
    accuracy = _map_scores(data)[0]
    return BenchmarkRow(
        f"{data}: 1-NN accuracy of the 2-D map of counts, 5-fold, five seeds",
        statistics.fmean(accuracy),
        spread=statistics.pstdev(accuracy),
        floor=round(others["PCA"], 4),
        reference=", ".join(f"{name} {value:.3f}" for name, value in others.items()),
        settings={"data": data, "folds": 5, **_settings(data)},
    )


def _seconds(data: str) -> BenchmarkRow:
    return BenchmarkRow(
        f"{data}: median seconds of a fit to counts",
        statistics.median(_map_scores(data)[1]),
        "s",
        reference="asked on a quiet machine, by two cores: 20 s",
        settings={"data": data, **_settings(data)},
    )
