"""Predictor: base class of the models of a target column.

A predictor models a column (numbers or classes) given the others, with uncertainty, and returns the
hidden layers' units. The base class implements the public interface; the subclasses ``Regressor``
and ``Classifier`` in ``regressor_classifier`` define the two kinds of target, and a model declares
the method that fits its function.
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
from lvmcore.base.estimator import Estimator, choose_device, choose_settings
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.fit_problem import fit_generator
from lvmcore.base.settings import Device, DtypeOrMixed, Seed
from lvmcore.base.supervised_problem import HeldOutRows, SupervisedFitProblem, Task
from lvmcore.base.table_size import TableSize
from lvmcore.errors import ConfigError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.parameters import Advised, check_settings
from lvmcore.preprocessing.picture_shape import propose_image_shape
from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "FitMethod",
    "FittedFunction",
    "HeldOutRows",
    "Predictor",
    "SupervisedFitProblem",
    "Task",
]

#: Maximum number of rows on which the density is tracked during a fit.
MOST_TRACKED_ROWS = 2000
#: Minimum number of rows for early stopping.
FEWEST_VALIDATION_ROWS = 5


class FittedFunction(Protocol):
    """The fitted function of a predictor, evaluated at standardised rows."""

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the inputs of each layer, by name."""

    @property
    def n_parameters(self) -> int:
        """Number of trained parameters."""

    @property
    def n_hidden_layers(self) -> int:
        """Number of hidden layers."""

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's units, [n, width]."""

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """For numbers: means and variances, noise included, under each draw, [n, S] each."""

    def weights(self) -> FloatArray | None:
        """For numbers: weights of the draws, [S]; None if all are equal."""

    def probability(self, X: Tensor) -> Tensor:
        """For classes: probabilities, [n, C]; for two classes that of the second, [n, 1]."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""


class FitMethod(Protocol):
    """Method by which the function of a predictor is fitted, and restored from a file."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Recommended settings for a table of this size, with reasons."""

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit the function and set it as ``_function`` of the model."""

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedFunction:
        """The function from its ``state``."""


@estimator_dataclass
class Predictor(Estimator):
    """Base class of every model of a target: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Task]
    method: ClassVar[FitMethod]
    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, bound=True, gpu=True)
    #: Rows of a fit at most; None for no limit.
    most_rows: ClassVar[int | None] = None

    device: Device = "auto"
    dtype: DtypeOrMixed = "float64"
    random_state: Seed = 0

    n_parameters_: int = fitted()
    _function: FittedFunction = fitted()
    #: Positions of the training rows among the rows given to ``fit``, [N].
    _rows_of_fit: NDArray[np.intp] = fitted()

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """The method's recommendations for a table of this size."""
        return cls.method.advise(size)

    # ---- fitting -------------------------------------------------------------------------------

    def _size(self, data: NDArray[Any], target: NDArray[Any]) -> TableSize:
        """The size of the table for the advice: of rows [N, H] and their target [N]."""
        n_classes = len(np.unique(target)) if self.task == "class" else 0
        return TableSize(
            n_rows=len(data),
            n_columns=data.shape[1],
            n_classes=n_classes,
            image_shape=propose_image_shape(self._column_names()),
        )

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
            y: the target of each row, [N]: finite numbers, or classes.
            callback: called with each FitStep; returning True stops the fit, and the model stays
                usable with the parameters fitted so far.
            held_out: columns and target of other rows, whose −log p(y | x) is in the history every
                20 steps; they affect neither the fit nor its stopping. With early stopping
                (``validation``) the history has the density of the validation rows instead; the
                history of a sampler has neither.

        Returns:
            The fitted model.

        Raises:
            ConfigError: a parameter is not allowed, or does not suit the size of the table.
            DataError: the columns or the target cannot be used; the message names row and column.
            NumericalError: the computation failed.
        """
        check_settings(type(self), self.get_params(deep=False))
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
        """``fit`` of a run, whose settings are checked: goes on from a checkpoint and writes it."""
        data = self._check_rows(X, reset=True)
        target = self._read_target(y, len(data))
        if self.most_rows is not None and len(data) > self.most_rows:
            sparse = "SVGPClassifier" if self.task == "class" else "SVGPRegressor"
            raise ConfigError(
                f"{type(self).__name__} cannot be fitted to {len(data):,} rows: its time grows at "
                f"least with the square of their number, and it takes at most {self.most_rows:,}. "
                f"Choose fewer rows, or a sparse model such as {sparse}."
            )
        choose_device(self, data.shape)
        choose_settings(self, self._size(data, target))
        generator = fit_generator(self, data, target=target, checkpoint=checkpoint)
        # Share of validation rows for early stopping; 0 for a model without the setting.
        share = float(getattr(self, "validation", 0.0))
        validation = _draw_validation_rows(target, share, generator, classes=self.task == "class")
        inputs_of_fit, target_of_fit = (
            (data[~validation], target[~validation]) if validation.any() else (data, target)
        )
        self._begin(inputs_of_fit)
        if share and not validation.any():
            self._note(
                f"validation={share} sets fewer than {FEWEST_VALIDATION_ROWS} of {len(data)} rows "
                "aside, too few to stop by: the fit stops by its bound."
            )
        self._measure_target(target_of_fit)
        inputs, tracked, validation_set = self._inputs(inputs_of_fit), None, None
        targets = self._encode_target(target_of_fit, inputs)
        if held_out is not None:
            others = self._check_rows(held_out[0], reset=False)
            tracked = self._tracked_rows(
                others, self._read_new_target(held_out[1], len(others)), stops=False
            )
        if validation.any():
            tracked = self._tracked_rows(
                data[validation], self._decode_target(target[validation]), stops=True
            )
            validation_set = (
                self._inputs(data[validation]),
                self._encode_target(target[validation], inputs),
            )
        self._rows_of_fit = np.flatnonzero(~validation)
        problem = SupervisedFitProblem(
            inputs,
            targets,
            generator,
            callback,
            target_of_fit,
            checkpoint,
            tracked,
            validation_set,
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

    def _tracked_rows(
        self, rows: NDArray[Any], y: NDArray[Any], *, stops: bool
    ) -> HeldOutRows | None:
        """Evenly spaced rows among those with a density, for tracking; None without any."""
        known = self._has_density(y)
        rows, y = (rows, y) if known.all() else (rows[known], y[known])
        if not len(rows):
            return None
        some = np.unique(np.linspace(0, len(rows) - 1, MOST_TRACKED_ROWS).astype(np.intp))
        return HeldOutRows(self._inputs(rows[some]), y[some], stops)

    # ---- hidden layers -------------------------------------------------------------------------

    def hidden(self, X: ArrayLike, layer: int = 1) -> FloatArray:
        """Means of the units of a hidden layer at rows, averaged over draws.

        Args:
            X: rows in the data's units, [n, H].
            layer: number of the hidden layer, from 1.

        Returns:
            Means of the units, [n, width].

        Raises:
            ConfigError: the layer does not exist.
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        layers = self._function.n_hidden_layers
        if layer not in range(1, layers + 1):
            raise ConfigError(
                f"layer={layer!r} cannot be used: this model has {layers or 'no'} hidden "
                f"layer{'' if layers == 1 else 's'}."
            )
        return self._compute_in_blocks(
            X, lambda rows: self._function.hidden_units(rows, int(layer))
        )

    @property
    def optional_columns_(self) -> tuple[str, ...]:
        """Columns of the fit whose cells may be missing in rows to predict."""
        return ()

    def notes_in_units(self, units: Mapping[str, str]) -> tuple[str, ...]:
        """The notes of the fit, with units where they give numbers in those of a column.

        Args:
            units: units in the plural, by column, such as months.
        """
        del units
        return self.notes_

    @property
    def n_hidden_layers_(self) -> int:
        """Number of hidden layers of the fitted model."""
        check_is_fitted(self)
        return self._function.n_hidden_layers

    def _compute_in_blocks(self, X: ArrayLike, compute: Callable[[Tensor], Tensor]) -> FloatArray:
        """The result of ``compute`` for all rows, in blocks along the first dimension."""
        return np.concatenate([to_numpy(compute(block)) for block in self._input_blocks(X)])

    def _input_blocks(self, X: ArrayLike) -> Iterator[Tensor]:
        """Blocks of rows, standardised and on the device."""
        for rows in row_blocks(self._check_rows(X, reset=False)):
            yield self._inputs(rows)

    # ---- densities -----------------------------------------------------------------------------

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """log p(y | x) of each row, nats, [n]; their mean is −NLPP.

        Numbers are in the target's units; a class that was not in the fit has −inf.

        Raises:
            DataError: the rows do not fit the model, or y has another length.
        """
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        given = self._read_new_target(y, len(data))
        parts, done = [], 0
        for some in row_blocks(data):
            rows = self._inputs(some)
            parts.append(self._log_density(rows, given[done : done + len(rows)]))
            done += len(rows)
        return np.concatenate(parts)

    # ---- hooks of a task -----------------------------------------------------------------------

    @abstractmethod
    def _read_new_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Targets of rows outside the fit, [n]."""

    def _has_density(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets with a positive density under the model, [n]."""
        return np.ones(len(y), dtype=bool)

    @abstractmethod
    def _decode_target(self, target: NDArray[Any]) -> NDArray[Any]:
        """Targets in the form of ``_read_new_target`` from the output of ``_read_target``, [n]."""

    @abstractmethod
    def _log_density(self, X: Tensor, y: NDArray[Any]) -> FloatArray:
        """log p(y | x) of standardised rows, [n]; y in the form of ``_read_new_target``."""

    @abstractmethod
    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        """The target as numbers or class codes, [N]; stores the classes."""

    def _measure_target(self, target: NDArray[Any]) -> None:
        """Store the moments of the training target."""

    @abstractmethod
    def _encode_target(self, target: NDArray[Any], like: Tensor) -> Tensor:
        """The target in the coding of the training, [n, P]."""

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


def _draw_validation_rows(
    target: NDArray[Any], share: float, generator: torch.Generator, *, classes: bool
) -> NDArray[np.bool_]:
    """Mask of randomly drawn validation rows, [N].

    One row of each class, or the rows of the extreme numbers, stay in the fit.
    """
    validation = np.zeros(len(target), dtype=bool)
    if not share:
        return validation
    order = torch.randperm(len(target), generator=generator).numpy()
    drawn = target[order]
    if classes:
        firsts = np.unique(drawn, return_index=True)[1]
    else:  # the target keeps two values in the fit, even if it is nearly constant
        firsts = np.unique([drawn.argmin(), drawn.argmax()])
    order = np.delete(order, firsts)
    count = min(round(share * len(target)), len(order))
    if count >= FEWEST_VALIDATION_ROWS:
        validation[order[:count]] = True
    return validation
