"""Fitted models as gpytorch: source, weights, and the columns with their scalings."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmcore.data.new_tables.column_matching import feature_sources
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise
from lvmcore.errors import UnsupportedError
from lvmcore.export.gpytorch.module_source import (
    exact_source,
    noise_weights,
    sparse_source,
    weights_of,
)
from lvmcore.gp.conjugate_gradients.posterior import BlockPosterior
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.exact.fitted_gp import FittedExactGP
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.gp.sparse.given_posterior import GivenSparseGP
from lvmcore.kernels.expression_kernel import ExpressionKernel, MapKernel
from lvmcore.kernels.gpytorch_source import GPyTorchKernel, composite_source, stationary_source
from lvmcore.numerics.linalg import cholesky

if TYPE_CHECKING:
    from lvmcore.models import AnyModel

__all__ = ["GPyTorchModel", "exported_model"]

_SPARSE_PREFIX = "variational_strategy"


@dataclass(frozen=True)
class GPyTorchModel:
    """A fitted model as a model of gpytorch.

    Attributes:
        source: the Python module, which names gpytorch and torch alone.
        weights: the tensors that its ``load`` takes, by name; float64.
        facts: columns, scalings and levels, for the script; JSON-serialisable.
    """

    source: str
    weights: Mapping[str, Tensor]
    facts: Mapping[str, Any]


@torch.no_grad()
def exported_model(
    model: AnyModel,
    *,
    target: str = "",
    columns: Collection[str] = (),
    codes: Mapping[str, tuple[str, str]] | None = None,
    date_scales: Mapping[str, tuple[str, str]] | None = None,
) -> GPyTorchModel:
    """A fitted model as gpytorch, with the same mean and variance at every point.

    An exact Gaussian process keeps its rows. A sparse one, and the path from the latent space to
    the columns of a map, has q(u) = N(m, S) of whitened inducing values: with LLᵀ = K(Z) + jitter,
    E f(x) = k(x, Z) L⁻ᵀ m and Var f(x) = k(x, x) − k(x, Z) L⁻ᵀ (I − S) L⁻¹ k(Z, x).

    Args:
        model: fitted.
        target: name of the target.
        columns: names of the columns of the table of the fit, if known.
        codes: words that were encoded as 0 and 1, by column.
        date_scales: unit and origin of the columns of dates, by column.

    Raises:
        UnsupportedError: gpytorch has no such model; the message says what to use instead.
    """
    if isinstance(model, GPLatentVariableModel) and isinstance(model._decoder, DataDecoder):
        return _map_model(model, model._decoder)
    function = getattr(model, "_function", None)
    if isinstance(function, FittedExactGP):
        if function.rows.known is not None:
            raise UnsupportedError(
                f"{model.title} with a column of known noise cannot be exported to gpytorch. Use "
                "its model file in Python with lvmcore.load, or lvmcore predict."
            )
        if isinstance(function.posterior, BlockPosterior):
            raise UnsupportedError(
                f"{model.title} on {len(function.X):,} rows cannot be exported to gpytorch, which "
                "would factorise their covariance matrix. Use its model file in Python with "
                "lvmcore.load, or lvmcore predict."
            )
        found = _exact_model(function)
    elif isinstance(function, GivenSparseGP):
        found = _given_model(function)
    elif isinstance(function, FittedDeepGP) and _is_sparse(function):
        found = _sparse_model(function)
    else:
        raise UnsupportedError(
            f"{model.title} cannot be exported to gpytorch: only GPRegressor and SVGPRegressor, "
            "and BayesianGPLVM, StochasticGPLVM, LDGD and FastLDGD with Gaussian columns, can. Use "
            "its model file in Python with lvmcore.load, or lvmcore predict and transform."
        )
    facts = _target_facts(model, target, columns, codes or {})
    for column in facts["columns"]:
        plain = column["kind"] == "plain"
        column["dates"] = list((date_scales or {}).get(column["column"], ())) if plain else []
    return GPyTorchModel(*found, facts)


def _is_sparse(function: FittedDeepGP[Any]) -> bool:
    """Whether it is a single Gaussian process with Gaussian noise."""
    gp, likelihood = function.gp, function.gp.last.likelihood
    gaussian = isinstance(likelihood, GaussianNoise) and not isinstance(
        likelihood, QExponentialNoise
    )
    return isinstance(gp, InducedDeepGP) and not gp.sampled and gaussian


def _exact_model(function: FittedExactGP) -> tuple[str, dict[str, Tensor]]:
    kernel = composite_source(function.gp.kernel)
    rows = {"rows.X": function.X, "rows.y": function.Y[:, 0]}
    weights = {
        **{name: _stored(part) for name, part in rows.items()},
        **_parameter_weights(function.gp),
    }
    if function.integrated is not None:
        others = function.integrated.others
        for k, (_, other) in enumerate(others):
            weights |= {f"draws.{k}.{name}": w for name, w in _parameter_weights(other.gp).items()}
        weights["draws.weights"] = torch.tensor([w for w, _ in others], dtype=torch.float64)
    return exact_source(kernel), weights


def _parameter_weights(gp: ExactGP) -> dict[str, Tensor]:
    """The parameters of the kernel and the noise."""
    return {
        **noise_weights(gp.noise),
        **weights_of(composite_source(gp.kernel).module, "covar_module"),
    }


def _sparse_model(function: FittedDeepGP[Any]) -> tuple[str, dict[str, Tensor]]:
    last, layer = function.gp.last, function.kept.draw.last
    q, Z = function.kept.posterior, function.kept.draw.inputs[-1]
    if last.composite is not None:
        kernel = composite_source(last.composite)
        K = last.composite.forward(Z, Z)
    else:
        kernel = stationary_source(last.kernel, last.variance, last.log_lengthscales.exp())
        K = layer.cross(Z)
    jitter = float((layer.C @ layer.C.mT - K).diagonal().mean())
    covariance = (q.root.mT @ q.root).reshape(len(Z), len(Z))  # V = RᵀR
    weights = {
        **_inducing_weights(Z, q.mean.reshape(-1), covariance),
        **noise_weights(last.likelihood.noise),
        **weights_of(kernel.module, "covar_module"),
    }
    return sparse_source(kernel, jitter), weights


def _given_model(function: GivenSparseGP) -> tuple[str, dict[str, Tensor]]:
    kernel, Z, L = composite_source(function.kernel), function.Z, function.factor
    jitter = float((L @ L.mT - function.kernel.forward(Z, Z)).diagonal().mean())
    weights = {
        **_inducing_weights(Z, function.mean, function.root @ function.root.mT),
        **noise_weights(Z.new_tensor(function.noise)),
        **weights_of(kernel.module, "covar_module"),
    }
    return sparse_source(kernel, jitter), weights


def _map_model(model: GPLatentVariableModel, decoder: DataDecoder) -> GPyTorchModel:
    """The path from the latent space to the columns, with the latent positions of the rows."""
    kernel = _map_kernel(decoder.kernel)
    Z, D = decoder.Z.double(), decoder.weights.shape[1]
    K = decoder.kernel(Z, Z)
    L, _ = cholesky(K, "The kernel matrix of the inducing inputs")
    basis = decoder.basis.double()
    half = L.mT @ (basis if decoder.groups is None else basis[decoder.groups])
    removed = (half * decoder.shrinkage.double().T[:, None, :]) @ half.mT  # I − S_d
    covariance = torch.eye(len(Z), dtype=torch.float64).to(Z) - removed
    embedding = model.embedding_
    weights = {
        **_inducing_weights(Z, (L.mT @ decoder.weights.double()).mT, covariance),
        **noise_weights(decoder.noise),
        **weights_of(kernel.module, "covar_module"),
        "rows.mean": torch.as_tensor(embedding.mean).double().clone(),
        "rows.variance": torch.as_tensor(embedding.variance).double().clone(),
    }
    jitter = float((L @ L.mT - K).diagonal().mean())
    measured = model._standardiser
    facts = {
        "task": "map",
        "model": model.title,
        "dimensions": int(embedding.mean.shape[1]),
        "jitter": jitter,
        "columns": [
            {"name": name, "mean": mean, "scale": scale, "constant": constant}
            for name, mean, scale, constant in zip(
                measured.names,
                measured.mean.tolist(),
                measured.scale.tolist(),
                measured.constant.tolist(),
                strict=True,
            )
        ],
    }
    return GPyTorchModel(sparse_source(kernel, jitter, D), weights, facts)


def _map_kernel(kernel: MapKernel) -> GPyTorchKernel:
    """The kernel of a map."""
    if not isinstance(kernel, ExpressionKernel):
        return stationary_source("rbf", kernel.variance.double(), kernel.lengthscales.double())
    composite = copy.deepcopy(kernel.composite)
    for summand in composite.summands:
        summand.log_variance.data += kernel.factor.log()
    return composite_source(composite)


def _inducing_weights(Z: Tensor, mean: Tensor, covariance: Tensor) -> dict[str, Tensor]:
    """Weights of the inducing inputs and of q(u), of one function or a batch of them."""
    q = f"{_SPARSE_PREFIX}._variational_distribution"
    weights = {
        f"{_SPARSE_PREFIX}.inducing_points": Z,
        f"{q}.variational_mean": mean,
        f"{q}.chol_variational_covar": _lower_root(covariance),
    }
    flags = {
        "variational_params_initialized": torch.tensor(1),
        "updated_strategy": torch.tensor(True),
    }
    return {
        **{
            name: part.detach().cpu().double().contiguous().clone()
            for name, part in weights.items()
        },
        **{f"{_SPARSE_PREFIX}.{name}": flag for name, flag in flags.items()},
    }


def _stored(tensor: Tensor) -> Tensor:
    """A copy in memory of its own, float64."""
    return tensor.detach().cpu().double().clone(memory_format=torch.contiguous_format)


def _lower_root(covariance: Tensor) -> Tensor:
    """Lower triangular R, R Rᵀ = S, of matrices that are singular up to rounding, [..., M, M]."""
    values, vectors = torch.linalg.eigh(0.5 * (covariance + covariance.mT).double())
    root = vectors * values.clamp_min(0).sqrt()[..., None, :]
    found: Tensor = torch.linalg.qr(root.mT)[1].mT
    return found


def _target_facts(
    model: Any,
    target: str,
    known: Collection[str],
    codes: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    """The columns that vary, with their transforms and scalings, and the target's."""
    measured, moment = model._standardiser, model._target
    sources = feature_sources(measured.names, known, known)
    moments = zip(
        measured.names,
        sources,
        measured.mean.tolist(),
        measured.scale.tolist(),
        measured.constant.tolist(),
        strict=True,
    )
    return {
        "task": "target",
        "model": model.title,
        "target": target or "target",
        "target_mean": moment.mean,
        "target_scale": moment.scale,
        "target_transform": moment.transformed.facts(),
        "jitter": 0.0,
        "columns": [
            {
                "name": name,
                "kind": source.kind,
                "column": source.column,
                "level": source.level,
                "words": list(codes.get(source.column, ())) if source.kind == "plain" else [],
                "mean": mean,
                "scale": scale,
            }
            for name, source, mean, scale, constant in moments
            if not constant
        ],
    }
