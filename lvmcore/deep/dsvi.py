"""Deep Gaussian processes with inducing inputs in every layer; SVGP is the case of one layer.

DSVI-DGP (Salimbeni and Deisenroth 2017); SVGP (Hensman et al. 2013) without hidden layers:

Σ_n E log p(y_n | f(x_n)) − Σ_l KL(q(v_l) ‖ N(0, I)).

Inducing inputs are learned or fixed. The paper samples each row's value from its marginal; here a
layer's values at Z are sampled once, and each row given them: the marginals and so the bound are
the same, and a draw costs M operations per row and output in place of M².

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.deep_gp import DeepGP, FunctionDraw
from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.initialisation import DeepGPSettings, hidden_layers, initial_output_values
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import GaussianSites, InducingPosterior, OutputLayer
from lvmcore.numerics.quasi_random import standard_normal

__all__ = ["InducedDeepGP", "induced_deep_gp"]


class InducedDeepGP(DeepGP):
    """A deep Gaussian process with free inducing inputs.

    Args:
        hidden: hidden layers.
        last: the last layer.
        inputs: inducing inputs of each hidden layer and of the last one, [M, H] each.
        learned: whether they are optimised.
        each_draw: whether the last layer's q is optimal for each draw, if it has a closed form.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: OutputLayer,
        inputs: Sequence[Tensor],
        *,
        learned: bool,
        each_draw: bool = False,
    ) -> None:
        super().__init__(hidden, last)
        self.each_draw = each_draw
        self.Z = nn.ParameterList(
            nn.Parameter(Z.detach().clone(), requires_grad=learned) for Z in inputs
        )

    @property
    def posterior_per_draw(self) -> bool:
        """True without sampling, or if q is optimal for each draw given all rows."""
        if not isinstance(self.last.q, GaussianSites):
            return False
        return not self.hidden or (self.each_draw and self.last.closed_form)

    @property
    def n_inducing(self) -> int:
        """M."""
        return len(self.Z[-1])

    @property
    def first_inputs(self) -> Float[Tensor, "M H"]:
        """Z of the first layer, [M, H]."""
        Z: Tensor = self.Z[0].detach()
        return Z

    def start_last_unit(self, posterior: InducingPosterior, mean: Float[Tensor, "M"]) -> None:
        """See ``DeepGP``; the inducing inputs of further layers follow the unit."""
        super().start_last_unit(posterior, mean)
        for Z in self.Z[1:]:
            Z.data[:, -1] = mean

    def draw(self, samples: int, generator: torch.Generator) -> FunctionDraw:
        """Draw every hidden layer's values at its inducing inputs."""
        noise = [
            standard_normal((samples, *layer.q.mean.shape), self.Z[0], generator)
            for layer in self.hidden
        ]
        values = [layer.draw(e) for layer, e in zip(self.hidden, noise, strict=True)]
        return self.draw_from_values(list(self.Z), values, samples)


def induced_deep_gp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    Z: Float[Tensor, "M H"],
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    learned: bool = True,
    each_draw: bool = False,
) -> InducedDeepGP:
    """An initial model.

    Args:
        settings: of the initial model.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        Z: inducing inputs of the first layer, [M, H], such as `inducing_points.centroids`; the
            linear means map them to those of the further layers.
        likelihood: of the targets.
        learned: whether inducing inputs are optimised.
        each_draw: see ``InducedDeepGP``.
    """
    hidden, inputs = hidden_layers(settings, X, Z)
    q = initial_output_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    H = inputs[-1].shape[1]
    last = OutputLayer(H, likelihood, q, kernel=settings.layer_kernel(len(hidden), H, X))
    return InducedDeepGP(hidden, last, inputs, learned=learned, each_draw=each_draw)
