"""Recommended predictor of a target, its settings, and reasons against a predictor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lvmcore.base.table_size import TableSize
from lvmcore.data.dataset import Dataset
from lvmcore.prediction.target_rows import HELD_OUT, dates_as_features, task_of
from lvmcore.preprocessing.picture_shape import ImageShape, propose_image_shape
from lvmcore.recommend.latent_models import Proposal

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor, Task
    from lvmcore.parameters import Advised

__all__ = [
    "MOST_CLASSES",
    "TargetSummary",
    "advised_target_settings",
    "propose_for_target",
    "suggested_target_settings",
    "summarise_target",
    "target_obstacle",
]

#: Most distinct numbers of a column that can be classes without being chosen as the label.
MOST_CLASSES = 50
#: Rows in a step of the deep models at their default batch size.
MOST_ROWS_OF_A_STEP = 2000
#: Rows up to which the exact Gaussian process takes seconds.
EXACT_ROWS = 2000


@dataclass(frozen=True)
class TargetSummary:
    """Properties of a target for the choice of a model.

    Attributes:
        name: of the column.
        task: prediction of a number or of a class.
        numeric: whether its cells are numbers.
        distinct: number of different values.
        rows: number of rows of a fit: with a target and complete features, and not held out.
        columns: number of features.
        image_shape: shape of the rows that are pictures, see ``Dataset``; None for other rows.
    """

    name: str
    task: Task
    numeric: bool
    distinct: int
    rows: int
    columns: int
    image_shape: ImageShape | None = None

    @property
    def size(self) -> TableSize:
        """The size of the table for the advice of a model."""
        classes = 0 if self.task == "number" else self.distinct
        return TableSize(
            n_rows=self.rows,
            n_columns=self.columns,
            n_classes=classes,
            image_shape=self.image_shape,
        )


def summarise_target(dataset: Dataset, name: str) -> TargetSummary | None:
    """Summarise a column as a target; None if it cannot be a target."""
    task = task_of(dataset, name)
    if task is None:
        return None
    column = dataset.frame[name]
    whole = ~np.isnan(dataset.X).any(axis=1) & column.notna().to_numpy()
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    columns = dataset.X.shape[1] - (name in dataset.feature_names)
    columns = columns or len(dates_as_features(dataset, name))
    rows = int((whole & ~dataset.held_out).sum())
    if rows == whole.sum():  # a fit to a target then holds out rows of its own
        rows -= round(HELD_OUT * rows)
    shape = _image_shape(dataset, name)
    return TargetSummary(name, task, numeric, column.nunique(), rows, columns, shape)


def _image_shape(dataset: Dataset, target: str) -> ImageShape | None:
    """The shape of pictures that a fit to a target has without it and without empty columns."""
    empty: list[bool] = np.asarray(np.isnan(dataset.X).all(axis=0)).tolist()
    features = zip(dataset.feature_names, empty, strict=True)
    names = [name for name, left_out in features if name != target and not left_out]
    return dataset.image_shape if len(names) == len(empty) else propose_image_shape(names)


def target_obstacle(model: type[Predictor], shape: TargetSummary) -> str | None:
    """The reason why a model cannot learn a target, a sentence; None if it can."""
    task = model.task
    if model.most_rows is not None and shape.rows > model.most_rows:
        return f"Takes at most {model.most_rows:,} rows, and the fit has {shape.rows:,}."
    if task == "number" and not shape.numeric:
        return f"Predicts numbers, and {shape.name!r} holds classes."
    if task == "class" and shape.task == "number" and shape.distinct > MOST_CLASSES:
        return f"Predicts classes, and {shape.name!r} has {shape.distinct:,} different numbers."
    return None


def propose_for_target(models: Mapping[str, type[Predictor]], shape: TargetSummary) -> Proposal:
    """The model to try first on a target, and the reason.

    An exact Gaussian process for a number of at most 2000 rows: its held-out density is the best of
    the single layers, in seconds. Otherwise a sparse one. For numeric targets and tables of at most
    one batch, a deep Gaussian process on a subset may predict better (``lvmcore bench sod-dgp``)
    and takes ten times as long; the reason mentions it.

    Args:
        models: available models by key, in the order of menus.
        shape: summary of the target.
    """
    key = "svgp_regressor" if shape.task == "number" else "svgp_classifier"
    exact = shape.task == "number" and shape.rows <= EXACT_ROWS and "gp_regressor" in models
    key = "gp_regressor" if exact else key
    if key not in models:
        key = next((one for one, model in models.items() if model.task == shape.task), key)
    what = "number" if shape.task == "number" else "class"
    reason = f"{shape.name!r} is a {what}, and a single layer is fitted in seconds"
    deep = models.get("sod_regressor")
    if shape.task == "number" and deep is not None and shape.rows <= MOST_ROWS_OF_A_STEP:
        reason += f"; {deep.title} sometimes predicts it better, in a minute or two"
    return Proposal(key, reason)


def suggested_target_settings(model: type[Predictor], shape: TargetSummary) -> dict[str, Any]:
    """Settings of a model that suit a table, where they differ from the defaults."""
    return model.suggest(shape.size)


def advised_target_settings(model: type[Predictor], shape: TargetSummary) -> dict[str, Advised]:
    """Those of ``suggested_target_settings`` that are not the usual ones, each with the reason."""
    found = model.advise(shape.size)
    usual = {parameter.name: parameter.default for parameter in model.parameters()}
    return {name: one for name, one in found.items() if one.reason and one.value != usual[name]}
