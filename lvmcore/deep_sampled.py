"""A deep Gaussian process whose values at inducing inputs are draws, not a Gaussian q.

Given whitened values u of all layers at their inducing inputs, f follows the prior. The draws are
of

π(u) ∝ N(u | 0, I) exp Σ_n E[log p(y_n | f(x_n)) | u],

which of all distributions q(u), of whatever form, is the one with the highest DSVI bound
(Salimbeni and Deisenroth 2017), whose q is a Gaussian a layer. The expectation over f of the last
layer is in closed form; over the hidden ones one draw a row estimates it without bias, and so do
some rows for all. Without hidden layers π is a Gaussian, that of Titsias (2009).

Notation: lvmcore/README.md and lvmcore/deep_layers.py; U_n units, those of every hidden layer and
the P outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import HiddenLayer
from lvmcore.deep_likelihoods import Gaussian
from lvmcore.deep_outputs import LastLayer, Posterior, Rows, Sums
from lvmcore.deep_paths import Draw
from lvmcore.deep_starts import DeepSettings, hidden_layers, last_values
from lvmcore.deep_variational import InducedDeepGP

__all__ = ["SampledDeepGP", "SampledDraw", "sampled_deep_gp"]


@dataclass(frozen=True)
class SampledDraw(Draw):
    """Draws of every layer's values.

    Attributes:
        outputs: whitened values of the last layer, [S, P, M].
    """

    outputs: Tensor


class SampledDeepGP(InducedDeepGP):
    """A deep Gaussian process with kept draws of all its values; the layers' own q is not used.

    Args:
        hidden: hidden layers.
        last: the last layer.
        inputs: inducing inputs of each of them and of the last one, [M, H] each.
        learned: whether the optimiser moves them.
        n_outputs: P.
    """

    #: Kept draws of u, [S, U_n, M].
    kept: Tensor

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: LastLayer,
        inputs: Sequence[Tensor],
        *,
        learned: bool,
        n_outputs: int,
    ) -> None:
        super().__init__(hidden, last, inputs, learned=learned)
        for layer in (*self.hidden, self.last):
            layer.q.requires_grad_(False)
        units = sum(layer.width for layer in self.hidden) + n_outputs
        self.register_buffer("kept", inputs[-1].new_zeros(1, units, self.n_inducing))

    def hyperparameters(self) -> list[nn.Parameter]:
        """What is not drawn: kernels, noises, and the inducing inputs where they move."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Take over a state with however many kept draws; the layers' own q may be left out."""
        self.kept = state_dict["kept"].to(self.kept).clone()
        idle = {name: own for name, own in self.state_dict().items() if ".q." in name}
        return super().load_state_dict({**idle, **state_dict}, strict, assign)

    def at(self, values: Tensor) -> SampledDraw:
        """The layers at draws of their values u, [S, U_n, M]."""
        widths = [layer.width for layer in self.hidden]
        *hidden, outputs = torch.split(values, [*widths, values.shape[1] - sum(widths)], 1)
        scaled = [
            layer.variance.sqrt() * u.mT for layer, u in zip(self.hidden, hidden, strict=True)
        ]
        drawn = self.drawn(list(self.Z), scaled, len(values))
        return SampledDraw(**vars(drawn), outputs=outputs)

    def draw(self, samples: int, generator: torch.Generator) -> SampledDraw:
        """So many of the kept draws, evenly spaced; all of them, each once, where it is as many."""
        del generator
        which = torch.linspace(0, len(self.kept) - 1, samples).round().long()
        return self.at(self.kept[which])

    def posterior(
        self, draw: Draw, sums: Sums | None = None, prior: Tensor | None = None
    ) -> Posterior:
        """The last layer's values under a draw: known, so of no variance, whatever rows say."""
        del sums, prior
        assert isinstance(draw, SampledDraw)
        outputs = draw.outputs
        return Posterior(outputs, outputs.new_zeros(1, outputs.shape[-1], outputs.shape[-1]))

    def log_likelihood(
        self, values: Tensor, rows: Tensor, Y: Tensor, weight: float, generator: torch.Generator
    ) -> Tensor:
        """Unbiased estimate of Σ_n E[log p(y_n | f(x_n)) | u], total nats, [].

        Args:
            values: u, [U_n, M].
            rows: inputs, standardised, [B, H].
            Y: their targets, [B, P].
            weight: how many rows each stands for.
            generator: of one draw a row of what the hidden layers make of it.
        """
        draw = self.at(values[None])
        noise = self.row_noise(1, len(rows), generator)
        k = draw.last.cross(self.inputs(draw, rows, noise))
        return self.last.fit(draw.last, self.posterior(draw), Rows(k, Y, weight))[0]

    def curvature(
        self, values: Tensor, rows: Tensor, Y: Tensor, weight: float, generator: torch.Generator
    ) -> Tensor:
        """I + Σ_n g_n² a_n a_nᵀ of each unit, [U_n, M, M]: about −∂² log π/∂u².

        a = C⁻¹k of the unit's layer and row n; g_n is the slope of log p(y_n) by the unit's value
        there, its square the usual estimate of what a likelihood says of it, which for the last
        layer is 1/σ² exactly. Units are taken for independent of one another. Arguments as of
        ``log_likelihood``.
        """
        values = values.detach().requires_grad_()
        draw = self.at(values[None])
        noise = self.row_noise(1, len(rows), generator)
        before, met, reached = rows, [], []
        for layer, layout, v, e in zip(self.hidden, draw.layouts, draw.values, noise, strict=True):
            met.append(Rows(layout.cross(before), Y).whitened(layout))
            mean, variance = layer.rows(layout, v, before)
            before = mean + (variance + layer.noise).sqrt() * e
            reached.append(before)
        k = draw.last.cross(before)
        fit = self.last.fit(draw.last, self.posterior(draw), Rows(k, Y, weight))[0]
        slopes = torch.autograd.grad(fit, reached) if reached else ()
        found = []
        with torch.no_grad():
            for layer, a, slope in zip(self.hidden, met, slopes, strict=True):
                told = layer.variance * slope[0].square() / weight  # weight (slope/weight)²
                flat = a.reshape(self.n_inducing, len(rows))
                found.append((flat * told.T[:, None]) @ flat.T)
            a = Rows(k, Y).whitened(draw.last).reshape(self.n_inducing, len(rows))
            outputs = draw.outputs.shape[1]
            found.append((weight / self.last.likelihood.unit * (a @ a.T)).expand(outputs, -1, -1))
            return torch.eye(self.n_inducing).to(values) + torch.cat(found)


def sampled_deep_gp(
    settings: DeepSettings, X: Tensor, Y: Tensor, Z: Tensor, likelihood: Gaussian, *, learned: bool
) -> SampledDeepGP:
    """A model at its start; arguments as of `deep_variational.induced_deep_gp`."""
    hidden, inputs = hidden_layers(settings, X, Z)
    q = last_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    last = LastLayer(inputs[-1].shape[1], likelihood, q)
    return SampledDeepGP(hidden, last, inputs, learned=learned, n_outputs=Y.shape[1])
