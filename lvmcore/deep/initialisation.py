"""Initialisation of a deep Gaussian process: layers close to linear, with a narrow q.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.hidden_layer import HiddenLayer, InducingValues
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import GaussianSites
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.stationary import StationaryName
from lvmcore.training.batches import LONGEST_LABEL_STEP, step_length

__all__ = ["DeepGPSettings", "hidden_layers", "initial_output_values", "principal_axes"]

MINIBATCH_SITE_STEP = 0.2


@dataclass(frozen=True)
class DeepGPSettings:
    """Settings of the initial deep Gaussian process.

    Attributes:
        n_hidden: hidden layers.
        width: D of each; None for min(30, H).
        spread: initial variance of q of the whitened values in hidden layers.
        hidden_variance: initial variance of their kernels. With a small one the model is close to a
            single layer, whose bound further layers can improve: hidden layers as wide as their
            prior cost hundreds of nats and many steps at first.
        hidden_noise: σ_l².
        batch_size: rows a step; the step length of the last layer's natural gradients depends on
            it.
        natural: natural gradients for q of the last layer; otherwise Adam.
        exponent: q of the layers' priors, each a q-exponential block; 2 for Gaussian processes.
        kernel: stationary kernel of every layer without another one.
        definition: another kernel, of the first layer, and of the further ones too where it fits
            their units; None for stationary kernels in all layers.
    """

    n_hidden: int = 2
    width: int | None = None
    spread: float = 0.01
    hidden_variance: float = 1e-3
    hidden_noise: float = 1e-5
    batch_size: int = 2000
    natural: bool = True
    exponent: float = 2.0
    kernel: StationaryName = "rbf"
    definition: KernelDefinition | None = None

    def layer_definition(self, number: int, n_inputs: int) -> KernelDefinition | None:
        """The kernel of layer ``number``, from 0, that is not stationary; None for one that is."""
        if self.definition is None or number == 0:
            return self.definition
        return self.definition.for_units(n_inputs)

    def layer_kernel(
        self, number: int, n_inputs: int, like: Tensor
    ) -> StationaryName | CompositeKernel:
        """The initial kernel of layer ``number``, from 0."""
        definition = self.layer_definition(number, n_inputs)
        return self.kernel if definition is None else definition.made(like)

    def single(self, n_inputs: int, batch_size: int) -> DeepGPSettings:
        """Settings of a single Gaussian process with the kernel of the last layer.

        Args:
            n_inputs: of the single process.
            batch_size: rows a step.
        """
        definition = self.layer_definition(self.n_hidden, n_inputs)
        return DeepGPSettings(
            n_hidden=0, batch_size=batch_size, kernel=self.kernel, definition=definition
        )


def hidden_layers(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Z: Float[Tensor, "M H"],
    first_axes: Float[Tensor, "H D"] | None = None,
) -> tuple[list[HiddenLayer], list[Tensor]]:
    """The hidden layers, and each layer's inducing inputs under the linear means.

    Args:
        settings: of the initial model.
        X: all inputs, [N, H].
        Z: the first layer's inducing inputs, [M, H].
        first_axes: W of the first layer's linear mean, [H, D]; None for ``principal_axes``.

    Returns:
        The layers, and Z of each of them and of the last layer.
    """
    layers, inputs = [], [Z]
    width = settings.width or min(30, X.shape[1])
    for number in range(settings.n_hidden):
        given = first_axes if number == 0 else None
        W = principal_axes(X, width) if given is None else given
        values = InducingValues(Z.new_zeros(width, len(Z)), settings.spread, settings.exponent)
        layers.append(
            HiddenLayer(
                X.shape[1],
                values,
                variance=settings.hidden_variance,
                noise=settings.hidden_noise,
                linear=W,
                kernel=settings.layer_kernel(number, X.shape[1], X),
            )
        )
        X = X @ W
        inputs.append(inputs[-1] @ W)
    return layers, inputs


def initial_output_values(
    settings: DeepGPSettings,
    n_rows: int,
    Z: Float[Tensor, "M H"],
    n_outputs: int,
    likelihood: GaussianNoise | SoftmaxClasses,
) -> GaussianSites | InducingValues:
    """q of the last layer's values at Z [M, H], for batches made of ``n_rows`` rows."""
    gaussian = isinstance(likelihood, GaussianNoise)
    if not settings.natural:
        return InducingValues(Z.new_zeros(n_outputs, len(Z)), 1.0, settings.exponent)
    size = min(settings.batch_size, max(1, n_rows))
    step = step_length(size, len(Z), most=1.0 if gaussian else LONGEST_LABEL_STEP)
    if gaussian and size >= n_rows:
        # Without hidden layers nothing is sampled, and a full step reaches the optimum. With them a
        # step uses the sums of its own draws, and the sites average several steps.
        step = MINIBATCH_SITE_STEP if settings.n_hidden else 1.0
    return GaussianSites(
        len(Z), n_outputs, Z, shared=gaussian, step=step, exponent=settings.exponent
    )


def principal_axes(X: Float[Tensor, "N H"], width: int) -> Float[Tensor, "H {width}"]:
    """W of a linear mean, [H, width]: I; the leading principal axes; or I and columns of zeros."""
    H = X.shape[1]
    if width >= H:
        return torch.eye(H, width).to(X)
    _, vectors = torch.linalg.eigh((X - X.mean(0)).T @ (X - X.mean(0)))  # in ascending order
    axes: Tensor = vectors.flip(1)[:, :width]
    return axes.contiguous()
