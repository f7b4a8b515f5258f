"""Imputation: the Bayesian GPLVM compared with means, linear models, neighbours, regressions.

A share of the cells of a complete table is hidden: at random, or on a film in blocks of
consecutive frames with the same hidden pixels, so that adjacent frames do not reveal a cell. Every
method uses only the observed cells, standardised by these. Errors over the hidden cells are in
standard deviations of the complete columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  makes the next import work
from sklearn.impute import IterativeImputer, KNNImputer

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.metrics.scores import coverage
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.pca import ProbabilisticPCA
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["hidden_mask", "rows"]

Mask = NDArray[np.bool_]

SEED = 0
SHARES = (0.1, 0.3, 0.6)
#: Latent dimensions, also of the linear model.
COMPONENTS = 10
#: Consecutive frames with the same hidden pixels.
FRAMES = 20
NEIGHBOURS = 5
#: Predictors of the iterative imputer for a wide table, sampled by correlation.
MAX_PREDICTORS = 50
#: Minimal number of columns of a wide table; a narrower one uses all predictors, the default.
WIDE_COLUMNS = 200


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data, blocks in (("oil_flow_train", False), ("digits", False), ("brendan_faces", False),
                         ("brendan_faces", True)):  # fmt: skip
        for share in SHARES:
            yield partial(_error, data, share, blocks)
            yield partial(_coverage, data, share, blocks)


def hidden_mask(shape: tuple[int, int], share: float, *, blocks: bool, seed: int = SEED) -> Mask:
    """Mask of the hidden cells of a table, [N, D].

    Args:
        shape: N and D.
        share: share of the cells that is hidden.
        blocks: whether blocks of ``FRAMES`` consecutive rows have the same hidden columns.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    if not blocks:
        return np.asarray(rng.random(shape) < share)
    drawn = rng.random((-(-shape[0] // FRAMES), shape[1])) < share
    return np.repeat(drawn, FRAMES, axis=0)[: shape[0]]


@dataclass(frozen=True)
class _MaskedData:
    """Standardised data with hidden cells.

    Attributes:
        X: NaN where hidden, standardised by the observed cells, [N, D].
        truth: values of the hidden cells, in the units of ``X``, [n].
        scale: a unit of ``X`` in standard deviations of the complete column, [n].
        hidden: mask of the hidden cells, [N, D].
    """

    X: FloatArray
    truth: FloatArray
    scale: FloatArray
    hidden: Mask

    def error(self, filled: FloatArray) -> float:
        """Root mean square error of the hidden cells of an imputed table."""
        away = (filled[self.hidden] - self.truth) * self.scale
        return float(np.sqrt(np.square(away).mean()))


@cache
def _masked_data(data: str, share: float, blocks: bool) -> _MaskedData:
    table = load_sample(data) if data == "digits" else load_paper(data)
    label = None if data == "brendan_faces" else table.columns[-1].name
    whole = table.dataset(label=label).X
    whole = whole[:, whole.std(axis=0) > 0]
    hidden = hidden_mask(whole.shape, share, blocks=blocks)
    observed = np.where(hidden, np.nan, whole)
    standard = Standardiser.fit(observed, [str(d) for d in range(observed.shape[1])])
    keep = ~standard.constant  # the observed cells of a column may be constant
    X, hidden = standard.transform(observed), hidden[:, keep]
    truth = standard.transform(whole)
    scale = np.broadcast_to(standard.scale[keep] / whole[:, keep].std(axis=0), X.shape)
    return _MaskedData(X, truth[hidden], scale[hidden], hidden)


@cache
def _gplvm_scores(data: str, share: float, blocks: bool) -> tuple[float, float]:
    """Error of the Bayesian GPLVM, and the coverage of its 90 % intervals."""
    problem = _masked_data(data, share, blocks)
    filled = _model(problem.X.shape).fit(problem.X).impute(problem.X)
    inside = coverage(
        problem.truth, filled.mean[problem.hidden], filled.variance[problem.hidden], 0.9
    )
    return problem.error(filled.mean), inside


def _model(shape: tuple[int, ...]) -> BayesianGPLVM:
    advised = BayesianGPLVM.suggest(TableSize(n_rows=shape[0], n_columns=shape[1], incomplete=True))
    return BayesianGPLVM(**{**advised, "n_components": COMPONENTS, "random_state": SEED})


@cache
def _baseline_errors(data: str, share: float, blocks: bool) -> dict[str, float]:
    """Errors of the baselines."""
    problem = _masked_data(data, share, blocks)
    predictors = min(MAX_PREDICTORS, problem.X.shape[1] - 1)
    linear = ProbabilisticPCA(n_components=COMPONENTS).fit(problem.X)
    many = problem.X.shape[1] > WIDE_COLUMNS
    regressions = IterativeImputer(
        random_state=SEED, n_nearest_features=predictors if many else None, tol=0.0
    )
    return {
        "column means": problem.error(np.nan_to_num(problem.X, nan=0.0)),
        "probabilistic PCA": problem.error(linear.impute(problem.X).mean),
        "kNN": problem.error(KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(problem.X)),
        "iterative": problem.error(regressions.fit_transform(problem.X)),
    }


def _settings(data: str, share: float, blocks: bool) -> dict[str, object]:
    model = _model(_masked_data(data, share, blocks).X.shape)
    return {
        "data": data,
        "share": share,
        "blocks of rows": FRAMES if blocks else 1,
        "seed": SEED,
        "n_components": COMPONENTS,
        "n_inducing": model.n_inducing,
        "max_iter": model.max_iter,
        "neighbours": NEIGHBOURS,
        "predictors of the iterative imputer": MAX_PREDICTORS,
    }


def _title(data: str, share: float, blocks: bool) -> str:
    how = f"in blocks of {FRAMES} frames" if blocks else "at random"
    return f"{data}, {share:.0%} of the cells hidden {how}"


def _error(data: str, share: float, blocks: bool) -> BenchmarkRow:
    others = _baseline_errors(data, share, blocks)
    demanding = data == "digits" and share == max(SHARES)
    asked = others if demanding else {k: others[k] for k in ("column means", "probabilistic PCA")}
    return BenchmarkRow(
        f"{_title(data, share, blocks)}: RMSE, Q={COMPONENTS}",
        _gplvm_scores(data, share, blocks)[0],
        ceiling=round(min(asked.values()), 4),
        reference=", ".join(f"{name} {value:.3f}" for name, value in others.items()),
        settings=_settings(data, share, blocks),
    )


def _coverage(data: str, share: float, blocks: bool) -> BenchmarkRow:
    return BenchmarkRow(
        f"{_title(data, share, blocks)}: coverage of 90 % intervals",
        _gplvm_scores(data, share, blocks)[1],
        floor=0.85,
        ceiling=0.95,
        settings=_settings(data, share, blocks),
    )
