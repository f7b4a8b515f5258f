"""The fitted model of a run as gpytorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import date_scale_texts
from lvmcore.data.new_tables.matching_dataset import binary_codes
from lvmcore.export.gpytorch.exported_model import GPyTorchModel, exported_model
from lvmcore.prediction.target_rows import date_scales_of_fit
from lvmcore.runs.job import JobSpec

if TYPE_CHECKING:
    from lvmcore.models import AnyModel

__all__ = ["exported_run"]


def exported_run(
    model: AnyModel, spec: JobSpec | None = None, dataset: Dataset | None = None
) -> GPyTorchModel:
    """The model of a run as gpytorch, with the transforms of its columns.

    Args:
        model: the fitted model.
        spec: description of the run; None for a model outside a run.
        dataset: dataset of the run; None if it is not available.

    Raises:
        UnsupportedError: gpytorch has no such model.
    """
    codes = {} if spec is None else spec.codes
    dates = {} if spec is None else spec.date_scales
    if spec is not None and dataset is not None:
        dates = date_scale_texts(date_scales_of_fit(dataset, spec.target, spec.groups))
    return exported_model(
        model,
        target="" if spec is None else spec.target,
        columns=() if dataset is None else [str(name) for name in dataset.frame.columns],
        codes=codes if dataset is None else binary_codes(dataset),
        date_scales=dates,
    )
