"""A codebook that quantises latent vectors, and the loss of an autoencoder with one.

A latent vector z of a row is replaced by its nearest code e_k. Codes that are hardly used are moved
to latent vectors of rows (Zheng and Vedaldi 2023): with n_k of the B rows of a batch at code k,

N_k ← γ N_k + (1 − γ) n_k/B,   α_k = exp(−10 K N_k/(1 − γ) − ε),   e_k ← (1 − α_k) e_k + α_k ẑ_k,

where ẑ_k is the latent vector of a row of the batch: drawn with p_n ∝ exp(−‖z_n − e_k‖²), or the
nearest one.

Notation: K codes of Q dimensions; D columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.neural.latent_batch import LatentBatch
from lvmcore.neural.objective import (
    AutoencoderNetworks,
    AutoencoderObjective,
    AutoencoderSettings,
    OutputLikelihood,
    ReconstructionTerm,
    jacobian_points,
    mean_square,
)
from lvmcore.training.objective import Term

__all__ = [
    "Codebook",
    "CodebookObjective",
    "UnusedCodes",
    "code_perplexity",
    "straight_through",
]

#: Where unused codes move: to a drawn row, to the nearest one, or nowhere.
UnusedCodes = Literal["drawn", "nearest", "stay"]
#: γ, the factor 10 and ε of the running average.
DECAY, SHARPNESS, EPSILON = 0.99, 10.0, 1e-3
# A code with a smaller α_k is not moved.
LEAST_MOVE = 1e-12
# Rows whose distances to all codes are computed at a time.
BLOCK_ROWS = 1024


def straight_through(z: Tensor, codes: Tensor) -> Tensor:
    """The codes, [B, Q], with the gradient of the latent vectors z [B, Q] that they replace."""
    return z + (codes - z).detach()


def code_perplexity(shares: Tensor) -> Tensor:
    """exp(−Σ_k p_k log p_k) of shares p [K]: 1 for one code, K for equally used ones; []."""
    entropy: Tensor = torch.special.entr(shares).sum()
    return entropy.exp()


class Codebook(nn.Module):
    """K codes, and the running average of how often each is used.

    Args:
        n_codes: K.
        like: latent vectors; their dimensions Q, dtype and device are used.
        generator: of the initial codes, uniform in ±1/K.
    """

    usage: Tensor

    def __init__(self, n_codes: int, like: Tensor, generator: torch.Generator) -> None:
        super().__init__()
        shape = (n_codes, like.shape[1])
        drawn = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
        self.vectors = nn.Parameter((drawn / n_codes).to(like))
        self.register_buffer("usage", like.new_zeros(n_codes))

    def __len__(self) -> int:
        return len(self.vectors)

    @torch.no_grad()
    def squared_distances(self, z: Tensor) -> Tensor:
        """‖z_n − e_k‖² of latent vectors [B, Q], [B, K], each from its own differences alone."""
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(z, self.vectors, compute_mode=mode).square()

    @torch.no_grad()
    def nearest(self, z: Tensor) -> Tensor:
        """Number of the nearest code of latent vectors [N, Q], [N]."""
        return torch.cat(
            [self.squared_distances(some).argmin(1) for some in torch.split(z, BLOCK_ROWS)]
        )

    def shares(self, codes: Tensor) -> Tensor:
        """Share of each code among codes [N], [K]."""
        counts = torch.bincount(codes, minlength=len(self))
        return counts.to(self.vectors) / len(codes)

    @torch.no_grad()
    def update(
        self, z: Tensor, codes: Tensor, unused: UnusedCodes, generator: torch.Generator
    ) -> None:
        """Update the running average by a batch, and move the codes that are hardly used.

        Args:
            z: latent vectors of the batch, [B, Q].
            codes: their nearest codes, [B].
            unused: where unused codes move.
            generator: of the drawn rows.
        """
        self.usage.mul_(DECAY).add_(self.shares(codes), alpha=1 - DECAY)
        if unused == "stay":
            return
        alpha = torch.exp(-SHARPNESS * len(self) * self.usage / (1 - DECAY) - EPSILON)
        moved = torch.nonzero(alpha > LEAST_MOVE)[:, 0]
        if not len(moved):
            return
        distances = self.squared_distances(z)[:, moved].T
        if unused == "nearest":
            rows = distances.argmin(1)
        else:
            probability = torch.softmax(-distances.double(), 1).cpu()
            rows = torch.multinomial(probability, 1, generator=generator)[:, 0].to(z.device)
        self.vectors[moved] = torch.lerp(self.vectors[moved], z[rows], alpha[moved, None])


@dataclass(frozen=True)
class QuantisedBatch(LatentBatch):
    """Latent vectors of some rows, ``mean``, and their codes; ``X`` has both, straight through.

    Attributes:
        vectors: the nearest code of each row, [B, Q].
    """

    vectors: Tensor


class SquaredErrors(OutputLikelihood):
    """−½ Σ_d (y_d − output_d)²: Gaussian columns of variance 1, less a constant."""

    def log_probability(self, Y: Tensor, output: Tensor) -> Tensor:
        """Over the last dimension."""
        return -0.5 * (Y - output).square().sum(-1)


class QuantisationTerm(Term[LatentBatch]):
    """−w D/(2Q) Σ_n ‖z_n − e_k(n)‖², with the gradient of either the codes or the rows.

    Args:
        name: of the term.
        weight: w.
        n_columns: D.
        moves_codes: whether the gradient is that of the codes.
    """

    def __init__(self, name: str, weight: float, n_columns: int, *, moves_codes: bool) -> None:
        self.name, self.weight, self.n_columns = name, weight, n_columns
        self.moves_codes = moves_codes

    def value(self, sample: LatentBatch) -> Tensor:
        """The estimate, float64, []."""
        assert isinstance(sample, QuantisedBatch)
        z, e = sample.mean, sample.vectors
        apart = z.detach() - e if self.moves_codes else z - e.detach()
        scale = 0.5 * self.weight * self.n_columns / z.shape[1]
        return -sample.scale * scale * apart.square().double().sum()


class CodebookSettings(AutoencoderSettings, Protocol):
    """The settings of a model that its objective uses."""

    n_codes: int
    commitment: float
    unused_codes: UnusedCodes


class CodebookObjective(AutoencoderObjective[SquaredErrors]):
    """−N D/2 times the loss of an autoencoder whose latent vectors are quantised.

    The loss is the mean over rows of

    1/D ‖y − f(e_k)‖² + 1/Q ‖sg(z) − e_k‖² + β/Q ‖z − sg(e_k)‖²,

    with sg without a gradient, and the gradient of the first term by e_k taken for that by z
    (straight through). After the gradient's step unused codes are moved.

    Args:
        settings: of the model.
        problem: the table.
        networks: encoder, whose means are z, and decoder f.
    """

    def __init__(
        self, settings: CodebookSettings, problem: FitProblem, networks: AutoencoderNetworks
    ) -> None:
        like = problem.Y.new_zeros(1, problem.n_components)
        self.codebook = Codebook(settings.n_codes, like, problem.generator)
        self.unused: UnusedCodes = settings.unused_codes
        super().__init__(settings, problem, networks, SquaredErrors(), modules=[self.codebook])
        D = self.Y.shape[1]
        self.summands = (
            ReconstructionTerm(self.decoder, self.likelihood, self.Y),
            QuantisationTerm("codebook", 1.0, D, moves_codes=True),
            QuantisationTerm("commitment", settings.commitment, D, moves_codes=False),
        )
        self.last: tuple[Tensor, Tensor] | None = None

    def state(self) -> Iterable[Tensor]:
        """The order of the batches, and how often the codes were used."""
        return [*super().state(), self.codebook.usage]

    def _batch(self, rows: Tensor, draws: int, scale: float) -> QuantisedBatch:
        """Some rows with their latent vectors and codes; nothing is drawn."""
        del draws
        z, _ = self.encoder(self.networks.inputs[rows])
        codes = self.codebook.nearest(z)
        e = self.codebook.vectors[codes]
        self.last = (z.detach(), codes)
        X = straight_through(z, e)[None]
        return QuantisedBatch(rows, z, torch.zeros_like(z), X, scale, e)

    def step_rows(self, rate: float) -> None:
        """Move unused codes by the rows of the last batch."""
        del rate
        assert self.last is not None
        self.codebook.update(*self.last, self.unused, self.generator)

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Mean squared slope of the decoder at the rows' codes along each dimension, [Q]."""
        z = jacobian_points(mean)
        with torch.no_grad():
            e = self.codebook.vectors[self.codebook.nearest(z)]
            return {"data": mean_square(self.decoder.slopes(e))}
