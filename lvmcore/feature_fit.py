"""The objective of a fit by random features: q(X), the spectrum, and the columns' part."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lvmcore.feature_columns import ColumnTerm
from lvmcore.feature_decoding import FeatureDecoder
from lvmcore.gplvm import snapshot_of
from lvmcore.layers import LatentRows
from lvmcore.results import Snapshot
from lvmcore.spectral import Spectrum

__all__ = ["FeatureFit", "FullRows"]

# Features of all rows held at once for the final q(h): of a long table fewer draws are averaged.
MOST_NUMBERS = 1 << 25


class FullRows(LatentRows):
    """q(X) = ∏_n N(mean_n, L_n L_nᵀ): a full covariance a row, L_n lower-triangular.

    Args:
        mean: where it starts, [N, Q].
        variance: of every dimension at the start.
    """

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__(mean, variance)
        N, Q = mean.shape
        self.below = nn.Parameter(mean.new_zeros(N, Q * (Q - 1) // 2))

    @property
    def factor(self) -> Tensor:
        """L, [N, Q, Q]."""
        Q = self.mean.shape[1]
        i, j = torch.tril_indices(Q, Q, -1, device=self.mean.device)
        L = torch.diag_embed((0.5 * self.log_variance).exp())
        L[:, i, j] = self.below
        return L

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariances, [N, Q]."""
        return self.factor.square().sum(-1)

    def kl(self) -> Tensor:
        """KL(q(X) ‖ N(0, I)), []."""
        square = self.log_variance.exp().sum() + self.below.square().sum()
        return 0.5 * (
            square + self.mean.square().sum() - self.log_variance.sum() - self.mean.numel()
        )

    def draw(self, samples: int, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Reparameterised samples of ``rows``, [samples, n, Q]."""
        mean = self.mean[rows]
        noise = torch.randn((samples, *mean.shape), generator=generator, dtype=torch.float64)
        drawn: Tensor = mean + (self.factor[rows] @ noise.to(mean)[..., None])[..., 0]
        return drawn


class FeatureFit:
    """The objective: the columns' bound less the divergences of the map and of the spectrum.

    Args:
        rows: q(X).
        spectrum: q of the spectral points and of their mixture.
        columns: the columns' part.
        generator: draws the places.
    """

    def __init__(
        self,
        rows: LatentRows,
        spectrum: Spectrum,
        columns: ColumnTerm,
        generator: torch.Generator,
    ) -> None:
        self.rows, self.spectrum, self.columns = rows, spectrum, columns
        self.generator = generator
        self.all = torch.arange(len(rows.mean))

    @property
    def portion(self) -> tuple[int, int]:
        """How many columns there are, and how many of them a step looks at."""
        return self.columns.Y.shape[1], self.columns.at_a_time

    def parameters(self) -> Iterable[nn.Parameter]:
        """All that the gradient moves."""
        modules = (self.rows, self.spectrum, self.columns)
        return [p for module in modules for p in module.parameters() if p.requires_grad]

    def held(self) -> Iterable[nn.Parameter]:
        """See ``ColumnTerm.held``."""
        return self.columns.held()

    def state(self) -> Iterable[Tensor]:
        """What the updates in closed form change, and c of the Pólya–gamma variables."""
        return [*self.spectrum.tensors(), *self.columns.state()]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms of one step: updates in closed form, then one draw of W and X."""
        self.spectrum.update()
        return self._terms(self.spectrum.draw(), step=True)

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of the bound, averaged over new draws."""
        parts = [self._terms(self.spectrum.draw(), step=False) for _ in range(draws)]
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    @torch.no_grad()
    def fresh_bound(self, draws: int) -> float:
        """The bound over spectral points that the fit has not seen."""
        parts = [self._terms(self.spectrum.fresh(), step=False) for _ in range(draws)]
        return math.fsum(float(term) for part in parts for term in part.values()) / draws

    def _terms(self, points: Tensor, *, step: bool) -> dict[str, Tensor]:
        X = self.rows.draw(1, self.all, self.generator)[0]
        return {
            "data fit": self.columns.bound_at(points, X, step=step),
            "KL of the map": -self.rows.kl(),
            "KL of the spectrum": -self.spectrum.kl(),
        }

    def snapshot(self) -> Snapshot:
        """The map as it stands."""
        return snapshot_of(self.rows.mean, {"data": self.relevance})

    @property
    def relevance(self) -> Tensor:
        """α_q = mean of w_lq², which is 1/ℓ_q² of an RBF kernel, [Q]."""
        with torch.no_grad():
            return self.spectrum.points().square().mean(0)

    @torch.no_grad()
    def decoder(self) -> FeatureDecoder:
        """The columns at the fit's own spectral points, q(h) at its optimum under q(X)."""
        features = self.columns.features(self.spectrum.points())
        draws = min(self.columns.places, max(1, MOST_NUMBERS // (len(self.all) * features.width)))
        X = self.rows.draw(draws, self.all, self.generator)
        return self.columns.decoder(features, X)
