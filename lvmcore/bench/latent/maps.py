"""Maps of tables without labels as they are shown, beside those of UMAP and PCA.

Each map is that of a default fit, in the two dimensions that are shown first. The 1-nearest-
neighbour accuracy is by labels that no fit has seen (5-fold), the trustworthiness has 5 neighbours
of the standardised columns. Means over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.unlabelled_tables import TABLES, load_table
from lvmcore.metrics.scores import knn_accuracy, trustworthiness
from lvmcore.models import MODELS
from lvmcore.recommend.latent_models import propose, suggested_settings, summarise
from lvmcore.relevance import leading_dimensions

__all__ = ["rows"]

SEEDS, FULL_SEEDS = 1, 5
NEIGHBOURS = 5
#: How far a map may be below that of UMAP.
MOST_BELOW = {"1-NN accuracy": 0.02, "trustworthiness": 0.01}
GP_MAPS = ("bayesian_gplvm", "qep_lvm", "srflvm")


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Each table: the recommended map less UMAP's, and every GP map less PCA's."""
    seeds = FULL_SEEDS if options.full else SEEDS
    for table in TABLES:
        for measure in MOST_BELOW:
            yield partial(_beside_umap, table, measure, seeds)
        for model in GP_MAPS:
            yield partial(_beside_pca, table, model, seeds)


def _beside_umap(table: str, measure: str, seeds: int) -> BenchmarkRow:
    best = propose(MODELS, summarise(load_table(table).dataset)).key
    ours, theirs = (_mean(table, model, measure, seeds) for model in (best, "umap"))
    return BenchmarkRow(
        f"{table}: {measure} of the recommended map, less that of UMAP",
        ours - theirs,
        reference=f"{MODELS[best].title} {ours:.3f}, UMAP {theirs:.3f}, "
        f"t-SNE {_mean(table, 'tsne', measure, seeds):.3f}",
        floor=-MOST_BELOW[measure],
        settings=_settings(table, seeds) | {"model": best},
    )


def _beside_pca(table: str, model: str, seeds: int) -> BenchmarkRow:
    less = {
        measure: _mean(table, model, measure, seeds) - _mean(table, "pca", measure, seeds)
        for measure in MOST_BELOW
    }
    return BenchmarkRow(
        f"{table}: {MODELS[model].title} less PCA, the lower of both measures",
        min(less.values()),
        reference=", ".join(f"{measure} {value:+.3f}" for measure, value in less.items()),
        floor=0.0,
        settings=_settings(table, seeds) | {"model": model},
    )


def _settings(table: str, seeds: int) -> dict[str, object]:
    shape = list(load_table(table).X.shape)
    return {"data": table, "shape": shape, "seeds": list(range(seeds)), "settings": "as advised"}


def _mean(table: str, model: str, measure: str, seeds: int) -> float:
    return statistics.fmean(_scores(table, model, seed)[measure] for seed in range(seeds))


@cache
def _scores(table: str, model: str, seed: int) -> dict[str, float]:
    """The measures of the shown map of a fit."""
    data = load_table(table)
    cls: type[LatentVariableModel] = MODELS[model]
    advised = suggested_settings(cls, summarise(data.dataset))
    fit = cls(**{**advised, "random_state": seed}).fit(data.X)
    axes = leading_dimensions(fit.variance_shares())
    places = fit.embedding_.mean[:, [axis for axis in axes if axis is not None]]
    rows = data.standardised
    return {
        "1-NN accuracy": knn_accuracy(places, np.asarray(data.labels, dtype=str)),
        "trustworthiness": trustworthiness(rows, places, n_neighbors=NEIGHBOURS),
    }
