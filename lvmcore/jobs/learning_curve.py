"""The kind of run that fits a model to increasing numbers of rows and scores each fit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.data.dataset import Dataset
from lvmcore.data.held_out_rows import hold_out_rows
from lvmcore.distributed.independent_calls import IndependentCalls, Look, make_calls
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.evaluation.learning_curves import (
    CurvePoint,
    LearningCurve,
    check_design,
    nested_order,
)
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.jobs.file_rows import refuse_files
from lvmcore.jobs.fitting import StoppedError, training_rows
from lvmcore.jobs.job_kind import JobKind, Outcome
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import classification_scores
from lvmcore.models import model_class
from lvmcore.prediction.target_predictions import prediction_table
from lvmcore.prediction.target_rows import split_for_target
from lvmcore.results import Callback, FitStep
from lvmcore.runs.atomic_files import read_json, write_json
from lvmcore.runs.job import JobSpec
from lvmcore.runs.model_of_job import make_model

__all__ = [
    "CLASS_SCORES",
    "NUMBER_SCORES",
    "LearningCurveFits",
    "learning_curve_of",
    "rows_to_learn_from",
]

#: Scores of classes and of numbers, with their names.
CLASS_SCORES = {"accuracy": "accuracy", "macro_f1": "macro F1"}
NUMBER_SCORES = {"rmse": "RMSE", "mae": "MAE"}
#: Share of the rows of a map with labels that is held out for the scores.
SHARE = 0.2


def learning_curve_of(spec: JobSpec, sizes: Sequence[int], repeats: int) -> JobSpec:
    """The description of a learning curve of a fit.

    Args:
        spec: the fit: dataset, model, settings and target. Its seed is replaced by that of the
            repeat.
        sizes: numbers of rows, increasing.
        repeats: fits for each, with seeds from 0.

    Raises:
        ConfigError: the sizes or the repeats cannot be used.
        UnsupportedError: the model predicts neither classes nor a number of new rows.
    """
    check_design(sizes, repeats)
    model = model_class(spec.model)
    can = getattr(model, "capabilities", None)
    if issubclass(model, LatentVariableModel) and (
        can is None or can.labels == "none" or not can.new_rows
    ):
        raise UnsupportedError(
            f"{model.title} predicts no labels of new rows, so it has no learning curve: choose a "
            "model that learns from labels."
        )
    settings = {name: value for name, value in spec.parameters.items() if name != "random_state"}
    return JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters=settings,
        name=f"Learning curve of {spec.name}",
        kind="learning curve",
        target=spec.target,
        groups=spec.groups,
        time=spec.time,
        sizes=tuple(int(size) for size in sizes),
        repeats=repeats,
    )


@dataclass(frozen=True)
class _Split:
    """The rows of a repeat.

    Attributes:
        X: features of all rows, [N, H].
        y: their labels or targets, [N].
        order: positions of the rows for the fits, of which the first are taken.
        held_out: positions of the scored rows.
        how: description of the scored rows.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    order: NDArray[np.intp]
    held_out: NDArray[np.intp]
    how: str


class LearningCurveFits(JobKind):
    """Fits to nested random samples of rows, each scored on rows that no fit of its repeat has.

    ``learning_curve.json`` holds the ``LearningCurve`` and is written after every fit; a run that
    is resumed makes those that are left. On a cluster they are made at once. ``metrics.json`` has
    the mean scores at the largest size.
    """

    stop_message = "Stopped before all fits of the learning curve were done: those done were kept."
    curve: LearningCurve

    def prepare(self) -> None:
        """Check the model and the number of rows, and read the fits that were done before."""
        spec = self.context.spec
        check_design(spec.sizes, spec.repeats)
        make_model(spec)
        self.dataset = self.context.get_dataset()
        refuse_files(self.dataset, "A learning curve")
        split = _split(self.dataset, spec, 0)
        left = rows_to_learn_from(self.dataset, spec, spec.repeats)
        if spec.sizes[-1] > left:
            raise DataError(
                f"{spec.sizes[-1]:,} rows cannot be fitted: {left:,} are left beside those held "
                "out. Choose smaller sizes."
            )
        scores = NUMBER_SCORES if split.y.dtype.kind == "f" else CLASS_SCORES
        path = self.context.folder.files.learning_curve
        done = LearningCurve.from_json(read_json(path)).points if path.is_file() else ()
        self.curve = LearningCurve(done, dict(scores), f"On {split.how}.")
        self.context.enter("fitting")
        self.context.check_stop()

    def work(self) -> None:
        """Fit the model to each number of rows of each repeat; see ``make_calls``."""
        spec = self.context.spec
        known = {(point.size, point.repeat) for point in self.curve.points}
        fits = [(repeat, size) for repeat in range(spec.repeats) for size in spec.sizes]
        left = [(repeat, size) for repeat, size in fits if (size, repeat) not in known]
        curve_fits = _CurveFits(self.dataset, spec)
        with self.context.row_progress(every=True) as tell:

            def done(place: int, point: CurvePoint) -> None:
                del place
                self._keep(point)
                tell(len(self.curve.points), len(fits))
                self.context.check_stop()

            make_calls(
                IndependentCalls(
                    left,
                    partial(self._own_fit, curve_fits),
                    lambda: curve_fits,
                    done,
                    fits=True,
                )
            )

    def _keep(self, point: CurvePoint) -> None:
        """Write a point, in the order of the repeats and sizes."""
        points = sorted((*self.curve.points, point), key=lambda one: (one.repeat, one.size))
        self.curve = dataclasses.replace(self.curve, points=tuple(points))
        write_json(self.context.folder.files.learning_curve, self.curve.to_json())

    def _own_fit(self, fits: _CurveFits, fit: tuple[int, int], look: Look) -> CurvePoint:
        """A fit in the process of the run.

        Raises:
            StoppedError: a stop was requested during the fit.
        """
        stopped = []

        def callback(step: FitStep) -> bool:
            del step
            look()
            reason = self.context.monitor.should_stop()
            if reason is not None:
                stopped.append(reason)
            return reason is not None

        point = fits(fit, callback)
        if stopped and not point.error:
            raise StoppedError(stopped[0])
        return point

    def write_results(self) -> None:
        """Write the curve, and the mean scores at the largest size.

        Raises:
            DataError: no fit was possible.
        """
        write_json(self.context.folder.files.learning_curve, self.curve.to_json())
        if all(point.error for point in self.curve.points):
            raise DataError(self.curve.points[-1].error)
        size, repeats = self.context.spec.sizes[-1], self.context.spec.repeats
        protocol = f"Mean over {repeats} fits to {size:,} rows. {self.curve.protocol}"
        self.context.write_metrics(
            {
                key: Metric(label, _mean(self.curve.values(key)[-1]), protocol)
                for key, label in (self.curve.labels or {}).items()
            }
        )

    def outcome(self) -> Outcome:
        """The number of fits, and how many were not possible."""
        errors = [point.error for point in self.curve.points if point.error]
        notes = [f"{len(self.curve.points)} fits. {self.curve.protocol}"]
        if errors:
            notes.append(f"{len(errors)} of them were not possible, such as: {errors[0]}")
        return Outcome(notes=tuple(notes))


class _CurveFits:
    """Fits of a model to rows of a dataset, of any repeat; other processes get a copy.

    Args:
        dataset: the dataset.
        spec: the learning curve.
    """

    def __init__(self, dataset: Dataset, spec: JobSpec) -> None:
        self._dataset, self._spec = dataset, spec
        self._split: tuple[int, _Split] | None = None  # of the last repeat

    def __call__(self, fit: tuple[int, int], callback: Callback | None = None) -> CurvePoint:
        """Fit the model to the first rows of a repeat, and score it.

        Args:
            fit: repeat, and number of rows.
            callback: called with the steps of the fit.
        """
        repeat, size = fit
        if self._split is None or self._split[0] != repeat:
            self._split = repeat, _split(self._dataset, self._spec, repeat)
        began, split = time.monotonic(), self._split[1]
        model, rows = self._model(repeat), split.order[:size]
        try:
            model.fit(split.X.iloc[rows], split.y[rows], callback=callback)
        except DataError as error:  # such as one class alone
            return CurvePoint(size, repeat, {}, time.monotonic() - began, str(error))
        seconds = time.monotonic() - began
        return CurvePoint(size, repeat, _scores(model, split), seconds)

    def _model(self, repeat: int) -> Any:
        """The unfitted model with the seed of a repeat, where it has a seed."""
        spec = self._spec
        names = {setting.name for setting in model_class(spec.model).parameters()}
        seed = {"random_state": repeat} if "random_state" in names else {}
        return make_model(dataclasses.replace(spec, parameters={**spec.parameters, **seed}))


def rows_to_learn_from(dataset: Dataset, spec: JobSpec, repeats: int = 1) -> int:
    """The largest number of rows of a learning curve: those not held out, in every repeat.

    Args:
        dataset: of the fit.
        spec: of the fit, or of its learning curve.
        repeats: number of repeats.

    Raises:
        DataError: the rows cannot be used.
    """
    return min(len(_split(dataset, spec, repeat).order) for repeat in range(repeats))


def _split(dataset: Dataset, spec: JobSpec, repeat: int) -> _Split:
    """The rows of a repeat."""
    cls = model_class(spec.model)
    if not issubclass(cls, Predictor):
        return _labelled_split(dataset, cls, repeat)
    seeded = dataclasses.replace(spec, parameters={**spec.parameters, "random_state": repeat})
    rows = split_for_target(dataset, cls.task, seeded)
    number = cls.task == "number"
    classes = None if number else rows.y.astype(object)
    order = _ordered(np.flatnonzero(~rows.held_out), classes, repeat)
    y = rows.y.astype(np.float64) if number else rows.y
    return _Split(rows.X, y, order, np.flatnonzero(rows.held_out), _every_repeat(rows.how))


def _labelled_split(dataset: Dataset, cls: type[Any], repeat: int) -> _Split:
    """The rows of a map with labels: those that the dataset holds out, or a fifth of each class."""
    if dataset.label_name is None:
        raise DataError("A learning curve of a map needs labels: choose a label column.")
    chosen = dataset.select_label(dataset.label_name)
    own = chosen.held_out
    everything = dataclasses.replace(chosen, held_out=np.zeros(len(chosen), dtype=np.bool_))
    rows, _ = training_rows(everything, cls)
    assert rows.labels is not None
    known = ~np.asarray(pd.isna(rows.labels))
    rows = rows.subset(known)
    assert rows.labels is not None
    labels = rows.labels
    held = np.isin(rows.rows, chosen.rows[own])
    how = "the rows that the dataset holds out"
    if not held.any():
        held = hold_out_rows(len(rows), labels, SHARE, repeat)
        how = f"{100 * SHARE:g} % of the rows of each class, drawn with seed {repeat}"
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    order = _ordered(np.flatnonzero(~held), labels, repeat)
    return _Split(X, labels, order, np.flatnonzero(held), _every_repeat(how))


def _every_repeat(how: str) -> str:
    """The description of the scored rows of all repeats, from that of one."""
    return how.replace("seed 0", "the seed of the repeat")


def _ordered(
    rows: NDArray[np.intp], classes: NDArray[np.object_] | None, seed: int
) -> NDArray[np.intp]:
    """The rows for the fits in the order of ``nested_order``."""
    own = None if classes is None else classes[rows]
    return rows[nested_order(own, len(rows), seed)]


def _scores(model: Any, split: _Split) -> dict[str, float | None]:
    """The scores of the held-out rows."""
    X, truth = split.X.iloc[split.held_out], split.y[split.held_out]
    if isinstance(model, LatentVariableModel):
        found = classification_scores(truth.astype(str), np.asarray(model.predict(X)).astype(str))
        return {"accuracy": found.accuracy, "macro_f1": found.f1}
    frame = prediction_table(model, X.reset_index(drop=True), truth)
    metrics = target_metrics(frame, split.how)
    keys = NUMBER_SCORES if model.task == "number" else CLASS_SCORES
    return {key: metrics[key].value for key in keys}


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None
