"""A step of gpytorch's deep Gaussian process, built as in its documentation."""

from __future__ import annotations

import time
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from torch import Tensor

__all__ = ["step_seconds"]

# Steps that are not timed.
WARM_UP = 10


class _Layer(DeepGPLayer):
    """A whitened RBF layer with a lengthscale per input and a full covariance of q(u)."""

    def __init__(self, n_inputs: int, n_outputs: int | None, n_inducing: int) -> None:
        batch = torch.Size([]) if n_outputs is None else torch.Size([n_outputs])
        q = gpytorch.variational.CholeskyVariationalDistribution(n_inducing, batch_shape=batch)
        strategy = gpytorch.variational.VariationalStrategy(
            self, torch.randn(*batch, n_inducing, n_inputs), q, learn_inducing_locations=True
        )
        super().__init__(strategy, n_inputs, n_outputs)
        last = n_outputs is None
        self.mean_module = (
            gpytorch.means.ConstantMean() if last else gpytorch.means.LinearMean(n_inputs)
        )
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=n_inputs)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, X: Tensor) -> Any:
        """The prior at X."""
        normal = gpytorch.distributions.MultivariateNormal
        return normal(self.mean_module(X), self.covar_module(X))


class _Model(DeepGP):
    def __init__(self, n_inputs: int, n_hidden: int, n_inducing: int) -> None:
        super().__init__()
        width = min(30, n_inputs)
        sizes = [n_inputs] + [width] * n_hidden
        hidden = [_Layer(a, width, n_inducing) for a in sizes[:-1]]
        self.layers = torch.nn.ModuleList([*hidden, _Layer(sizes[-1], None, n_inducing)])
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, X: Tensor) -> Any:
        """The output of the last layer."""
        for layer in self.layers:
            X = layer(X)
        return X


def step_seconds(
    X: Tensor, y: Tensor, *, n_hidden: int, n_inducing: int, n_samples: int, steps: int
) -> float:
    """Median seconds of a full-batch step of Adam.

    Args:
        X: standardised columns, [N, H].
        y: standardised target, [N].
        n_hidden: hidden layers, each min(30, H) wide.
        n_inducing: M of every layer.
        n_samples: draws a step.
        steps: timed, after some that are not.
    """
    torch.manual_seed(0)
    model = _Model(X.shape[1], n_hidden, n_inducing).to(X)
    elbo = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=len(X))
    bound = gpytorch.mlls.DeepApproximateMLL(elbo)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    seconds = []
    with gpytorch.settings.num_likelihood_samples(n_samples):
        for _ in range(WARM_UP + steps):
            start = time.perf_counter()
            adam.zero_grad()
            loss = -bound(model(X), y)
            loss.backward()
            adam.step()
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[WARM_UP:]))
