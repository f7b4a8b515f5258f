"""Models of a target: possible targets, predictions, hidden layers and prediction slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.services import fitted_maps, server
from app.services.caching import cached
from lvmcore.data import Dataset, DateScale
from lvmcore.errors import DataError
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes
from lvmcore.prediction import target_rows
from lvmcore.prediction.target_rows import SupervisedRows, split_for_target
from lvmcore.recommend.target_models import TargetSummary, summarise_target

if TYPE_CHECKING:
    import pandas as pd

    from app.analysis.map.heatmaps import Heatmap
    from app.analysis.tables.column_curves import ClassCurves
    from app.analysis.tables.prediction_curves import ComponentCurve, PredictionCurve
    from app.analysis.tables.prediction_slices import ClassPlane, PredictionSlice
    from lvmcore.base.predictor import Predictor
    from lvmcore.evaluation.target_scores import TargetComparison
    from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "class_curves",
    "class_plane",
    "column_curve",
    "column_effects",
    "comparison",
    "component_curves",
    "count_predicted",
    "dates_as_features",
    "hidden_units",
    "prediction_slice",
    "predictions",
    "predictions_csv",
    "predictions_parquet",
    "predictor",
    "series_curve",
    "start_prediction",
    "target_columns",
    "target_features",
    "target_summary",
    "training_rows",
    "unused_categories",
    "whole_dataset",
]


@cached(max_entries=16, depends_on_store=False)
def target_columns(dataset: Dataset) -> tuple[str, ...]:
    """Names of the columns of a dataset that can be a target."""
    return tuple(target_rows.target_columns(dataset))


@cached(max_entries=16, depends_on_store=False)
def unused_categories(dataset: Dataset) -> tuple[str, ...]:
    """Names of the category columns that could be features of a dataset and are not."""
    return target_rows.unlearned_categories(dataset)


@cached(max_entries=16, depends_on_store=False)
def dates_as_features(dataset: Dataset, target: str, groups: str) -> dict[str, DateScale]:
    """The columns of dates that a fit to a target learns from, for lack of other features."""
    return target_rows.dates_as_features(dataset, target, groups)


def target_features(dataset: Dataset, target: str, groups: str = "") -> Dataset:
    """The dataset with the features of a fit to a target; as it is where none is left."""
    try:
        return target_rows.target_features(dataset, target, groups)
    except DataError:  # the fit says it
        return dataset


@cached(max_entries=64, depends_on_store=False)
def target_summary(dataset: Dataset, name: str) -> TargetSummary | None:
    """Summary of a column as a target; None where the dataset has no such column."""
    return summarise_target(dataset, name) if name in dataset.frame else None


@cached(max_entries=16, spinner="Loading the model")
def predictor(run: str) -> Predictor:
    """The fitted model of a run with a target.

    Raises:
        DataError: the run has no model.
    """
    return server.store().load_model(run, "target")


def whole_dataset(run: str) -> Dataset:
    """The dataset of a run with the features of the fit, and the rows that it left out.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    spec = server.store().get(run).spec
    whole = fitted_maps.stored_dataset(spec.dataset)
    return target_rows.target_features(whole, spec.target, spec.groups)


@cached(max_entries=8)
def training_rows(run: str) -> SupervisedRows:
    """The training and test rows of a run.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    spec = server.store().get(run).spec
    return split_for_target(fitted_maps.stored_dataset(spec.dataset), predictor(run).task, spec)


def predictions(run: str) -> pd.DataFrame:
    """Predictions of a fit for its own rows, or of a run of kind "predict" for new rows.

    Raises:
        DataError: the run has no predictions, or the file cannot be read.
    """
    return fitted_maps.result_table(run, "predictions")


def comparison(run: str) -> TargetComparison | None:
    """The scores of a run and of baselines; None for a run without them, as of earlier versions.

    Raises:
        DataError: the run does not exist, or the file cannot be read.
    """
    from lvmcore.evaluation.target_scores import read_comparison

    return read_comparison(server.store().job_folder(run).files.comparison)


def hidden_units(run: str) -> pd.DataFrame | None:
    """Means of the hidden units at the rows of a fit; None without hidden layers.

    Raises:
        DataError: the file cannot be read.
    """
    if not server.store().job_folder(run).files.hidden.is_file():
        return None
    return fitted_maps.result_table(run, "hidden")


def predictions_csv(run: str) -> bytes:
    """The predictions of a run as CSV."""
    return to_csv_bytes(predictions(run))


def count_predicted(frame: pd.DataFrame) -> int:
    """Number of rows with a prediction in a table of predictions."""
    from lvmcore.prediction.target_predictions import has_prediction

    return int(has_prediction(frame).sum())


def predictions_parquet(run: str) -> bytes:
    """The predictions of a run as Parquet."""
    return to_parquet_bytes(predictions(run))


@cached(max_entries=64, spinner="Predicting over the two columns")
def prediction_slice(run: str, request: PredictionSlice) -> Heatmap:
    """Prediction over two columns; see ``app.analysis.tables.prediction_slices``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import prediction_slices

    return prediction_slices.prediction_slice(predictor(run), training_rows(run), request)


@cached(max_entries=32, spinner="Predicting over the two columns")
def class_plane(run: str, across: str, upright: str) -> ClassPlane:
    """Probabilities of all classes over two columns; see ``app.analysis.tables``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import prediction_slices

    return prediction_slices.class_plane(predictor(run), training_rows(run), across, upright)


@cached(max_entries=64, spinner="Predicting over the column")
def column_curve(run: str, column: str) -> PredictionCurve:
    """Prediction of a number over one column; see ``app.analysis.tables.column_curves``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import column_curves

    return column_curves.column_curve(predictor(run), training_rows(run), column)


@cached(max_entries=64, spinner="Predicting over the column")
def class_curves(run: str, column: str) -> ClassCurves:
    """Probabilities of the classes over one column; see ``app.analysis.tables.column_curves``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import column_curves

    return column_curves.class_curves(predictor(run), training_rows(run), column)


@cached(max_entries=32, spinner="Predicting beyond the rows")
def series_curve(run: str) -> PredictionCurve:
    """Prediction along the only column of a run, and beyond its last row.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import prediction_curves

    return prediction_curves.series_curve(predictor(run), training_rows(run))


@cached(max_entries=32, spinner="Taking the kernel apart")
def component_curves(run: str) -> tuple[ComponentCurve, ...]:
    """The summands of the kernel of a run, and the noise; see ``prediction_curves``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.tables import prediction_curves

    return prediction_curves.component_curves(predictor(run), training_rows(run))


@cached(max_entries=64, spinner="Measuring the effect of each column")
def column_effects(run: str) -> FloatArray:
    """Share of the prediction's variance that each varying column carries, [H].

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from lvmcore.evaluation import column_effects as effects

    rows = training_rows(run)
    return effects.column_effects(predictor(run), rows.X[~rows.held_out])


def start_prediction(run: str, rows: Dataset) -> str:
    """Submit the prediction of rows' target by a run's model, unless it exists.

    Returns:
        Id of the prediction run.

    Raises:
        ConfigError: the queue is full.
        DataError: the run does not exist, or the rows cannot be stored.
    """
    from lvmcore.jobs.predict import prediction_of

    store = server.store()
    fit = store.get(run)
    store.datasets.put(rows)
    return server.submit_once(fit, prediction_of(fit, rows))
