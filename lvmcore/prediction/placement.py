"""New rows on the map of a fitted model: where they lie, what class they are, how unusual."""

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
    "labels_of",
    "most_probable",
    "of_label_column",
    "place_rows",
]


#: A row is flagged when it is more unusual than this share of the rows of the fit.
UNUSUAL = 0.99
#: Rows of the fit that new rows are compared with: each takes an optimisation of its own.
MOST_COMPARED = 2000
SEED = 0
_BLOCK = 256
_PROBABILITY_OF = "probability of "

#: Told how many rows are done, and of how many; True stops the work.
Tell = Callable[[int, int], bool]


@dataclass(frozen=True)
class Placement:
    """New rows on a map.

    Attributes:
        frame: one row each: ``row_id``; ``label`` where they have one of their own; ``z1`` … ``zQ``
            and ``z1_sd`` … ``zQ_sd``, the latent means and sds; ``predicted``, ``probability`` (of
            that class) and ``probability of …`` each class, from a model that knows labels; and
            ``surprise`` with ``unusual``, from a model with a density (see ``place``). Of a model
            that learned from several label columns, all that is about one is named after it:
            ``NAME: predicted`` and so on (``of_label`` gives what is about one by itself).
        metrics: figures about them, by key.
        notes: what was left out, and why.
    """

    frame: pd.DataFrame
    metrics: dict[str, Metric]
    notes: tuple[str, ...]


def place_rows(
    model: LatentVariableModel,
    rows: Dataset,
    fitted: Dataset | None,
    tell: Tell = lambda *_: False,
) -> Placement:
    """Place rows on a model's map, by their columns alone.

    The surprise of a row is minus its log predictive density per observed column, nats, on the
    scale that the model learned. Its ``unusual`` is the share of the rows of the fit that surprise
    the model less, 0 to 1; those rows are placed by their columns alone too.

    Args:
        model: a fitted model.
        rows: features made as those of the fit (``dataset_like``), in the model's order; labels are
            compared with the model's, and decide nothing.
        fitted: the rows that the model was fitted to; None where they are not at hand, so that
            nothing says which surprise is unusual.
        tell: told of the progress.

    Returns:
        The rows, but those that lack a cell which the model needs, in their order.

    Raises:
        CancelledError: ``tell`` asked to stop.
        DataError: no row can be placed.
        UnsupportedError: the model cannot place new rows.
    """
    rows, notes = _usable(model, rows)
    density = model.capabilities.density
    compared = _compared(fitted) if density and fitted is not None else None
    total = len(rows) + (0 if compared is None else len(compared))
    count = _Count(tell, total)
    parts = [_part(model, block) for block in count.blocks(features_of(model, rows))]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    known_columns = label_columns(model)
    metrics: dict[str, Metric] = {}
    if compared is not None and fitted is not None:
        known = [_surprise(model, block) for block in count.blocks(features_of(model, compared))]
        columns["unusual"] = _share_below(columns["surprise"], np.concatenate(known))
        metrics["unusual_rows"] = _flagged(columns["unusual"], len(compared), len(fitted))
    elif density:
        notes = (*notes, "Which rows are unusual is not told: the rows of the fit are not at hand.")
    else:
        notes = (*notes, f"{model.title} has no density, so it cannot tell which rows are unusual.")
    named: dict[str, Any] = {"row_id": rows.row_ids.tolist()}
    if rows.labels is not None:
        named |= label_cells(rows) if len(known_columns) < 2 else _own_labels(known_columns, rows)
        for column in known_columns:
            labels = column.labels(rows)
            if labels is not None:
                metrics |= column.figures(_against_labels(column, labels, columns))
    return Placement(pd.DataFrame(named | columns), metrics, notes)


def features_of(model: LatentVariableModel, rows: Dataset) -> pd.DataFrame | FloatArray:
    """The rows as the model takes them: with its names, where it has any."""
    if not hasattr(model, "feature_names_in_"):
        return rows.X
    return pd.DataFrame(rows.X, columns=list(model.feature_names_in_))


def most_probable(frame: pd.DataFrame, least: float) -> pd.DataFrame:
    """The rows of a placement with a column that tells which are sure enough of their class.

    Args:
        frame: of a placement.
        least: probability of the predicted class from which on a row counts as decided.

    Returns:
        The frame with ``decided`` (of each label column, where there are several), before the
        probabilities; as it is where there are none.
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
    """The label columns that a placement predicts; "" for one without a name, none for none.

    Args:
        frame: of a placement.
    """
    ends = "predicted"
    names = [str(name) for name in frame.columns]
    if ends in names:
        return [""]
    found = [name.removesuffix(f": {ends}") for name in names if name.endswith(f": {ends}")]
    return [name for name in found if f"{name}: probability" in names]  # no class called so


def of_label_column(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A placement as if the model had learned from one of its label columns alone.

    Args:
        frame: of a placement.
        name: one of ``labels_of``.
    """
    others = [other for other in labels_of(frame) if other != name]
    about = {
        column: str(column).removeprefix(f"{name}: ")
        for column in frame.columns
        if name and _is_about(str(column), name)
    }
    gone = [c for c in frame.columns if any(_is_about(str(c), other) for other in others)]
    return frame.drop(columns=gone).rename(columns=about)


def _is_about(column: str, name: str) -> bool:
    """Whether a column of a placement is about a label column."""
    about = column.removeprefix(f"{name}: ")
    known = {"label", "predicted", "probability", "decided"}
    return about != column and (about in known or about.startswith(_PROBABILITY_OF))


# ---- the rows ----------------------------------------------------------------------------------


def _usable(model: LatentVariableModel, rows: Dataset) -> tuple[Dataset, tuple[str, ...]]:
    """The rows that the model can place, and a sentence on the others."""
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


def _compared(fitted: Dataset) -> Dataset:
    if len(fitted) <= MOST_COMPARED:
        return fitted
    rng = np.random.default_rng(SEED)
    return fitted.subset(np.sort(rng.choice(len(fitted), MOST_COMPARED, replace=False)))


@dataclass
class _Count:
    """Counts the rows that are done, and stops where asked to."""

    tell: Tell
    total: int
    done: int = 0

    def blocks(self, X: Any) -> Iterator[Any]:
        """The rows of X, a few at a time."""
        for start in range(0, len(X), _BLOCK):
            block = X[start : start + _BLOCK]
            yield block
            self.done += len(block)
            if self.tell(self.done, self.total):
                raise CancelledError("Stopped before all rows were placed.")


def _part(model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """What is known of some rows, by column."""
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
    if model.capabilities.density:
        columns["surprise"] = _surprise(model, X)
    return columns


def _surprise(model: Any, X: Any) -> FloatArray:
    """Minus the log predictive density per observed column, [n]; NaN for a row without any."""
    observed = (~np.isnan(np.asarray(X, dtype=np.float64))).sum(axis=1)
    density = np.asarray(model.score_samples(X))
    return np.where(observed > 0, -density / np.maximum(observed, 1), np.nan)


def _share_below(values: FloatArray, among: FloatArray) -> FloatArray:
    """For each value, the share of others that are smaller; NaN for NaN."""
    known = np.sort(among[~np.isnan(among)])
    share = np.searchsorted(known, values, side="left") / max(1, len(known))
    return np.where(np.isnan(values), np.nan, share)


# ---- figures -----------------------------------------------------------------------------------


def _flagged(unusual: FloatArray, compared: int, fitted: int) -> Metric:
    drawn = f"{compared:,} of the {fitted:,} rows" if compared < fitted else f"the {fitted:,} rows"
    seed = f" (drawn with seed {SEED})" if compared < fitted else ""
    protocol = (
        f"Rows whose density under the model is lower than that of {UNUSUAL:.0%} of {drawn} of the "
        f"fit{seed}. The fit has seen those: of new rows of the same kind more than "
        f"{1 - UNUSUAL:.0%} may be flagged."
    )
    return Metric("unusual rows", float((unusual >= UNUSUAL).sum()), protocol)


def _own_labels(known: tuple[LabelColumn, ...], rows: Dataset) -> dict[str, list[Any]]:
    """The labels that rows bring, of the columns that the model learned from."""
    found = {column.named("label"): column.labels(rows) for column in known}
    return {name: labels.tolist() for name, labels in found.items() if labels is not None}


def _against_labels(
    column: LabelColumn, labels: NDArray[np.object_], columns: dict[str, NDArray[Any]]
) -> dict[str, Metric]:
    """How well the predicted classes agree with the rows' own."""
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
            f"Share of rows whose label is the most probable class, by the columns alone. On {on}.",
        ),
        "expected_calibration_error": Metric(
            names["expected_calibration_error"],
            expected_calibration_error(probability, truth),
            "Mean distance between the probability of the predicted class and how often it is "
            f"right, over 15 bins of that probability, weighed by their rows. On {on}.",
        ),
    }
