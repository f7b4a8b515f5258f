"""New rows on the map of a fitted model: latent positions, class predictions, outlier scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.errors import CancelledError, DataError
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import expected_calibration_error
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.label_columns import LabelColumn, label_cells, label_columns
from lvmcore.prediction.map_table import map_columns

__all__ = [
    "UNUSUAL",
    "Placement",
    "features_of",
    "fitted_surprise",
    "labels_of",
    "most_probable",
    "of_label_column",
    "place_rows",
]


#: A row is flagged if its surprise exceeds that of this share of the rows of the fit.
UNUSUAL = 0.99
#: Most rows of the fit that new rows are compared with; each is inferred by an optimisation.
MOST_COMPARED = 2000
SEED = 0
_BLOCK, _AMORTISED_BLOCK = 256, 2048
_PROBABILITY_OF = "probability of "

#: Called with the number of rows done and the total; True cancels.
Tell = Callable[[int, int], bool]


@dataclass(frozen=True)
class Placement:
    """New rows on a map.

    Attributes:
        frame: one row each: ``row_id``; ``label`` if the new rows have labels; ``z1`` … ``zQ`` and
            ``z1_sd`` … ``zQ_sd``, the latent means and sds; ``predicted``, ``probability`` (of
            that class) and ``probability of …`` each class, if the model has labels; and
            ``surprise`` and ``unusual``, if it has a density (see ``place_rows``). For a model
            with several label columns the results of each have its name as a prefix,
            ``NAME: predicted`` and so on (``of_label_column`` selects those of one).
        metrics: of the new rows, by key.
        notes: on rows that were left out, with the reason.
    """

    frame: pd.DataFrame
    metrics: dict[str, Metric]
    notes: tuple[str, ...]


def place_rows(
    model: LatentVariableModel,
    rows: Dataset,
    fitted: Dataset | None,
    tell: Tell = lambda *_: False,
    *,
    surprise: bool = True,
    known: FloatArray | None = None,
) -> Placement:
    """Infer the latent positions of new rows from their columns alone.

    The surprise of a row is minus its log predictive density per observed column, nats, in the
    units of the model's features. Its ``unusual`` is the share of the rows of the fit with a
    smaller surprise, 0 to 1; those rows too are inferred from their columns alone.

    Args:
        model: a fitted model.
        rows: features transformed as in the fit (``matching_dataset``), in the model's order;
            labels are only compared with the predictions.
        fitted: the rows that the model was fitted to; None if they are not available, which leaves
            out ``unusual``.
        tell: called with the progress; True cancels.
        surprise: whether ``surprise`` and ``unusual`` are computed, which takes longer than the
            positions do.
        known: surprises of rows of the fit (``fitted_surprise``), in place of ``fitted``.

    Returns:
        The rows in their order, without those that the model cannot use for missing cells.

    Raises:
        CancelledError: ``tell`` asked to stop.
        DataError: no row can be placed.
        UnsupportedError: the model cannot place new rows.
    """
    rows, notes = _usable_rows(model, rows)
    density = model.capabilities.density and surprise
    compared = _fitted_sample(fitted) if density and fitted is not None else None
    total = len(rows) + (0 if compared is None else len(compared))
    progress = _RowProgress(tell, total, _block_rows(model))
    parts = [
        _row_results(model, block, density=density)
        for block in progress.blocks(features_of(model, rows))
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    known_columns = label_columns(model)
    metrics: dict[str, Metric] = {}
    if compared is not None and fitted is not None:
        fitted_blocks = progress.blocks(features_of(model, compared))
        of_fit = [_surprise(model, block) for block in fitted_blocks]
        columns["unusual"] = _share_below(columns["surprise"], np.concatenate(of_fit))
        metrics["unusual_rows"] = _unusual_rows_metric(
            columns["unusual"], len(compared), len(fitted)
        )
    elif density and known is not None:
        columns["unusual"] = _share_below(columns["surprise"], known)
    elif density:
        notes = (*notes, "Unusual rows are not marked: the rows of the fit are not available.")
    elif surprise:
        notes = (*notes, f"{model.title} has no density, so it cannot tell which rows are unusual.")
    named: dict[str, Any] = {"row_id": rows.row_ids.tolist()}
    if rows.labels is not None:
        named |= label_cells(rows) if len(known_columns) < 2 else _true_labels(known_columns, rows)
        for column in known_columns:
            labels = column.labels(rows)
            if labels is not None:
                metrics |= column.figures(_label_metrics(column, labels, columns))
    return Placement(pd.DataFrame(named | columns), metrics, notes)


def fitted_surprise(model: LatentVariableModel, fitted: Dataset) -> FloatArray:
    """The surprises of rows of the fit, or of ``MOST_COMPARED`` of them, for ``place_rows``."""
    X = features_of(model, _fitted_sample(fitted))
    size = _block_rows(model)
    return np.concatenate([_surprise(model, X[at : at + size]) for at in range(0, len(X), size)])


def features_of(model: LatentVariableModel, rows: Dataset) -> pd.DataFrame | FloatArray:
    """The rows as input of the model: with its feature names, if it has any."""
    if not hasattr(model, "feature_names_in_"):
        return rows.X
    return pd.DataFrame(rows.X, columns=list(model.feature_names_in_))


def most_probable(frame: pd.DataFrame, least: float) -> pd.DataFrame:
    """The rows of a placement with a column that marks class predictions above a probability.

    Args:
        frame: of a placement.
        least: smallest probability of the predicted class for which a row counts as decided.

    Returns:
        The frame with ``decided`` (for each label column, if there are several) before the
        probabilities; unchanged if there are none.
    """
    names = labels_of(frame)
    if not names:
        return frame
    whole = frame.copy()
    for name in names:
        before = f"{name}: " if name else ""
        place = whole.columns.get_loc(f"{before}probability")
        assert isinstance(place, int)
        sure = (frame[f"{before}probability"] >= least).to_numpy()
        whole.insert(place, f"{before}decided", sure)
    return whole


def labels_of(frame: pd.DataFrame) -> list[str]:
    """The label columns that a placement predicts; "" for a single one, which has no name.

    Args:
        frame: of a placement.
    """
    ends = "predicted"
    names = [str(name) for name in frame.columns]
    if ends in names:
        return [""]
    found = [name.removesuffix(f": {ends}") for name in names if name.endswith(f": {ends}")]
    # A class can end so too; its column has no probability beside it.
    return [name for name in found if f"{name}: probability" in names]


def of_label_column(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A placement with the results of one label column, under their names without its prefix.

    Args:
        frame: of a placement.
        name: one of ``labels_of``.
    """
    others = [other for other in labels_of(frame) if other != name]
    about = {
        column: str(column).removeprefix(f"{name}: ")
        for column in frame.columns
        if name and _belongs_to(str(column), name)
    }
    gone = [c for c in frame.columns if any(_belongs_to(str(c), other) for other in others)]
    return frame.drop(columns=gone).rename(columns=about)


def _belongs_to(column: str, name: str) -> bool:
    """Whether a column of a placement is a result for a label column."""
    about = column.removeprefix(f"{name}: ")
    known = {"label", "predicted", "probability", "decided"}
    return about != column and (about in known or about.startswith(_PROBABILITY_OF))


# ---- the rows ----------------------------------------------------------------------------------


def _usable_rows(model: LatentVariableModel, rows: Dataset) -> tuple[Dataset, tuple[str, ...]]:
    """The rows that the model can use, and notes on the others."""
    if model.capabilities.missing_cells:
        return rows, ()
    absent = np.isnan(rows.X)
    empty = [rows.feature_names[d] for d in np.flatnonzero(absent.all(axis=0))]
    if empty:
        raise DataError(
            f"Every cell of {', '.join(map(repr, empty[:8]))} is missing in {rows.name!r}, and "
            f"{model.title} needs every cell."
        )
    gone = np.asarray(absent.any(axis=1))
    if not gone.any():
        return rows, ()
    if gone.all():
        raise DataError(
            f"Every row of {rows.name!r} lacks a cell, and {model.title} needs every cell. Fill "
            "them first."
        )
    words = "1 row" if gone.sum() == 1 else f"{gone.sum():,} rows"
    note = f"{words} left out: a cell is missing, first in row {rows.row_ids[gone][0]}."
    return rows.subset(~gone), (note,)


def _fitted_sample(fitted: Dataset) -> Dataset:
    """The rows of the fit, or ``MOST_COMPARED`` of them drawn with ``SEED``."""
    if len(fitted) <= MOST_COMPARED:
        return fitted
    rng = np.random.default_rng(SEED)
    return fitted.subset(np.sort(rng.choice(len(fitted), MOST_COMPARED, replace=False)))


@dataclass
class _RowProgress:
    """Counts the rows that are done, and cancels on request."""

    tell: Tell
    total: int
    size: int
    done: int = 0

    def blocks(self, X: Any) -> Iterator[Any]:
        """Blocks of the rows of X; the progress is reported after each."""
        for start in range(0, len(X), self.size):
            block = X[start : start + self.size]
            yield block
            self.done += len(block)
            if self.tell(self.done, self.total):
                raise CancelledError("Stopped before all rows were placed.")


def _block_rows(model: LatentVariableModel) -> int:
    """Rows between two reports: many where a network infers each in one pass."""
    return _AMORTISED_BLOCK if model.capabilities.amortised else _BLOCK


def _row_results(model: Any, X: Any, *, density: bool) -> dict[str, NDArray[Any]]:
    """Latent positions, class probabilities and surprise of some rows, by column."""
    posterior = model.posterior(X)
    sd = np.sqrt(posterior.variance) if model.capabilities.uncertainty else None
    columns: dict[str, NDArray[Any]] = map_columns(posterior.mean, sd)
    if model.capabilities.labels != "none":
        found = model.predict_proba(X)
        for column in label_columns(model):
            probability, named = column.part(found), column.named
            best = probability.argmax(axis=1)
            columns[named("predicted")] = np.array(column.classes, dtype=object)[best]
            columns[named("probability")] = probability.max(axis=1)
            columns |= {
                named(f"{_PROBABILITY_OF}{name}"): probability[:, k]
                for k, name in enumerate(column.classes)
            }
    if density:
        columns["surprise"] = _surprise(model, X)
    return columns


def _surprise(model: Any, X: Any) -> FloatArray:
    """Minus the log predictive density per observed column, [n]; NaN for a row without any."""
    observed = (~np.isnan(np.asarray(X, dtype=np.float64))).sum(axis=1)
    density = np.asarray(model.score_samples(X))
    return np.where(observed > 0, -density / np.maximum(observed, 1), np.nan)


def _share_below(values: FloatArray, among: FloatArray) -> FloatArray:
    """For each value, the share of ``among`` that is smaller; NaN for NaN."""
    known = np.sort(among[~np.isnan(among)])
    share = np.searchsorted(known, values, side="left") / max(1, len(known))
    return np.where(np.isnan(values), np.nan, share)


# ---- figures -----------------------------------------------------------------------------------


def _unusual_rows_metric(unusual: FloatArray, compared: int, fitted: int) -> Metric:
    drawn = f"{compared:,} of the {fitted:,} rows" if compared < fitted else f"the {fitted:,} rows"
    seed = f" (drawn with seed {SEED})" if compared < fitted else ""
    protocol = (
        f"Rows whose density under the model is lower than that of {UNUSUAL:.0%} of {drawn} of the "
        f"fit{seed}. The fit has seen those: of new rows of the same kind more than "
        f"{1 - UNUSUAL:.0%} may be flagged."
    )
    return Metric("unusual rows", float((unusual >= UNUSUAL).sum()), protocol)


def _true_labels(known: tuple[LabelColumn, ...], rows: Dataset) -> dict[str, list[Any]]:
    """True labels of the rows in the model's label columns."""
    found = {column.named("label"): column.labels(rows) for column in known}
    return {name: labels.tolist() for name, labels in found.items() if labels is not None}


def _label_metrics(
    column: LabelColumn, labels: NDArray[np.object_], columns: dict[str, NDArray[Any]]
) -> dict[str, Metric]:
    """Accuracy and calibration error of the predicted classes."""
    names = {"accuracy": "accuracy", "expected_calibration_error": "expected calibration error"}
    known = ~np.asarray(pd.isna(labels))
    if not known.any():
        return {key: Metric(label, None, "No row has a label.") for key, label in names.items()}
    classes = list(column.classes)
    truth = np.array([classes.index(c) if c in classes else -1 for c in labels[known].tolist()])
    probability = np.column_stack(
        [columns[column.named(f"{_PROBABILITY_OF}{name}")] for name in classes]
    )[known]
    on = f"{known.sum():,} rows with a label"
    strange = int((truth < 0).sum())
    if strange:
        on += f", {strange:,} of them of a class that the model does not know, which count as wrong"
    right = float(np.mean(probability.argmax(axis=1) == truth))
    return {
        "accuracy": Metric(
            names["accuracy"],
            right,
            f"Share of rows whose label is the most probable class, from columns alone. On {on}.",
        ),
        "expected_calibration_error": Metric(
            names["expected_calibration_error"],
            expected_calibration_error(probability, truth),
            "Mean absolute difference between the probability of the predicted class and its "
            f"accuracy, over 15 bins of that probability, weighted by their rows. On {on}.",
        ),
    }
