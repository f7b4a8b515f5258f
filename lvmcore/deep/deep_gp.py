"""Deep Gaussian processes: draws of the functions of all layers, and the moments of rows.

A draw holds the values of every hidden layer's functions at its inducing inputs, S draws at once.
Given it, rows are propagated independently: f has mean mean(x) + aᵀv and variance k(x, x) − aᵀa,
plus the layer's noise. A row's marginal is exact. The joint distribution of rows is not, which
affects neither a bound that is a sum over rows nor the prediction of a row.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.hidden_layer import HiddenLayer
from lvmcore.deep.layer_kernel import LayerKernel
from lvmcore.deep.output_layer import (
    GaussianSites,
    InducingPosterior,
    OutputLayer,
    ProjectedRows,
    Sums,
)
from lvmcore.numerics.block_sizes import block_cells
from lvmcore.numerics.quasi_random import standard_normal
from lvmcore.training.batches import LONGEST_LABEL_STEP

__all__ = ["DeepGP", "FunctionDraw"]

# Cells of draws × inducing inputs × rows in a block; bounds memory, does not change results.
CHUNK_CELLS = 1 << 22
# Cells that are cached between fixed-point steps at most.
CACHE_CELLS = 1 << 25
# Fixed-point steps for the weights of prior and rows in a q of all rows, and for a q of classes.
FIXED_POINT_STEPS, CLASS_FIXED_POINT_STEPS = 5, 8


@dataclass(frozen=True)
class FunctionDraw:
    """S draws of the functions of every hidden layer at its inducing inputs.

    Attributes:
        inputs: Z of each hidden layer and of the last one, [M, H] or [S, M, H] each.
        values: of each hidden layer, whitened, [S, M, D] each.
        layer_kernels: kernels of the hidden layers at Z.
        last: kernel of the last layer.
        samples: S.
    """

    inputs: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    layer_kernels: tuple[LayerKernel, ...]
    last: LayerKernel
    samples: int


class DeepGP(nn.Module):
    """Hidden layers and an output layer; a subclass defines their inducing inputs.

    Args:
        hidden: the hidden layers, none for a single Gaussian process.
        last: the last layer.
    """

    #: Whether kernel and noise of the last layer are fitted already; if so, the warm-up updates
    #: hidden layers only.
    pretrained = False

    def __init__(self, hidden: Sequence[HiddenLayer], last: OutputLayer) -> None:
        super().__init__()
        self.hidden: Sequence[HiddenLayer] = nn.ModuleList(hidden)  # type: ignore[assignment]
        self.last = last

    def set_mixed(self, mixed: bool) -> None:
        """Set whether exponentials and products of rows are in single precision."""
        for layer in (*self.hidden, self.last):
            layer.mixed = mixed

    def draw(self, samples: int, generator: torch.Generator) -> FunctionDraw:
        """Draw the functions at the inducing inputs of every hidden layer."""
        raise NotImplementedError

    def draw_from_values(
        self, inputs: Sequence[Tensor], values: Sequence[Tensor], samples: int
    ) -> FunctionDraw:
        """A draw with given Z of every layer and whitened values of the hidden layers."""
        hidden = tuple(layer.kernel_at(Z) for layer, Z in zip(self.hidden, inputs, strict=False))
        return FunctionDraw(
            tuple(inputs), tuple(values), hidden, self.last.kernel_at(inputs[-1]), samples
        )

    @property
    def first_inputs(self) -> Float[Tensor, "M H"]:
        """Z of the first layer, [M, H]."""
        raise NotImplementedError

    def start_last_unit(self, posterior: InducingPosterior, mean: Float[Tensor, "M"]) -> None:
        """Set q of the last unit of the first hidden layer, at the start of a fit.

        Args:
            posterior: of its whitened values, of one output.
            mean: mean of its function at the inducing inputs, [M].
        """
        del mean
        values, covariance = posterior.mean[0], posterior.root[0].mT @ posterior.root[0]
        self.hidden[0].q.set_unit(-1, values, covariance)

    @property
    def sampled(self) -> bool:
        """Whether a bound is an average over draws, as with hidden layers."""
        return len(self.hidden) > 0

    @property
    def targets(self) -> Float[Tensor, "M P"] | None:
        """Targets at the inducing inputs, [M, P]; None if these are no rows."""
        return None

    def remaining_rows(self, n_rows: int) -> Tensor:
        """Positions of the rows that are not inducing inputs."""
        return torch.arange(n_rows)

    @property
    def posterior_per_draw(self) -> bool:
        """Whether the last layer's q is optimal for each draw, given the draw's rows."""
        return False

    def posterior(
        self, draw: FunctionDraw, sums: Sums | None = None, prior: Tensor | None = None
    ) -> InducingPosterior:
        """q of the last layer's values at a draw; arguments as of ``OutputLayer.posterior``."""
        targets = self.targets if self.last.closed_form else None
        return self.last.posterior(draw.last, targets, sums, prior)

    @torch.no_grad()
    def optimal_posterior(
        self,
        draw: FunctionDraw,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N P"],
        generator: torch.Generator,
    ) -> InducingPosterior:
        """The optimal q of the last layer's values for each draw, from all rows.

        With the inputs Z^L and h_n of a draw, q(v) ∝ N(0, I) Π_n N(y_n | aᵀv, σ²), a = C⁻¹k(Z^L,
        h_n), as for a sparse Gaussian process on these inputs (Titsias 2009). With a q-exponential
        prior or noise, a few fixed-point steps follow, each with the weights of prior and rows at
        the previous q. The first step uses the weights at the running q, shared by all draws, as
        that q does not depend on a draw's rows. For classes the optimum has no closed form: damped
        steps go to the rows' terms at the previous q, as each class is updated at the previous
        values of the others.

        Args:
            draw: of the functions.
            X: rows other than the inducing inputs, [N, H].
            Y: their targets, [N, P].
            generator: of the rows' own noise.
        """
        state = generator.get_state()

        def projected() -> Iterator[ProjectedRows]:
            generator.set_state(state)
            for some, targets in self.row_blocks(X, Y, draw.samples):
                noise = self.row_noise(draw.samples, len(some), generator)
                inputs = self.inputs(draw, some, noise)
                yield ProjectedRows.of_inputs(draw.last, inputs, targets)

        fits_cache = draw.samples * self.n_inducing * len(X) <= CACHE_CELLS
        cached = list(projected()) if fits_cache else None

        def rows() -> Iterable[ProjectedRows]:
            return projected() if cached is None else cached

        return (
            self._regression_posterior if self.last.closed_form else self._classification_posterior
        )(draw, rows)

    def _regression_posterior(
        self, draw: FunctionDraw, rows: Callable[[], Iterable[ProjectedRows]]
    ) -> InducingPosterior:
        """``optimal_posterior`` of numeric targets."""
        last = self.last
        if not last.uses_weights:
            return self.posterior(draw, _total(last.gaussian_sums(draw.last, r) for r in rows()))
        found = self.posterior(draw)
        for turn in range(FIXED_POINT_STEPS):
            prior, shared = last.prior_weight(found), turn == 0
            weighed = (last.weighted_rows(draw.last, found, r, shared=shared) for r in rows())
            found = self.posterior(
                draw, _total(last.gaussian_sums(draw.last, r) for r in weighed), prior
            )
        return found

    def _classification_posterior(
        self, draw: FunctionDraw, rows: Callable[[], Iterable[ProjectedRows]]
    ) -> InducingPosterior:
        """``optimal_posterior`` of classes."""
        last, found = self.last, self.posterior(draw)
        assert isinstance(last.q, GaussianSites)
        curvature, shift = last.q.curvature, last.q.shift
        for _ in range(CLASS_FIXED_POINT_STEPS):
            prior = last.prior_weight(found) if last.uses_weights else None
            added = _total(last.label_sums_of_posterior(draw.last, found, r) for r in rows())
            curvature = curvature.lerp(added[0], LONGEST_LABEL_STEP)
            shift = shift.lerp(added[1], LONGEST_LABEL_STEP)
            found = self.posterior(draw, (curvature, shift), prior)
        return found

    def inputs(
        self, draw: FunctionDraw, X: Float[Tensor, "... B H"], noise: Sequence[Tensor]
    ) -> Float[Tensor, "... B U"]:
        """Inputs of the last layer, [S, B, U], of rows X [..., B, H], noise [S, B or 1, D]."""
        for number, e in enumerate(noise):
            mean, variance = self.layer_moments(draw, number, X)
            X = mean + (variance + self.hidden[number].noise).sqrt() * e
        return X

    def layer_moments(
        self, draw: FunctionDraw, number: int, X: Float[Tensor, "... B H"]
    ) -> tuple[Float[Tensor, "... B D"], Float[Tensor, "... B D"]]:
        """Means and variances of hidden layer ``number``, from 0, at its inputs [..., B, H]."""
        return self.hidden[number].conditional_moments(
            draw.layer_kernels[number], draw.values[number], X
        )

    def kl_terms(self, posterior: InducingPosterior) -> dict[str, Tensor]:
        """The negative divergences of a bound, by name."""
        terms = {
            f"KL of layer {number}": -layer.q.kl()
            for number, layer in enumerate(self.hidden, start=1)
        }
        return terms | {"KL of the last layer": -posterior.kl(self.last.q.exponent)}

    def row_noise(self, samples: int, n_rows: int, generator: torch.Generator) -> list[Tensor]:
        """Standard normal numbers of each hidden layer, [S, n_rows, D]."""
        like = self.last.like
        return [
            standard_normal((samples, n_rows, layer.width), like, generator)
            for layer in self.hidden
        ]

    def shared_noise(self, samples: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Standard normal numbers shared by all rows, [S, 1, D] of each hidden layer."""
        return tuple(self.row_noise(samples, 1, generator))

    def row_blocks(self, X: Tensor, Y: Tensor, samples: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks of rows and targets; one empty block without rows."""
        size = self.block_size(samples)
        yield from zip(torch.split(X, size), torch.split(Y, size), strict=True)

    def block_size(self, samples: int) -> int:
        """Rows in a block for a number of draws."""
        return max(1, block_cells(CHUNK_CELLS) // (samples * self.n_inducing))

    def hidden_mean(
        self, draw: FunctionDraw, noise: Sequence[Tensor], X: Float[Tensor, "B H"], number: int
    ) -> Float[Tensor, "B D"]:
        """Means of hidden layer ``number``, from 1, at rows X, averaged over draws, [B, D]."""
        before = self.inputs(draw, X, noise[: number - 1])
        return self.average(self.layer_moments(draw, number - 1, before)[0])

    def average(self, each: Tensor) -> Tensor:
        """The mean over the draws, of [S, ...]."""
        return each.mean(0)

    @property
    def n_inducing(self) -> int:
        """M of the last layer."""
        raise NotImplementedError


def _total(parts: Iterable[Sums]) -> Sums:
    return reduce(lambda a, b: (a[0].add_(b[0]), a[1].add_(b[1])), parts)
