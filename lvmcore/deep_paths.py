"""Deep Gaussian processes: draws of the functions of all layers, and what rows are under them.

A draw holds the values of every hidden layer's functions at its inducing inputs, S of them at once.
Given it each row goes its own way: f with mean(x) + aᵀv and k(x, x) − aᵀa, then the layer's noise.
A row's marginal is exact; jointly, rows are independent given the draw, which neither a bound that
is a sum over rows nor a prediction of each row can tell from the process itself.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import HiddenLayer, standard_normal
from lvmcore.deep_layout import Layout
from lvmcore.deep_outputs import LastLayer, Posterior, Rows, Sites, Sums
from lvmcore.stochastic import LONGEST_LABEL_STEP

__all__ = ["DeepGP", "Draw"]

# Cells of draws × inducing inputs × rows at a time: bounds memory, changes no result.
CELLS_AT_A_TIME = 1 << 22
# As many are kept from turn to turn, where turns are taken.
KEPT_CELLS = 1 << 25
# Turns in which a q of all rows finds the weights of its prior and of the rows; those in which one
# of classes finds its optimum.
TURNS, CLASS_TURNS = 5, 8


@dataclass(frozen=True)
class Draw:
    """S draws of the functions of every hidden layer at its inducing inputs.

    Attributes:
        inputs: Z of each hidden layer and of the last one, [M, H] or [S, M, H] each.
        values: of each hidden layer, whitened, [S, M, D] each.
        layouts: of the hidden layers at Z.
        last: layout of the last layer.
        samples: S.
    """

    inputs: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    layouts: tuple[Layout, ...]
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

    def drawn(self, inputs: Sequence[Tensor], values: Sequence[Tensor], samples: int) -> Draw:
        """A draw of which Z of every layer and the hidden layers' whitened values are known."""
        hidden = tuple(layer.at(Z) for layer, Z in zip(self.hidden, inputs, strict=False))
        return Draw(tuple(inputs), tuple(values), hidden, self.last.at(inputs[-1]), samples)

    @property
    def targets(self) -> Tensor | None:
        """Targets that the inducing inputs bring along, [M, P]; None where there are none."""
        return None

    def others(self, n_rows: int) -> Tensor:
        """Positions of the rows that the inducing inputs do not already speak for."""
        return torch.arange(n_rows)

    @property
    def conditional(self) -> bool:
        """Whether the last layer's q is that of each draw, the optimum given the draw's rows."""
        return False

    def posterior(
        self, draw: Draw, sums: Sums | None = None, prior: Tensor | None = None
    ) -> Posterior:
        """q of the last layer's values, under a draw; of what is given as of ``LastLayer``."""
        targets = self.targets if self.last.absorbs else None
        return self.last.posterior(draw.last, targets, sums, prior)

    @torch.no_grad()
    def given_rows(self, draw: Draw, X: Tensor, Y: Tensor, generator: torch.Generator) -> Posterior:
        """q of the last layer's values that is best for each draw, of all rows.

        With the inputs Z^L and h_n of a draw, q(v) ∝ N(0, I) Π_n N(y_n | aᵀv, σ²), a = C⁻¹k(Z^L,
        h_n): what a sparse Gaussian process on these inputs would have (Titsias 2009). Where a
        prior or a noise is q-exponential, that is turned into the optimum in a few turns, each with
        the weights of prior and rows at the q of the one before. The first turn has those of the q
        that was followed, the same for all draws, as that q knows no draw's rows. Of classes the
        optimum has no closed form: turns go towards what all rows add at the q of the one before,
        not all the way, as each class takes the others for what they were.

        Args:
            draw: of the functions.
            X: rows beside those of the inducing inputs, [N, H].
            Y: their targets, [N, P].
            generator: of the rows' own noise.
        """
        state = generator.get_state()

        def made() -> Iterator[Rows]:
            generator.set_state(state)
            for some, targets in self.blocks_of(X, Y, draw.samples):
                noise = self.row_noise(draw.samples, len(some), generator)
                yield Rows(draw.last.cross(self.inputs(draw, some, noise)), targets)

        few = draw.samples * self.n_inducing * len(X) <= KEPT_CELLS
        kept = list(made()) if few else None

        def rows() -> Iterable[Rows]:
            return made() if kept is None else kept

        return (self._of_numbers if self.last.absorbs else self._of_classes)(draw, rows)

    def _of_numbers(self, draw: Draw, rows: Callable[[], Iterable[Rows]]) -> Posterior:
        """``given_rows`` of numeric targets."""
        last = self.last
        if not last.reweighs:
            return self.posterior(draw, _total(last.gaussian_sums(draw.last, r) for r in rows()))
        found = self.posterior(draw)
        for turn in range(TURNS):
            prior, shared = last.prior_under(found), turn == 0
            weighed = (last.weighed(draw.last, found, r, shared=shared) for r in rows())
            found = self.posterior(
                draw, _total(last.gaussian_sums(draw.last, r) for r in weighed), prior
            )
        return found

    def _of_classes(self, draw: Draw, rows: Callable[[], Iterable[Rows]]) -> Posterior:
        """``given_rows`` of classes."""
        last, found = self.last, self.posterior(draw)
        assert isinstance(last.q, Sites)
        curvature, shift = last.q.curvature, last.q.shift
        for _ in range(CLASS_TURNS):
            prior = last.prior_under(found) if last.reweighs else None
            added = _total(last.label_sums_under(draw.last, found, r) for r in rows())
            curvature = curvature.lerp(added[0], LONGEST_LABEL_STEP)
            shift = shift.lerp(added[1], LONGEST_LABEL_STEP)
            found = self.posterior(draw, (curvature, shift), prior)
        return found

    def inputs(self, draw: Draw, X: Tensor, noise: Sequence[Tensor]) -> Tensor:
        """Inputs of the last layer, [S, B, H], of rows X [B, H] and numbers [S, B or 1, D]."""
        for number, e in enumerate(noise):
            mean, variance = self.layer_moments(draw, number, X)
            X = mean + (variance + self.hidden[number].noise).sqrt() * e
        return X

    def layer_moments(self, draw: Draw, number: int, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of f of hidden layer ``number``, from 0, at its inputs [.., B, H]."""
        return self.hidden[number].rows(draw.layouts[number], draw.values[number], X)

    def kl_terms(self, posterior: Posterior) -> dict[str, Tensor]:
        """The divergences of a bound, by name and negative."""
        terms = {
            f"KL of layer {number}": -layer.q.kl()
            for number, layer in enumerate(self.hidden, start=1)
        }
        return terms | {"KL of the last layer": -posterior.kl(self.last.q.exponent)}

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """Normal numbers for each hidden layer, [S, n_rows, D]."""
        like = self.last.log_variance
        return [
            standard_normal((samples, n_rows, layer.width), like, generator)
            for layer in self.hidden
        ]

    def shared_noise(self, samples: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Normal numbers that all rows share, [S, 1, D] of each hidden layer."""
        return tuple(self.row_noise(samples, 1, generator))

    def blocks_of(self, X: Tensor, Y: Tensor, samples: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows and their targets some at a time; one empty block where there is none."""
        size = self.rows_at_a_time(samples)
        yield from zip(torch.split(X, size), torch.split(Y, size), strict=True)

    def rows_at_a_time(self, samples: int) -> int:
        """Rows of a block under so many draws."""
        return max(1, CELLS_AT_A_TIME // (samples * self.n_inducing))

    def hidden_mean(self, draw: Draw, noise: Sequence[Tensor], X: Tensor, number: int) -> Tensor:
        """Means of hidden layer ``number``, from 1, at rows X [B, H], over the draws, [B, D]."""
        before = self.inputs(draw, X, noise[: number - 1])
        return self.average(self.layer_moments(draw, number - 1, before)[0])

    def average(self, each: Tensor) -> Tensor:
        """Over the draws, [S, ...]."""
        return each.mean(0)

    @property
    def n_inducing(self) -> int:
        """M of the last layer."""
        raise NotImplementedError


def _total(parts: Iterable[Sums]) -> Sums:
    return reduce(lambda a, b: (a[0].add_(b[0]), a[1].add_(b[1])), parts)
