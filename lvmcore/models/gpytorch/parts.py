"""The parts of a model of gpytorch: mean, noise, and q(u) at its inducing inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import NumericalError, UnsupportedError
from lvmcore.kernels.gpytorch_components import gpytorch_kernels

__all__ = [
    "InducingVariables",
    "constant_mean",
    "evaluated",
    "inducing_variables",
    "mean_and_kernel",
    "noise_variance",
    "predicted",
]


@dataclass(frozen=True)
class InducingVariables:
    """q(u) of functions at their inducing inputs, whitened with gpytorch's own factor.

    With LLᵀ = k(Z, Z) + jitter I: E f(x) = c + k(x, Z) L⁻ᵀ m and
    Var f(x) = k(x, x) + jitter − k(x, Z) L⁻ᵀ (I − S) L⁻¹ k(Z, x). gpytorch adds its jitter to the
    variance of f if the strategy is whitened.

    Attributes:
        Z: inducing inputs, [..., M, H].
        mean: m, [..., M].
        covariance: S, [..., M, M].
        whitened: whether m and S are of L⁻¹(u − c) already; else of u.
        jitter: of the diagonal.
    """

    Z: Float[Tensor, "*D M H"]
    mean: Float[Tensor, "*D M"]
    covariance: Float[Tensor, "*D M M"]
    whitened: bool
    jitter: float

    @property
    def added_variance(self) -> float:
        """What gpytorch adds to the variance of f."""
        return self.jitter if self.whitened else 0.0

    def whitening(self, K: Float[Tensor, "*D M M"]) -> Float[Tensor, "*D M M"]:
        """L of the matrix k(Z, Z).

        Raises:
            NumericalError: it could not be factorised.
        """
        L, info = torch.linalg.cholesky_ex(K + self.jitter * torch.eye(K.shape[-1]).to(K))
        if bool((info > 0).any()):
            raise NumericalError(
                "The kernel matrix of the inducing inputs could not be factorised: train the model "
                "with a larger jitter_val, or with fewer inducing inputs."
            )
        found: Tensor = L
        return found

    def of_whitened(
        self, L: Float[Tensor, "*D M M"], centre: Float[Tensor, "*D 1"]
    ) -> tuple[Float[Tensor, "*D M"], Float[Tensor, "*D M M"]]:
        """m and S of L⁻¹(u − c), for c the mean of the functions."""
        if self.whitened:
            return self.mean, self.covariance
        m = torch.linalg.solve_triangular(L, (self.mean - centre)[..., None], upper=False)
        half = torch.linalg.solve_triangular(L, self.covariance, upper=False)
        S = torch.linalg.solve_triangular(L, half.mT, upper=False)
        return m[..., 0], S


@contextmanager
def evaluated(*modules: Any) -> Iterator[None]:
    """Modules in evaluation mode, with exact linear algebra; afterwards in their former mode."""
    gpytorch_kernels()  # whose import gives a warning that is to be ignored
    from gpytorch import settings

    training = [module.training for module in modules]
    try:
        for module in modules:
            module.eval()
        with (
            torch.no_grad(),
            settings.fast_computations(False, False, False),
            settings.max_cholesky_size(1 << 30),
            settings.debug(False),  # which warns of rows that are those of the fit
        ):
            yield
    finally:
        for module, was in zip(modules, training, strict=True):
            module.train(was)


def predicted(model: Any, likelihood: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    """gpytorch's mean and variance of y, noise included, at inputs X, [..., n] each, float64."""
    like = next(model.parameters())
    with evaluated(model, likelihood):
        found = likelihood(model(X.to(like)))
        return found.mean.double(), found.variance.double()


def mean_and_kernel(model: Any) -> tuple[Any, Any]:
    """``mean_module`` and ``covar_module`` of a model.

    Raises:
        UnsupportedError: it has none.
    """
    parts = [getattr(model, name, None) for name in ("mean_module", "covar_module")]
    if None in parts:
        raise UnsupportedError(
            "The model cannot be stored: its mean and kernel are expected in its attributes "
            "mean_module and covar_module."
        )
    return parts[0], parts[1]


def constant_mean(mean: Any) -> Tensor:
    """The value of a mean function that is constant, [] or, of a batch, [D]; float64.

    Raises:
        UnsupportedError: it is not.
    """
    from gpytorch import means

    if type(mean) is means.ZeroMean:
        return torch.zeros((), dtype=torch.float64)
    if type(mean) is not means.ConstantMean:
        raise UnsupportedError(
            f"The mean {type(mean).__name__} of gpytorch cannot be stored: expected ZeroMean or "
            "ConstantMean."
        )
    value: Tensor = mean.constant.detach().double().cpu()
    return value.reshape(()) if value.numel() == 1 else value.reshape(-1)


def noise_variance(likelihood: Any) -> Tensor:
    """σ² of a likelihood, [] or, of a batch, [D]; float64.

    Raises:
        UnsupportedError: it is not Gaussian with one variance for all rows.
    """
    gpytorch_kernels()
    from gpytorch.likelihoods import GaussianLikelihood

    if type(likelihood) is not GaussianLikelihood:
        raise UnsupportedError(
            f"The likelihood {type(likelihood).__name__} of gpytorch cannot be stored: expected "
            "GaussianLikelihood."
        )
    value: Tensor = likelihood.noise.detach().double().cpu()
    return value.reshape(()) if value.numel() == 1 else value.reshape(-1)


@torch.no_grad()
def inducing_variables(model: Any) -> InducingVariables:
    """q(u) of an ``ApproximateGP``.

    Raises:
        UnsupportedError: its strategy or its distribution has no counterpart; the message names it.
    """
    from gpytorch import variational

    strategy = model.variational_strategy
    whitened = type(strategy) is variational.VariationalStrategy
    if not whitened and type(strategy) is not variational.UnwhitenedVariationalStrategy:
        raise UnsupportedError(
            f"The strategy {type(strategy).__name__} of gpytorch cannot be stored: expected "
            "VariationalStrategy or UnwhitenedVariationalStrategy."
        )
    q = strategy._variational_distribution
    kinds = (
        variational.CholeskyVariationalDistribution,
        variational.MeanFieldVariationalDistribution,
        variational.DeltaVariationalDistribution,
        variational.NaturalVariationalDistribution,
        variational.TrilNaturalVariationalDistribution,
    )
    if type(q) not in kinds:
        raise UnsupportedError(
            f"The distribution {type(q).__name__} of gpytorch cannot be stored: expected one of "
            f"{', '.join(kind.__name__ for kind in kinds)}."
        )
    with evaluated(model):
        if not strategy.variational_params_initialized.item():
            strategy(strategy.inducing_points)  # which sets q(u) to the prior
        found = q()
        mean = found.mean.double().cpu()
        if type(q) is variational.DeltaVariationalDistribution:
            covariance = mean.new_zeros(*mean.shape, mean.shape[-1])
        else:
            covariance = found.covariance_matrix.double().cpu()
    Z = strategy.inducing_points.detach().double().cpu()
    return InducingVariables(Z, mean, covariance, whitened, float(strategy.jitter_val))
