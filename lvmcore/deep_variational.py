"""Deep Gaussian processes with inducing inputs of their own in every layer; one layer is SVGP.

DSVI-DGP (Salimbeni and Deisenroth 2017); SVGP (Hensman and others 2013) where nothing is hidden:

Σ_n E log p(y_n | f(x_n)) − Σ_l KL(q(v_l) ‖ N(0, I)).

Inducing inputs are learned, or stay where they begin. Where the paper draws each row's value from
its marginal, here a layer's values at Z are drawn once and each row given them: the marginals and
so the bound are the same, and a draw costs B M operations a row and output in the place of B M².

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import HiddenLayer, standard_normal
from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_outputs import LastLayer, Sites
from lvmcore.deep_paths import DeepGP, Draw
from lvmcore.deep_starts import DeepSettings, hidden_layers, last_values

__all__ = ["InducedDeepGP", "induced_deep_gp"]


class InducedDeepGP(DeepGP):
    """A deep Gaussian process with free inducing inputs.

    Args:
        hidden: hidden layers.
        last: the last layer.
        inputs: inducing inputs of each of them and of the last one, [M, H] each.
        learned: whether the optimiser moves them.
        each_draw: the last layer's q is that of each draw, where it has a closed form.
    """

    def __init__(
        self,
        hidden: Sequence[HiddenLayer],
        last: LastLayer,
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
    def conditional(self) -> bool:
        """Where nothing is drawn, or q is that of each draw: the optimum of all rows."""
        if not isinstance(self.last.q, Sites):
            return False
        return not self.hidden or (self.each_draw and self.last.absorbs)

    @property
    def n_inducing(self) -> int:
        """M."""
        return len(self.Z[-1])

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """Draw every hidden layer's values at its inducing inputs."""
        noise = [
            standard_normal((samples, *layer.q.mean.shape), self.Z[0], generator)
            for layer in self.hidden
        ]
        values = [layer.draw(e) for layer, e in zip(self.hidden, noise, strict=True)]
        return self.drawn(list(self.Z), values, samples)


def induced_deep_gp(
    settings: DeepSettings,
    X: Tensor,
    Y: Tensor,
    Z: Tensor,
    likelihood: Gaussian | Classes,
    *,
    learned: bool = True,
    each_draw: bool = False,
) -> InducedDeepGP:
    """A model at its start.

    Args:
        settings: how it begins.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        Z: inducing inputs of the first layer, [M, H], such as `subsets.centroids`; those of the
            further layers are where the linear means of the layers before bring them.
        likelihood: of the targets.
        learned: whether inducing inputs move.
        each_draw: see ``InducedDeepGP``.
    """
    hidden, inputs = hidden_layers(settings, X, Z)
    q = last_values(settings, len(X), inputs[-1], Y.shape[1], likelihood)
    last = LastLayer(inputs[-1].shape[1], likelihood, q, kernel=settings.kernel)
    return InducedDeepGP(hidden, last, inputs, learned=learned, each_draw=each_draw)
