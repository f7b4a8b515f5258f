"""Small deep Gaussian processes for the tests, and dense algebra to hold them against."""

import math
from typing import Any

import torch
from torch import Tensor

from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.objective import DeepGPObjective
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp

__all__ = ["evidence", "generator", "gradients_are_slopes", "kernel", "sod", "sod_fit", "table"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(n: int = 24, H: int = 3, P: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs [n, H] and targets [n, P] that depend on them."""
    g = generator(seed)
    X = torch.randn(n, H, generator=g, dtype=torch.float64)
    noise = torch.randn(n, P, generator=g, dtype=torch.float64)
    return X, torch.sin(X[:, :1] + torch.arange(P)) + 0.3 * X[:, 1:2] + 0.1 * noise


def kernel(layer: Any, A: Tensor, B: Tensor) -> Tensor:
    """v exp(−½ Σ_h (a_h − b_h)²/ℓ_h²), differences first, [..., n, m]; v is 1 in hidden layers."""
    scaled = (A[..., :, None, :] - B[..., None, :, :]) / layer.log_lengthscales.exp()
    v = layer.variance if layer.variance.dim() == 0 else 1.0
    return v * (-0.5 * scaled.square().sum(-1)).exp()


def evidence(layer: Any, X: Tensor, Y: Tensor) -> float:
    """log N(y | 0, K + σ²I) with the layer's kernel and noise, all columns."""
    S = kernel(layer, X, X) + layer.likelihood.noise * torch.eye(len(X))
    total = torch.logdet(S) * Y.shape[1] + (Y * torch.linalg.solve(S, Y)).sum()
    return float(-0.5 * (total + Y.numel() * math.log(2 * math.pi)).detach())


def sod(X: Tensor, Y: Tensor, M: int = 8, *, roughen: bool = True, **settings: Any) -> SubsetDeepGP:
    """A model on the first M rows; ``roughen`` moves its parameters off their special start."""
    chosen = DeepGPSettings(**{"hidden_variance": 1.0, "spread": 1e-2, **settings})
    model = subset_deep_gp(chosen, X, Y, torch.arange(M), GaussianNoise(0.1, X))
    if roughen:
        g = generator(5)
        with torch.no_grad():
            for parameter in model.parameters():
                moved = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
                parameter.add_(0.1 * moved)
    return model


def sod_fit(model: SubsetDeepGP, X: Tensor, Y: Tensor, **settings: Any) -> DeepGPObjective:
    return DeepGPObjective(
        model,
        X,
        Y,
        **{"n_samples": 4, "batch_size": 1000, "generator": generator(3), **settings},
    )


def gradients_are_slopes(fit: DeepGPObjective, *, rel: float = 1e-3, least: float = 1e-4) -> None:
    """The gradient of a step's bound by each parameter, along a way, is the bound's slope there."""

    def bound() -> Tensor:
        fit.generator.manual_seed(11)
        return torch.stack(list(fit.batch_terms().values())).sum()

    parameters = list(fit.parameters())
    gradients = torch.autograd.grad(bound(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        way = torch.randn(parameter.shape, generator=generator(1), dtype=torch.float64)
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                parameter.add_(step * way)
                values.append(float(bound()))
                parameter.sub_(step * way)
        slope = (values[0] - values[1]) / 2e-5
        assert abs(float((gradient * way).sum()) - slope) < max(least, rel * abs(slope))
