"""Deep Gaussian processes whose inducing variables are the functions at a subset of the rows.

SoD-DGP (Jain, Srijith and Khan 2021). No inducing input is learned: in the first layer they are the
rows of the subset, in each further one what the layer before drew for those rows, Z = f(Z') + ε,
ε ~ N(0, σ_l² I). At the last layer a Gaussian likelihood takes the subset's own targets in closed
form. With S̄ the other rows, the bound is

E log p(y_S̄ | f) + E log p(y_S | f_S) − Σ_l Σ_d E_Z KL(q(f_d(Z)) ‖ p(· | Z)) − E_Z KL(q̂ ‖ p(· | Z)).

Where the paper keeps q(f(Z)) the same whatever Z is, here it follows Z, N(mean(Z) + C m, C V Cᵀ):
as valid, and without the divergence's heavy tails where drawn rows meet. And q̂ of a number takes
the targets of the other rows too, given what the hidden layers drew for them
(``DeepGP.given_rows``): a bound closer to the evidence, at no further parameter.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lvmcore.deep_layers import HiddenLayer, standard_normal
from lvmcore.deep_likelihoods import Classes, Gaussian
from lvmcore.deep_outputs import LastLayer
from lvmcore.deep_paths import DeepGP, Draw
from lvmcore.deep_starts import DeepSettings, hidden_layers, last_values

__all__ = ["SubsetDeepGP", "subset_deep_gp"]


class SubsetDeepGP(DeepGP):
    """A deep Gaussian process on a subset of its rows.

    Args:
        hidden: hidden layers.
        last: the last layer.
        rows: positions of the subset, [M].
        X: its inputs, [M, H].
        Y: its targets, [M, P].
    """

    subset: Tensor
    X: Tensor
    Y: Tensor

    def __init__(
        self, hidden: Sequence[HiddenLayer], last: LastLayer, rows: Tensor, X: Tensor, Y: Tensor
    ) -> None:
        super().__init__(hidden, last)
        self.register_buffer("subset", rows.clone())
        self.register_buffer("X", X.clone())
        self.register_buffer("Y", Y.clone())

    @property
    def n_inducing(self) -> int:
        """M."""
        return len(self.X)

    @property
    def targets(self) -> Tensor:
        """Of the subset, [M, P]."""
        return self.Y

    @property
    def conditional(self) -> bool:
        """Of a number: the closed form takes all rows as well as those of the subset."""
        return self.last.absorbs

    def others(self, n_rows: int) -> Tensor:
        """Positions of the rows outside the subset."""
        outside = torch.ones(n_rows, dtype=torch.bool)
        outside[self.subset.cpu()] = False
        return torch.nonzero(outside)[:, 0]

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """Draw f of the subset layer by layer, each at the inputs that the one before drew."""
        inputs, values, layouts = [self.X], [], []
        for layer in self.hidden:
            Z = inputs[-1]
            layout = layer.at(Z)
            noise = standard_normal((samples, *layer.q.mean.shape), Z, generator)
            v = layer.draw(noise)
            own = standard_normal((samples, len(self.X), layer.width), Z, generator)
            inputs.append(layout.values(v) + layer.noise.sqrt() * own)
            layouts.append(layout)
            values.append(v)
        last = self.last.at(inputs[-1])
        return Draw(tuple(inputs), tuple(values), tuple(layouts), last, samples)


def subset_deep_gp(
    settings: DeepSettings,
    X: Tensor,
    Y: Tensor,
    rows: Tensor,
    likelihood: Gaussian | Classes,
) -> SubsetDeepGP:
    """A model at its start.

    Args:
        settings: how it begins.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        rows: positions of the subset, [M].
        likelihood: of the targets.
    """
    hidden, inputs = hidden_layers(settings, X, X[rows])
    # Labels of the subset are taken in by steps, as those of the other rows are.
    n_rows = len(X) - (len(rows) if isinstance(likelihood, Gaussian) else 0)
    q = last_values(settings, n_rows, inputs[-1], Y.shape[1], likelihood)
    last = LastLayer(inputs[-1].shape[1], likelihood, q)
    return SubsetDeepGP(hidden, last, rows, X[rows], Y[rows])
