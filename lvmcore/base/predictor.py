"""Predictor: the scikit-learn estimator that every model of a target column is.

The second task beside maps: predict a column (numbers, or classes) from the others, with its
uncertainty, and show the hidden layers' units. The base class owns the public interface;
`regressor_classifier` says what numbers and classes are, and a model declares the method that fits
its function.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.capabilities import Capabilities
from lvmcore.base.estimator import Estimator
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.fit_problem import fit_generator
from lvmcore.base.supervised_problem import HeldOutRows, SupervisedFitProblem, Task
from lvmcore.errors import ConfigError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.parameters import Advised, Device, Seed, check_settings
from lvmcore.preprocessing.cell_types import Cells
from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import FitOutcome

__all__ = [
    "FitMethod",
    "FittedFunction",
    "HeldOutRows",
    "Predictor",
    "SupervisedFitProblem",
    "Task",
]

#: Rows at most that a fit is measured on while it is under way.
MOST_UNSEEN = 2000
#: Rows at least that a fit stops by.
FEWEST_ASIDE = 5


class FittedFunction(Protocol):
    """The function that a predictor has learned, at standardised rows."""

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the inputs of each layer, by name."""

    @property
    def n_parameters(self) -> int:
        """Numbers that were learned."""

    @property
    def n_hidden_layers(self) -> int:
        """Hidden layers."""

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's units, [n, width]."""

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Of a number: means and variances, noise included, under each draw, [n, S] each."""

    def weights(self) -> FloatArray | None:
        """Of a number: weights of the draws, [S]; None where all are equal."""

    def probability(self, X: Tensor) -> Tensor:
        """Of classes: probabilities, [n, C]; of two classes that of the second, [n, 1]."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays, and facts that JSON can hold, for a file."""


class FitMethod(Protocol):
    """How the function of a predictor is fitted, and read from a file."""

    def advise(self, n_rows: int) -> dict[str, Advised]:
        """Settings that suit a table of so many rows, with reasons."""

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit the function, and set it as ``_function`` of the model."""

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedFunction:
        """The function from what its ``state`` gave."""


@estimator_dataclass
class Predictor(Estimator):
    """Base of every model of a target: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Task]
    method: ClassVar[FitMethod]
    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, bound=True)
    #: Quadratic forms of inverses lose more digits than single precision has.
    dtype = "float64"

    device: Device = "auto"
    random_state: Seed = 0

    n_parameters_: int = fitted()
    _function: FittedFunction = fitted()
    #: Positions of the rows that were learned from among those given, [N].
    _rows_of_fit: NDArray[np.intp] = fitted()

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """What the method advises for a table of this size."""
        del n_columns, n_classes, cells
        return cls.method.advise(n_rows)

    # ---- fitting -------------------------------------------------------------------------------

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
        generator = fit_generator(self, data, target=target, checkpoint=checkpoint)
        # Share of the rows set aside to stop by; 0 for a model without the setting.
        share = float(getattr(self, "validation", 0.0))
        aside = _set_aside(target, share, generator, classes=self.task == "class")
        seen, learned = (data[~aside], target[~aside]) if aside.any() else (data, target)
        self._begin(seen)
        if share and not aside.any():
            self._note(
                f"validation={share} sets fewer than {FEWEST_ASIDE} of {len(data)} rows "
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

    def _fit(self, problem: SupervisedFitProblem) -> FitOutcome:
        outcome = self.method.fit(self, problem)
        self.relevance_ = self._function.relevance
        self.n_parameters_ = self._function.n_parameters
        return outcome

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
        layers = self._function.n_hidden_layers
        if layer not in range(1, layers + 1):
            raise ConfigError(
                f"layer={layer!r} cannot be used: this model has {layers or 'no'} hidden "
                f"layer{'' if layers == 1 else 's'}."
            )
        return self._by_block(X, lambda rows: self._function.hidden_units(rows, int(layer)))

    @property
    def n_hidden_layers_(self) -> int:
        """Hidden layers of the fitted model, 0 where there is none."""
        check_is_fitted(self)
        return self._function.n_hidden_layers

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

    # ---- hooks of a task -----------------------------------------------------------------------

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

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self._function.state()

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._function = self.method.restore(self, arrays, facts)
        self.relevance_ = self._function.relevance
        self.n_parameters_ = self._function.n_parameters

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.target_tags.required = True
        return tags


def _set_aside(
    target: NDArray[Any], share: float, generator: torch.Generator, *, classes: bool
) -> NDArray[np.bool_]:
    """Rows that a fit is to stop by, [N]: drawn; of each class one stays, of numbers two."""
    aside = np.zeros(len(target), dtype=bool)
    if not share:
        return aside
    order = torch.randperm(len(target), generator=generator).numpy()
    drawn = target[order]
    if classes:
        firsts = np.unique(drawn, return_index=True)[1]
    else:  # a target that is seldom another value still differs in the fit
        firsts = np.unique([drawn.argmin(), drawn.argmax()])
    order = np.delete(order, firsts)
    count = min(round(share * len(target)), len(order))
    if count >= FEWEST_ASIDE:
        aside[order[:count]] = True
    return aside
