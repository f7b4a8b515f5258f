"""Deep sigma point processes: layers of Gaussian processes whose draws are learned sites.

Where a deep Gaussian process draws what leaves a layer, N(μ_d(x), s_d(x)²) for unit d, here it is
one of S values μ_d(x) + ξ_sd s_d(x), the sites ξ learned with their weights ω (Jankowiak, Pleiss
and Gardner 2020). A row then has a finite mixture of Gaussians and nothing is random:

p(y | x) = Σ_s ω_s N(y | μ_s(x), s_s(x)² + σ²),

in which μ and s² are the moments of q(f(x)), its inducing values integrated out. Trained on the log
of that density itself, less β times the divergences,

Σ_n log p(y_n | x_n) − β Σ_l KL(q(v_l) ‖ N(0, I)),

it is a regularised likelihood of the predictions, and no bound on the evidence.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import HiddenLayer
from lvmcore.deep_layout import Layout, row_moments
from lvmcore.deep_likelihoods import Gaussian
from lvmcore.deep_outputs import LastLayer, Rows
from lvmcore.deep_paths import Draw
from lvmcore.deep_starts import DeepSettings, hidden_layers, last_values
from lvmcore.deep_variational import InducedDeepGP
from lvmcore.draws import standard_draws
from lvmcore.variational import LOG_2PI

__all__ = ["SigmaPointGP", "first_sites", "marginal", "sigma_point_gp"]


def marginal(layer: HiddenLayer, layout: Layout, X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of q(f(x)), the layer's values integrated out, [..., B, D] each.

    mean_d(x) + √v_d aᵀm_d and v_d (1 − aᵀ(I − V_d)a), a = C⁻¹k(Z, x), of q(v_d) = N(m_d, V_d).

    Args:
        layer: the layer.
        layout: of it, at its inducing inputs.
        X: rows, [..., B, H].
    """
    half = layer.q.factor.mT @ layout.inverse
    mean, explained = row_moments(
        layout.cross(X), layer.q.mean @ layout.inverse, layout.precision - half.mT @ half
    )
    mean = layer.variance.sqrt() * mean.mT
    offset = layer.mean(X)
    left = layer.variance * (layout.variance - explained).clamp_min(0).mT
    return mean if offset is None else mean + offset, left


class SigmaPointGP(InducedDeepGP):
    """A deep Gaussian process of Gaussian targets whose hidden layers leave S values a row.

    Args:
        hidden: hidden layers.
        last: the last layer, of a Gaussian likelihood.
        inputs: inducing inputs of each of them and of the last one, [M, H] each.
        n_sites: S; one where nothing is hidden, as all would be the same.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: LastLayer,
        inputs: Sequence[Tensor],
        n_sites: int,
    ) -> None:
        super().__init__(hidden, last, inputs, learned=True)
        widths = [layer.width for layer in hidden]
        sites = first_sites(n_sites, sum(widths), inputs[0]) if widths else None
        parts = [] if sites is None else [part.clone() for part in torch.split(sites, widths, 1)]
        self.sites = nn.ParameterList(nn.Parameter(part) for part in parts)
        weights = inputs[0].new_zeros(n_sites if widths else 1)
        self.weight_logits = nn.Parameter(weights, requires_grad=len(weights) > 1)

    @property
    def log_weights(self) -> Tensor:
        """log ω, [S]."""
        return self.weight_logits.log_softmax(0)

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """The layers at their inducing inputs: nothing is drawn; see ``DeepGP``."""
        del samples, generator
        return self.drawn(list(self.Z), (), len(self.weight_logits))

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """ξ of each hidden layer, [S, 1, D], in the place of normal numbers."""
        del samples, n_rows, generator
        return [sites[:, None] for sites in self.sites]

    def layer_moments(self, draw: Draw, number: int, X: Tensor) -> tuple[Tensor, Tensor]:
        """Of q(f(x)), the inducing values integrated out; see ``DeepGP``."""
        return marginal(self.hidden[number], draw.layouts[number], X)

    def log_density(self, draw: Draw, rows: Rows) -> Tensor:
        """log Σ_s ω_s N(y | μ_s, s_s² + σ²) of each row, [B]."""
        likelihood = self.last.likelihood
        assert isinstance(likelihood, Gaussian)
        mean, variance = self.posterior(draw).moments(draw.last, rows.k)
        total = variance + likelihood.noise
        logs = -0.5 * ((rows.Y - mean).square() / total + total.log() + LOG_2PI).sum(-1)
        return torch.logsumexp(logs.reshape(-1, logs.shape[-1]) + self.log_weights[:, None], 0)

    def rows_at_a_time(self, samples: int) -> int:
        """See ``DeepGP``; what a hidden layer sums is as wide as its units."""
        widest = max([1, *(layer.width for layer in self.hidden)])
        return super().rows_at_a_time(samples * widest)

    def average(self, each: Tensor) -> Tensor:
        """By ω; what no site has touched yet, [B, D], is the same for all."""
        if each.dim() == 2:
            return each
        return (self.log_weights.exp()[:, None, None] * each).sum(0)


def first_sites(n_sites: int, width: int, like: Tensor) -> Tensor:
    """Sites to start from, [S, D]: spread as N(0, I) is, of mean 0 and mean square 1; one is 0."""
    if n_sites == 1:
        return like.new_zeros(1, width)
    found = standard_draws(2 ** math.ceil(math.log2(n_sites)), width, like)[:n_sites]
    found = found - found.mean(0)
    return found / found.square().mean(0).sqrt().clamp_min(1e-6)


def sigma_point_gp(
    settings: DeepSettings,
    X: Tensor,
    Y: Tensor,
    Z: Tensor,
    likelihood: Gaussian,
    *,
    n_sites: int,
) -> SigmaPointGP:
    """A model at its start.

    Args:
        settings: how its layers begin; the optimiser moves q of the last one too.
        X: all inputs, standardised, [N, H].
        Y: all targets, standardised, [N, P].
        Z: inducing inputs of the first layer, [M, H]; those of the further layers are where the
            linear means of the layers before bring them.
        likelihood: of the targets.
        n_sites: S.
    """
    hidden, inputs = hidden_layers(settings, X, Z)
    q = last_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    last = LastLayer(inputs[-1].shape[1], likelihood, q)
    return SigmaPointGP(hidden, last, inputs, n_sites)
