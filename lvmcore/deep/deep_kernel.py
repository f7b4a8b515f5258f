"""Deep kernel learning: a sparse Gaussian process on the features of a network.

k(x, x') = v exp(−½ Σ_d (g_d(x) − g_d(x'))²/ℓ_d²), g a small network (Wilson, Hu, Salakhutdinov and
Xing 2016). A network trained by the bound alone overfits: it collapses the features until each row
explains the others, and underestimates the uncertainty (Ober, Rasmussen and van der Wilk 2021).
Here g is initialised as a linear map, so that the fit begins as a single process, and its weights
have a prior around their initial values, w ~ N(w₀, τ²I), with the MAP objective

ELBO(w) − ‖w − w₀‖²/(2τ²).

Weights have unit scale (`neural.networks`), so that τ has the same meaning at every width: at τ = 1
the non-linear part of the features can be as large as the spread of the rows.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; U units of the features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings, initial_output_values, principal_axes
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import InducingPosterior, OutputLayer
from lvmcore.neural.convolutional import ConvolutionalNetwork, PixelScaling
from lvmcore.neural.networks import Network

__all__ = ["MOST_FEATURES", "DeepKernelGP", "deep_kernel_gp", "feature_network"]

# Rows in one pass through the network, other than those of a step.
BLOCK_ROWS = 1024
#: Most features where their number is not set.
MOST_FEATURES = 30
# Rows that initialise a convolutional network.
INITIAL_ROWS = 1000


class DeepKernelGP(InducedDeepGP):
    """A single Gaussian process on features g(x), without sampling.

    Args:
        network: g, initialised.
        last: the process on its features.
        Z: inducing inputs in the space of the columns, [M, H]; the network maps them.
        scale: τ, the prior sd of the weights around their initial values; infinite for no prior.
    """

    start: Tensor
    column_relevance: Float[Tensor, "H"]

    def __init__(
        self, network: Network | ConvolutionalNetwork, last: OutputLayer, Z: Tensor, scale: float
    ) -> None:
        super().__init__((), last, [Z], learned=True)
        self.network, self.scale = network, scale
        # For the fit only; a saved model does not need it.
        self.register_buffer("start", self._weights().detach().clone(), persistent=False)
        self.register_buffer("column_relevance", Z.new_zeros(Z.shape[1]))

    def _weights(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.network.parameters())

    def draw(self, samples: int, generator: torch.Generator) -> FunctionDraw:
        """The last layer at the features of its inducing inputs; see ``DeepGP``."""
        del generator
        return self.draw_from_values([self.network(self.Z[0])], (), samples)

    def block_size(self, samples: int) -> int:
        """See ``DeepGP``; the network's layers have more cells than the process."""
        return min(BLOCK_ROWS, super().block_size(samples))

    def inputs(
        self, draw: FunctionDraw, X: Float[Tensor, "B H"], noise: Sequence[Tensor]
    ) -> Float[Tensor, "B U"]:
        """Features of rows X [B, H], [B, U]; see ``DeepGP``."""
        del draw, noise
        features: Tensor = self.network(X)
        return features

    def kl_terms(self, posterior: InducingPosterior) -> dict[str, Tensor]:
        """The divergence, and −‖w − w₀‖²/(2τ²)."""
        moved = (self._weights() - self.start).square().sum()
        return super().kl_terms(posterior) | {"prior of the network": -0.5 * moved / self.scale**2}

    @torch.no_grad()
    def measure_relevance(self, X: Float[Tensor, "N H"]) -> None:
        """Set ``column_relevance``, [H], from the gradients of the features at rows X [N, H].

        α_h = 1/N Σ_n Σ_d (∂g_d/∂x_h)²/ℓ_d², which is 1/ℓ_h² for the identity network.
        """
        total = torch.zeros_like(self.column_relevance)
        for rows in torch.split(X, BLOCK_ROWS):
            total += (self.network.slopes(rows).square() @ self.last.relevance).sum(0)
        self.column_relevance.copy_(total / len(X))


def feature_network(
    X: Float[Tensor, "N H"],
    width: int,
    *,
    n_hidden: int,
    generator: torch.Generator,
    pixels: PixelScaling | None = None,
) -> Network | ConvolutionalNetwork:
    """An initial network of features: the columns or their leading principal axes.

    The features of images are random convolutions, of mean 0 and variance 1.

    Args:
        X: all inputs, standardised, [N, H].
        width: U.
        n_hidden: units of each of the two hidden layers, or of the dense one of a convolutional
            network.
        generator: of the network's initial weights.
        pixels: scales rows to images, for a convolutional network; None for a dense one.
    """
    if pixels is None:
        network = Network(X.shape[1], n_hidden, width, X, generator)
        network.start(principal_axes(X, width), X.new_zeros(width))
        return network
    convolutions = ConvolutionalNetwork(pixels, n_hidden, width, X, generator)
    convolutions.start(X[:INITIAL_ROWS])
    return convolutions


def deep_kernel_gp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Z: Float[Tensor, "M H"],
    n_outputs: int,
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    n_hidden: int,
    scale: float,
    generator: torch.Generator,
    pixels: PixelScaling | None = None,
) -> DeepKernelGP:
    """An initial model on the features of ``feature_network``.

    Args:
        settings: of the initial model; its width is U.
        X: all inputs, standardised, [N, H].
        Z: inducing inputs, [M, H], such as `inducing_points.centroids`.
        n_outputs: P.
        likelihood: of the targets.
        n_hidden: units of each of the two hidden layers, or of the dense one of a convolutional
            network.
        scale: τ.
        generator: of the network's initial weights.
        pixels: scales rows to images, for a convolutional network; None for a dense one.
    """
    width = settings.width or min(MOST_FEATURES, X.shape[1])
    network = feature_network(X, width, n_hidden=n_hidden, generator=generator, pixels=pixels)
    q = initial_output_values(settings, len(X), Z, n_outputs, likelihood)
    last = OutputLayer(width, likelihood, q, kernel=settings.layer_kernel(0, width, X))
    return DeepKernelGP(network, last, Z, scale)
