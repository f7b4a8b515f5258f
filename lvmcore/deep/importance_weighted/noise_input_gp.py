"""Deep Gaussian processes with noise inputs: a latent variable of each row joins its columns.

A row's noise inputs w_n ~ N(0, I) are further inputs of the first layer (Salimbeni, Dutordoir,
Hensman and Deisenroth 2019):

y_n = f^L(… f¹(x_n, w_n)) + ε_n.

As w_n passes through all layers, the density of y at one x can be skewed, have several modes, and
change its width with x. In the fit q(w_n) = N(m(x_n, y_n), diag s²(x_n, y_n)) by a network; a
prediction averages draws of w from N(0, I).

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; E noise inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.initialisation import (
    DeepGPSettings,
    hidden_layers,
    initial_output_values,
    principal_axes,
)
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import OutputLayer
from lvmcore.neural.networks import Encoder, fit_linear_layer
from lvmcore.numerics.quasi_random import sobol_draws, standard_normal
from lvmcore.preprocessing.table_rows import InMemoryRows

__all__ = ["NoiseInputDeepGP", "noise_input_deep_gp", "start_noise"]

# Units of each hidden layer of the network of q(w).
ENCODER_UNITS = 32


class NoiseInputDeepGP(InducedDeepGP):
    """A deep Gaussian process whose first layer has noise inputs.

    Args:
        hidden: hidden layers; the first has H + E inputs.
        last: the last layer.
        inputs: inducing inputs of each hidden layer and of the last one, [M, …] each.
        encoder: mean and log variance of q(w) from a row's columns and target.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: OutputLayer,
        inputs: Sequence[Tensor],
        encoder: Encoder,
    ) -> None:
        super().__init__(hidden, last, inputs, learned=True)
        self.encoder = encoder

    @property
    def n_noise(self) -> int:
        """E."""
        return self.encoder.n_components

    @property
    def sampled(self) -> bool:
        """True: the noise inputs are drawn."""
        return True

    @property
    def posterior_per_draw(self) -> bool:
        """False: the noise inputs of the fit's rows are not those of a prediction."""
        return False

    def noise_posterior(
        self, X: Float[Tensor, "B H"], Y: Float[Tensor, "B P"]
    ) -> tuple[Float[Tensor, "B E"], Float[Tensor, "B E"]]:
        """Mean and log variance of q(w) of rows X with targets Y, [B, E] each."""
        mean, log_variance = self.encoder(torch.cat([X, Y], 1))
        return mean, log_variance

    def inputs(
        self, draw: FunctionDraw, X: Float[Tensor, "B H"], noise: Sequence[Tensor]
    ) -> Float[Tensor, "S B U"]:
        """See ``DeepGP``; ``noise`` begins with the noise inputs, [S, B or 1, E]."""
        w = noise[0].expand(-1, len(X), -1)
        joined = torch.cat([X.expand(len(w), -1, -1), w], -1)
        return super().inputs(draw, joined, noise[1:])

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """Noise inputs from the prior, [S, n_rows, E], and the noise of each hidden layer."""
        w = standard_normal((samples, n_rows, self.n_noise), self.last.like, generator)
        return [w, *self.layer_noise(samples, n_rows, generator)]

    def layer_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """Standard normal numbers of each hidden layer, [S, n_rows, D]."""
        return super().row_noise(samples, n_rows, generator)

    def shared_noise(self, samples: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """See ``DeepGP``; the noise inputs are quasi-random, which covers the prior evenly."""
        count = 2 ** math.ceil(math.log2(samples))
        w = sobol_draws(count, self.n_noise, self.last.like)[:samples, None]
        return (w, *self.layer_noise(samples, 1, generator))

    def hidden_mean(
        self, draw: FunctionDraw, noise: Sequence[Tensor], X: Float[Tensor, "B H"], number: int
    ) -> Float[Tensor, "B D"]:
        """See ``DeepGP``; also averaged over the noise inputs."""
        before = self.inputs(draw, X, noise[:number])
        return self.average(self.layer_moments(draw, number - 1, before)[0])


def noise_input_deep_gp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    Z: Float[Tensor, "M H"],
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    n_noise: int,
    generator: torch.Generator,
) -> NoiseInputDeepGP:
    """An initial model.

    The linear mean of the first hidden layer passes on the noise inputs, and the columns or their
    leading principal axes.

    Args:
        settings: of the initial model, with a kernel of columns and noise inputs if that is not
            stationary; without a width hidden layers have min(30, H + E) units.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        Z: the columns of the first layer's inducing inputs, [M, H]; their noise inputs are drawn.
        likelihood: of the targets.
        n_noise: E.
        generator: of the inducing inputs' noise and of the network's initial weights.
    """
    H, E = X.shape[1], n_noise
    width = settings.width or min(30, H + E)
    joined = torch.cat([X, standard_normal((len(X), E), X, generator)], 1)
    at = torch.cat([Z, standard_normal((len(Z), E), Z, generator)], 1)
    axes = first_axes(X, E, width)
    sized = replace(settings, width=width)
    hidden, inputs = hidden_layers(sized, joined, at, axes)
    # Draws of the noise inputs make every step's sums an estimate, as those of hidden layers do.
    drawn = replace(sized, n_hidden=max(1, settings.n_hidden))
    q = initial_output_values(drawn, len(X), inputs[-1], Y.shape[1], likelihood)
    U = inputs[-1].shape[1]
    last = OutputLayer(U, likelihood, q, kernel=settings.layer_kernel(len(hidden), U, X))
    encoder = Encoder(H + Y.shape[1], ENCODER_UNITS, E, X, generator)
    return NoiseInputDeepGP(hidden, last, inputs, encoder)


def first_axes(X: Float[Tensor, "N H"], n_noise: int, width: int) -> Float[Tensor, "J {width}"]:
    """W of the first layer's linear mean, [H + E, width].

    The leading principal axes of the columns come first, one at least, then the noise inputs.
    """
    H = X.shape[1]
    kept = max(1, min(H, width - n_noise))
    passed = min(n_noise, width - kept)
    axes = X.new_zeros(H + n_noise, width)
    axes[:H, :kept] = principal_axes(X, kept)
    axes[H : H + passed, kept : kept + passed] = torch.eye(passed).to(X)
    return axes


@torch.no_grad()
def start_noise(model: NoiseInputDeepGP, X: Float[Tensor, "N H"], Y: Float[Tensor, "N P"]) -> None:
    """Initialise q(w) at the residuals of a linear fit, so that the layers use w from the start.

    The mean of q of noise input e is the residual of target e, scaled to variance 1; that of
    further noise inputs is 0. The fit then decides what the columns explain and what w does: a
    first q near the prior would be ignored by the layers, and stay there.

    Args:
        model: initial model; its encoder is changed in place.
        X: inputs, [N, H].
        Y: targets, [N, P].
    """
    slope, offset = fit_linear_layer(InMemoryRows(X), Y)
    residual = Y - (offset + X.double() @ slope).to(Y)
    scaled = residual / residual.square().mean(0).sqrt().clamp_min(1e-6)
    positions = X.new_zeros(len(X), model.n_noise)
    given = min(model.n_noise, Y.shape[1])
    positions[:, :given] = scaled[:, :given]
    model.encoder.start(InMemoryRows(torch.cat([X, Y], 1)), positions)
