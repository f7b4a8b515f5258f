"""How the layers of a deep Gaussian process begin: close to linear, and sure of it.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.deep_layers import HiddenLayer, Values
from lvmcore.deep_layout import KernelName
from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_outputs import Sites
from lvmcore.stochastic import LONGEST_LABEL_STEP, step_length

__all__ = ["DeepSettings", "hidden_layers", "last_values", "principal_axes"]

KEPT_STEP = 0.2


@dataclass(frozen=True)
class DeepSettings:
    """How a deep Gaussian process begins.

    Attributes:
        n_hidden: hidden layers.
        width: D of each; None for min(30, H).
        spread: variance of q in the hidden layers, of whitened values.
        hidden_variance: of their kernels. A small one begins near a single layer, whose bound the
            layers can only improve on: hidden layers as wide as their prior cost hundreds of nats
            first, and many steps to get rid of them.
        hidden_noise: σ_l².
        batch_size: rows a step, on which the length of the last layer's own steps depends.
        natural: the last layer's q follows by natural gradients; otherwise the optimiser moves it.
        exponent: q of the layers' priors, each a q-exponential block; 2 for Gaussian processes.
        kernel: of every layer.
    """

    n_hidden: int = 2
    width: int | None = None
    spread: float = 0.01
    hidden_variance: float = 1e-3
    hidden_noise: float = 1e-5
    batch_size: int = 2000
    natural: bool = True
    exponent: float = 2.0
    kernel: KernelName = "rbf"


def hidden_layers(
    settings: DeepSettings, X: Tensor, Z: Tensor
) -> tuple[list[HiddenLayer], list[Tensor]]:
    """The hidden layers, and where each layer's inducing inputs are if all are linear.

    Args:
        settings: how they begin.
        X: all inputs, [N, H].
        Z: the first layer's inducing inputs, [M, H].

    Returns:
        The layers, and Z of each of them and of the last layer.
    """
    layers, inputs = [], [Z]
    width = settings.width or min(30, X.shape[1])
    for _ in range(settings.n_hidden):
        W = principal_axes(X, width)
        values = Values(Z.new_zeros(width, len(Z)), settings.spread, settings.exponent)
        layers.append(
            HiddenLayer(
                X.shape[1],
                values,
                variance=settings.hidden_variance,
                noise=settings.hidden_noise,
                linear=W,
                kernel=settings.kernel,
            )
        )
        X = X @ W
        inputs.append(inputs[-1] @ W)
    return layers, inputs


def last_values(
    settings: DeepSettings,
    n_rows: int,
    Z: Tensor,
    n_outputs: int,
    likelihood: Gaussian | Classes,
) -> Sites | Values:
    """q of the last layer's values at Z [M, H], for batches made of ``n_rows`` rows."""
    gaussian = isinstance(likelihood, Gaussian)
    if not settings.natural:
        return Values(Z.new_zeros(n_outputs, len(Z)), 1.0, settings.exponent)
    size = min(settings.batch_size, max(1, n_rows))
    step = step_length(size, len(Z), most=1.0 if gaussian else LONGEST_LABEL_STEP)
    if gaussian and size >= n_rows:
        # Nothing is drawn without hidden layers: the optimum at once. With them the steps go by
        # each draw's own sums, and what is kept is the mean of several steps.
        step = KEPT_STEP if settings.n_hidden else 1.0
    return Sites(len(Z), n_outputs, Z, shared=gaussian, step=step, exponent=settings.exponent)


def principal_axes(X: Tensor, width: int) -> Tensor:
    """W of a linear mean, [H, width]: I; the leading principal axes; or I and columns of zeros."""
    H = X.shape[1]
    if width >= H:
        return torch.eye(H, width).to(X)
    _, vectors = torch.linalg.eigh((X - X.mean(0)).T @ (X - X.mean(0)))  # of ascending values
    axes: Tensor = vectors.flip(1)[:, :width]
    return axes.contiguous()
