"""Tables on which maps without labels are measured; their labels only score the maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons, make_s_curve

from lvmcore.data.dataset import Dataset
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["TABLES", "UnlabelledTable", "load_table"]

_SAMPLES = ("wine", "iris", "digits")
_PAPERS = {"oil flow": "oil_flow_train", "bridges": "bridges", "PBMC": "sc_pbmc68k_700x765"}
#: In the order of the rows: samples, made tables, tables of the papers.
TABLES = (*_SAMPLES, "moons", "S-curve", *_PAPERS)


@dataclass(frozen=True)
class UnlabelledTable:
    """Complete rows of a table, and their classes, which no fit sees.

    Attributes:
        dataset: the rows, without a label column.
        labels: their classes, [N].
    """

    dataset: Dataset
    labels: NDArray[np.object_]

    @property
    def X(self) -> FloatArray:
        """The rows in the data's units, [N, D]."""
        return self.dataset.X

    @property
    def standardised(self) -> FloatArray:
        """The columns that vary, with mean 0 and sd 1, [N, d]."""
        measured = Standardiser.fit(self.X, list(self.dataset.feature_names))
        return measured.transform(self.X)


@cache
def load_table(name: str) -> UnlabelledTable:
    """A table of ``TABLES``; moons are embedded in ten columns with noise."""
    if name == "moons":
        X, y = make_moons(300, noise=0.1, random_state=0)
        rng = np.random.default_rng(0)
        X = X @ rng.normal(size=(2, 10)) + 0.1 * rng.normal(size=(300, 10))
        return UnlabelledTable(Dataset.from_arrays(X, name=name), y.astype(str).astype(object))
    if name == "S-curve":
        X, along = make_s_curve(500, noise=0.05, random_state=0)
        halves = np.where(along > 0, "right", "left").astype(object)
        return UnlabelledTable(Dataset.from_arrays(X, name=name), halves)
    table = load_sample(name) if name in _SAMPLES else load_paper(_PAPERS[name])
    labels = table.dataset(label=table.columns[-1].name).labels
    assert labels is not None
    features = [column.name for column in table.columns[:-1]]
    return UnlabelledTable(table.dataset(features=features), labels)
