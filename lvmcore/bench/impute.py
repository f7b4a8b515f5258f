"""Cells hidden and filled: the Bayesian GPLVM beside means, linear maps, neighbours, regressions.

A share of the cells of a complete table is hidden: at random, or on a film in blocks of
consecutive frames that lack the same pixels, so that the frame before does not give a cell away.
Every method sees the other cells alone, standardised by these. Errors are in standard deviations
of the whole columns, over the hidden cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  makes the next import work
from sklearn.impute import IterativeImputer, KNNImputer

from lvmcore.bench.report import Options, Row
from lvmcore.data import load_paper, load_sample
from lvmcore.metrics import coverage
from lvmcore.models.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.pca import ProbabilisticPCA
from lvmcore.standardise import Standardiser

__all__ = ["hide", "rows"]

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

SEED = 0
SHARES = (0.1, 0.3, 0.6)
#: Latent dimensions, the same for the linear map.
COMPONENTS = 10
#: Consecutive frames that lack the same pixels.
FRAMES = 20
NEIGHBOURS = 5
#: Columns that the iterative imputer regresses a column of a wide table on, drawn by correlation.
MOST_PREDICTORS = 50
#: Columns from which on it takes so many only; with fewer it takes all, its default.
WIDE = 200


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    for data, blocks in (("oil_flow_train", False), ("digits", False), ("brendan_faces", False),
                         ("brendan_faces", True)):  # fmt: skip
        for share in SHARES:
            yield partial(_error, data, share, blocks)
            yield partial(_coverage, data, share, blocks)


def hide(shape: tuple[int, int], share: float, *, blocks: bool, seed: int = SEED) -> Mask:
    """Which cells of a table to hide, [N, D].

    Args:
        shape: N and D.
        share: of the cells.
        blocks: whether consecutive rows share their hidden columns, ``FRAMES`` at a time.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    if not blocks:
        return np.asarray(rng.random(shape) < share)
    drawn = rng.random((-(-shape[0] // FRAMES), shape[1])) < share
    return np.repeat(drawn, FRAMES, axis=0)[: shape[0]]


@dataclass(frozen=True)
class _Problem:
    """Standardised data with hidden cells.

    Attributes:
        X: NaN where hidden, standardised by what is left, [N, D].
        truth: of the hidden cells, in the units of ``X``, [n].
        scale: what a unit of ``X`` is in standard deviations of the whole column, [n].
        hidden: [N, D].
    """

    X: FloatArray
    truth: FloatArray
    scale: FloatArray
    hidden: Mask

    def error(self, filled: FloatArray) -> float:
        """Root mean square error of the hidden cells of a filled table."""
        away = (filled[self.hidden] - self.truth) * self.scale
        return float(np.sqrt(np.square(away).mean()))


@cache
def _problem(data: str, share: float, blocks: bool) -> _Problem:
    table = load_sample(data) if data == "digits" else load_paper(data)
    label = None if data == "brendan_faces" else table.columns[-1].name
    whole = table.dataset(label=label).X
    whole = whole[:, whole.std(axis=0) > 0]
    hidden = hide(whole.shape, share, blocks=blocks)
    seen = np.where(hidden, np.nan, whole)
    standard = Standardiser.fit(seen, [str(d) for d in range(seen.shape[1])])
    keep = ~standard.constant  # what is left of a column may not vary
    X, hidden = standard.transform(seen), hidden[:, keep]
    truth = standard.transform(whole)
    scale = np.broadcast_to(standard.scale[keep] / whole[:, keep].std(axis=0), X.shape)
    return _Problem(X, truth[hidden], scale[hidden], hidden)


@cache
def _ours(data: str, share: float, blocks: bool) -> tuple[float, float]:
    """Error of the Bayesian GPLVM, and the coverage of its 90 % intervals."""
    problem = _problem(data, share, blocks)
    filled = _model(problem.X.shape).fit(problem.X).impute(problem.X)
    inside = coverage(
        problem.truth, filled.mean[problem.hidden], filled.variance[problem.hidden], 0.9
    )
    return problem.error(filled.mean), inside


def _model(shape: tuple[int, ...]) -> BayesianGPLVM:
    suggested = BayesianGPLVM.suggest(n_rows=shape[0], n_columns=shape[1])
    return BayesianGPLVM(n_components=COMPONENTS, random_state=SEED, **suggested)


@cache
def _others(data: str, share: float, blocks: bool) -> dict[str, float]:
    """Errors of the other methods."""
    problem = _problem(data, share, blocks)
    predictors = min(MOST_PREDICTORS, problem.X.shape[1] - 1)
    linear = ProbabilisticPCA(n_components=COMPONENTS).fit(problem.X)
    many = problem.X.shape[1] > WIDE
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
    model = _model(_problem(data, share, blocks).X.shape)
    return {
        "data": data,
        "share": share,
        "blocks of rows": FRAMES if blocks else 1,
        "seed": SEED,
        "n_components": COMPONENTS,
        "n_inducing": model.n_inducing,
        "max_iter": model.max_iter,
        "neighbours": NEIGHBOURS,
        "predictors of the iterative imputer": MOST_PREDICTORS,
    }


def _title(data: str, share: float, blocks: bool) -> str:
    how = f"in blocks of {FRAMES} frames" if blocks else "at random"
    return f"{data}, {share:.0%} of the cells hidden {how}"


def _error(data: str, share: float, blocks: bool) -> Row:
    others = _others(data, share, blocks)
    demanding = data == "digits" and share == max(SHARES)
    asked = others if demanding else {k: others[k] for k in ("column means", "probabilistic PCA")}
    return Row(
        f"{_title(data, share, blocks)}: RMSE, Q={COMPONENTS}",
        _ours(data, share, blocks)[0],
        ceiling=round(min(asked.values()), 4),
        reference=", ".join(f"{name} {value:.3f}" for name, value in others.items()),
        settings=_settings(data, share, blocks),
    )


def _coverage(data: str, share: float, blocks: bool) -> Row:
    return Row(
        f"{_title(data, share, blocks)}: coverage of 90 % intervals",
        _ours(data, share, blocks)[1],
        floor=0.85,
        ceiling=0.95,
        settings=_settings(data, share, blocks),
    )
