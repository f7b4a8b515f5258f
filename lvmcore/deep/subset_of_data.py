"""Deep Gaussian processes whose inducing variables are the functions at a subset of rows.

SoD-DGP (Jain, Srijith and Khan 2021). No inducing input is learned: in the first layer they are the
rows of the subset, in each further layer the draws of the previous one for those rows, Z = f(Z') +
ε, ε ~ N(0, σ_l² I). The last layer with a Gaussian likelihood conditions on the subset's targets in
closed form. With S̄ the other rows, the bound is

E log p(y_S̄ | f) + E log p(y_S | f_S) − Σ_l Σ_d E_Z KL(q(f_d(Z)) ‖ p(· | Z)) − E_Z KL(q̂ ‖ p(· | Z)).

In the paper q(f(Z)) does not depend on Z; here it is N(mean(Z) + C m, C V Cᵀ), which is valid as
well and avoids the heavy tails of the divergence where drawn rows coincide. For numeric targets q̂
also conditions on the targets of the other rows, given their draws of the hidden layers
(``DeepGP.optimal_posterior``): a tighter bound without further parameters.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP, FunctionDraw
from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.initialisation import DeepGPSettings, hidden_layers, initial_output_values
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.output_layer import OutputLayer
from lvmcore.numerics.quasi_random import standard_normal

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
    X: Float[Tensor, "M H"]
    Y: Float[Tensor, "M P"]

    def __init__(
        self, hidden: Sequence[HiddenLayer], last: OutputLayer, rows: Tensor, X: Tensor, Y: Tensor
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
    def first_inputs(self) -> Float[Tensor, "M H"]:
        """The subset's inputs, [M, H]."""
        return self.X

    @property
    def targets(self) -> Float[Tensor, "M P"]:
        """Targets of the subset, [M, P]."""
        return self.Y

    @property
    def posterior_per_draw(self) -> bool:
        """True for numeric targets: the closed form conditions on all rows."""
        return self.last.closed_form

    def remaining_rows(self, n_rows: int) -> Tensor:
        """Positions of the rows outside the subset."""
        outside = torch.ones(n_rows, dtype=torch.bool)
        outside[self.subset.cpu()] = False
        return torch.nonzero(outside)[:, 0]

    def draw(self, samples: int, generator: torch.Generator) -> FunctionDraw:
        """Draw f of the subset layer by layer, each at the previous layer's draws."""
        inputs, values, layer_kernels = [self.X], [], []
        for layer in self.hidden:
            Z = inputs[-1]
            layer_kernel = layer.kernel_at(Z)
            noise = standard_normal((samples, *layer.q.mean.shape), Z, generator)
            v = layer.draw(noise)
            own = standard_normal((samples, len(self.X), layer.width), Z, generator)
            inputs.append(layer_kernel.values(v) + layer.noise.sqrt() * own)
            layer_kernels.append(layer_kernel)
            values.append(v)
        last = self.last.kernel_at(inputs[-1])
        return FunctionDraw(tuple(inputs), tuple(values), tuple(layer_kernels), last, samples)


def subset_deep_gp(
    settings: DeepGPSettings,
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    rows: Tensor,
    likelihood: GaussianNoise | SoftmaxClasses,
) -> SubsetDeepGP:
    """An initial model.

    Args:
        settings: of the initial model.
        X: all inputs, standardised, [N, H].
        Y: all targets: standardised numbers, or signs of classes, [N, P].
        rows: positions of the subset, [M].
        likelihood: of the targets.
    """
    hidden, inputs = hidden_layers(settings, X, X[rows])
    # Labels of the subset enter by natural-gradient steps, as those of the other rows.
    n_rows = len(X) - (len(rows) if isinstance(likelihood, GaussianNoise) else 0)
    q = initial_output_values(settings, n_rows, inputs[-1], Y.shape[1], likelihood)
    H = inputs[-1].shape[1]
    last = OutputLayer(H, likelihood, q, kernel=settings.layer_kernel(len(hidden), H, X))
    return SubsetDeepGP(hidden, last, rows, X[rows], Y[rows])
