"""Gross cells: how far 5 % of wrong cells bend a map with Gaussian and with Student-t columns.

A twentieth of the cells is moved by 10 to 30 standard deviations of its column. The score is the
accuracy of the nearest other row in the map, its mean over draws of the cells and of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.dataset import Dataset
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM

__all__ = ["rows"]

SHARE, LEAST, MOST, SEEDS = 0.05, 10.0, 30.0, 5
#: Largest fall of the accuracy.
FALL = 0.02
SETTINGS: dict[str, Any] = {"n_components": 2, "n_inducing": 25, "max_iter": 600}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for name in ("wine", "oil_flow_train"):
        yield partial(_fall, name)


@cache
def _dataset(name: str) -> Dataset:
    if name == "wine":
        return load_sample("wine").dataset(label="cultivar")
    table = load_paper(name)
    return table.dataset(label=table.columns[-1].name)


@cache
def _accuracy(name: str, likelihood: str, gross: bool, seed: int) -> float:
    dataset = _dataset(name)
    X = dataset.X
    if gross:
        rng = np.random.default_rng(seed)
        away = rng.choice([-1.0, 1.0], X.shape) * rng.uniform(LEAST, MOST, X.shape) * X.std(axis=0)
        X = np.where(rng.random(X.shape) < SHARE, X + away, X)
    text = "gaussian" if likelihood == "gaussian" else f"{likelihood}*{X.shape[1]}"
    model = BayesianGPLVM(column_likelihood=text, **SETTINGS, random_state=seed).fit(X)
    distances = cdist(model.embedding_.mean, model.embedding_.mean)
    np.fill_diagonal(distances, np.inf)
    labels = np.asarray(dataset.labels)
    return float((labels[distances.argmin(axis=1)] == labels).mean())


def _fall(name: str) -> BenchmarkRow:
    accuracies = np.array(
        [
            [_accuracy(name, likelihood, gross, seed) for gross in (False, True)]
            for likelihood in ("student_t", "gaussian")
            for seed in range(SEEDS)
        ]
    ).reshape(2, SEEDS, 2)
    falls = accuracies[0, :, 0] - accuracies[0, :, 1]
    student, gaussian = (f"{clean:.3f} to {bent:.3f}" for clean, bent in accuracies.mean(1))
    return BenchmarkRow(
        f"{name}: fall of the 1-NN accuracy by 5 % gross cells, Student-t columns",
        float(falls.mean()),
        spread=float(falls.std()),
        ceiling=FALL,
        reference=f"Student-t {student}, Gaussian {gaussian}",
        settings={"data": name, "share": SHARE, "seeds": SEEDS, **SETTINGS},
    )
