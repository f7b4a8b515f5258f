"""Models that were trained with gpytorch as models of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from lvmcore.errors import ConfigError, DataError
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.models.gpytorch.columns import ModelTable
from lvmcore.models.gpytorch.latent_map import latent_map
from lvmcore.models.gpytorch.regression import regressor
from lvmcore.preprocessing.target_column import NumberTarget, numeric_target

if TYPE_CHECKING:
    from lvmcore.models import AnyModel

__all__ = ["from_gpytorch"]


def from_gpytorch(
    model: Any,
    likelihood: Any = None,
    *,
    X: Any = None,
    y: Any = None,
    columns: Sequence[str] | None = None,
    means: ArrayLike | None = None,
    scales: ArrayLike | None = None,
    target_mean: float = 0.0,
    target_scale: float = 1.0,
) -> AnyModel:
    """A model that was trained with gpytorch as a model of this package.

    The table and the target are in the units that the model was trained in. Where these are not
    the data's, ``means`` and ``scales`` say how they follow: cell = (data − mean)/scale. The result
    takes and returns the data's units.

    A model is translated, and can then be saved (``save``, ``lvmcore.add_fitted``), where it is
    made of these parts, in the attributes ``mean_module`` and ``covar_module``, and its ``forward``
    combines them and nothing else:

    - kernels: RBF, Matérn, linear, constant, periodic, cosine, rational quadratic, polynomial,
      piecewise polynomial and spectral mixture, with ``ScaleKernel``, sums, products and
      ``active_dims``; of a map an RBF kernel of all dimensions with a variance;
    - means: ``ZeroMean`` and ``ConstantMean``;
    - likelihood: ``GaussianLikelihood``, of a map with one variance or one a column;
    - of an approximate model and a map ``VariationalStrategy`` or
      ``UnwhitenedVariationalStrategy`` with Cholesky, mean-field, delta or natural q(u). Inducing
      inputs of a map are shared by the columns, or at most 1000 of all columns together.

    The translation is compared with gpytorch's predictions of some rows. Any other model predicts
    as it is, in memory; ``save`` then says which part cannot be stored. In double precision the
    means and standard deviations are those of gpytorch with exact linear algebra to about 1e-6.
    gpytorch adds the jitter of a whitened strategy to the variance of f; here it is part of the
    noise.

    Args:
        model: an ``ExactGP``, an ``ApproximateGP`` or a ``models.gplvm.BayesianGPLVM``.
        likelihood: its likelihood; None for that of an ``ExactGP``.
        X: the rows that it was trained on, in its units, [N, D]; None for those of an ``ExactGP``.
            For a map the table whose columns it decodes.
        y: the target of each row, in its units, [N]; None for that of an ``ExactGP``. Not of a map.
        columns: names of the columns; None for those of a table, else x1, x2, ….
        means: of the columns, [D]; None for 0.
        scales: of the columns, [D]; None for 1.
        target_mean: of the target.
        target_scale: of the target.

    Returns:
        ``GPRegressor`` for an ``ExactGP``, ``SVGPRegressor`` for an ``ApproximateGP``, and
        ``BayesianGPLVM`` for a map; fitted, with a note that it was not fitted here.

    Raises:
        ConfigError: the model is none of these, or an argument does not suit it.
        DataError: the rows are not those of the model.
        UnsupportedError: its latent variable cannot be read.
    """
    gpytorch_kernels()  # whose import gives a warning that is to be ignored
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.models import ApproximateGP, ExactGP
    from gpytorch.models.gplvm import BayesianGPLVM

    if not isinstance(model, ExactGP | ApproximateGP):
        raise ConfigError(
            f"{type(model).__name__} cannot be converted: expected an ExactGP, an ApproximateGP or "
            "a gplvm.BayesianGPLVM of gpytorch."
        )
    exact, is_map = isinstance(model, ExactGP), isinstance(model, BayesianGPLVM)
    if likelihood is None:
        likelihood = getattr(model, "likelihood", None)
    if likelihood is None:
        raise ConfigError("Give the likelihood that the model was trained with.")
    if not isinstance(likelihood, GaussianLikelihood):
        raise ConfigError(
            f"The likelihood {type(likelihood).__name__} cannot be converted: expected a "
            "GaussianLikelihood, with one noise variance for all rows."
        )
    if exact:
        X, y = _rows_of(model, X, y)
    if X is None or (y is None) != is_map:
        wanted = "the table X that it decodes, and no y" if is_map else "its rows X and targets y"
        raise ConfigError(f"{type(model).__name__} needs {wanted}.")
    table = ModelTable.of(X, columns, means, scales)
    if is_map:
        return latent_map(model, likelihood, table)
    if not (np.isfinite(target_mean) and np.isfinite(target_scale) and target_scale > 0):
        raise ConfigError("target_mean has to be finite, and target_scale finite and positive.")
    target = NumberTarget(float(target_mean), float(target_scale))
    given = y.detach().cpu().numpy() if hasattr(y, "detach") else y
    values = torch.tensor(numeric_target(given, len(table.cells)))
    return regressor(model, likelihood, table, values, target, exact=exact)


def _rows_of(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """The rows and targets of an ``ExactGP``; a table X only gives the names of its columns.

    Raises:
        ConfigError: it has none, or several inputs.
        DataError: the rows that were given are others.
    """
    if not model.train_inputs or len(model.train_inputs) > 1 or model.train_targets is None:
        raise ConfigError("The model has no training rows of one input: train it first.")
    own, targets = model.train_inputs[0].detach().cpu(), model.train_targets.detach().cpu()
    if own.ndim != 2:
        raise ConfigError(f"Its training rows have the shape {tuple(own.shape)}: expected [N, D].")
    for given, kept, name in ((X, own, "X"), (y, targets, "y")):
        if given is None:
            continue
        cells = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        cells = cells.astype(np.float64).reshape(len(cells), -1)
        if cells.size != kept.numel() or not np.allclose(
            cells, kept.double().numpy().reshape(len(kept), -1), rtol=1e-5, atol=1e-6
        ):
            raise DataError(f"{name} does not hold the training rows of the model, in its units.")
    return own.double().numpy() if X is None else X, targets
