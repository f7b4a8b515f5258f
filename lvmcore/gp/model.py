"""Base class of Gaussian process latent variable models: inference, decoding and storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import FitProblem, LatentVariableModel
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.errors import ConfigError, NumericalError
from lvmcore.gp.columns.decoder import ColumnDecoder
from lvmcore.gp.columns.fit import (
    BATCH_ROWS,
    ColumnFit,
    PathMaker,
    fit_columns,
    varying_terms,
)
from lvmcore.gp.columns.likelihood_decoder import LikelihoodDecoder
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.imputation_intervals import ImputationDecoder, fill_rows
from lvmcore.gp.latent_inference import infer_rows
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.starts.restarts import RestartResult, restart_state, restarts_from_state
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.likelihoods.catalogue import (
    GAUSSIAN,
    ColumnTerm,
    check_cells,
    read_likelihoods,
    write_likelihoods,
)
from lvmcore.likelihoods.proposals import column_terms
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import is_array
from lvmcore.preprocessing.class_labels import label_column_names
from lvmcore.relevance import relevance_shares, total_effects
from lvmcore.results import Posterior
from lvmcore.training.outcome import FitOutcome

START_VARIANCE = 0.1
START_NOISE = 0.1

__all__ = [
    "START_NOISE",
    "START_VARIANCE",
    "GPLatentVariableModel",
    "PathDecoder",
    "chosen_kernel",
    "fit_likelihoods",
    "restore_columns",
    "start_noise",
]


class PathDecoder(ImputationDecoder, Protocol):
    """A fitted data path: predictions of the columns at latent points."""

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Ratio of posterior to prior variance at points X [N, Q], [N]."""

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y_n | x_sn) of the cells that are not NaN, at points X [S, N, Q], [S, N]."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name, for a file."""

    @property
    def noise(self) -> Tensor:
        """σ_d², [D]."""

    def metric(self, X: Tensor) -> Tensor:
        """Σ_d E[∂f_d ∂f_dᵀ] at points X [N, Q], [N, Q, Q]."""


@estimator_dataclass
class GPLatentVariableModel(LatentVariableModel):
    """Base of the models whose data path is a set of Gaussian processes."""

    restarts_: RestartResult | None = fitted()

    #: The likelihood of each column, as text; "gaussian" where all are Gaussian.
    column_likelihood_: str = fitted(default=GAUSSIAN)

    _decoder: PathDecoder = fitted()
    #: A likelihood for each column of the table; None where all are Gaussian.
    _column_terms: tuple[ColumnTerm, ...] | None = fitted(default=None)
    _interval_scale: Tensor | None = fitted(default=None)
    #: The map for which the shares were computed, and the shares.
    _shares: tuple[Posterior, dict[str, FloatArray]] | None = fitted(default=None)

    @property
    def interval_scale_(self) -> NDArray[np.float64]:
        """Factor of the sd of imputed cells of the columns that vary, from held-out cells, [D].

        1 where the fit had no missing cells.
        """
        if self._interval_scale is None:
            return np.ones(int((~self._standardiser.constant).sum()))
        return to_numpy(self._interval_scale)

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """σ_d² of the columns that vary, standardised units, [D]."""
        return to_numpy(self._decoder.noise)

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        """The number of dimensions of a given start, unless ``n_components`` is set."""
        start: Any = getattr(self, "start", None)
        if self.n_components is None and is_array(start) and np.ndim(start) == 2:
            return int(np.shape(start)[1])
        return super()._decide_components(shape)

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Validated rows, whose cells suit the likelihoods of their columns, [N, D]."""
        data = super()._check_rows(X, reset=reset)
        if reset:
            text = getattr(self, "column_likelihood", GAUSSIAN)
            self._column_terms = column_terms(text, data, self._column_names())
            terms = self._column_terms
            self.column_likelihood_ = GAUSSIAN if terms is None else write_likelihoods(terms)
        if self._column_terms is not None:
            check_cells(self._column_terms, data, self._column_names())
        return data

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows drawn at latent points [n, Q], data units, [n, D]; from the columns' likelihoods."""
        if not isinstance(self._decoder, LikelihoodDecoder):
            return super()._sample_rows(latent, rng)
        measured = self._standardiser
        rows = np.tile(measured.mean, (len(latent), 1))
        rows[:, ~measured.constant] = self._decoder.draw(self._to_tensor(latent).double(), rng)
        return rows

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances of the rows at which inference starts, [N, Q] each."""
        found = self.embedding_
        return self._cast(self._to_tensor(found.mean)), self._cast(self._to_tensor(found.variance))

    def _cast(self, tensor: Tensor) -> Tensor:
        """A tensor in double, for inference: in single the optima would be lost in rounding."""
        return tensor.double()

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return infer_rows(self._decoder, self._cast(Y), *self._fitted_rows())

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            return self._decoder.decode(self._cast(X))

    def _metric(self, X: Tensor) -> Tensor:
        return self._decoder.metric(self._cast(X))

    def variance_shares(self) -> dict[str, FloatArray]:
        """Share of each dimension in the variance that a path carries, by path, each [Q].

        Of the total effects (``lvmcore.relevance.total_effects``) on the mean of the columns, in
        units of their sd, and on the class probabilities.
        """
        check_is_fitted(self)
        if self._shares is None or self._shares[0] is not self.embedding_:
            mean = self.embedding_.mean
            effects = {name: total_effects(f, mean) for name, f in _path_functions(self).items()}
            self._shares = self.embedding_, relevance_shares(effects)
        return dict(self._shares[1])

    def _prior_variance_share(self, X: Tensor) -> Tensor:
        return self._decoder.prior_variance_share(self._cast(X))

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of y = f(x) + ε, the sd widened by ``interval_scale_``."""
        with torch.no_grad():
            found = fill_rows(self._decoder, self._cast(Y), *self._fitted_rows())
            mean, variance, noise = found
            if self._interval_scale is not None:
                variance = variance * self._interval_scale.square()
            return mean, variance, noise

    def _calibrate(
        self, problem: FitProblem, outcome: FitOutcome, measure: Callable[[torch.Generator], Tensor]
    ) -> None:
        """Calibrate the intervals of imputed cells, where the fit had missing cells.

        Args:
            problem: the problem that was fitted.
            outcome: outcome of the fit.
            measure: computes ``interval_scale`` from cells held out at random.
        """
        self._interval_scale = None
        if problem.table.complete:
            return
        if outcome.stopped:
            self._note(
                "The fit was stopped before the intervals of filled cells could be checked: they "
                "may be too narrow."
            )
            return
        try:
            generator = torch.Generator().manual_seed(problem.generator.initial_seed())
            self._interval_scale = measure(generator)
        except NumericalError as error:
            self._note(f"The intervals of filled cells could not be checked. {error}")

    def _log_density(self, Y: Tensor) -> Tensor:
        Y = self._cast(Y)
        mean, variance = self._posterior(Y)
        with torch.no_grad():
            return log_marginal(self._decoder.log_density, Y, mean, variance)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = self._decoder.arrays()
        if self._interval_scale is not None:
            arrays["intervals.scale"] = to_numpy(self._interval_scale)
        found, facts = restart_state(getattr(self, "restarts_", None))
        if self._column_terms is not None:
            facts = facts | {"column_likelihood": self.column_likelihood_}
        return arrays | found, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        restore_columns(self, facts)
        self._restore_data(arrays, self._cast(self._to_tensor(np.zeros(1))))
        self.restarts_ = restarts_from_state(arrays, facts)

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> PathDecoder:
        """The data path from the arrays of a file, in the dtype and on the device of ``like``."""
        if self._column_terms is not None:
            varying = varying_terms(self._column_terms, self._standardiser)
            return ColumnDecoder.from_arrays(write_likelihoods(varying), arrays, like.double())
        return DataDecoder.from_arrays(arrays, like)

    def _restore_data(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> None:
        """Restore the data path, in the dtype and on the device of ``like``."""
        self._decoder = self._read_decoder(arrays, like)
        scale = arrays.get("intervals.scale")
        self._interval_scale = None if scale is None else torch.as_tensor(scale.copy()).to(like)


def fit_likelihoods(
    model: GPLatentVariableModel,
    problem: FitProblem,
    terms: tuple[ColumnTerm, ...],
    *,
    labels: LabelSettings | None = None,
    n_hidden: int | None = None,
    batch_size: int = BATCH_ROWS,
    path: PathMaker | None = None,
    X: Tensor | None = None,
    local: bool = False,
) -> ColumnFit:
    """Fit a model with a likelihood for each column; store the map and the path to the columns.

    Args:
        model: the model.
        problem: the problem to fit.
        terms: the likelihoods, one a column of the table.
        labels: settings of the label terms; None without labels.
        n_hidden: hidden units of the encoder; None for a q(x) of its own for each row.
        batch_size: rows in a batch.
        path: makes the path to the columns; by default with inducing inputs.
        X: initial map, [N, Q]; by default that of the model's settings.
        local: without an encoder, whether a step updates the parameters of its batch's rows alone.
    """
    fit = fit_columns(
        model,
        problem,
        varying_terms(terms, model._standardiser),
        labels=labels,
        n_hidden=n_hidden,
        batch_size=batch_size,
        path=path,
        X=X,
        local=local,
    )
    model._decoder, model.embedding_ = fit.decoder, fit.embedding
    model.relevance_ = {"data": to_numpy(fit.objective.path.relevance)}
    inducing = fit.objective.path.inducing_inputs
    model.inducing_inputs_ = {name: to_numpy(Z) for name, Z in inducing.items()}
    model._interval_scale = None
    return fit


def chosen_kernel(model: GPLatentVariableModel, problem: FitProblem) -> KernelExpression | None:
    """The expression of the setting ``kernel`` of a fit; None for the RBF kernel.

    Raises:
        ConfigError: it names a dimension that the map has not, or the columns have likelihoods of
            their own.
    """
    text: str = model.settings_.get("kernel", "rbf")  # not every model has the setting
    expression = map_kernel(text, problem.n_components)
    if expression is not None and model._column_terms is not None:
        raise ConfigError(
            f"kernel={text!r} needs Gaussian columns, but column_likelihood gives the columns "
            "likelihoods of their own, whose functions have an RBF and a linear kernel. Set "
            "kernel='rbf' or column_likelihood='gaussian'."
        )
    return expression


def restore_columns(model: GPLatentVariableModel, facts: Mapping[str, Any]) -> None:
    """Restore the likelihoods of the columns, which earlier versions did not have."""
    model.column_likelihood_ = str(facts.get("column_likelihood", GAUSSIAN))
    model._column_terms = None
    if "column_likelihood" in facts:
        model._column_terms = read_likelihoods(model.column_likelihood_)


def _path_functions(
    model: GPLatentVariableModel,
) -> dict[str, Callable[[FloatArray], FloatArray]]:
    """The mean of the columns [n, D], and class probabilities [n, C], at points [n, Q], by path."""

    def columns(X: FloatArray) -> FloatArray:
        return to_numpy(model._decode(model._to_tensor(X))[0])

    def probabilities(label: int) -> Callable[[FloatArray], FloatArray]:
        return lambda X: to_numpy(model._decode_labels(model._to_tensor(X), label)[0])

    names = label_column_names("labels", model._labels)
    return {"data": columns, **{name: probabilities(i) for i, name in enumerate(names)}}


def start_noise(problem: FitProblem, noise: str) -> Tensor:
    """Initial σ²: one for all columns, [1], or one for each column, [D]."""
    columns = problem.table.n_columns if noise == "column" else 1
    return problem.table.like.new_full((columns,), START_NOISE)
