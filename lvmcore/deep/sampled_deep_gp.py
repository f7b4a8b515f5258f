"""A deep Gaussian process with samples of its inducing values in place of a Gaussian q.

Given whitened values u of all layers at their inducing inputs, f follows the prior. The samples are
from

π(u) ∝ N(u | 0, I) exp Σ_n E[log p(y_n | f(x_n)) | u],

the distribution q(u) with the highest DSVI bound among distributions of any form (Salimbeni and
Deisenroth 2017, whose q is a Gaussian per layer). The expectation over f of the last layer is in
closed form; one draw per row estimates that over the hidden layers without bias, and a batch of
rows the sum. Without hidden layers π is the Gaussian of Titsias (2009).

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; U_n units, those of every hidden
layer and the P outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.initialisation import DeepGPSettings, hidden_layers, initial_output_values
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import InducingPosterior, OutputLayer, ProjectedRows, Sums

__all__ = ["SampledDeepGP", "SampledDraw", "sampled_deep_gp"]


@dataclass(frozen=True)
class SampledDraw(FunctionDraw):
    """Draws of every layer's values.

    Attributes:
        outputs: whitened values of the last layer, [S, P, M].
    """

    outputs: Float[Tensor, "S P M"]


class SampledDeepGP(InducedDeepGP):
    """A deep Gaussian process with stored samples of its values; the layers' q is not used.

    Args:
        hidden: hidden layers.
        last: the last layer.
        inputs: inducing inputs of each hidden layer and of the last one, [M, H] each.
        learned: whether they are optimised.
        n_outputs: P.
    """

    #: Samples of u, [S, U_n, M].
    kept: Float[Tensor, "S U M"]

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: OutputLayer,
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

    def start_last_unit(self, posterior: InducingPosterior, mean: Float[Tensor, "M"]) -> None:
        """See ``DeepGP``; the sample of the start has the values of the unit."""
        super().start_last_unit(posterior, mean)
        self.kept[:, self.hidden[0].width - 1] = posterior.mean[0]

    def hyperparameters(self) -> list[nn.Parameter]:
        """Parameters that are not sampled: kernels, noises, and learned inducing inputs."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state with any number of samples; it need not hold the layers' q."""
        self.kept = state_dict["kept"].to(self.kept).clone()
        unused = {name: own for name, own in self.state_dict().items() if ".q." in name}
        return super().load_state_dict({**unused, **state_dict}, strict, assign)

    def function_draw(self, values: Float[Tensor, "S U M"]) -> SampledDraw:
        """The layers at samples of their values u, [S, U_n, M]."""
        widths = [layer.width for layer in self.hidden]
        *hidden, outputs = torch.split(values, [*widths, values.shape[1] - sum(widths)], 1)
        scaled = [
            layer.variance.sqrt() * u.mT for layer, u in zip(self.hidden, hidden, strict=True)
        ]
        drawn = self.draw_from_values(list(self.Z), scaled, len(values))
        return SampledDraw(**vars(drawn), outputs=outputs)

    def draw(self, samples: int, generator: torch.Generator) -> SampledDraw:
        """A number of the stored samples, evenly spaced."""
        del generator
        which = torch.linspace(0, len(self.kept) - 1, samples).round().long()
        return self.function_draw(self.kept[which])

    def posterior(
        self, draw: FunctionDraw, sums: Sums | None = None, prior: Tensor | None = None
    ) -> InducingPosterior:
        """The last layer's values at a sample, which have no variance."""
        del sums, prior
        assert isinstance(draw, SampledDraw)
        P, M = draw.outputs.shape[-2:]
        # Rows of classes have a curvature of their own for each output.
        groups = 1 if self.last.closed_form else P
        return InducingPosterior(draw.outputs, draw.outputs.new_zeros(groups, M, M))

    def log_likelihood(
        self,
        values: Float[Tensor, "U M"],
        rows: Float[Tensor, "B H"],
        Y: Float[Tensor, "B P"],
        weight: float,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Unbiased estimate of Σ_n E[log p(y_n | f(x_n)) | u], total nats, [].

        Args:
            values: u, [U_n, M].
            rows: inputs, standardised, [B, H].
            Y: their targets, [B, P].
            weight: number of rows of the table that each represents.
            generator: of one draw of the hidden layers per row.
        """
        draw = self.function_draw(values[None])
        noise = self.row_noise(1, len(rows), generator)
        projected = ProjectedRows.of_inputs(draw.last, self.inputs(draw, rows, noise), Y, weight)
        return self.last.expected_log_likelihood(draw.last, self.posterior(draw), projected)[0]

    def curvature(
        self,
        values: Float[Tensor, "U M"],
        rows: Float[Tensor, "B H"],
        Y: Float[Tensor, "B P"],
        weight: float,
        generator: torch.Generator,
    ) -> Float[Tensor, "U M M"]:
        """I + Σ_n g_n² a_n a_nᵀ of each unit, [U_n, M, M]: about −∂² log π/∂u².

        a = C⁻¹k of the unit's layer and row n; g_n is the gradient of log p(y_n) by the unit's
        value there, and g_n² the outer-product estimate of the curvature. In the last layer the
        curvature takes its place: 1/σ² of a number, −∂² E log p(y_n)/∂μ² of a class. Blocks between
        units are omitted. Arguments as of ``log_likelihood``.
        """
        values = values.detach().requires_grad_()
        draw = self.function_draw(values[None])
        noise = self.row_noise(1, len(rows), generator)
        inputs, whitened, outputs_of_layers = rows, [], []
        for layer, layer_kernel, v, e in zip(
            self.hidden, draw.layer_kernels, draw.values, noise, strict=True
        ):
            projected = ProjectedRows.of_inputs(layer_kernel, inputs, Y)
            whitened.append(projected.whitened(layer_kernel))
            mean, variance = layer.conditional_moments(layer_kernel, v, inputs)
            inputs = mean + (variance + layer.noise).sqrt() * e
            outputs_of_layers.append(inputs)
        last = ProjectedRows.of_inputs(draw.last, inputs, Y, weight)
        fit, *moments = self.last.expected_log_likelihood(draw.last, self.posterior(draw), last)
        of_last = None
        if not self.last.closed_form:
            of_last = self.last.label_sums(draw.last, last, fit, *moments)[0]
        slopes = torch.autograd.grad(fit, outputs_of_layers) if outputs_of_layers else ()
        found = []
        with torch.no_grad():
            for layer, a, slope in zip(self.hidden, whitened, slopes, strict=True):
                squared = layer.variance * slope[0].square() / weight  # weight · (slope/weight)²
                flat = a.reshape(self.n_inducing, len(rows))
                found.append((flat * squared.T[:, None]) @ flat.T)
            if of_last is None:
                a = last.whitened(draw.last).reshape(self.n_inducing, len(rows))
                of_last = weight / self.last.likelihood.site_scale * (a @ a.T)
            found.append(of_last.expand(draw.outputs.shape[1], -1, -1))
            return torch.eye(self.n_inducing).to(values) + torch.cat(found)


def sampled_deep_gp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    Z: Float[Tensor, "M H"],
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    learned: bool,
) -> SampledDeepGP:
    """An initial model; arguments as of `dsvi.induced_deep_gp`."""
    hidden, inputs = hidden_layers(settings, X, Z)
    q = initial_output_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    H = inputs[-1].shape[1]
    last = OutputLayer(H, likelihood, q, kernel=settings.layer_kernel(len(hidden), H, X))
    return SampledDeepGP(hidden, last, inputs, learned=learned, n_outputs=Y.shape[1])
