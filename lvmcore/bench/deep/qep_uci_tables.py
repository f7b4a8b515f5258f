"""Deep Q-exponential processes and the three rivals of the paper on its UCI tables.

Regression: mean absolute error of the predicted median, in the target's units or, where the paper's
value is of a standardised target, in standard deviations of the training rows. Classification:
accuracy, −log p of the true class, and the area under the ROC curve of each class against the rest,
averaged over the classes of the test rows. The rivals are deep GPs, a GP on the features of a
network (deep kernel, DKL-GP) and deep sigma point processes (DSPP). A random tenth of the rows is
held out; of the voices of `parkinsons`, whose rows are recordings of 42 people, also a fifth of the
people, without the column of the person's number. Text columns are one-hot. One hidden layer, as in
the paper, and half of the default steps and samples to save time (``full``: the defaults, and ten
seeds of every table); other settings are the models' suggestions for a table. Means and standard
errors over seeds. Of two tables the deep Q-EP is also fitted with each kernel of ``KERNELS``, and
that of the largest bound of the training rows is scored: no test row has a part in the choice.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.models.supervised.deep_kernel import DeepKernelGPClassifier, DeepKernelGPRegressor
from lvmcore.models.supervised.dspp import DSPPClassifier, DSPPRegressor
from lvmcore.models.supervised.dsvi import DSVIDeepGPClassifier, DSVIDeepGPRegressor
from lvmcore.models.supervised.qep import DeepQEPClassifier, DeepQEPRegressor
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows"]


HIDDEN, HELD_ROWS, HELD_PEOPLE = 1, 0.1, 0.2
SHORTER = {"max_iter": 500, "n_samples": 5}
#: Seeds of a table, fewer of a long table, and the number of rows that makes a table long.
SEEDS, FEW_SEEDS, LONG = 10, 3, 2000
#: The paper's deep GP, deep Q-EP, DKL-GP and DSPP.
NUMBERS = {
    "gas": (0.19, 0.14, 0.93, 0.33),
    "parkinsons": (8.17, 8.49, 10.01, 9.63),
    "parkinsons, new people": (8.17, 8.49, 10.01, 9.63),
    "elevators": (0.0639, 0.0636, 0.099, 0.09),
    "protein": (0.39, 0.35, 0.37, 0.48),
}
CLASSES = {
    "haberman": (0.727, 0.732, 0.702, 0.716),
    "tic_tac_toe": (0.971, 0.972, 0.922, 0.736),
    "car": (0.99, 0.983, 0.929, 0.758),
    "seismic_bumps": (0.931, 0.934, 0.931, 0.849),
    "nursery": (0.9996, 0.9996, 0.486, 0.717),
}
STANDARDISED = ("protein",)
#: Tables whose deep Q-EP has the kernel of the largest bound, and the kernels.
CHOSEN = ("elevators", "protein")
KERNELS = ("matern32", "linear + matern32", "linear + rbf")
#: Models, with the position of their values above.
TITLES = {"deep Q-EP": 1, "deep GP": 0, "DKL-GP": 2, "DSPP": 3}
MODELS: dict[tuple[str, str], Callable[..., Any]] = {
    ("number", "deep Q-EP"): DeepQEPRegressor,
    ("number", "deep GP"): DSVIDeepGPRegressor,
    ("number", "DKL-GP"): DeepKernelGPRegressor,
    ("number", "DSPP"): DSPPRegressor,
    ("class", "deep Q-EP"): DeepQEPClassifier,
    ("class", "deep GP"): DSVIDeepGPClassifier,
    ("class", "DKL-GP"): DeepKernelGPClassifier,
    ("class", "DSPP"): DSPPClassifier,
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    for data in NUMBERS:
        for name in TITLES:
            yield partial(_number, data, name, options.full)
    for data in CHOSEN:
        yield partial(_chosen_kernel, data, options.full)
    for data in CLASSES:
        for name in TITLES:
            yield partial(_class, data, name, options.full)


@cache
def _frame(data: str) -> pd.DataFrame:
    return load_paper(f"uci_{data.split(',', maxsplit=1)[0]}").frame


def _columns(data: str) -> FloatArray:
    """All columns but the target, one-hot for text, [N, H]."""
    features = _frame(data).iloc[:, :-1]
    if data == "parkinsons, new people":
        features = features.iloc[:, 1:]
    return pd.get_dummies(features).to_numpy(dtype=np.float64)


def _splits(data: str, full: bool) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Positions of the training rows and of the held-out rows, for each seed."""
    frame = _frame(data)
    n = SEEDS if full or len(frame) <= LONG else FEW_SEEDS
    if data == "parkinsons, new people":
        people = GroupShuffleSplit(n, test_size=HELD_PEOPLE, random_state=0)
        return list(people.split(frame, groups=frame.iloc[:, 0]))
    return list(ShuffleSplit(n, test_size=HELD_ROWS, random_state=0).split(frame))


def _model(
    task: str, name: str, X: FloatArray, n_classes: int, seed: int, *, full: bool, **chosen: Any
) -> Any:
    make: Any = MODELS[task, name]
    advised = make.suggest(TableSize(n_rows=len(X), n_columns=X.shape[1], n_classes=n_classes))
    names = {setting.name for setting in make.parameters()}
    given = {"n_layers": HIDDEN, **({} if full else SHORTER)}
    known = {setting: value for setting, value in given.items() if setting in names}
    return make(**{**advised, **known, **chosen, "random_state": seed})


def _title(name: str) -> str:
    """The model with its depth, where it is a stack of layers."""
    return name if name == "DKL-GP" else f"{name}, one hidden layer"


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5


def _number(data: str, name: str, full: bool) -> BenchmarkRow:
    def fit(X: FloatArray, y: FloatArray, seed: int) -> Any:
        return _model("number", name, X, 0, seed, full=full).fit(X, y)

    return _number_row(data, _title(name), fit, full)


def _chosen_kernel(data: str, full: bool) -> BenchmarkRow:
    def fit(X: FloatArray, y: FloatArray, seed: int) -> Any:
        fits = (
            _model("number", "deep Q-EP", X, 0, seed, full=full, kernel=kernel).fit(X, y)
            for kernel in KERNELS
        )
        return max(fits, key=lambda model: float(model.elbo_))

    return _number_row(data, f"{_title('deep Q-EP')}, kernel of the largest bound", fit, full)


def _number_row(
    data: str, title: str, fit: Callable[[FloatArray, FloatArray, int], Any], full: bool
) -> BenchmarkRow:
    """Scores of a regression, whose ``fit`` gets columns, target and seed."""
    X, y = _columns(data), _frame(data).to_numpy(dtype=object)[:, -1].astype(np.float64)
    errors, densities, seconds = [], [], []
    model: Any = None
    for seed, (train, test) in enumerate(_splits(data, full)):
        scale = float(y[train].std()) if data in STANDARDISED else 1.0
        start = time.perf_counter()
        model = fit(X[train], y[train] / scale, seed)
        seconds.append(time.perf_counter() - start)
        median = model.predict_quantiles(X[test], (0.5,))[:, 0]
        errors.append(float(np.abs(median - y[test] / scale).mean()))
        densities.append(float(-model.log_density(X[test], y[test] / scale).mean()))
    value, spread = _mean(errors)
    paper = ", ".join(f"{of} {NUMBERS[data][at]:g}" for of, at in TITLES.items())
    return BenchmarkRow(
        f"{data}: {title}, mean absolute error, {len(errors)} seeds",
        value,
        "sd" if data in STANDARDISED else "in the target's unit",
        spread=spread,
        reference=f"paper {paper}; NLPP {statistics.fmean(densities):.3f} nats a row, "
        f"{statistics.median(seconds):.0f} s a fit",
        settings={"data": data, **model.get_params()},
    )


def _class(data: str, name: str, full: bool) -> BenchmarkRow:
    X, y = _columns(data), _frame(data).iloc[:, -1].astype(str).to_numpy()
    shares, areas, losses, seconds = [], [], [], []
    model: Any = None
    for seed, (train, test) in enumerate(_splits(data, full)):
        start = time.perf_counter()
        n_classes = len(np.unique(y[train]))
        model = _model("class", name, X[train], n_classes, seed, full=full)
        model.fit(X[train], y[train])
        seconds.append(time.perf_counter() - start)
        probability = model.predict_proba(X[test])
        shares.append(float(np.mean(model.classes_[probability.argmax(1)] == y[test])))
        areas.append(_mean_auc(y[test], model.classes_, probability))
        of_truth = probability[y[test][:, None] == model.classes_]
        losses.append(float(-np.log(of_truth).sum() / len(of_truth)))
    value, spread = _mean(shares)
    paper = ", ".join(f"{of} {CLASSES[data][at]:g}" for of, at in TITLES.items())
    return BenchmarkRow(
        f"{data}: {_title(name)}, accuracy, {len(shares)} seeds",
        value,
        spread=spread,
        reference=f"paper {paper}; AUC {statistics.fmean(areas):.4f}, "
        f"−log p {statistics.fmean(losses):.4f} nats a row, "
        f"{statistics.median(seconds):.0f} s a fit",
        settings={"data": data, **model.get_params()},
    )


def _mean_auc(truth: NDArray[Any], classes: NDArray[Any], probability: FloatArray) -> float:
    """Mean area under the ROC curves of the classes that occur, each against the rest."""
    each = [
        roc_auc_score(truth == one, probability[:, at])
        for at, one in enumerate(classes)
        if 0 < (truth == one).sum() < len(truth)
    ]
    return float(np.mean(each))
