"""Mixed tables: a likelihood for each column compared with one-hot Gaussians and other imputers.

A fifth of the cells of a table is hidden, all features of a category together. Every method sees
the same left cells. Errors of numbers are in standard deviations of the left cells; the probability
of a level is at least 0.001 for all methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.column_types import ColumnType
from lvmcore.data.dataset import Dataset
from lvmcore.data.samples.paper_datasets import load_table
from lvmcore.data.table import Table
from lvmcore.data.transforms import one_hot_columns
from lvmcore.evaluation.hidden_cells import hide_cells
from lvmcore.evaluation.imputation_baselines import baseline_predictions
from lvmcore.likelihoods.catalogue import ColumnTerm
from lvmcore.likelihoods.intervals import predictive_interval
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.decoded_columns import column_terms
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["rows"]

#: File of each table, its columns that are left out, and whether whole numbers of few values are
#: categories.
TABLES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "adult": ("tables/uci_adult_6000.csv.gz", (), False),
    "horse colic": (
        "tables/uci_horse_colic.csv.gz",
        ("hospital_number", "lesion_1", "lesion_2", "lesion_3"),
        True,
    ),
    "breast cancer": ("tables/uci_breast_cancer_ljubljana.csv.gz", (), False),
    "credit default": ("messy/credit_default_bom_semicolon.csv", (), False),
    "nursery": ("uci_nursery.csv.gz", (), False),
}
WITHOUT_NUMBERS = ("nursery",)
SHARE, FEW_LEVELS = 0.2, 6
#: Splits, and rows of the short protocol and of the full one.
SPLITS, MOST_ROWS = 5, (2000, 20_000)
LEAST_PROBABILITY, BINS = 1e-3, 10

Method = Literal["by column", "gaussian", "neighbours", "forest", "means"]
_METHODS: dict[str, Method] = {name: name for name in get_args(Method)}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    for name in TABLES:
        yield partial(_levels, name, options.full)
        yield partial(_calibration, name, options.full)
        if name not in WITHOUT_NUMBERS:
            yield partial(_numbers, name, options.full)
            yield partial(_coverage, name, options.full)
    yield partial(_accuracy, options.full)


@dataclass(frozen=True)
class _Scores:
    """Scores of a method on the hidden cells of all splits of a table.

    Attributes:
        log_probability: of the levels, mean, nats.
        accuracy: share of the levels that are the most probable.
        calibration: expected calibration error of the most probable levels.
        error: root mean square error of the numbers; NaN without numbers.
        coverage: of the 90 % intervals of the numbers.
    """

    log_probability: float
    accuracy: float
    calibration: float
    error: float
    coverage: float


@cache
def _dataset(name: str, full: bool) -> Dataset:
    file, left_out, few_are_levels = TABLES[name]
    table: Table = load_table(file)
    if few_are_levels:
        few = {
            column.name: ColumnType.CATEGORY
            for column in table.columns
            if column.type is ColumnType.COUNT and column.distinct <= FEW_LEVELS
        }
        table = table.with_types(few)
    used = [column for column in table.columns if column.name not in left_out]
    features = [column.name for column in used]
    one_hot = [column.name for column in used if column.type is ColumnType.CATEGORY]
    dataset = table.dataset(features=features, one_hot=one_hot, label=None)
    most = MOST_ROWS[full]
    if len(dataset) <= most:
        return dataset
    some = np.sort(np.random.default_rng(0).choice(len(dataset), most, replace=False))
    return Dataset.from_arrays(dataset.X[some], feature_names=dataset.feature_names)


def _targets(dataset: Dataset) -> list[NDArray[np.intp]]:
    """Positions of the features of each column."""
    names = np.array([name.partition(" = ")[0] for name in dataset.feature_names])
    coded = set(one_hot_columns(dataset)) or {
        name.partition(" = ")[0] for name in dataset.feature_names if " = " in name
    }
    found = []
    for d, name in enumerate(names):
        if name not in coded:
            found.append(np.array([d]))
        elif d == np.flatnonzero(names == name)[0]:
            found.append(np.flatnonzero(names == name))
    return found


@cache
def _scores(name: str, full: bool) -> dict[Method, _Scores]:
    dataset = _dataset(name, full)
    parts: dict[Method, list[_Cells]] = {}
    for split in range(SPLITS):
        for method, cells in _split_cells(dataset, split).items():
            parts.setdefault(method, []).append(cells)
    return {method: _score(cells) for method, cells in parts.items()}


@dataclass(frozen=True)
class _Cells:
    """Predictions of hidden cells.

    Attributes:
        right: probability of the true level of each hidden category, [n].
        best: largest probability, [n].
        hit: whether the most probable level is the true one, [n].
        away: errors of the numbers, in sd, [m].
        inside: whether the numbers are in their 90 % intervals, [m].
    """

    right: FloatArray
    best: FloatArray
    hit: NDArray[np.bool_]
    away: FloatArray
    inside: NDArray[np.bool_]


def _split_cells(dataset: Dataset, split: int) -> dict[Method, _Cells]:
    """Predictions of each method of the hidden cells of a split."""
    targets = _targets(dataset)
    groups = [target.tolist() for target in targets if len(target) > 1]
    hidden = hide_cells(dataset.X, SHARE, split, groups)
    left = np.where(hidden, np.nan, dataset.X)
    standard = Standardiser.fit(left, list(dataset.feature_names))
    frame = pd.DataFrame(left, columns=list(dataset.feature_names))
    found: dict[Method, tuple[FloatArray, FloatArray]] = {}
    terms: dict[Method, tuple[ColumnTerm, ...] | None] = {}
    size = TableSize(n_rows=len(left), n_columns=left.shape[1], incomplete=True)
    for method in ("by column", "gaussian"):
        settings = BayesianGPLVM.suggest(size) | {"column_likelihood": method}
        model = BayesianGPLVM(**settings, random_state=split).fit(frame)
        filled, key = model.impute(frame), _METHODS[method]
        found[key], terms[key] = (filled.mean, filled.variance), column_terms(model)
    Y = np.where(standard.constant, 0.0, (left - standard.mean) / standard.scale)
    others = baseline_predictions(Y, hidden, targets, seconds=np.inf)
    for name in ("neighbours", "forest", "means"):
        one = others[name]
        mean = one.mean * standard.scale + standard.mean
        found[_METHODS[name]] = mean, np.broadcast_to(one.variance * standard.scale**2, mean.shape)
    return {
        method: _cells(
            dataset.X,
            hidden,
            targets,
            standard,
            mean,
            predictive_interval(terms.get(method), mean, variance, 0.9),
        )
        for method, (mean, variance) in found.items()
    }


def _cells(
    X: FloatArray,
    hidden: NDArray[np.bool_],
    targets: list[NDArray[np.intp]],
    standard: Standardiser,
    mean: FloatArray,
    interval: tuple[FloatArray, FloatArray],
) -> _Cells:
    """The hidden cells of all columns."""
    right, best, hit, away, inside = [], [], [], [], []
    lower, upper = interval
    for target in targets:
        rows = np.flatnonzero(hidden[:, target[0]])
        values = np.unique(X[~np.isnan(X[:, target[0]]), target[0]])
        if len(target) == 1 and len(values) > 2:
            d = int(target[0])
            away.append((mean[rows, d] - X[rows, d]) / standard.scale[d])
            inside.append((lower[rows, d] <= X[rows, d]) & (X[rows, d] <= upper[rows, d]))
            continue
        p, truth = mean[np.ix_(rows, target)], X[np.ix_(rows, target)]
        if len(target) == 1:  # of two values
            p, truth = ((part - values[0]) / (values[-1] - values[0]) for part in (p, truth))
            p, truth = np.hstack([1 - p, p]), np.hstack([1 - truth, truth])
        p = np.clip(p, LEAST_PROBABILITY, None)
        p = p / p.sum(axis=1, keepdims=True)
        level = truth.argmax(axis=1)
        right.append(p[np.arange(len(p)), level])
        best.append(p.max(axis=1))
        hit.append(p.argmax(axis=1) == level)
    none = [np.zeros(0)]
    return _Cells(
        np.concatenate(right),
        np.concatenate(best),
        np.concatenate(hit),
        np.concatenate(away or none),
        np.concatenate(inside or none).astype(np.bool_),
    )


def _score(parts: list[_Cells]) -> _Scores:
    right, best, hit, away, inside = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("right", "best", "hit", "away", "inside")
    )
    place = np.minimum((best * BINS).astype(int), BINS - 1)
    gaps = [
        abs(hit[place == k].mean() - best[place == k].mean()) * (place == k).mean()
        for k in np.unique(place)
    ]
    return _Scores(
        log_probability=float(np.log(right).mean()),
        accuracy=float(hit.mean()),
        calibration=float(np.sum(gaps)),
        error=float(np.sqrt(np.square(away).mean())) if len(away) else np.nan,
        coverage=float(inside.mean()) if len(away) else np.nan,
    )


def _settings(name: str, full: bool) -> dict[str, object]:
    return {
        "data": name,
        "rows": len(_dataset(name, full)),
        "share": SHARE,
        "splits": SPLITS,
        "model": "bayesian_gplvm",
    }


def _reference(scores: dict[Method, _Scores], what: str) -> str:
    others = [method for method in scores if method != "by column"]
    return ", ".join(f"{method} {getattr(scores[method], what):.3f}" for method in others)


def _levels(name: str, full: bool) -> BenchmarkRow:
    scores = _scores(name, full)
    floor = max(scores["gaussian"].log_probability, scores["neighbours"].log_probability)
    return BenchmarkRow(
        f"{name}: log probability of hidden levels, nats",
        scores["by column"].log_probability,
        floor=round(floor, 4),
        reference=_reference(scores, "log_probability"),
        settings=_settings(name, full),
    )


def _calibration(name: str, full: bool) -> BenchmarkRow:
    scores = _scores(name, full)
    return BenchmarkRow(
        f"{name}: calibration error of hidden levels",
        scores["by column"].calibration,
        ceiling=0.05,
        reference=_reference(scores, "calibration"),
        settings=_settings(name, full),
    )


def _numbers(name: str, full: bool) -> BenchmarkRow:
    scores = _scores(name, full)
    return BenchmarkRow(
        f"{name}: RMSE of hidden numbers, sd",
        scores["by column"].error,
        ceiling=round(1.02 * scores["gaussian"].error, 4),
        reference=_reference(scores, "error"),
        settings=_settings(name, full),
    )


def _coverage(name: str, full: bool) -> BenchmarkRow:
    scores = _scores(name, full)
    return BenchmarkRow(
        f"{name}: coverage of 90 % intervals of numbers",
        scores["by column"].coverage,
        floor=0.85,
        ceiling=0.95,
        reference=_reference(scores, "coverage"),
        settings=_settings(name, full),
    )


def _accuracy(full: bool) -> BenchmarkRow:
    all_scores = [_scores(name, full) for name in TABLES]
    mean = {
        method: float(np.mean([scores[method].accuracy for scores in all_scores]))
        for method in all_scores[0]
    }
    return BenchmarkRow(
        "accuracy of hidden levels, mean of the tables",
        mean["by column"],
        floor=round(mean["forest"] - 0.01, 4),
        reference=", ".join(f"{key} {value:.3f}" for key, value in mean.items()),
        settings={"share": SHARE, "splits": SPLITS, "tables": len(TABLES)},
    )
