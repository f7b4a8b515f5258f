"""Regression models of gpytorch as ``GPRegressor`` and ``SVGPRegressor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lvmcore.base.predictor import FittedFunction
from lvmcore.errors import DataError, NumericalError, UnsupportedError
from lvmcore.gp.exact.fitted_gp import FittedExactGP
from lvmcore.gp.exact_method import CHOLESKY_ROWS
from lvmcore.gp.exact_regression import ExactGP, ExactRows, MarginalLikelihood
from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.gp.sparse.given_posterior import GivenSparseGP
from lvmcore.kernels.gpytorch_translation import translated_kernel
from lvmcore.models.gpytorch.columns import ModelTable, begin, finish
from lvmcore.models.gpytorch.parts import (
    constant_mean,
    inducing_variables,
    mean_and_kernel,
    noise_variance,
    predicted,
)
from lvmcore.models.gpytorch.untranslated import UntranslatedFunction
from lvmcore.models.supervised.gp import GPRegressor
from lvmcore.models.supervised.svgp import SVGPRegressor
from lvmcore.preprocessing.target_column import NumberTarget

if TYPE_CHECKING:
    from lvmcore.base.regressor_classifier import Regressor

__all__ = ["regressor"]

#: Rows on which a translation is compared with gpytorch, and the largest difference in units of
#: gpytorch's standard deviation, by its precision.
COMPARED_ROWS = 100
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}


def regressor(
    model: Any, likelihood: Any, table: ModelTable, y: Tensor, target: NumberTarget, *, exact: bool
) -> Regressor:
    """A regression model of gpytorch as a predictor.

    Args:
        model: an ``ExactGP`` or ``ApproximateGP``.
        likelihood: its likelihood.
        table: its rows.
        y: their targets in the model's units, [N].
        target: mean and scale of the target, which give its own units.
        exact: whether the model is an ``ExactGP``.

    Raises:
        DataError: the model predicts several values a row, or a cell is missing.
    """
    X = torch.as_tensor(table.cells)
    shape = tuple(predicted(model, likelihood, X[:2])[0].shape)
    if shape != (min(2, len(X)),):
        raise DataError(
            f"The model predicts an array of shape {shape} for {min(2, len(X))} rows: expected one "
            "number a row, so neither a batch nor several tasks."
        )
    objective, mean, reason = float("nan"), 0.0, ""
    function: FittedFunction
    try:
        made = _exact if exact else _sparse
        function, mean, objective = made(model, likelihood, table, y)
        _check_same(function, mean, model, likelihood, X)
    except (UnsupportedError, NumericalError) as error:
        function, reason = UntranslatedFunction(model, likelihood, str(error)), str(error)
        mean, objective = 0.0, float("nan")
    found = _estimator(function, exact=exact)
    begin(found, table, table.standardiser())
    found._target = NumberTarget(target.mean + target.scale * mean, target.scale)
    found._function, found._rows_of_fit = function, np.arange(len(X))
    found.relevance_, found.n_parameters_ = function.relevance, function.n_parameters
    finish(found, _note(model, reason), objective)
    return found


def _estimator(function: FittedFunction, *, exact: bool) -> Regressor:
    made = (
        GPRegressor(target_transform="none", parameter_uncertainty=False)
        if exact
        else SVGPRegressor()
    )
    kernel = getattr(getattr(function, "gp", function), "kernel", None)
    return made if kernel is None else made.set_params(kernel=str(kernel.expression))


def _note(model: Any, reason: str) -> str:
    found = f"This is the gpytorch model {type(model).__name__}, which was not fitted here."
    return f"{found} It cannot be saved: {reason}" if reason else found


def _exact(
    model: Any, likelihood: Any, table: ModelTable, y: Tensor
) -> tuple[FittedExactGP, float, float]:
    """The process, its constant mean, and log p(y | X)."""
    if len(y) > CHOLESKY_ROWS:
        raise UnsupportedError(
            f"It has {len(y):,} rows, and can be translated with at most {CHOLESKY_ROWS:,}."
        )
    kernel, mean, noise = _parts(model, likelihood, table)
    X = torch.as_tensor(table.cells)
    gp = ExactGP(kernel, X)
    gp.log_noise.data.fill_(np.log(noise - NOISE_FLOOR))
    function = FittedExactGP(gp, ExactRows(X, (y - mean)[:, None]))
    with torch.no_grad():
        terms = MarginalLikelihood(gp, X, function.Y).terms()
    return function, mean, float(sum(terms.values()))


def _sparse(
    model: Any, likelihood: Any, table: ModelTable, y: Tensor
) -> tuple[GivenSparseGP, float, float]:
    """The process and its constant mean; its bound is not known."""
    del y
    kernel, mean, noise = _parts(model, likelihood, table)
    given = inducing_variables(model)
    if given.Z.ndim != 2 or given.mean.ndim != 1:
        raise UnsupportedError("Its inducing inputs are a batch: expected one function.")
    with torch.no_grad():
        L = given.whitening(kernel.forward(given.Z, given.Z))
        m, S = given.of_whitened(L, torch.tensor([mean], dtype=torch.float64))
        values, vectors = torch.linalg.eigh(0.5 * (S + S.mT))
        root = vectors * values.clamp_min(0).sqrt()
    sigma = noise + given.added_variance
    return GivenSparseGP(kernel, given.Z, L, m, root, sigma), mean, float("nan")


def _parts(model: Any, likelihood: Any, table: ModelTable) -> tuple[Any, float, float]:
    """Kernel, constant mean and noise variance."""
    mean, kernel = mean_and_kernel(model)
    noise, constant = noise_variance(likelihood), constant_mean(mean)
    if noise.ndim or constant.ndim:
        raise UnsupportedError("Its mean or noise is a batch: expected one number.")
    if float(noise) <= NOISE_FLOOR:
        raise UnsupportedError(
            f"The noise variance is {float(noise):g}: expected more than {NOISE_FLOOR:g}."
        )
    found = translated_kernel(kernel, table.names, torch.as_tensor(table.scales))
    return found, float(constant), float(noise)


def _check_same(
    function: FittedFunction, mean: float, model: Any, likelihood: Any, X: Tensor
) -> None:
    """Compare the translation with gpytorch's own predictions, of evenly spaced rows.

    Raises:
        UnsupportedError: they differ.
    """
    X = X[:: max(1, len(X) // COMPARED_ROWS)]
    expected, variance = predicted(model, likelihood, X)
    found, spread = (part[:, 0] for part in function.normals(X))
    sd = variance.sqrt()
    worst = torch.maximum((found + mean - expected).abs() / sd, (spread.sqrt() / sd - 1).abs())
    if float(worst.max()) > TOLERANCE.get(next(model.parameters()).dtype, 1e-2):
        raise UnsupportedError(
            "It predicts other values than its mean_module, covar_module and likelihood together: "
            "its forward computes something else, which cannot be stored."
        )
