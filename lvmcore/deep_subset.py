"""Deep Gaussian processes whose inducing variables are the functions at a subset of the rows.

SoD-DGP (Jain, Srijith and Khan 2021). No inducing input is learned: in the first layer they are the
rows of the subset, in each further one what the layer before drew for those rows, Z = f(Z') + ε,
ε ~ N(0, σ_l² I). At the last layer a Gaussian likelihood takes the subset's own targets in closed
form. With S̄ the other rows, the bound is

E log p(y_S̄ | f) + E log p(y_S | f_S) − Σ_l Σ_d E_Z KL(q(f_d(Z)) ‖ p(· | Z)) − E_Z KL(q̂ ‖ p(· | Z)).

Where the paper keeps q(f(Z)) the same whatever Z is (`Free`), the whitened form lets it follow Z
(`Whitened`): as valid, and without the divergence's heavy tails where drawn rows meet.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lvmcore.deep_layers import Free, HiddenLayer, Layout, Values, Whitened, standard_normal
from lvmcore.deep_outputs import Classes, Gaussian, LastLayer, Sites
from lvmcore.deep_paths import DeepGP, Draw, carried, principal_axes
from lvmcore.stochastic import LONGEST_LABEL_STEP, step_length

__all__ = ["SubsetDeepGP", "SubsetSettings", "subset_deep_gp"]


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

    def others(self, n_rows: int) -> Tensor:
        """Positions of the rows outside the subset."""
        outside = torch.ones(n_rows, dtype=torch.bool)
        outside[self.subset.cpu()] = False
        return torch.nonzero(outside)[:, 0]

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """Draw f of the subset layer by layer, each at the inputs that the one before drew."""
        Z, layouts, values = self.X, [], []
        for layer in self.hidden:
            layout = layer.at(Z)
            noise = standard_normal((samples, *layer.q.mean.shape), Z, generator)
            v = layer.q.draw(layout, noise)
            own = standard_normal((samples, len(self.X), layer.width), Z, generator)
            Z = layout.values(v) + layer.noise.sqrt() * own
            layouts.append(layout)
            values.append(v)
        return Draw(tuple(layouts), tuple(values), self.last.at(Z), samples)


@dataclass(frozen=True)
class SubsetSettings:
    """How such a model begins.

    Attributes:
        n_hidden: hidden layers.
        width: D of each; None for min(30, H).
        form: whether q of a layer's values follows its inputs.
        linear: a linear mean in the hidden layers; without one they begin close to it.
        spread: variance of q in the hidden layers.
        hidden_variance: of their kernels.
        hidden_noise: σ_l².
        batch_size: rows a step, of which the length of the steps of q of the last layer depends.
    """

    n_hidden: int = 2
    width: int | None = None
    form: Literal["whitened", "free"] = "whitened"
    linear: bool = True
    spread: float = 1e-5
    hidden_variance: float = 1.0
    hidden_noise: float = 1e-5
    batch_size: int = 2000


def subset_deep_gp(
    settings: SubsetSettings,
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
    Z, hidden = X[rows], []
    width = settings.width or min(30, X.shape[1])
    before = X
    for _ in range(settings.n_hidden):
        W = principal_axes(before, width)
        hidden.append(_hidden_layer(settings, Z, W))
        before, Z = before @ W, Z @ W
    last_inputs = Z.shape[1]
    q = _last_values(settings, len(X) - len(rows), Z, Y.shape[1], likelihood)
    last = LastLayer(last_inputs, likelihood, q)
    return SubsetDeepGP(hidden, last, rows, X[rows], Y[rows])


def _hidden_layer(settings: SubsetSettings, Z: Tensor, W: Tensor) -> HiddenLayer:
    """A layer that is about linear at the inputs Z [M, H]."""
    linear = W if settings.linear else None
    wanted, variance = Z @ W, settings.hidden_variance
    start = torch.zeros_like(wanted.T)
    if settings.form == "free":
        start = wanted.T
    elif linear is None:
        H = Z.shape[1]
        ones = Z.new_ones(())
        start = carried(Layout.of(variance * ones, H**0.5 * Z.new_ones(H), Z), wanted)
    form = Free if settings.form == "free" else Whitened
    return HiddenLayer(
        Z.shape[1],
        form(start, settings.spread),
        variance=variance,
        noise=settings.hidden_noise,
        linear=linear,
    )


def _last_values(
    settings: SubsetSettings,
    n_others: int,
    Z: Tensor,
    n_outputs: int,
    likelihood: Gaussian | Classes,
) -> Sites | Values:
    gaussian = isinstance(likelihood, Gaussian)
    if settings.form == "free" and gaussian:
        return Free(Z.new_zeros(n_outputs, len(Z)), 1.0)
    size = min(settings.batch_size, max(1, n_others))
    most = 1.0 if gaussian else LONGEST_LABEL_STEP
    step = step_length(size, len(Z), most=most)
    if gaussian and not settings.n_hidden and size >= n_others:
        step = 1.0
    return Sites(len(Z), n_outputs, Z, shared=gaussian, step=step)
