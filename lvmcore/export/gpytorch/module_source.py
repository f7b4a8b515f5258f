"""The Python source of a gpytorch model, and the names of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.kernels.gpytorch_source import DENSE_LINEAR, GPyTorchKernel

__all__ = ["exact_source", "noise_weights", "sparse_source", "weights_of"]

_HEAD = '''"""A Gaussian process in classes of gpytorch, written by Latentboard."""

import gpytorch
import torch


'''
_FORWARD = '''
    def forward(self, X):
        """The prior at inputs X."""
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(X), self.covar_module(X)
        )


'''
_EXACT = '''class Model(gpytorch.models.ExactGP):
    """y = f(x) + noise, f a Gaussian process; inputs and target are standardised.

    Args:
        X: the rows of the fit, [N, H].
        y: their targets, [N].
    """

    def __init__(self, X, y):
        likelihood = {likelihood}
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = {kernel}
'''
_LOAD_EXACT = '''def load(weights):
    """The fitted model, in double precision.

    Args:
        weights: the tensors of model.safetensors, by name.
    """
    weights = {name: w for name, w in weights.items() if not name.startswith("draws.")}
    model = Model(weights.pop("rows.X"), weights.pop("rows.y")).double()
    model.load_state_dict(weights)
    return model.eval()


def load_draws(weights):
    """Weights and models of other likely parameters, two along each direction of their posterior.

    Args:
        weights: the tensors of model.safetensors, by name.
    """
    rows = {name: w for name, w in weights.items() if name.startswith("rows.")}
    found = []
    for k, weight in enumerate(weights.get("draws.weights", ())):
        start = f"draws.{k}."
        own = {name[len(start):]: w for name, w in weights.items() if name.startswith(start)}
        found.append((float(weight), load(rows | own)))
    return found
'''
_SPARSE = '''class Model(gpytorch.models.ApproximateGP):
    """{title}

    Args:
        Z: inducing inputs, [M, {inputs}].
    """

    def __init__(self, Z):
        q = gpytorch.variational.CholeskyVariationalDistribution(
            len(Z), batch_shape=torch.Size({batch})
        )
        super().__init__(
            gpytorch.variational.VariationalStrategy(self, Z, q, jitter_val={jitter!r})
        )
        self.likelihood = {likelihood}
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = {kernel}
'''
_LOAD_SPARSE = '''def load(weights):
    """The fitted model, in double precision.

    Args:
        weights: the tensors of model.safetensors, by name.
    """
    model = Model(weights["variational_strategy.inducing_points"]).double()
    model.load_state_dict({name: w for name, w in weights.items() if not name.startswith("rows.")})
    return model.eval()
'''
_OF_TARGET = "y = f(x) + noise, f a sparse Gaussian process; inputs and target are standardised."
_OF_COLUMNS = "A Gaussian process from the latent space to each column, which are standardised."
_BODY_INDENT = " " * 8


def exact_source(kernel: GPyTorchKernel) -> str:
    """The module of an exact Gaussian process."""
    made = _EXACT.format(likelihood=_likelihood(None), kernel=_indented(kernel))
    return _head(kernel) + made + _FORWARD + _LOAD_EXACT


def sparse_source(kernel: GPyTorchKernel, jitter: float, n_columns: int | None = None) -> str:
    """The module of a sparse Gaussian process with explicit q(u).

    Args:
        kernel: k.
        jitter: added to the diagonal of k(Z, Z).
        n_columns: number of columns of a map; None for one target.
    """
    made = _SPARSE.format(
        title=_OF_TARGET if n_columns is None else _OF_COLUMNS,
        inputs="H" if n_columns is None else "Q",
        batch=[] if n_columns is None else [n_columns],
        jitter=jitter,
        likelihood=_likelihood(n_columns),
        kernel=_indented(kernel),
    )
    return _head(kernel) + made + _FORWARD + _LOAD_SPARSE


def _head(kernel: GPyTorchKernel) -> str:
    """The imports, and the class of linear kernels if there is one."""
    return _HEAD + (f"{DENSE_LINEAR}\n\n" if "DenseLinearKernel" in kernel.source else "")


def _likelihood(n_columns: int | None) -> str:
    batch = "" if n_columns is None else f"batch_shape=torch.Size([{n_columns}]), "
    return (
        "gpytorch.likelihoods.GaussianLikelihood(\n"
        f"    {_BODY_INDENT}{batch}noise_constraint=gpytorch.constraints.Positive()\n"
        f"{_BODY_INDENT})"
    )


def _indented(kernel: GPyTorchKernel) -> str:
    return kernel.source.replace("\n", f"\n{_BODY_INDENT}")


def noise_weights(noise: Tensor) -> dict[str, Tensor]:
    """The weights of the likelihood with variances σ², [] or, of the columns of a map, [D]."""
    gpytorch_kernels()  # whose import gives a warning that is to be ignored
    from gpytorch.constraints import Positive
    from gpytorch.likelihoods import GaussianLikelihood

    batch = torch.Size(noise.shape)
    likelihood = GaussianLikelihood(batch_shape=batch, noise_constraint=Positive()).double()
    likelihood.noise = noise.detach().cpu().double().reshape(*batch, 1)
    return weights_of(likelihood, "likelihood")


def weights_of(module: Any, prefix: str) -> dict[str, Tensor]:
    """The state of a module of gpytorch, under names that begin with ``prefix``."""
    state: Mapping[str, Tensor] = module.state_dict()
    return {f"{prefix}.{name}": tensor.detach().clone() for name, tensor in state.items()}
