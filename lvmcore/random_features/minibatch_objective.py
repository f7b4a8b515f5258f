"""The mini-batch objective of random features, for long complete tables of numbers.

The batch is split in two halves. Given the spectral points, q(h) of each half is the posterior of
its rows weighted by N/B, N(A⁻¹P, σ²A⁻¹) with A = G + σ²I and G, P = N/B times ΦᵀΦ and ΦᵀY of the
half. The bound at that q(h) is estimated on the other half: a little too low, as q(h) was not
inferred from the rows that it is evaluated on. q(h) so depends on the current spectrum alone; a
q(h) carried over from step to step would slow the spectrum down. q(x) of a half moves to its
optimum by Gauss–Newton steps with precision I + E[J S Jᵀ]/σ², J = ∂φ/∂x and S = Σ_d E h_d h_dᵀ;
spectrum, scale and noise are optimised by their gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.paths import LatentRows
from lvmcore.numerics.gaussians import LOG_2PI, kl_standard_normal
from lvmcore.numerics.linalg import cholesky
from lvmcore.random_features.decoder import FeatureDecoder
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.fourier_sums import averaged_feature_sums
from lvmcore.random_features.gaussian_term import GaussianTerm
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.random_features.spectrum import Spectrum
from lvmcore.training.batches import Batches

__all__ = ["MinibatchRandomFeatureObjective"]

# Gauss–Newton steps of a batch's q(x), their length, and the largest change of a mean in a step.
POSITION_STEPS, STEP_LENGTH, LONGEST_MOVE = 2, 0.5, 0.3


class MinibatchRandomFeatureObjective(RandomFeatureObjective):
    """The objective of a complete table of numbers with one noise, by mini-batches.

    Args:
        rows: q(X).
        spectrum: q of the spectral points and of their mixture.
        columns: the term of the columns.
        generator: draws the latent positions and the batches.
        batch_size: rows of a step.
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
        super().__init__(rows, spectrum, columns, generator, modules=[spectrum, columns])
        self.batches = Batches(len(self.all), batch_size, generator)

    @property
    def batch_share(self) -> tuple[int, int]:
        """Number of rows, and how many of them a step uses."""
        return len(self.all), self.batches.size

    def state(self) -> Iterable[Tensor]:
        """Tensors of the closed-form updates, q(X) among them, and the order of the batches."""
        own = [self.rows.mean, self.rows.log_variance]
        return [*super().state(), *own, *self.batches.buffers()]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch, after its q(x) is updated."""
        self.spectrum.update()
        batch = self.batches.next()
        halves = torch.tensor_split(batch, 2)
        features = self.features(self.spectrum.draw())
        with torch.no_grad():
            found = [self._weights(self._half_sums(rows, features)) for rows in halves]
            for rows, q in zip(halves, reversed(found), strict=True):
                self._update_positions(rows, features, q)
        sums = [self._half_sums(rows, features) for rows in halves]
        fits = [
            self._data_fit(self._weights(one), other)
            for one, other in zip(sums, reversed(sums), strict=True)
        ]
        mean, variance = self.rows.mean[batch].detach(), self.rows.variance[batch].detach()
        scale = len(self.all) / len(batch)
        return {
            "data fit": 0.5 * (fits[0] + fits[1]),
            "KL of the map": -scale * kl_standard_normal(mean, variance).sum(),
            "KL of the spectrum": -self.spectrum.kl(),
        }

    def _half_sums(self, rows: Tensor, features: RandomFourierFeatures) -> _Sums:
        """Statistics of a half scaled to all rows, at one sample of its positions."""
        scale, Y = len(self.all) / len(rows), self.columns.Y[rows]
        mean, logs = self.rows.mean[rows].detach(), self.rows.log_variance[rows].detach()
        Phi = features(self._antithetic_pair(mean, logs)[0])
        exact = Phi.double()  # float32 rounding times N/B would exceed a small noise
        return _Sums(
            scale * (exact.T @ exact),
            scale * (Phi.T @ Y).double(),
            scale * Y.square().sum(dtype=torch.float64),
        )

    def _weights(self, sums: _Sums) -> _Weights:
        return _Weights.optimum(sums.G, sums.P, self.columns.noise[0].double())

    def _data_fit(self, q: _Weights, sums: _Sums) -> Tensor:
        """E log p(Y | X, W, h) less the divergence of h, []."""
        noise = self.columns.noise[0].double()
        # E ‖Y − ΦH‖²
        error = sums.squares - 2 * (q.mean * sums.P).sum() + (sums.G * q.second).sum()
        cells = self.columns.Y.numel()
        return -0.5 * (cells * (LOG_2PI + noise.log()) + error / noise) - q.kl

    @torch.no_grad()
    def _evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """The terms of all rows, q(h) at its optimum for one sample of their positions."""
        bound = self.columns.summed_bound(*self._sums(self.features(points), 1))
        return {
            "data fit": bound,
            "KL of the map": -self.rows.kl(),
            "KL of the spectrum": -self.spectrum.kl(),
        }

    @torch.no_grad()
    def decoder(self) -> FeatureDecoder:
        """The columns at the fit's own spectral points, q(h) at its optimum under q(X)."""
        features = self.features(self.spectrum.points())
        return self.columns.summed_decoder(features, *self._sums(features, 2))

    def _sums(self, features: RandomFourierFeatures, draws: int) -> tuple[Tensor, Tensor]:
        """ΦᵀΦ and ΦᵀY of all rows, averaged over samples of their positions."""
        X = self._antithetic_pair(self.rows.mean, self.rows.log_variance)[:draws]
        return averaged_feature_sums(features, X, self.columns.Y)

    def _antithetic_pair(self, mean: Tensor, logs: Tensor) -> Tensor:
        """An antithetic pair of samples of q(x), [2, n, Q]."""
        noise = torch.randn(mean.shape, generator=self.generator, dtype=torch.float64).to(mean)
        offset = (0.5 * logs).exp() * noise
        return torch.stack([mean + offset, mean - offset])

    @torch.no_grad()
    def _update_positions(
        self, batch: Tensor, features: RandomFourierFeatures, q: _Weights
    ) -> None:
        """Gauss–Newton steps of q(x) of some rows towards its optimum."""
        features = features.to(self.columns.Y)
        Y = self.columns.Y[batch]
        first, second = Y @ q.mean.T.to(Y), q.second.to(Y)
        noise = self.columns.noise[0].detach()
        mean, logs = self.rows.mean[batch], self.rows.log_variance[batch]
        eye = torch.eye(mean.shape[1]).to(mean)
        for _ in range(POSITION_STEPS):
            slope, precision = -mean, eye.expand(len(mean), -1, -1)
            for X in self._antithetic_pair(mean, logs):
                J = features.slopes(X)  # [B, Q, R]
                # Gradient J (first − Sφ)/σ² and curvature J S Jᵀ/σ², half of each per sample
                left = first - features(X) @ second
                slope = slope + (J @ left[:, :, None])[:, :, 0] / (2 * noise)
                precision = precision + J @ second @ J.mT / (2 * noise)
            move = torch.linalg.solve(precision, slope[:, :, None])[:, :, 0]
            mean = mean + (STEP_LENGTH * move).clamp(-LONGEST_MOVE, LONGEST_MOVE)
            kept = (1 - STEP_LENGTH) * (-logs).exp()
            own = precision.diagonal(dim1=1, dim2=2).clamp_min(1)  # above 1 but for rounding
            logs = -(kept + STEP_LENGTH * own).log()
        self.rows.mean[batch], self.rows.log_variance[batch] = mean, logs


@dataclass(frozen=True)
class _Sums:
    """Statistics of some rows, scaled to all.

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
    def optimum(cls, G: Tensor, P: Tensor, noise: Tensor) -> _Weights:
        """The optimum for G [R, R], P [R, D] and σ²."""
        R = len(G)
        # A = G + σ²I = L Lᵀ; covariance σ²A⁻¹, its log determinant, and mean A⁻¹P
        L, _ = cholesky(G + noise * torch.eye(R).to(G), "The features of the rows", exact=True)
        covariance = noise * torch.cholesky_inverse(L)
        log_det = R * noise.log() - 2 * L.diagonal().log().sum()
        return cls(torch.cholesky_solve(P, L), covariance, log_det)
