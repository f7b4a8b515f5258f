"""The table of a model of gpytorch, and the estimator that gets its fitted parts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lvmcore.errors import ConfigError, DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.training.outcome import report_once

if TYPE_CHECKING:
    from lvmcore.base.estimator import Estimator

__all__ = ["ModelTable", "begin", "finish"]


@dataclass(frozen=True)
class ModelTable:
    """The rows of a model of gpytorch, in its own units, and how these follow from the data's.

    Attributes:
        cells: [N, D].
        names: of the columns.
        means: of the columns, in the data's units, [D].
        scales: likewise, [D]: the model's unit of a column in the data's units.
    """

    cells: FloatArray
    names: tuple[str, ...]
    means: FloatArray
    scales: FloatArray

    @classmethod
    def of(
        cls,
        X: Any,
        names: Sequence[str] | None,
        means: ArrayLike | None,
        scales: ArrayLike | None,
    ) -> ModelTable:
        """The rows of a table or an array, in the model's units.

        Raises:
            ConfigError: the names, means or scales are not those of its columns.
            DataError: it is no table of numbers.
        """
        if names is None and isinstance(X, pd.DataFrame):
            names = [str(name) for name in X.columns]
        if hasattr(X, "detach"):
            X = X.detach().cpu().numpy()
        try:
            cells = np.array(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"X holds cells that are no numbers: {error}.") from error
        if cells.ndim == 1:
            cells = cells[:, None]
        if cells.ndim != 2:
            raise DataError(f"X has the shape {cells.shape}: expected rows by columns, [N, D].")
        D = cells.shape[1]
        names = tuple(f"x{d + 1}" for d in range(D)) if names is None else tuple(map(str, names))
        if len(names) != D or len(set(names)) != D:
            raise ConfigError(
                f"columns has {len(set(names))} different names: expected {D}, those of X."
            )
        centre, scale = (
            np.full(D, usual) if given is None else np.asarray(given, dtype=np.float64).ravel()
            for given, usual in ((means, 0.0), (scales, 1.0))
        )
        if centre.shape != (D,) or scale.shape != (D,):
            raise ConfigError(
                f"means and scales have {centre.size} and {scale.size} numbers: expected one for "
                f"each of the {D} columns."
            )
        if not (np.isfinite(centre).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ConfigError("means and scales have to be finite, and scales positive.")
        return cls(cells, names, centre, scale)

    @property
    def frame(self) -> pd.DataFrame:
        """The rows in the data's units."""
        return pd.DataFrame(self.means + self.scales * self.cells, columns=list(self.names))

    def standardiser(self, shift: FloatArray | float = 0.0) -> Standardiser:
        """The scaling of the model, with its units shifted by the constant mean of functions."""
        constant = np.zeros(len(self.names), dtype=bool)
        return Standardiser(self.means + self.scales * shift, self.scales, constant, self.names)


def begin(model: Estimator, table: ModelTable, standardiser: Standardiser) -> None:
    """Give an estimator its columns and settings.

    Raises:
        DataError: the rows cannot be those of such a model.
    """
    model._check_rows(table.frame, reset=True)
    model.settings_ = model.get_params(deep=False)
    model._measured = standardiser
    model._standardiser = model._scaling(standardiser)


def finish(model: Estimator, note: str, objective: float = math.nan) -> None:
    """Store that the fit, which was not done here, has ended.

    Args:
        model: the estimator.
        note: a sentence on where it comes from.
        objective: log marginal likelihood, nats; NaN where it is not known.
    """
    model.notes_ = (note,)
    model._end(report_once(None, time.perf_counter(), objective), None)
