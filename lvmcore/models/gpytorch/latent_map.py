"""Latent variable models of gpytorch as ``BayesianGPLVM``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from lvmcore.errors import DataError, NumericalError, UnsupportedError
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.model import PathDecoder
from lvmcore.kernels.components import RBFComponent
from lvmcore.kernels.gpytorch_translation import translated_kernel
from lvmcore.kernels.stationary import RBF
from lvmcore.models.gpytorch.columns import ModelTable, begin, finish
from lvmcore.models.gpytorch.parts import (
    InducingVariables,
    constant_mean,
    inducing_variables,
    mean_and_kernel,
    noise_variance,
    predicted,
)
from lvmcore.models.gpytorch.untranslated import UntranslatedDecoder
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.numerics.conversion import to_numpy
from lvmcore.results import Posterior

__all__ = ["latent_map"]

#: Inducing inputs of all columns together, at most: second moments take their square for each.
MOST_INDUCING = 1000
COMPARED_ROWS = 50
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}


def latent_map(model: Any, likelihood: Any, table: ModelTable) -> BayesianGPLVM:
    """A ``gpytorch.models.gplvm.BayesianGPLVM`` as a map.

    Args:
        model: the model.
        likelihood: its likelihood.
        table: its rows.

    Raises:
        DataError: the rows are not those of the model.
    """
    embedding = _latent_rows(model)
    N, Q = embedding.mean.shape
    D = len(table.names)
    if len(table.cells) != N:
        raise DataError(f"The model has {N:,} latent rows, and X has {len(table.cells):,} rows.")
    X = torch.as_tensor(embedding.mean)
    shape = tuple(predicted(model, likelihood, X[:2])[0].shape)
    if shape != (D, min(2, N)):
        raise DataError(
            f"The model predicts an array of shape {shape} at {min(2, N)} latent points: expected "
            f"{(D, min(2, N))}, a batch of the {D} columns of X."
        )
    decoder: PathDecoder
    relevance, reason = np.ones(Q), ""
    try:
        translated, shift = _decoder(model, likelihood, D, Q)
        _check_same(translated, shift, model, likelihood, X)
        decoder, relevance = translated, to_numpy(translated.kernel.relevance)
    except (UnsupportedError, NumericalError) as error:
        decoder = cast(PathDecoder, UntranslatedDecoder(model, likelihood, str(error), D))
        shift, reason = np.zeros(D), str(error)
    found = BayesianGPLVM(n_components=Q)
    begin(found, table, table.standardiser(shift))
    found._decoder, found.embedding_ = decoder, embedding
    found.relevance_, found.restarts_ = {"data": relevance}, None
    Z = model.variational_strategy.inducing_points
    found.inducing_inputs_ = {"data": to_numpy(Z.detach().double().reshape(-1, Q))}
    finish(found, _note(model, reason))
    return found


def _note(model: Any, reason: str) -> str:
    found = f"This is the gpytorch model {type(model).__name__}, which was not fitted here."
    return f"{found} It cannot be saved: {reason}" if reason else found


def _latent_rows(model: Any) -> Posterior:
    """q(X), or points with variance 0.

    Raises:
        UnsupportedError: the latent variable is of another class.
    """
    from gpytorch.models import gplvm

    latent = model.X
    if isinstance(latent, gplvm.VariationalLatentVariable):
        mean = latent.q_mu.detach().double()
        sd = torch.nn.functional.softplus(latent.q_log_sigma.detach().double())
        return Posterior(to_numpy(mean), to_numpy(sd.square()))
    if isinstance(latent, gplvm.PointLatentVariable | gplvm.MAPLatentVariable):
        mean = latent.X.detach().double()
        return Posterior(to_numpy(mean), to_numpy(torch.zeros_like(mean)))
    raise UnsupportedError(
        f"The latent variable {type(latent).__name__} cannot be read: expected "
        "VariationalLatentVariable, MAPLatentVariable or PointLatentVariable."
    )


@torch.no_grad()
def _decoder(model: Any, likelihood: Any, D: int, Q: int) -> tuple[DataDecoder, Any]:
    """The path to the columns, and the constant mean of each, [D]."""
    mean, covariance = mean_and_kernel(model)
    names = [f"z{q + 1}" for q in range(Q)]
    made = translated_kernel(covariance, names, torch.ones(Q, dtype=torch.float64))
    terms = made.summands[0].factors
    component = getattr(terms[0], "component", None)
    if str(made.expression) != "rbf" or not isinstance(component, RBFComponent):
        raise UnsupportedError(
            f"The kernel of a map, {made.expression}, cannot be stored: expected an RBF kernel of "
            "all latent dimensions, with a variance (ScaleKernel)."
        )
    kernel = RBF(made.summands[0].variance, component.log_lengthscales.exp())
    given = inducing_variables(model)
    if given.mean.shape[:-1] != (D,) or given.Z.ndim > 3:
        raise UnsupportedError(f"Its q(u) is no batch of {D} columns.")
    noise = noise_variance(likelihood).expand(D) + given.added_variance
    centre = constant_mean(mean).expand(D)
    decoder = _path(kernel, given, noise, centre)
    return decoder, to_numpy(centre)


def _path(kernel: RBF, given: InducingVariables, noise: Tensor, centre: Tensor) -> DataDecoder:
    """The decoder of q(u); columns with inducing inputs of their own share the list of all."""
    Z, (D, M) = given.Z, given.mean.shape
    shared = Z.ndim == 2 or torch.equal(Z, Z[:1].expand_as(Z))
    each = (Z if Z.ndim == 2 else Z[0]).expand(D, M, -1) if shared else Z
    n_all = M if shared else D * M
    if n_all > MOST_INDUCING:
        raise UnsupportedError(
            f"Each of the {D} columns has {M} inducing inputs of its own, {n_all:,} together: "
            f"expected at most {MOST_INDUCING:,}. Give all columns the same, [M, Q]."
        )
    K = torch.stack([kernel(one, one) for one in each])
    L = given.whitening(K)
    m, S = given.of_whitened(L, centre[:, None])
    weights = torch.linalg.solve_triangular(L.mT, m[..., None], upper=True)[..., 0]
    # I − S = U diag(s) Uᵀ, T = L⁻ᵀU
    shrinkage, vectors = torch.linalg.eigh(torch.eye(M).to(S) - 0.5 * (S + S.mT))
    basis = torch.linalg.solve_triangular(L.mT, vectors, upper=True)
    W, T = weights.T, basis
    if not shared:
        W, T = weights.new_zeros(n_all, D), weights.new_zeros(D, n_all, M)
        for d in range(D):
            own = slice(d * M, (d + 1) * M)
            W[own, d], T[d, own] = weights[d], basis[d]
    return DataDecoder(
        kernel=kernel,
        Z=each[0] if shared else Z.reshape(n_all, -1),
        basis=T,
        weights=W,
        shrinkage=shrinkage.T,
        noise=noise.clone(),
        groups=torch.arange(D),
    )


def _check_same(decoder: DataDecoder, shift: Any, model: Any, likelihood: Any, X: Tensor) -> None:
    """Compare the translation with gpytorch's own predictions at latent means.

    Raises:
        UnsupportedError: they differ.
    """
    X = X[:: max(1, len(X) // COMPARED_ROWS)]
    expected, variance = (part.mT for part in predicted(model, likelihood, X))
    found, spread, _ = decoder.decode(X)
    sd = variance.sqrt()
    off = (found + torch.as_tensor(shift) - expected).abs() / sd
    worst = torch.maximum(off, (spread.sqrt() / sd - 1).abs())
    if float(worst.max()) > TOLERANCE.get(next(model.parameters()).dtype, 1e-2):
        raise UnsupportedError(
            "It predicts other values than its mean_module, covar_module and likelihood together: "
            "its forward computes something else, which cannot be stored."
        )
