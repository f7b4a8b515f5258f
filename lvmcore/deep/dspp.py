"""Deep sigma point processes: layers of Gaussian processes with learned quadrature sites.

A deep Gaussian process samples the output of a layer, N(μ_d(x), s_d(x)²) for unit d. Here it is one
of S values μ_d(x) + ξ_sd s_d(x), with sites ξ and weights ω that are learned (Jankowiak, Pleiss and
Gardner 2020). The prediction of a row is a finite mixture, without sampling:

p(y | x) = Σ_s ω_s E p(y | f), f ~ N(μ_s(x), s_s(x)²),

where μ and s² are the moments of q(f(x)), with the inducing values integrated out. A component is
N(y | μ_s, s_s² + σ²) for a number, Φ(±μ_s/√(1 + s_s²)) for two classes, and the mean softmax of the
classes' functions for more. The objective is the log of this density less β times the divergences,

Σ_n log p(y_n | x_n) − β Σ_l KL(q(v_l) ‖ N(0, I)),

a regularised likelihood of the predictions, and no bound on the evidence.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.initialisation import DeepGPSettings, hidden_layers, initial_output_values
from lvmcore.deep.layer_kernel import LayerKernel, whitened_moments
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import OutputLayer, ProjectedRows
from lvmcore.numerics.quasi_random import sobol_draws

__all__ = ["DSPP", "build_dspp", "initial_quadrature", "marginal_moments"]


def marginal_moments(
    layer: HiddenLayer, layer_kernel: LayerKernel, X: Float[Tensor, "... B H"]
) -> tuple[Float[Tensor, "... B D"], Float[Tensor, "... B D"]]:
    """Mean and variance of q(f(x)) with the layer's values integrated out, [..., B, D] each.

    mean_d(x) + √v_d aᵀm_d and v_d (1 − aᵀ(I − V_d)a), a = C⁻¹k(Z, x), of q(v_d) = N(m_d, V_d).

    Args:
        layer: the layer.
        layer_kernel: its kernel at the inducing inputs.
        X: rows, [..., B, H].
    """
    # aᵀm_d, and aᵀ(I − V_d)a
    mean, explained = whitened_moments(
        layer_kernel, layer_kernel.cross(X), layer.q.mean, layer.q.factor.mT
    )
    mean = layer.variance.sqrt() * mean.mT
    offset = layer.mean(X)
    variance = layer.variance * (layer_kernel.diagonal(X) - explained).clamp_min(0).mT
    return mean if offset is None else mean + offset, variance


class DSPP(InducedDeepGP):
    """A deep Gaussian process whose hidden layers give S values per row.

    Args:
        hidden: hidden layers.
        last: the last layer.
        inputs: inducing inputs of each of them and of the last one, [M, H] each.
        n_sites: S; one is used without hidden layers, as all would be equal.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: OutputLayer,
        inputs: Sequence[Tensor],
        n_sites: int,
    ) -> None:
        super().__init__(hidden, last, inputs, learned=True)
        self.n_sites = n_sites
        widths = [layer.width for layer in hidden]
        sites = initial_quadrature(n_sites, sum(widths), inputs[0]) if widths else None
        parts = [] if sites is None else [part.clone() for part in torch.split(sites, widths, 1)]
        self.sites = nn.ParameterList(nn.Parameter(part) for part in parts)
        weights = inputs[0].new_zeros(n_sites if widths else 1)
        self.weight_logits = nn.Parameter(weights, requires_grad=len(weights) > 1)

    @property
    def log_weights(self) -> Float[Tensor, "S"]:
        """log ω, [S]."""
        return self.weight_logits.log_softmax(0)

    def draw(self, samples: int, generator: torch.Generator) -> FunctionDraw:
        """The layers at their inducing inputs, without sampling; see ``DeepGP``."""
        del samples, generator
        return self.draw_from_values(list(self.Z), (), len(self.weight_logits))

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """ξ of each hidden layer, [S, 1, D], in place of normal numbers."""
        del samples, n_rows, generator
        return [sites[:, None] for sites in self.sites]

    def layer_moments(
        self, draw: FunctionDraw, number: int, X: Float[Tensor, "... B H"]
    ) -> tuple[Float[Tensor, "... B D"], Float[Tensor, "... B D"]]:
        """Moments of q(f(x)) with the inducing values integrated out; see ``DeepGP``."""
        return marginal_moments(self.hidden[number], draw.layer_kernels[number], X)

    def log_density(self, draw: FunctionDraw, rows: ProjectedRows) -> Float[Tensor, "B"]:
        """log Σ_s ω_s E p(y | f), f ~ N(μ_s, s_s²), of each row, [B]."""
        mean, variance = self.posterior(draw).moments(draw.last, rows.k, rows.variance)
        logs = self.last.likelihood.log_density(rows.Y, mean, variance)
        return torch.logsumexp(logs.reshape(-1, logs.shape[-1]) + self.log_weights[:, None], 0)

    def block_size(self, samples: int) -> int:
        """See ``DeepGP``; the sums of a hidden layer have a dimension of units."""
        widest = max([1, *(layer.width for layer in self.hidden)])
        return super().block_size(samples * widest)

    def average(self, each: Tensor) -> Tensor:
        """The mean weighted by ω; of [B, D], which has no sites yet, itself."""
        if each.dim() == 2:
            return each
        return (self.log_weights.exp()[:, None, None] * each).sum(0)


def initial_quadrature(
    n_sites: int, width: int, like: Tensor
) -> Float[Tensor, "{n_sites} {width}"]:
    """Initial sites, [S, D]: quasi-random draws of N(0, I), mean 0, mean square 1; 0 if S = 1."""
    if n_sites == 1:
        return like.new_zeros(1, width)
    found = sobol_draws(2 ** math.ceil(math.log2(n_sites)), width, like)[:n_sites]
    found = found - found.mean(0)
    return found / found.square().mean(0).sqrt().clamp_min(1e-6)


def build_dspp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    Z: Float[Tensor, "M H"],
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    n_sites: int,
) -> DSPP:
    """An initial model.

    Args:
        settings: of the initial layers; Adam optimises q of the last one too.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        Z: inducing inputs of the first layer, [M, H]; the linear means map them to those of the
            further layers.
        likelihood: of the targets.
        n_sites: S.
    """
    hidden, inputs = hidden_layers(settings, X, Z)
    q = initial_output_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    H = inputs[-1].shape[1]
    last = OutputLayer(H, likelihood, q, kernel=settings.layer_kernel(len(hidden), H, X))
    return DSPP(hidden, last, inputs, n_sites)
