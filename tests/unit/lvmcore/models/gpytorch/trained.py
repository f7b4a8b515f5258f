"""Small models of gpytorch, trained for a few steps, and gpytorch's own predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lvmcore.kernels.gpytorch_components import gpytorch_kernels

__all__ = ["approximate", "exact", "gplvm", "own_predictions", "rows", "table"]


def rows(n: int = 40, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs of two columns, and a target."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return X, torch.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * noise + 3.0


def table(n: int = 30, D: int = 4) -> Tensor:
    """Rows on a curve in D columns."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, D, generator=generator, dtype=torch.float64)
    return torch.sin(x + torch.arange(D)) + 0.1 * noise


def _normal(mean: Any, covariance: Any) -> Any:
    from gpytorch.distributions import MultivariateNormal

    return MultivariateNormal(mean, covariance)


def _trained(model: Any, likelihood: Any, loss: Any, steps: int) -> None:
    parameters = {*model.parameters(), *likelihood.parameters()}
    optimiser = torch.optim.Adam(parameters, lr=0.1)
    model.train()
    likelihood.train()
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def exact(kernel: Any, mean: Any = None, *, steps: int = 5, dtype: Any = torch.float64) -> Any:
    """An exact process on ``rows()``."""
    gpytorch_kernels()
    import gpytorch

    X, y = (part.to(dtype) for part in rows())

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ConstantMean() if mean is None else mean
            self.covar_module = kernel

        def forward(self, X: Tensor) -> Any:
            return _normal(self.mean_module(X), self.covar_module(X))

    model = Exact().to(dtype)
    with gpytorch.settings.fast_computations(False, False, False):
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        _trained(model, model.likelihood, lambda: -bound(model(X), y), steps)
    return model


def approximate(
    kernel: Any, mean: Any = None, *, strategy: str = "VariationalStrategy",
    q: str = "CholeskyVariationalDistribution", likelihood: Any = None, steps: int = 5,
) -> tuple[Any, Any]:  # fmt: skip
    """A sparse process on ``rows()``, and its likelihood."""
    gpytorch_kernels()
    import gpytorch

    X, y = rows()
    likelihood = gpytorch.likelihoods.GaussianLikelihood() if likelihood is None else likelihood

    class Approximate(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            distribution = getattr(gpytorch.variational, q)(8)
            super().__init__(getattr(gpytorch.variational, strategy)(self, X[:8], distribution))
            self.mean_module = gpytorch.means.ConstantMean() if mean is None else mean
            self.covar_module = kernel

        def forward(self, X: Tensor) -> Any:
            return _normal(self.mean_module(X), self.covar_module(X))

    model, likelihood = Approximate().double(), likelihood.double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
    _trained(model, likelihood, lambda: -bound(model(X), y), steps)
    return model, likelihood


def gplvm(
    *, kernel: Any = None, mean: Any = None, shared: bool = True, latent: str = "variational",
    noises: bool = True, steps: int = 5,
) -> tuple[Any, Any]:  # fmt: skip
    """A map of ``table()``, and its likelihood."""
    gpytorch_kernels()
    import gpytorch
    from gpytorch.models import gplvm as maps

    Y = table()
    (N, D), Q, M = Y.shape, 2, 6
    batch = torch.Size([D])
    torch.manual_seed(4)  # gpytorch draws from the global generator
    start = torch.nn.Parameter(torch.randn(N, Q).double())
    prior = gpytorch.priors.NormalPrior(torch.zeros(N, Q), torch.ones(N, Q))
    Z = torch.randn(M, Q) if shared else torch.randn(D, M, Q)
    kernels = gpytorch.kernels
    kernel = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=Q)) if kernel is None else kernel

    class Map(maps.BayesianGPLVM):  # type: ignore[misc]
        def __init__(self) -> None:
            X = {
                "variational": lambda: maps.VariationalLatentVariable(N, D, Q, start, prior),
                "map": lambda: maps.MAPLatentVariable(N, Q, start, prior),
                "point": lambda: maps.PointLatentVariable(N, Q, start),
            }[latent]()
            q = gpytorch.variational.CholeskyVariationalDistribution(M, batch_shape=batch)
            super().__init__(X, gpytorch.variational.VariationalStrategy(self, Z, q))
            usual = gpytorch.means.ConstantMean(batch_shape=batch)
            self.mean_module = usual if mean is None else mean
            self.covar_module = kernel

        def forward(self, X: Tensor) -> Any:  # type: ignore[override]
            return _normal(self.mean_module(X), self.covar_module(X))

    own = gpytorch.likelihoods.GaussianLikelihood(batch_shape=batch)
    likelihood = own if noises else gpytorch.likelihoods.GaussianLikelihood()
    model, likelihood = Map().double(), likelihood.double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, N)
    loss = lambda: -bound(model(model.sample_latent_variable()), Y.T).sum()  # noqa: E731
    _trained(model, likelihood, loss, steps)
    return model, likelihood


def own_predictions(model: Any, likelihood: Any, X: Tensor) -> tuple[Any, Any]:
    """gpytorch's means and standard deviations of y."""
    import gpytorch

    model.eval()
    likelihood.eval()
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.debug(False),
    ):
        found = likelihood(model(X))
        return found.mean.numpy(), found.variance.sqrt().numpy()
