"""Deep Gaussian processes: draws of the functions of all layers, and what rows are under them.

A draw holds the values of every hidden layer's functions at its inducing inputs, S of them at once.
Given it each row goes its own way: f with mean(x) + aᵀv and k(x, x) − aᵀa, then the layer's noise.
A row's marginal is exact; jointly, rows are independent given the draw, which neither a bound that
is a sum over rows nor a prediction of each row can tell from the process itself. A prediction adds
the same normal numbers to every row, so that it does not depend on the rows beside it, nor on how
many there are at a time.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import HiddenLayer, Layout, standard_normal
from lvmcore.deep_outputs import LastLayer, Posterior

__all__ = ["DeepGP", "Draw"]

# Cells of draws × inducing inputs × rows at a time: bounds memory, changes no result.
CELLS_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class Draw:
    """S draws of the functions of every hidden layer at its inducing inputs.

    Attributes:
        layouts: of the hidden layers, in order.
        values: whitened, [S, M, D] each.
        last: layout of the last layer.
        samples: S.
    """

    layouts: tuple[Layout, ...]
    values: tuple[Tensor, ...]
    last: Layout
    samples: int


class DeepGP(nn.Module):
    """Hidden layers and a last one; what their inducing inputs are is the subclass's.

    Args:
        hidden: the hidden layers, none for a single Gaussian process.
        last: the last layer.
    """

    #: The last layer begins with a fitted kernel and noise: the hidden layers are to move first.
    settled = False

    def __init__(self, hidden: Sequence[HiddenLayer], last: LastLayer) -> None:
        super().__init__()
        self.hidden: Sequence[HiddenLayer] = nn.ModuleList(hidden)  # type: ignore[assignment]
        self.last = last

    def draw(self, samples: int, generator: torch.Generator) -> Draw:
        """Draw the functions at the inducing inputs of every hidden layer."""
        raise NotImplementedError

    @property
    def targets(self) -> Tensor | None:
        """Targets that the inducing inputs bring along, [M, P]; None where there are none."""
        return None

    def others(self, n_rows: int) -> Tensor:
        """Positions of the rows that the inducing inputs do not already speak for."""
        return torch.arange(n_rows)

    def posterior(self, draw: Draw) -> Posterior:
        """q of the last layer's values, under a draw."""
        return self.last.posterior(draw.last, self.targets if self.last.absorbs else None)

    def inputs(self, draw: Draw, X: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """Inputs of the last layer, [S, B, H], of rows X [B, H] and numbers [S, B or 1, D]."""
        for layer, layout, v, e in zip(self.hidden, draw.layouts, draw.values, noise, strict=True):
            mean, variance = layer.rows(layout, v, X)
            X = mean + (variance + layer.noise).sqrt() * e
        return X

    def kl_terms(self, posterior: Posterior) -> dict[str, Tensor]:
        """The divergences of a bound, by name and negative."""
        terms = {
            f"KL of layer {number}": -layer.q.kl()
            for number, layer in enumerate(self.hidden, start=1)
        }
        return terms | {"KL of the last layer": -posterior.kl()}

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """Normal numbers for each hidden layer, [S, n_rows, D]."""
        like = self.last.log_variance
        return [
            standard_normal((samples, n_rows, layer.width), like, generator)
            for layer in self.hidden
        ]

    @torch.no_grad()
    def predict(
        self, X: Tensor, n_samples: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Means and variances of the last layer's f under each draw, [S, n, P] each.

        Args:
            X: rows, [n, H].
            n_samples: S.
            generator: of the draws: two in the same state give each row the same result, whatever
                rows are beside it.

        Raises:
            NumericalError: a kernel matrix could not be factorised.
        """
        draw, noise = self._shared_draw(n_samples, generator)
        posterior = self.posterior(draw)
        means, variances = [], []
        for some in self.blocks(X, n_samples):
            k = draw.last.cross(self.inputs(draw, some, noise))
            mean, variance = posterior.moments(draw.last, k)
            shape = (n_samples, *mean.shape[-2:])
            means.append(mean.expand(shape))
            variances.append(variance.expand(shape))
        return torch.cat(means, 1), torch.cat(variances, 1)

    @torch.no_grad()
    def hidden_means(
        self, X: Tensor, layer: int, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        """Means of a hidden layer's f at rows X [n, H], averaged over draws, [n, D].

        Args:
            X: rows.
            layer: which, counted from 1.
            n_samples: draws.
            generator: see ``predict``.
        """
        draw, noise = self._shared_draw(n_samples, generator)
        found = []
        for some in self.blocks(X, n_samples):
            before = some
            for number in range(layer):
                at, v, e = draw.layouts[number], draw.values[number], noise[number]
                mean, variance = self.hidden[number].rows(at, v, before)
                before = mean + (variance + self.hidden[number].noise).sqrt() * e
            found.append(mean.mean(0))
        return torch.cat(found)

    def _shared_draw(self, samples: int, generator: torch.Generator) -> tuple[Draw, list[Tensor]]:
        """A draw, and the numbers that all rows share."""
        return self.draw(samples, generator), self.row_noise(samples, 1, generator)

    def blocks(self, X: Tensor, samples: int) -> Iterator[Tensor]:
        """Rows some at a time, [B, H] each; one empty block where there is none."""
        M = self.n_inducing
        yield from torch.split(X, max(1, CELLS_AT_A_TIME // (samples * M)))

    @property
    def n_inducing(self) -> int:
        """M of the last layer."""
        raise NotImplementedError
