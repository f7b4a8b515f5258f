"""LDGD as a classifier, beside logistic regression, a tuned support vector machine and a forest.

Five repeats of stratified 5-fold cross-validation at the default settings (those that
``LDGD.suggest`` gives for the table), the same folds for all. The probabilities are the model's
own: nothing is fitted on top of them, and nothing is tuned on the rows that are scored.
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

from lvmcore.bench.report import Options, Row
from lvmcore.data import load_paper, load_sample
from lvmcore.metrics import expected_calibration_error
from lvmcore.models.ldgd import LDGD

__all__ = ["rows"]

SETS = ("wine", "breast_cancer", "uci_haberman", "digits")
FULL_SETS = ("uci_car", "uci_seismic_bumps", "uci_tic_tac_toe", "uci_nursery")
REPEATS, FOLDS, INNER_FOLDS = 5, 5, 3
MEAN_GAP, LEAST_GAP, AIMED_GAP, MOST_ECE = -0.015, -0.03, -0.01, 0.06
#: A class with fewer rows than this cannot be in every fold and every inner fold.
LEAST_ROWS = FOLDS * INNER_FOLDS
GRID = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.001, 0.01, 0.1, 1, "scale"]}


@dataclass(frozen=True)
class Scores:
    """What cross-validation gave: accuracies by method, one a fold, and LDGD's calibration error.

    That is of all rows of a repeat, each with the probabilities of the fit that it was left out of:
    in the bins of a single fold there are too few rows to count.
    """

    accuracy: dict[str, list[float]] = field(default_factory=dict)
    ece: list[float] = field(default_factory=list)

    @property
    def best(self) -> tuple[str, float]:
        """The best of the others, and its mean accuracy."""
        means = {
            name: statistics.fmean(found)
            for name, found in self.accuracy.items()
            if name != LDGD.title
        }
        name = max(means, key=lambda other: means[other])
        return name, means[name]

    @property
    def gap(self) -> float:
        """LDGD's mean accuracy above that of the best of the others."""
        return statistics.fmean(self.accuracy[LDGD.title]) - self.best[1]


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the comparison."""
    for data in SETS:
        yield partial(_gap, data, LEAST_GAP)
    yield _mean_gap
    yield _mean_ece
    if options.full:
        for data in FULL_SETS:
            yield partial(_gap, data, None)


def _gap(data: str, floor: float | None) -> Row:
    scores = _cross_validate(data)
    others = ", ".join(
        f"{name} {statistics.fmean(found):.3f}" for name, found in scores.accuracy.items()
    )
    return Row(
        f"{data}: accuracy of LDGD less that of the best classifier, {REPEATS} × {FOLDS}-fold",
        scores.gap,
        reference=f"{others}; ECE {statistics.fmean(scores.ece):.3f}",
        floor=floor,
        settings=_settings(data),
    )


def _mean_gap() -> Row:
    return Row(
        f"mean of that over {', '.join(SETS)}",
        statistics.fmean(_cross_validate(data).gap for data in SETS),
        floor=MEAN_GAP,
        settings={"data": [_settings(data) for data in SETS]},
    )


def _mean_ece() -> Row:
    return Row(
        f"mean expected calibration error over {', '.join(SETS)}",
        statistics.fmean(statistics.fmean(_cross_validate(data).ece) for data in SETS),
        ceiling=MOST_ECE,
        settings={"data": [_settings(data) for data in SETS]},
    )


def _settings(data: str) -> dict[str, object]:
    X, y = _load(data)
    suggested = LDGD.suggest(n_rows=len(X), n_columns=X.shape[1], n_classes=len(set(y)))
    return {"data": data, "folds": FOLDS, "repeats": REPEATS, **LDGD(**suggested).get_params()}


def _others(seed: int) -> dict[str, ClassifierMixin]:
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "SVC": GridSearchCV(make_pipeline(StandardScaler(), SVC()), GRID, cv=inner),
        "random forest": RandomForestClassifier(random_state=seed),
    }


@cache
def _cross_validate(data: str) -> Scores:
    X, y = _load(data)
    scores = Scores()
    for seed in range(REPEATS):
        splits = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        codes = np.unique(y, return_inverse=True)[1]
        unseen = np.zeros((len(y), codes.max() + 1))
        for train, test in splits.split(X, y):
            suggested = LDGD.suggest(
                n_rows=len(train), n_columns=X.shape[1], n_classes=len(np.unique(y[train]))
            )
            model = LDGD(random_state=seed, **suggested).fit(X[train], y[train])
            unseen[test] = model.predict_proba(X[test])
            right = unseen[test].argmax(axis=1) == codes[test]
            scores.accuracy.setdefault(LDGD.title, []).append(float(right.mean()))
            for name, other in _others(seed).items():
                found = other.fit(X[train], y[train]).score(X[test], y[test])
                scores.accuracy.setdefault(name, []).append(float(found))
        scores.ece.append(expected_calibration_error(unseen, codes))
    return scores


@cache
def _load(data: str) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Features, categories one-hot, and labels; classes too rare for the folds are left out."""
    table = load_paper(data) if data.startswith("uci_") else load_sample(data)
    label = table.columns[-1].name
    categories = [c.name for c in table.columns if c.type == "category" and c.name != label]
    found = table.dataset(label=label, one_hot=categories)
    assert found.labels is not None
    X, y = found.X[:, found.X.std(axis=0) > 0], found.labels.astype(object)
    names, counts = np.unique(y.astype(str), return_counts=True)
    keep = np.isin(y.astype(str), names[counts >= LEAST_ROWS])
    return X[keep], y[keep]
