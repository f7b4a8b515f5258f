"""A fit by random features that looks at some rows a step, for long tables of numbers.

The batch is halved. Given the spectral points, q(h) of each half is the posterior that its rows
would give if they stood for all N, N(A⁻¹P, σ²A⁻¹) with A = G + σ²I, G and P the half's ΦᵀΦ and ΦᵀY
times N/B; the other half, scaled likewise, then estimates the bound at that q(h): a little below
it, as the rows that q(h) was made of are not among those that it is measured on. So q(h) follows
the spectrum at once, where one that is kept from step to step would hold it back. A half's q(x)
goes to its optimum by Gauss–Newton steps, whose precision is I + E[J S Jᵀ]/σ² with J = ∂φ/∂x and
S = Σ_d E h_d h_dᵀ; spectrum, scale and noise follow the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lvmcore.feature_columns import GaussianTerm
from lvmcore.feature_decoding import FeatureDecoder
from lvmcore.feature_fit import FeatureFit
from lvmcore.feature_sums import average_sums
from lvmcore.features import Features
from lvmcore.layers import LatentRows
from lvmcore.linalg import cholesky
from lvmcore.spectral import Spectrum
from lvmcore.stochastic import Batches
from lvmcore.variational import LOG_2PI, kl_standard_normal

__all__ = ["BatchedFeatureFit"]

# Gauss–Newton steps of a batch's q(x), their length, and how far a mean moves in one at most.
PLACE_STEPS, PLACE_STEP, FARTHEST = 2, 0.5, 0.3


class BatchedFeatureFit(FeatureFit):
    """``FeatureFit`` of a complete table of numbers with one noise, some rows at a time.

    Args:
        rows: q(X).
        spectrum: q of the spectral points and of their mixture.
        columns: the columns' part.
        generator: draws the places and the batches.
        batch_size: rows a step.
    """

    columns: GaussianTerm

    def __init__(
        self,
        rows: LatentRows,
        spectrum: Spectrum,
        columns: GaussianTerm,
        generator: torch.Generator,
        batch_size: int,
    ) -> None:
        super().__init__(rows, spectrum, columns, generator)
        self.batches = Batches(len(self.all), batch_size, generator)

    @property
    def portion(self) -> tuple[int, int]:
        """How many rows there are, and how many of them a step looks at."""
        return len(self.all), self.batches.size

    def parameters(self) -> Iterable[nn.Parameter]:
        """What the gradient moves: all but q(X)."""
        modules = (self.spectrum, self.columns)
        return [p for module in modules for p in module.parameters() if p.requires_grad]

    def state(self) -> Iterable[Tensor]:
        """See ``FeatureFit.state``; q(X), and where the batches stand."""
        own = [self.rows.mean, self.rows.log_variance]
        return [*super().state(), *own, *self.batches.buffers()]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch, whose q(x) has moved."""
        self.spectrum.update()
        batch = self.batches.next()
        halves = torch.tensor_split(batch, 2)
        features = self.columns.features(self.spectrum.draw())
        with torch.no_grad():
            found = [self._weights(self._half(rows, features)) for rows in halves]
            for rows, q in zip(halves, reversed(found), strict=True):
                self._place(rows, features, q)
        sums = [self._half(rows, features) for rows in halves]
        fits = [
            self._fit(self._weights(one), other)
            for one, other in zip(sums, reversed(sums), strict=True)
        ]
        mean, variance = self.rows.mean[batch].detach(), self.rows.variance[batch].detach()
        scale = len(self.all) / len(batch)
        return {
            "data fit": 0.5 * (fits[0] + fits[1]),
            "KL of the map": -scale * kl_standard_normal(mean, variance).sum(),
            "KL of the spectrum": -self.spectrum.kl(),
        }

    def _half(self, rows: Tensor, features: Features) -> _Sums:
        """What a half says of all rows, at one draw of its places."""
        scale, Y = len(self.all) / len(rows), self.columns.Y[rows]
        mean, logs = self.rows.mean[rows].detach(), self.rows.log_variance[rows].detach()
        Phi = features(self._drawn(mean, logs)[0])
        exact = Phi.double()  # times N/B, rounding would outgrow a small noise
        return _Sums(
            scale * (exact.T @ exact),
            scale * (Phi.T @ Y).double(),
            scale * Y.square().sum(dtype=torch.float64),
        )

    def _weights(self, sums: _Sums) -> _Weights:
        return _Weights.best(sums.G, sums.P, self.columns.noise[0].double())

    def _fit(self, q: _Weights, sums: _Sums) -> Tensor:
        """E log p(Y | X, W, h) less the divergence of h, []."""
        noise = self.columns.noise[0].double()
        error = sums.squares - 2 * (q.mean * sums.P).sum() + (sums.G * q.second).sum()
        cells = self.columns.Y.numel()
        return -0.5 * (cells * (LOG_2PI + noise.log()) + error / noise) - q.kl

    def _terms(self, points: Tensor, *, step: bool) -> dict[str, Tensor]:
        """The terms of all rows, q(h) at its optimum for one draw of their places."""
        del step
        with torch.no_grad():
            bound = self.columns.summed_bound(*self._sums(self.columns.features(points), 1))
            return {
                "data fit": bound,
                "KL of the map": -self.rows.kl(),
                "KL of the spectrum": -self.spectrum.kl(),
            }

    @torch.no_grad()
    def decoder(self) -> FeatureDecoder:
        """See ``FeatureFit.decoder``."""
        features = self.columns.features(self.spectrum.points())
        return self.columns.summed_decoder(features, *self._sums(features, 2))

    def _sums(self, features: Features, draws: int) -> tuple[Tensor, Tensor]:
        """ΦᵀΦ and ΦᵀY of all rows, averaged over draws of their places."""
        X = self._drawn(self.rows.mean, self.rows.log_variance)[:draws]
        return average_sums(features, X, self.columns.Y)

    def _drawn(self, mean: Tensor, logs: Tensor) -> Tensor:
        """A draw from q(x) and its mirror image, [2, n, Q]."""
        noise = torch.randn(mean.shape, generator=self.generator, dtype=torch.float64).to(mean)
        away = (0.5 * logs).exp() * noise
        return torch.stack([mean + away, mean - away])

    @torch.no_grad()
    def _place(self, batch: Tensor, features: Features, q: _Weights) -> None:
        """Steps of q(x) of some rows towards its optimum."""
        features = features.to(self.columns.Y)
        Y = self.columns.Y[batch]
        first, second = Y @ q.mean.T.to(Y), q.second.to(Y)
        noise = self.columns.noise[0].detach()
        mean, logs = self.rows.mean[batch], self.rows.log_variance[batch]
        eye = torch.eye(mean.shape[1]).to(mean)
        for _ in range(PLACE_STEPS):
            slope, precision = -mean, eye.expand(len(mean), -1, -1)
            for X in self._drawn(mean, logs):
                J = features.slopes(X)  # [B, Q, R]
                left = first - features(X) @ second
                slope = slope + (J @ left[:, :, None])[:, :, 0] / (2 * noise)
                precision = precision + J @ second @ J.mT / (2 * noise)
            move = torch.linalg.solve(precision, slope[:, :, None])[:, :, 0]
            mean = mean + (PLACE_STEP * move).clamp(-FARTHEST, FARTHEST)
            kept = (1 - PLACE_STEP) * (-logs).exp()
            own = precision.diagonal(dim1=1, dim2=2).clamp_min(1)  # above 1 but for rounding
            logs = -(kept + PLACE_STEP * own).log()
        self.rows.mean[batch], self.rows.log_variance[batch] = mean, logs


@dataclass(frozen=True)
class _Sums:
    """Statistics of some rows that stand for all.

    Attributes:
        G: ΦᵀΦ, [R, R].
        P: ΦᵀY, [R, D].
        squares: Σ y², [].
    """

    G: Tensor
    P: Tensor
    squares: Tensor


class _Weights:
    """q(h) of all columns: N(mean_d, σ²A⁻¹).

    Attributes:
        mean: [R, D].
        second: Σ_d E h_d h_dᵀ, [R, R].
        kl: Σ_d KL(q(h_d) ‖ N(0, I)), [].
    """

    def __init__(self, mean: Tensor, covariance: Tensor, log_det: Tensor) -> None:
        R, D = mean.shape
        self.mean = mean
        self.second = mean @ mean.T + D * covariance
        self.kl = 0.5 * (self.second.trace() - D * (R + log_det))

    @classmethod
    def best(cls, G: Tensor, P: Tensor, noise: Tensor) -> _Weights:
        """The optimum for G [R, R], P [R, D] and σ²."""
        R = len(G)
        L, _ = cholesky(G + noise * torch.eye(R).to(G), "The features of the rows", exact=True)
        covariance = noise * torch.cholesky_inverse(L)
        log_det = R * noise.log() - 2 * L.diagonal().log().sum()
        return cls(torch.cholesky_solve(P, L), covariance, log_det)
