"""Figure 6 of the LDGD paper: accuracy on unseen rows against the number of rows in the fit.

LDGD and Fast LDGD are compared with a supervised variational autoencoder of the same encoder, all
with their suggested settings for a table of that size. Each seed samples the training rows and the
test rows, the same for the three models. The paper's figure is of moons in 20 columns (its
synthetic-20), for which there is a floor; digits and oil flow are further data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.models.latent.autoencoders.vae import SupervisedVAE
from lvmcore.models.latent.fast_ldgd import FastLDGD
from lvmcore.models.latent.ldgd import LDGD

__all__ = ["rows"]

SIZES = (25, 50, 100, 150, 200)
SCORED_ROWS = 400
SEEDS, FULL_SEEDS = 10, 30
# The data of the paper's figure, and Q of each data set; the paper's for oil flow and moons.
FIGURE = "moons20"
COMPONENTS = {FIGURE: 10, "oil_flow_train": 7, "digits": 10}
MODELS: dict[str, type[LatentVariableModel]] = {
    "LDGD": LDGD,
    "Fast LDGD": FastLDGD,
    "supervised VAE": SupervisedVAE,
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """The rows of the figure: every model's accuracy, then the lead over the autoencoder."""
    seeds = FULL_SEEDS if options.full else SEEDS
    for data in COMPONENTS:
        for size in SIZES:
            for model in MODELS:
                yield partial(_accuracy, data, size, model, seeds)
            yield partial(_lead, data, size, seeds)


def _accuracy(data: str, size: int, model: str, seeds: int) -> BenchmarkRow:
    found = [_score(data, size, model, seed) for seed in range(seeds)]
    return BenchmarkRow(
        f"{data}, {size} rows: accuracy of {model}",
        statistics.fmean(found),
        spread=statistics.stdev(found),
        settings=_settings(data, size, seeds) | {"model": model},
    )


def _lead(data: str, size: int, seeds: int) -> BenchmarkRow:
    mean = {
        model: statistics.fmean(_score(data, size, model, seed) for seed in range(seeds))
        for model in MODELS
    }
    baseline = mean["supervised VAE"]
    best = max((name for name in MODELS if name != "supervised VAE"), key=lambda name: mean[name])
    return BenchmarkRow(
        f"{data}, {size} rows: lead of {best} over the supervised VAE",
        mean[best] - baseline,
        reference=f"supervised VAE {baseline:.3f}; paper: above it",
        floor=0.0 if data == FIGURE else None,
        settings=_settings(data, size, seeds),
    )


def _settings(data: str, size: int, seeds: int) -> dict[str, object]:
    return {
        "data": data,
        "n_components": COMPONENTS[data],
        "rows": size,
        "scored_rows": _scored_rows(data),
        "seeds": list(range(seeds)),
        "settings": "as advised",
    }


def _scored_rows(data: str) -> int:
    """Test rows, the same for every size."""
    return min(SCORED_ROWS, len(_load(data)[1]) - max(SIZES))


@cache
def _score(data: str, size: int, model: str, seed: int) -> float:
    X, y = _load(data)
    fitted, scored = train_test_split(
        np.arange(len(y)),
        train_size=size,
        test_size=_scored_rows(data),
        stratify=y,
        random_state=seed,
    )
    advised = MODELS[model].suggest(
        TableSize(n_rows=size, n_columns=X.shape[1], n_classes=len(np.unique(y[fitted])))
    )
    settings = advised | {"n_components": COMPONENTS[data], "random_state": seed}
    estimator = MODELS[model](**settings)
    estimator.fit(X[fitted], y[fitted])
    return float(estimator.score(X[scored], y[scored]))


@cache
def _load(data: str) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    table = load_paper(data) if data == "oil_flow_train" else load_sample(data)
    found = table.dataset(label=table.columns[-1].name)
    assert found.labels is not None
    return found.X, found.labels
