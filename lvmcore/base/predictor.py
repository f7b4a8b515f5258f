"""Predictor: the scikit-learn estimator that every model of a target column is.

The second task beside maps: learn a column (numbers, or classes) from the others, say how sure the
prediction is, and show what the layers made of the rows on the way. The base class owns the public
door; `prediction_tasks` says what numbers and classes are, and a model supplies its mathematics
through ``_fit`` and what its task asks for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator import Estimator
from lvmcore.base.validation import Capabilities
from lvmcore.errors import ConfigError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.parameters import check_settings
from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import FitOutcome

__all__ = ["HeldOutRows", "Predictor", "SupervisedFitProblem", "Task"]

#: What a model predicts: a number, or a class.
Task = Literal["number", "class"]
#: Rows at most that a fit is measured on while it is under way.
MOST_UNSEEN = 2000
#: Rows at least that a fit stops by.
FEWEST_ASIDE = 5


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that a fit does not see, whose density is followed.

    Attributes:
        X: standardised as the others, [n, H].
        y: numbers in their units, or classes.
        stops: whether the fit ends by them.
    """

    X: Tensor
    y: NDArray[Any]
    stops: bool


@dataclass(frozen=True)
class SupervisedFitProblem:
    """What a predictor's ``_fit`` gets: everything checked, standardised and on the device.

    Attributes:
        X: columns that vary, standardised, [N, H].
        Y: the target: a standardised number, [N, 1], or signs of classes, [N, C], of two the
            second alone, [N, 1].
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        checkpoint: what the fit goes on from and leaves for the next; None keeps none.
        unseen: rows that the fit does not see, to be measured on now and then.
        aside: all that it stops by, X and Y: when the steps are over, a q in closed form takes them
            too.
    """

    X: Tensor
    Y: Tensor
    generator: torch.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None = None
    unseen: HeldOutRows | None = None
    aside: tuple[Tensor, Tensor] | None = None


class Predictor(Estimator):
    """Base of every model of a target: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Task]
    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, bound=True)

    # ---- fitting -------------------------------------------------------------------------------

    #: Share of the rows that a fit sets aside to stop by; a model that can sets it as a parameter.
    validation: float = 0.0

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        callback: Callback | None = None,
        held_out: tuple[ArrayLike, Any] | None = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: columns, [N, H], in their own units, every cell observed.
            y: the target, one a row, [N]: finite numbers, or classes.
            callback: called with each FitStep; returning True stops the fit, and what was fitted
                so far stays usable.
            held_out: columns and target of other rows. The history tells their −log p(y | x) every
                20 steps; the fit learns nothing from them, and does not stop by them. Where it sets
                rows aside to stop by (``validation``), it tells of those; a sampler of none.

        Returns:
            The fitted model.

        Raises:
            ConfigError: a parameter is not allowed, or does not suit the table's size.
            DataError: the columns or the target cannot be used; the message names row and column.
            NumericalError: the computation broke down.
        """
        return self._fit_from(X, y, callback=callback, held_out=held_out)

    def _fit_from(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
        held_out: tuple[ArrayLike, Any] | None = None,
    ) -> Self:
        """``fit``, going on from a checkpoint and leaving one now and then: the way of a run."""
        check_settings(type(self), self.get_params(deep=False))
        data = self._check_rows(X, reset=True)
        target = self._read_target(y, len(data))
        generator = self._generator(data, target=target, checkpoint=checkpoint)
        aside = self._set_aside(target, generator)
        seen, learned = (data[~aside], target[~aside]) if aside.any() else (data, target)
        self._begin(seen)
        if self.validation and not aside.any():
            self._note(
                f"validation={self.validation} sets fewer than {FEWEST_ASIDE} of {len(data)} rows "
                "aside, too few to stop by: the fit stops by its bound."
            )
        self._measure_target(learned)
        inputs, unseen, rest = self._inputs(seen), None, None
        targets = self._as_learned(learned, inputs)
        if held_out is not None:
            others = self._check_rows(held_out[0], reset=False)
            unseen = self._unseen(others, self._read_truth(held_out[1], len(others)), stops=False)
        if aside.any():
            unseen = self._unseen(data[aside], self._truth(target[aside]), stops=True)
            rest = self._inputs(data[aside]), self._as_learned(target[aside], inputs)
        self._rows_of_fit = np.flatnonzero(~aside)
        problem = SupervisedFitProblem(
            inputs, targets, generator, callback, checkpoint, unseen, rest
        )
        return self._end(self._fit(problem), checkpoint)

    def _inputs(self, data: NDArray[Any]) -> Tensor:
        """Rows in the data's units, standardised and on the device."""
        return self._to_tensor(self._standardiser.transform(data))

    def _set_aside(self, target: NDArray[Any], generator: torch.Generator) -> NDArray[np.bool_]:
        """Rows that the fit is to stop by, [N]: drawn; of each class one stays, of numbers two."""
        aside = np.zeros(len(target), dtype=bool)
        if not self.validation:
            return aside
        order = torch.randperm(len(target), generator=generator).numpy()
        drawn = target[order]
        if self.task == "class":
            firsts = np.unique(drawn, return_index=True)[1]
        else:  # a target that is seldom another value still differs in the fit
            firsts = np.unique([drawn.argmin(), drawn.argmax()])
        order = np.delete(order, firsts)
        count = min(round(self.validation * len(target)), len(order))
        if count >= FEWEST_ASIDE:
            aside[order[:count]] = True
        return aside

    def _unseen(self, rows: NDArray[Any], y: NDArray[Any], *, stops: bool) -> HeldOutRows | None:
        """Some of the rows, evenly, as they are measured on; None where there are none."""
        known = self._foreseen(y)
        rows, y = (rows, y) if known.all() else (rows[known], y[known])
        if not len(rows):
            return None
        some = np.unique(np.linspace(0, len(rows) - 1, MOST_UNSEEN).astype(np.intp))
        return HeldOutRows(self._inputs(rows[some]), y[some], stops)

    # ---- the rows on their way -----------------------------------------------------------------

    def hidden(self, X: ArrayLike, layer: int = 1) -> FloatArray:
        """What a hidden layer makes of rows: its units' means, averaged over draws.

        Args:
            X: rows in the data's units, [n, H].
            layer: which, counted from 1.

        Returns:
            Means of its units, [n, width].

        Raises:
            ConfigError: there is no such layer.
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        layers = self._n_hidden_layers
        if layer not in range(1, layers + 1):
            raise ConfigError(
                f"layer={layer!r} cannot be used: this model has {layers or 'no'} hidden "
                f"layer{'' if layers == 1 else 's'}."
            )
        return self._by_block(X, lambda rows: self._hidden_units(rows, int(layer)))

    @property
    def n_hidden_layers_(self) -> int:
        """Hidden layers of the fitted model, 0 where there is none."""
        check_is_fitted(self)
        return self._n_hidden_layers

    def _by_block(self, X: ArrayLike, compute: Callable[[Tensor], Tensor]) -> FloatArray:
        """What is computed of rows, block by block, rows along the first dimension."""
        return np.concatenate([to_numpy(compute(block)) for block in self._blocks_of(X)])

    def _blocks_of(self, X: ArrayLike) -> Iterator[Tensor]:
        """Rows some at a time, standardised and on the device."""
        for rows in row_blocks(self._check_rows(X, reset=False)):
            yield self._inputs(rows)

    # ---- densities -----------------------------------------------------------------------------

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """log p(y | x) of each row, nats, [n]; their mean is −NLPP.

        Of numbers in the target's units; of a class that the fit did not see −inf.

        Raises:
            DataError: the rows do not fit the model, or y has another length.
        """
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        given = self._read_truth(y, len(data))
        parts, done = [], 0
        for some in row_blocks(data):
            rows = self._inputs(some)
            parts.append(self._log_density(rows, given[done : done + len(rows)]))
            done += len(rows)
        return np.concatenate(parts)

    # ---- hooks of a model ----------------------------------------------------------------------

    @abstractmethod
    def _read_truth(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Targets of rows that are no part of the fit, [n]."""

    def _foreseen(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Which targets of other rows the model can give any density, [n]."""
        return np.ones(len(y), dtype=bool)

    @abstractmethod
    def _truth(self, target: NDArray[Any]) -> NDArray[Any]:
        """The same from what ``_read_target`` made of rows of the fit."""

    @abstractmethod
    def _log_density(self, X: Tensor, y: NDArray[Any]) -> FloatArray:
        """log p(y | x) of standardised rows, [n]; y as ``_read_truth`` gives it."""

    @abstractmethod
    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        """The target as numbers or codes, [N]; takes over the classes."""

    def _measure_target(self, target: NDArray[Any]) -> None:
        """Take over what the target of the rows of the fit tells."""

    @abstractmethod
    def _as_learned(self, target: NDArray[Any], like: Tensor) -> Tensor:
        """A target as the model learns it, [n, P]."""

    @abstractmethod
    def _fit(self, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit; set ``relevance_`` and own state."""

    @abstractmethod
    def _hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's units at standardised rows, [n, width]."""

    @property
    @abstractmethod
    def _n_hidden_layers(self) -> int:
        """Hidden layers of the fitted model."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.target_tags.required = True
        return tags
