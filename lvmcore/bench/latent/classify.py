"""LDGD and Fast LDGD as classifiers, beside logistic regression, a tuned SVM and a random forest.

Repeats of stratified 5-fold cross-validation at the recommended settings (those that ``suggest``
gives for the training rows), with the same folds for all methods: five repeats, one for the larger
tables. The probabilities are the model's own, without recalibration, and nothing is tuned on the
test rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper, paper_names
from lvmcore.data.samples.samples import load_sample
from lvmcore.metrics.scores import expected_calibration_error
from lvmcore.models.latent.fast_ldgd import FastLDGD
from lvmcore.models.latent.ldgd import LDGD

__all__ = ["rows"]

#: Tables with a floor of the gap and a ceiling of the calibration error for both models.
DATASETS = ("wine", "iris", "oil_flow_train", "sc_pbmc68k_700x765", "digits")
#: Tables with a lower floor of the gap, and without one.
FURTHER_DATASETS = ("breast_cancer", "uci_haberman")
FULL_DATASETS = ("uci_car", "uci_seismic_bumps", "uci_tic_tac_toe", "uci_nursery")
#: Tables of one repeat: their folds have enough rows.
ONE_REPEAT = ("oil_flow_train", "sc_pbmc68k_700x765", "digits", *FULL_DATASETS)
REPEATS, FOLDS, INNER_FOLDS = 5, 5, 3
MIN_GAP, FURTHER_MIN_GAP, MAX_ECE = -0.01, -0.03, 0.05
#: A class needs this number of rows to be in every fold and every inner fold.
MIN_ROWS = FOLDS * INNER_FOLDS
GRID = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.001, 0.01, 0.1, 1, "scale"]}
MODELS: dict[str, type[LDGD] | type[FastLDGD]] = {"LDGD": LDGD, "Fast LDGD": FastLDGD}


@dataclass(frozen=True)
class ClassifierScores:
    """Cross-validation scores: accuracy by method and fold, and calibration errors by model.

    The calibration error is computed over all rows of a repeat, each with its out-of-fold
    probabilities: the bins of a single fold contain too few rows.
    """

    accuracy: dict[str, list[float]] = field(default_factory=dict)
    ece: dict[str, list[float]] = field(default_factory=dict)

    @property
    def best(self) -> tuple[str, float]:
        """The best baseline, and its mean accuracy."""
        means = {
            name: statistics.fmean(found)
            for name, found in self.accuracy.items()
            if name not in MODELS
        }
        name = max(means, key=lambda other: means[other])
        return name, means[name]

    def gap(self, model: str) -> float:
        """A model's mean accuracy minus that of the best baseline."""
        return statistics.fmean(self.accuracy[model]) - self.best[1]


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    for data in DATASETS:
        for model in MODELS:
            yield partial(_gap, data, model, MIN_GAP)
            yield partial(_ece, data, model, MAX_ECE)
    further: dict[str, float | None] = dict.fromkeys(FURTHER_DATASETS, FURTHER_MIN_GAP)
    if options.full:
        further |= dict.fromkeys(FULL_DATASETS)
    for data, floor in further.items():
        for model in MODELS:
            yield partial(_gap, data, model, floor)
            yield partial(_ece, data, model, None)


def _gap(data: str, model: str, floor: float | None) -> BenchmarkRow:
    scores = _cross_validate(data)
    others = ", ".join(
        f"{name} {statistics.fmean(found):.3f}"
        for name, found in scores.accuracy.items()
        if name == model or name not in MODELS
    )
    return BenchmarkRow(
        f"{data}: accuracy of {model} less that of the best classifier, {_protocol(data)}",
        scores.gap(model),
        reference=others,
        floor=floor,
        settings=_settings(data, model),
    )


def _ece(data: str, model: str, ceiling: float | None) -> BenchmarkRow:
    return BenchmarkRow(
        f"{data}: expected calibration error of {model}, {_protocol(data)}",
        statistics.fmean(_cross_validate(data).ece[model]),
        ceiling=ceiling,
        settings=_settings(data, model),
    )


def _repeats(data: str) -> int:
    return 1 if data in ONE_REPEAT else REPEATS


def _protocol(data: str) -> str:
    repeats = _repeats(data)
    return f"{FOLDS}-fold" if repeats == 1 else f"{repeats} × {FOLDS}-fold"


def _settings(data: str, model: str) -> dict[str, object]:
    X, y = _load(data)
    settings = _model(model, X, y, seed=0).get_params()
    return {"data": data, "folds": FOLDS, "repeats": _repeats(data), **settings}


def _model(name: str, X: NDArray[np.float64], y: NDArray[np.object_], seed: int) -> ClassifierMixin:
    """A model with the settings recommended for the rows of a fit, not fitted."""
    size = TableSize(n_rows=len(X), n_columns=X.shape[1], n_classes=len(np.unique(y)))
    return MODELS[name](random_state=seed, **MODELS[name].suggest(size))


def _baselines(seed: int) -> dict[str, ClassifierMixin]:
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "SVC": GridSearchCV(make_pipeline(StandardScaler(), SVC()), GRID, cv=inner),
        "random forest": RandomForestClassifier(random_state=seed),
    }


@cache
def _cross_validate(data: str) -> ClassifierScores:
    X, y = _load(data)
    scores = ClassifierScores()
    codes = np.unique(y, return_inverse=True)[1]
    for seed in range(_repeats(data)):
        splits = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        unseen = {name: np.zeros((len(y), codes.max() + 1)) for name in MODELS}
        for train, test in splits.split(X, y):
            for name, probabilities in unseen.items():
                model = _model(name, X[train], y[train], seed).fit(X[train], y[train])
                probabilities[test] = model.predict_proba(X[test])
                right = probabilities[test].argmax(axis=1) == codes[test]
                scores.accuracy.setdefault(name, []).append(float(right.mean()))
            for name, other in _baselines(seed).items():
                found = other.fit(X[train], y[train]).score(X[test], y[test])
                scores.accuracy.setdefault(name, []).append(float(found))
        for name, probabilities in unseen.items():
            error = expected_calibration_error(probabilities, codes)
            scores.ece.setdefault(name, []).append(error)
    return scores


@cache
def _load(data: str) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Features, one-hot for categories, and labels, without classes too rare for the folds."""
    table = load_paper(data) if data in paper_names() else load_sample(data)
    label = table.columns[-1].name
    categories = [c.name for c in table.columns if c.type == "category" and c.name != label]
    found = table.dataset(label=label, one_hot=categories)
    assert found.labels is not None
    X, y = found.X[:, found.X.std(axis=0) > 0], found.labels.astype(object)
    names, counts = np.unique(y.astype(str), return_counts=True)
    keep = np.isin(y.astype(str), names[counts >= MIN_ROWS])
    return X[keep], y[keep]
