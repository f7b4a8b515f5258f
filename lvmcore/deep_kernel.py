"""A sparse Gaussian process on what a network makes of the rows: deep kernel learning.

k(x, x') = v exp(−½ Σ_d (g_d(x) − g_d(x'))²/ℓ_d²), g a small network (Wilson, Hu, Salakhutdinov and
Xing 2016). A network that the bound alone trains overfits: it draws the rows together until each
explains the others, and no longer says where it does not know (Ober, Rasmussen and van der Wilk
2021). Here g begins as a straight line, so that the fit begins as a single process, and its weights
have a prior around where they begin, w ~ N(w₀, τ²I), of which the fit takes the mode:

ELBO(w) − ‖w − w₀‖²/(2τ²).

Weights are kept at unit scale (`networks`), so that τ means the same at every width: at 1 the
features may bend as far as the rows are wide.

Notation: lvmcore/README.md and lvmcore/deep_layers.py; U units of the features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_outputs import LastLayer, Posterior
from lvmcore.deep_paths import Draw
from lvmcore.deep_starts import DeepSettings, last_values, principal_axes
from lvmcore.deep_variational import InducedDeepGP
from lvmcore.image_network import ImageNetwork, Pixels
from lvmcore.networks import Network

__all__ = ["DeepKernelGP", "deep_kernel_gp"]

# Rows that go through the network at a time, but for those of a step.
ROWS_AT_A_TIME = 1024
# Rows that a network of pictures begins by.
START_ROWS = 1000


class DeepKernelGP(InducedDeepGP):
    """A single Gaussian process whose inputs are features g(x); nothing of it is drawn.

    Args:
        network: g, at its start.
        last: the process of its features.
        Z: inducing inputs, among the rows' columns, [M, H]; the network takes them along.
        scale: τ, how far weights go from their start; infinite for no prior.
    """

    start: Tensor
    column_relevance: Tensor

    def __init__(
        self, network: Network | ImageNetwork, last: LastLayer, Z: Tensor, scale: float
    ) -> None:
        super().__init__((), last, [Z], learned=True)
        self.network, self.scale = network, scale
        # Of the fit alone: a model that is read back has no use for it.
        self.register_buffer("start", self._weights().detach().clone(), persistent=False)
        self.register_buffer("column_relevance", Z.new_zeros(Z.shape[1]))

    def _weights(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.network.parameters())

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """The last layer at the features of its inducing inputs; see ``DeepGP``."""
        del generator
        return self.drawn([self.network(self.Z[0])], (), samples)

    def rows_at_a_time(self, samples: int) -> int:
        """See ``DeepGP``; those in the network's layers are more than those of the process."""
        return min(ROWS_AT_A_TIME, super().rows_at_a_time(samples))

    def inputs(self, draw: Draw, X: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """Features of rows X [B, H], [B, U]; see ``DeepGP``."""
        del draw, noise
        features: Tensor = self.network(X)
        return features

    def kl_terms(self, posterior: Posterior) -> dict[str, Tensor]:
        """The divergence, and −‖w − w₀‖²/(2τ²)."""
        moved = (self._weights() - self.start).square().sum()
        return super().kl_terms(posterior) | {"prior of the network": -0.5 * moved / self.scale**2}

    @torch.no_grad()
    def measure(self, X: Tensor) -> None:
        """Take over how much each column of rows X [N, H] bears on the kernel, [H].

        α_h = 1/N Σ_n Σ_d (∂g_d/∂x_h)²/ℓ_d², which for a network that changes nothing is 1/ℓ_h².
        """
        total = torch.zeros_like(self.column_relevance)
        for rows in torch.split(X, ROWS_AT_A_TIME):
            total += (self.network.slopes(rows).square() @ self.last.relevance).sum(0)
        self.column_relevance.copy_(total / len(X))


def deep_kernel_gp(
    settings: DeepSettings,
    X: Tensor,
    Z: Tensor,
    n_outputs: int,
    likelihood: Gaussian | Classes,
    *,
    n_hidden: int,
    scale: float,
    generator: torch.Generator,
    pixels: Pixels | None = None,
) -> DeepKernelGP:
    """A model at its start, its features the columns or their leading principal axes.

    Of pictures they are random convolutions.

    Args:
        settings: how it begins; its width is U.
        X: all inputs, standardised, [N, H].
        Z: inducing inputs, [M, H], such as `subsets.centroids`.
        n_outputs: P.
        likelihood: of the targets.
        n_hidden: units of each of the network's two hidden layers, or of its dense one.
        scale: τ.
        generator: of the network's start.
        pixels: puts rows into pictures, for a network of pictures; None for one of columns.
    """
    width = settings.width or min(30, X.shape[1])
    network: Network | ImageNetwork
    if pixels is None:
        network = Network(X.shape[1], n_hidden, width, X, generator)
        network.start(principal_axes(X, width), X.new_zeros(width))
    else:
        network = ImageNetwork(pixels, n_hidden, width, X, generator)
        network.start(X[:START_ROWS])
    q = last_values(settings, len(X), Z, n_outputs, likelihood)
    last = LastLayer(width, likelihood, q, kernel=settings.kernel)
    return DeepKernelGP(network, last, Z, scale)
