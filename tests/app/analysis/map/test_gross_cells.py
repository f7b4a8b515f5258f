"""Gross cells of real tables: their rows are listed first, and their columns are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from app.analysis.map.residuals import residuals
from lvmcore import PCA, BayesianGPLVM
from lvmcore.data import Dataset, load_sample

SHARE = 0.9  # of the rows with a gross cell, among the five largest residuals
SAMPLES = ("iris", "wine", "breast_cancer", "moons10", "s_curve")
FILES = {
    "bridges.csv.gz": "label",
    "oil_flow_train.csv.gz": "label",
    "uci_boston.csv.gz": "target",
}
CELLS = "sc_pbmc68k_700x765.csv.gz"


def real_tables(folder: Path) -> Iterator[pd.DataFrame]:
    """Ten tables of numbers and counts."""
    for name in SAMPLES:
        yield load_sample(name).frame.select_dtypes("number")
    yield load_diabetes(as_frame=True).data
    for file, label in FILES.items():
        yield pd.read_csv(folder / file).drop(columns=label)
    counts = pd.read_csv(folder / CELLS).drop(columns="label")
    yield counts[counts.var().nlargest(60).index]


def with_gross_cells(
    frame: pd.DataFrame, seed: int
) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    """A table with a cell of 10 sd in each of three rows, and the places of these cells."""
    rng = np.random.default_rng(seed)
    X = frame.to_numpy(np.float64, copy=True)
    places = list(
        zip(
            rng.choice(len(X), 3, replace=False).tolist(),
            rng.integers(0, X.shape[1], 3).tolist(),
            strict=True,
        )
    )
    size = 10 * X.std(axis=0)
    for (row, column), sign in zip(places, rng.choice([-1, 1], 3), strict=True):
        X[row, column] += sign * size[column]
    return X, places


@pytest.mark.parametrize(
    "model", [BayesianGPLVM(max_iter=40, n_inducing=20), PCA()], ids=["BayesianGPLVM", "PCA"]
)
def test_gross_cells_are_among_the_five_largest_residuals(
    data_dir: Path, model: BayesianGPLVM | PCA
) -> None:
    listed, named = [], []
    for seed, frame in enumerate(real_tables(data_dir)):
        X, places = with_gross_cells(frame, seed)
        found = residuals(clone(model).fit(X), Dataset.from_arrays(X))
        worst = found.rows[found.worst(5)].tolist()
        listed += [row in worst for row, _ in places]
        named += [int(found.column[row]) == column for row, column in places]
    assert len(listed) == 30
    assert np.mean(listed) >= SHARE
    assert np.mean(named) >= SHARE


@pytest.mark.parametrize("name", ["iris", "wine", "moons10", "s_curve"])
def test_one_gross_cell_puts_its_row_first(name: str) -> None:
    frame = load_sample(name).frame.select_dtypes("number")
    first = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = frame.to_numpy(np.float64, copy=True)
        row, column = int(rng.integers(len(X))), int(rng.integers(X.shape[1]))
        X[row, column] += rng.choice([-10, 10]) * X[:, column].std()
        found = residuals(PCA().fit(X), Dataset.from_arrays(X))
        first.append(found.worst(1).tolist() == [row] and found.column[row] == column)
    assert np.mean(first) >= SHARE
