"""Estimator: base class of all models, with settings, input checks, notes and storage.

``LatentVariableModel`` (a map of the rows) and ``Predictor`` (a target column) are its subclasses.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.capabilities import Capabilities
from lvmcore.base.table_size import TableSize
from lvmcore.base.validation import (
    check_cells,
    check_values,
    package_version,
    read_rows,
)
from lvmcore.devices import Computation, resolve, storage_type, stored_device
from lvmcore.distributed.choice import shard_count
from lvmcore.errors import DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.step_workload import Precision, step_work
from lvmcore.parameters import Advised, Parameter, is_array, parameters_of
from lvmcore.persistence import history_arrays, history_from_arrays, with_prefix, write
from lvmcore.preprocessing.class_labels import ClassLabels, sorted_by_label_column
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.relevance import relevance_shares
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.outcome import FitOutcome

__all__ = ["Estimator", "choose_device", "choose_settings"]


class Estimator(BaseEstimator, ABC):
    """Base class of all models, of a map or of a target."""

    key: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    order: ClassVar[int]  # position in menus, smallest first
    quick_to_load: ClassVar[bool] = True  # False: the import of its library takes seconds
    capabilities: ClassVar[Capabilities]

    device: str
    dtype: Precision
    random_state: int | None

    notes_: tuple[str, ...]
    label_names_: tuple[str, ...]
    classes_: Any  # the classes, [C]; for several label columns a list of arrays
    elbo_: float
    history_: tuple[FitStep, ...]
    relevance_: dict[str, FloatArray]
    converged_: bool
    rise_: tuple[float, float] | None  # of a mini-batch bound a step, nats, 95 % confidence
    settings_: dict[str, Any]  # of the fit: given, or advised in place of None
    #: What device and precision of the fit were resolved to; None for a fit that did not say.
    computation_: Computation | None = None

    _labels: tuple[ClassLabels, ...] = ()
    #: Device of this process on which the model computes.
    _device: torch.device = torch.device("cpu")
    # Moments of the columns, and their scaling in the model: the same by default.
    _measured: Standardiser
    _standardiser: Standardiser

    #: What the settings were that files of earlier versions do not name, where it is no default.
    earlier_settings: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The parameters of the constructor with their metadata, in order."""
        return parameters_of(cls)

    @classmethod
    def suggest(cls, size: TableSize) -> dict[str, Any]:
        """Recommended settings for a table of this size that differ from the defaults."""
        return {name: advised.value for name, advised in cls.advise(size).items()}

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """The settings of ``suggest``, each with its reason.

        A fit uses the advice in place of a setting that is None.
        """
        del size
        return {}

    # ---- fitting -------------------------------------------------------------------------------

    def _begin(self, data: NDArray[Any]) -> None:
        """Compute the moments of the columns of ``data`` [N, D], with a note on constant ones."""
        self.notes_ = ()
        self._measured = Standardiser.fit(data, self._column_names())
        self._standardiser = self._scaling(self._measured)
        if self._measured.constant.any():
            self._note(self._measured.describe_constant())

    def _end(self, outcome: FitOutcome, checkpoint: Checkpoint | None) -> Self:
        """Store the outcome of a fit."""
        for note in () if checkpoint is None else checkpoint.notes:
            self._note(note)
        self.elbo_ = outcome.objective
        self.history_ = outcome.history
        self.n_iter_ = len(outcome.history)
        self.converged_ = outcome.converged
        self.rise_ = outcome.rise
        return self

    @property
    def standardiser_(self) -> Standardiser:
        """Means and sds of the columns of the fit, in the data's units."""
        check_is_fitted(self)
        return self._measured

    def variance_shares(self) -> dict[str, FloatArray]:
        """Share of each dimension in the variance that a path carries, by path, each [Q].

        Those of ``relevance_``, unless a model computes them from its functions.
        """
        check_is_fitted(self)
        return relevance_shares(self.relevance_)

    # ---- saving --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        check_is_fitted(self)
        arrays, facts = self._get_state()
        task_arrays, task_meta = self._task_state()
        settings = self.get_params(deep=False)
        given = {name: np.asarray(value) for name, value in settings.items() if is_array(value)}
        arrays = {
            **arrays,
            **self._measured.arrays(),
            **history_arrays(self.history_),
            **{f"relevance.{path}": value for path, value in self.relevance_.items()},
            **{f"setting.{name}": value for name, value in given.items()},
            **task_arrays,
        }
        named = hasattr(self, "feature_names_in_")
        meta = {
            "model": self.key,
            "version": package_version(),
            "parameters": {name: settings[name] for name in settings if name not in given},
            "settings": {
                name: value for name, value in self.settings_.items() if name not in given
            },
            "facts": facts,
            "elbo": self.elbo_,
            "converged": self.converged_,
            "rise": self.rise_,
            "computation": None if self.computation_ is None else asdict(self.computation_),
            "notes": list(self.notes_),
            "n_features_in": self.n_features_in_,
            "feature_names_in": [str(name) for name in self.feature_names_in_] if named else None,
            **task_meta,
        }
        write(path, arrays, meta)

    def _restore(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Restore the fitted state that ``save`` wrote.

        Raises:
            Exception: a part is missing, or has another size or type; ``load`` says so.
        """
        self._device = stored_device(self.device)
        stored = meta.get("computation")  # not in earlier files
        self.computation_ = None if stored is None else Computation(**stored)
        # Earlier versions had no advice in place of None.
        self.settings_ = self.get_params(deep=False) | dict(meta.get("settings", {}))
        self.elbo_ = float(meta["elbo"])
        self.converged_ = bool(meta["converged"])
        rise = meta.get("rise")  # not in earlier files
        self.rise_ = None if rise is None else (float(rise[0]), float(rise[1]))
        self.notes_ = tuple(meta["notes"])
        self.history_ = history_from_arrays(arrays)
        self.n_iter_ = len(self.history_)
        self.n_features_in_ = int(meta["n_features_in"])
        if self.n_features_in_ != arrays["standardiser.mean"].size:
            raise DataError(f"it has the moments of other than {self.n_features_in_:,} columns")
        if meta["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
        self._measured = Standardiser.from_arrays(arrays, self._column_names())
        self._standardiser = self._scaling(self._measured)
        self._set_task_state(arrays, meta)
        self.relevance_ = self._by_path(arrays, "relevance.")
        self._set_state(arrays, meta["facts"])
        return self

    # ---- rows, columns and tensors -------------------------------------------------------------

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Validated rows in the data's units, [N, D]; ``reset`` for the rows of a fit."""
        data = read_rows(self, X, reset=reset)
        allowed = self.capabilities.missing_cells
        check_cells(data, self._column_names(), type(self).__name__, missing_allowed=allowed)
        self._check_values(data)
        return data

    def _column_names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [str(i + 1) for i in range(self.n_features_in_)]

    def _note(self, text: str) -> None:
        """Add a note on the fit, once."""
        if text not in self.notes_:
            self.notes_ = (*self.notes_, text)

    def _set_labels(self, labels: tuple[ClassLabels, ...]) -> None:
        """Store the label columns, at least one."""
        self._labels = labels
        self.label_names_ = tuple(column.name for column in labels)
        classes = [column.classes for column in labels]
        self.classes_ = classes[0] if len(classes) == 1 else classes

    def _by_path(self, arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, FloatArray]:
        """The arrays whose names start with ``prefix``, by the rest of their names.

        Arrays of labels are sorted in the order of the label columns, as a file has its own order.
        """
        return sorted_by_label_column(with_prefix(arrays, prefix), self._labels)

    def _to_tensor(self, array: NDArray[Any]) -> Tensor:
        """An array in the precision and on the device of the settings."""
        return torch.as_tensor(
            np.ascontiguousarray(array),
            dtype=storage_type(self.dtype),
            device=self._device,
        )

    # ---- hooks of a model ----------------------------------------------------------------------

    def _check_values(self, data: NDArray[Any]) -> None:
        """Reject values [N, D] that the model cannot use; by default those not in ``cells``."""
        check_values(data, self._column_names(), type(self).__name__, self.capabilities.cells)

    def _scaling(self, measured: Standardiser) -> Standardiser:
        """The scaling of the columns in the model; by default mean 0 and sd 1 for each."""
        return measured

    @abstractmethod
    def _task_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and metadata specific to the task: labels and map, or the target."""

    @abstractmethod
    def _set_task_state(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Restore the state of ``_task_state``."""

    @abstractmethod
    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Fitted state of the model: arrays, and JSON-serialisable facts."""

    @abstractmethod
    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``_get_state``."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "elbo_")


def choose_device(model: Estimator, shape: tuple[int, ...]) -> None:
    """Choose the device of a fit to a table of this shape, [N, D], once.

    Raises:
        ConfigError: it is not there.
    """
    work = step_work(model.get_params(deep=False), shape[0], shape[1])
    found = resolve(model.device, model.dtype, work, uses_gpu=model.capabilities.gpu)
    shards = min(shard_count(), shape[0]) if model.capabilities.shards else 0
    model.computation_ = replace(found, shards=shards)
    model._device = torch.device(found.device)


def choose_settings(model: Estimator, size: TableSize) -> None:
    """Store the settings of a fit to a table of this size: the advice in place of None."""
    advice = type(model).suggest(size)
    given = model.get_params(deep=False)
    model.settings_ = {
        name: advice.get(name) if value is None else value for name, value in given.items()
    }
