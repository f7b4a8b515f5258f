"""A batch of rows whose q(x) comes from an encoder, and the KL term of such rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.training.label_term import LabelTerm
from lvmcore.training.objective import Term

__all__ = ["LatentBatch", "LatentKLTerm", "draw_positions"]


@dataclass(frozen=True)
class LatentBatch:
    """q(x) of some rows, and samples of their latent positions.

    Attributes:
        rows: row numbers, [B].
        mean: of q(x), [B, Q].
        variance: of q(x), [B, Q].
        X: samples of q(x), [S, B, Q].
        scale: N/B, by which a sum over these rows estimates that over all.
    """

    rows: Tensor
    mean: Tensor
    variance: Tensor
    X: Tensor
    scale: float

    def labelled_positions(self, term: LabelTerm) -> Iterator[tuple[Tensor, Tensor, float]]:
        """The rows of the batch that have a label, with their samples."""
        known = torch.nonzero(term.codes[self.rows] >= 0)[:, 0]
        yield self.rows[known], self.X[:, known], self.scale


class LatentKLTerm(Term[LatentBatch]):
    """−Σ_n KL(q(x_n) ‖ N(0, I)), estimated from a batch."""

    name = "KL of the map"

    def value(self, sample: LatentBatch) -> Tensor:
        """The estimate, float64, []."""
        return -sample.scale * kl_standard_normal(sample.mean, sample.variance).double().sum()


def draw_positions(mean: Tensor, sd: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """Reparameterised samples of N(mean, diag sd²), [draws, n, Q]."""
    noise = torch.randn((draws, *mean.shape), generator=generator, dtype=torch.float64)
    return mean + sd * noise.to(mean)
