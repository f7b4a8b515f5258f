"""Estimator: what models of both tasks share: settings, the course of a fit, notes, files.

``LatentVariableModel`` (a map of the rows) and ``Predictor`` (a target column) stand on it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lvmcore import persistence
from lvmcore.base.validation import CheckedEstimator, package_version
from lvmcore.numerics.array_types import FloatArray
from lvmcore.parameters import Advised, Parameter, is_array, parameters_of
from lvmcore.preprocessing.cell_types import Cells
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import FitOutcome

__all__ = ["Estimator"]


class Estimator(CheckedEstimator, ABC):
    """Base of every model of either task."""

    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    order: ClassVar[int]  # place in menus, smallest first
    quick_to_load: ClassVar[bool] = True  # False: its library costs seconds to import

    elbo_: float
    history_: tuple[FitStep, ...]
    relevance_: dict[str, FloatArray]
    converged_: bool

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The constructor's parameters with their metadata, in order."""
        return parameters_of(cls)

    @classmethod
    def suggest(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Any]:
        """Settings that suit a table of this size, where they differ from the defaults."""
        found = cls.advise(n_rows=n_rows, n_columns=n_columns, n_classes=n_classes, cells=cells)
        return {name: advised.value for name, advised in found.items()}

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """What ``suggest`` gives, each setting with the reason for it."""
        del n_rows, n_columns, n_classes, cells
        return {}

    # ---- fitting -------------------------------------------------------------------------------

    def _begin(self, data: NDArray[Any]) -> None:
        """Measure the columns of a fit to ``data`` [N, D], with a note on constant ones."""
        self.notes_ = ()
        self._measure(Standardiser.fit(data, self._column_names()))
        if self._standardiser.constant.any():
            self._note(self._standardiser.describe_constant())

    def _end(self, outcome: FitOutcome, checkpoint: Checkpoint | None) -> Self:
        """Take over how a fit ended."""
        for note in () if checkpoint is None else checkpoint.notes:
            self._note(note)
        self.elbo_ = outcome.objective
        self.history_ = outcome.history
        self.n_iter_ = len(outcome.history)
        self.converged_ = outcome.converged
        return self

    @property
    def standardiser_(self) -> Standardiser:
        """Means and sds of the columns of the fit, in the data's units."""
        check_is_fitted(self)
        return self._measured

    # ---- saving --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        check_is_fitted(self)
        persistence.write(path, *self._stored())

    def _stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that a file holds: arrays by name, and what JSON can hold."""
        arrays, facts = self._get_state()
        settings = self.get_params(deep=False)
        given = {name: np.asarray(value) for name, value in settings.items() if is_array(value)}
        arrays = {
            **arrays,
            **self._measured.arrays(),
            **persistence.history_arrays(self.history_),
            **{f"relevance.{path}": value for path, value in self.relevance_.items()},
            **{f"setting.{name}": value for name, value in given.items()},
        }
        named = hasattr(self, "feature_names_in_")
        meta = {
            "model": self.key,
            "version": package_version(),
            "parameters": {name: settings[name] for name in settings if name not in given},
            "facts": facts,
            "elbo": self.elbo_,
            "converged": self.converged_,
            "notes": list(self.notes_),
            "n_features_in": self.n_features_in_,
            "feature_names_in": [str(name) for name in self.feature_names_in_] if named else None,
        }
        return arrays, meta

    def _restore(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Take over the fitted state that ``save`` wrote."""
        self.elbo_ = float(meta["elbo"])
        self.converged_ = bool(meta["converged"])
        self.notes_ = tuple(meta["notes"])
        self.history_ = persistence.history_from_arrays(arrays)
        self.n_iter_ = len(self.history_)
        self.n_features_in_ = int(meta["n_features_in"])
        if meta["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
        self._measure(Standardiser.from_arrays(arrays, self._column_names()))
        self._take_stored(arrays, meta)
        self._set_state(arrays, meta["facts"])
        return self

    def _take_stored(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """What of a file is the task's own: labels and map, or the target."""
        del meta
        self.relevance_ = self._by_path(persistence.with_prefix(arrays, "relevance."))

    # ---- hooks of a model ----------------------------------------------------------------------

    @abstractmethod
    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Own fitted state: arrays, and facts that JSON can hold."""

    @abstractmethod
    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Take over what ``_get_state`` gave."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "elbo_")
