"""Comparison of a model with other methods on the same hidden cells, by column.

For a column of numbers the error of a method is the root mean square over the hidden cells of its
prediction less the truth, in sd of the left cells, and its log density the mean of
log N(truth; mean, variance) on that scale. For a category, or a column of 0 and 1, the error is the
share of the hidden cells whose most probable level is not the true one, and the log density the
mean log probability of the true level; a probability is a predicted mean of 0 and 1, cut to at
least 0.01 and divided by the sum over the levels. For a model with likelihoods by column the log
densities of numbers and counts are in the units of the fit, and its own those of the likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset
from lvmcore.data.transforms import one_hot_columns
from lvmcore.evaluation.hidden_cells import HiddenCells
from lvmcore.evaluation.imputation_baselines import (
    NEIGHBOURS,
    TREES,
    CellPredictions,
    baseline_predictions,
)
from lvmcore.evaluation.imputation_scores import (
    MODEL,
    ColumnComparison,
    ImputationComparison,
    Kind,
)
from lvmcore.metrics.paired_difference import exceeds_noise
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["compare_imputation"]

#: Most rows of the comparison, and the seed of their choice.
MOST_ROWS, SEED = 2000, 0
_LEAST_PROBABILITY = 0.01
_NOT_WORSE = 1e-9
_BY_COLUMN = (
    " Log densities of numbers are in the units of their columns; those of the model are of the "
    "likelihood of each column, of a count its log probability."
)


@dataclass(frozen=True)
class _Scores:
    """Losses and log densities of a method's predictions of hidden cells, [n] each.

    Attributes:
        loss: squared errors of numbers; 0 or 1 for levels.
        density: log densities or log probabilities.
    """

    loss: FloatArray
    density: FloatArray


def compare_imputation(
    cells: HiddenCells,
    fitted: Dataset,
    *,
    seconds: float,
    check_stop: Callable[[], None] = lambda: None,
) -> ImputationComparison:
    """Compare a model with column means, nearest neighbours and random forests.

    Args:
        cells: the hidden cells and the model's predictions, of all rows of ``fitted``.
        fitted: the rows without the hidden cells.
        seconds: after this time no further column gets a forest.
        check_stop: called between two columns; it raises an error to stop.
    """
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    rows = np.arange(len(fitted))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(len(rows), MOST_ROWS, replace=False))
    varies = np.flatnonzero(~standard.constant)
    place = {int(d): k for k, d in enumerate(varies)}
    named = {
        name: np.array([place[d] for d in group if d in place])
        for name, group in _targets(fitted).items()
        if any(d in place for d in group)
    }
    hidden = cells.at[np.ix_(rows, varies)]
    Y = ((fitted.X - standard.mean) / standard.scale)[np.ix_(rows, varies)]
    methods = {MODEL: _by_cell(cells, rows, varies)} | {
        key: _spread(found)
        for key, found in baseline_predictions(
            Y, hidden, list(named.values()), seconds=seconds, check_stop=check_stop
        ).items()
    }
    truth = _matrix(cells.at, cells.truth)[np.ix_(rows, varies)]
    centre, scale = standard.mean[varies], standard.scale[varies]
    compared, scores = [], []
    for name, target in named.items():
        levels = _is_levels(fitted.X[:, varies[target]])
        own = np.flatnonzero(hidden[:, target].all(axis=1))
        if not len(own):
            continue
        at = np.ix_(own, target)
        of_target = {
            key: _scores(
                truth[at],
                mean[at],
                variance[at],
                (centre[target], scale[target]) if levels else None,
            )
            for key, (mean, variance) in methods.items()
        }
        if cells.numbers is not None and not levels:
            density = _matrix(cells.at, cells.numbers)[np.ix_(rows, varies)][at][:, 0]
            of_target = _in_units(of_target, density, float(scale[target[0]]))
        compared.append(_compared(name, "levels" if levels else "numbers", of_target))
        scores.append(of_target)
    protocol = _protocol(len(rows), len(fitted), compared)
    if cells.numbers is not None and any(one.kind == "numbers" for one in compared):
        protocol += _BY_COLUMN
    return ImputationComparison(_totals(compared, scores), tuple(compared), protocol)


def _targets(dataset: Dataset) -> dict[str, tuple[int, ...]]:
    """Positions of the features of each column of the table, in the order of the features."""
    groups = one_hot_columns(dataset)
    of_level = {d: name for name, group in groups.items() for d in group}
    found: dict[str, tuple[int, ...]] = {}
    for d, feature in enumerate(dataset.feature_names):
        name = of_level.get(d, feature)
        found[name] = (*found.get(name, ()), d)
    return found


def _matrix(at: NDArray[np.bool_], values: FloatArray) -> FloatArray:
    full = np.full(at.shape, np.nan)
    full[at] = values
    return full


def _by_cell(
    cells: HiddenCells, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of the model at some rows and columns, NaN elsewhere."""
    mean, variance = (_matrix(cells.at, part) for part in (cells.mean, cells.variance))
    return mean[np.ix_(rows, columns)], variance[np.ix_(rows, columns)]


def _spread(found: CellPredictions) -> tuple[FloatArray, FloatArray]:
    return found.mean, np.broadcast_to(found.variance, found.mean.shape)


def _is_levels(X: FloatArray) -> bool:
    """Whether all observed cells are 0 or 1."""
    known = X[~np.isnan(X)]
    return bool(np.isin(known, (0.0, 1.0)).all())


def _scores(
    truth: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    moments: tuple[FloatArray, FloatArray] | None,
) -> _Scores:
    """Scores of the predictions of a target.

    Args:
        truth: standardised hidden cells, [n, K].
        mean: predictive means, [n, K].
        variance: predictive variances, [n, K].
        moments: for levels, the means and scales of the columns, [K] each; None for a number.
    """
    if moments is None:
        square = np.square(mean - truth)
        log_density = -0.5 * (np.log(2 * np.pi * variance) + square / variance)
        return _Scores(square[:, 0], np.where(np.isnan(square), np.nan, log_density)[:, 0])
    centre, scale = moments
    right, share = (part * scale + centre for part in (truth, mean))
    if right.shape[1] == 1:  # 0 or 1
        right, share = np.hstack([1 - right, right]), np.hstack([1 - share, share])
    probability = np.clip(share, _LEAST_PROBABILITY, None)
    probability = probability / probability.sum(axis=1, keepdims=True)
    level = right.argmax(axis=1)
    none = np.isnan(share).any(axis=1)
    wrong = (np.where(np.isnan(share), 0.0, share).argmax(axis=1) != level).astype(np.float64)
    density = np.log(probability[np.arange(len(level)), level])
    return _Scores(np.where(none, np.nan, wrong), np.where(none, np.nan, density))


def _in_units(scores: Mapping[str, _Scores], own: FloatArray, scale: float) -> dict[str, _Scores]:
    """Scores with log densities in the units of a column.

    Args:
        scores: of each method, on the standardised scale.
        own: those of the model under the likelihood of the column; NaN where it has none, [n].
        scale: sd of the column.
    """
    found = {key: replace(one, density=one.density - np.log(scale)) for key, one in scores.items()}
    density = np.where(np.isnan(own), found[MODEL].density, own)
    return found | {MODEL: replace(found[MODEL], density=density)}


def _compared(name: str, kind: Kind, scores: Mapping[str, _Scores]) -> ColumnComparison:
    errors: dict[str, float | None] = {}
    densities: dict[str, float | None] = {}
    for key, found in scores.items():
        loss, density = found.loss.mean(), found.density.mean()
        known = not (np.isnan(loss) or np.isnan(density))
        errors[key] = float(np.sqrt(loss) if kind == "numbers" else loss) if known else None
        densities[key] = float(density) if known else None
    better = tuple(
        key for key in scores if key != MODEL and _is_better(key, scores[key], scores[MODEL])
    )
    return ColumnComparison(name, kind, len(scores[MODEL].loss), errors, densities, better)


def _is_better(key: str, baseline: _Scores, model: _Scores) -> bool:
    """Whether a baseline has a lower error, or a higher log density, than the model.

    The mean difference over the cells has to exceed two standard errors; for column means it is
    enough that neither the error nor the log density of the model is better.
    """
    gain, density = model.loss - baseline.loss, baseline.density - model.density
    if np.isnan(gain).any():
        return False
    if key == "means" and min(gain.mean(), density.mean()) > -_NOT_WORSE:
        return True
    return exceeds_noise(gain) or exceeds_noise(density)


def _totals(
    compared: Sequence[ColumnComparison], scores: Sequence[Mapping[str, _Scores]]
) -> tuple[ColumnComparison, ...]:
    """Comparisons over all columns of a kind; a method is left out that lacks some of them."""
    found = []
    for kind in ("numbers", "levels"):
        of_kind = [one for one, column in zip(scores, compared, strict=True) if column.kind == kind]
        if of_kind:
            joined = {
                key: _Scores(
                    np.concatenate([one[key].loss for one in of_kind]),
                    np.concatenate([one[key].density for one in of_kind]),
                )
                for key in of_kind[0]
            }
            found.append(_compared("", "numbers" if kind == "numbers" else "levels", joined))
    return tuple(found)


def _protocol(used: int, whole: int, compared: Sequence[ColumnComparison]) -> str:
    rows = f"{used:,} rows" if used == whole else f"{used:,} of {whole:,} rows, seed {SEED}"
    text = (
        f"All methods saw the same cells and predict the same hidden ones, in {rows}. Nearest "
        f"neighbours: the mean of {NEIGHBOURS} rows, weighted by 1/distance. Forest: {TREES} trees "
        "for each column, from all others. The log density of a baseline is that of a Gaussian "
        "with the variance of its own errors on cells that it had not seen: out of bag for the "
        "forest, a further tenth of the cells for the neighbours, the column's variance for the "
        "means. A level's probability is its predicted mean, at least 0.01."
    )
    without = sum(one.errors.get("forest") is None for one in compared)
    if without:
        columns = "1 column has" if without == 1 else f"{without:,} columns have"
        text += f" {columns} no forest: the time for it was spent."
    return text
