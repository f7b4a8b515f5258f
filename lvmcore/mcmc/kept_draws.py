"""Posterior draws of a random-feature model in one frame: decoding, and inference of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lvmcore.mcmc.feature_weights import Likelihood
from lvmcore.numerics.array_types import FloatArray

__all__ = ["KeptDraws", "align_draws"]


#: Cells in a chunk; bounds memory, does not change results.
CHUNK_CELLS = 1 << 22
#: Newton steps for the mode of a row at most, and the tolerance on a step.
MAX_NEWTON_STEPS = 40
NEWTON_TOLERANCE = 1e-10


@dataclass(frozen=True)
class KeptDraws:
    """S draws of the decoder, all in one frame of the latent space.

    Attributes:
        likelihood: of the cells.
        anchors: positions of some rows of the fit in each draw, [S, M, Q].
        W: frequencies, [S, L, Q].
        H: weights, [S, 2L, D].
        offset: of each column, [S, D].
        spread: σ² [S, 1] of a Gaussian, r [S, D] of a negative binomial, [S, 0] of a Bernoulli.
        scale: a², variance of the weights, [S].
    """

    likelihood: Likelihood
    anchors: Tensor
    W: Tensor
    H: Tensor
    offset: Tensor
    spread: Tensor
    scale: Tensor

    def rotated(self, rotation: Tensor) -> KeptDraws:
        """The draws in coordinates x R, R [Q, Q] orthogonal."""
        return replace(self, anchors=self.anchors @ rotation, W=self.W @ rotation)

    # ---- decoding ------------------------------------------------------------------------------

    def psi(self, X: Tensor) -> Tensor:
        """Natural parameters at points [n, Q], or at [S, n, Q] for each draw; [S, n, D]."""
        return self._features(X) @ self.H + self.offset[:, None]

    def _features(self, X: Tensor) -> Tensor:
        """φ(x) of each draw, [S, n, 2L]."""
        angles = X @ self.W.transpose(1, 2)
        return torch.cat([angles.sin(), angles.cos()], 2) / math.sqrt(self.W.shape[1])

    def _psi_slopes(self, X: Tensor) -> Tensor:
        """∂ψ_d/∂x_q at each draw's points, [S, n, Q, D]."""
        Phi, L = self._features(X), self.W.shape[1]
        sin, cos = Phi[..., :L], Phi[..., L:]
        by_angle = torch.cat([cos, -sin], 2)  # gradient of each feature by its angle
        frequencies = torch.cat([self.W, self.W], 1).transpose(1, 2)  # [S, Q, 2L]
        return (by_angle[:, :, None, :] * frequencies[:, None]) @ self.H[:, None]

    def means(self, psi: Tensor) -> Tensor:
        """E[y | ψ] of natural parameters [S, n, D]."""
        if self.likelihood == "gaussian":
            return psi
        if self.likelihood == "bernoulli":
            return psi.sigmoid()
        return self.spread[:, None] * psi.exp()

    def _variances(self, psi: Tensor) -> Tensor:
        """Var[y | ψ], [S, n, D]."""
        if self.likelihood == "gaussian":
            return self.spread[:, None].expand_as(psi)
        mean = self.means(psi)
        if self.likelihood == "bernoulli":
            return mean * (1 - mean)
        return mean + mean.square() / self.spread[:, None]

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance over all draws at points [n, Q], [n, D]."""
        parts = []
        for some in self._point_blocks(X):
            psi = self.psi(some)
            mean, noise = self.means(psi), self._variances(psi).mean(0)
            parts.append((mean.mean(0), noise + mean.var(0, correction=0), noise))
        mean, variance, noise = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance, noise

    def metric(self, X: Tensor, scale: Tensor) -> Tensor:
        """Σ_d E[∂m_d ∂m_dᵀ]/scale_d² of the columns' means m, [n, Q, Q]; differentiable."""
        parts = []
        for some in self._point_blocks(X):
            slopes = self._psi_slopes(some)
            if self.likelihood != "gaussian":  # ∂m/∂ψ: p(1 − p), and m
                psi = self.psi(some)
                by_psi = self._variances if self.likelihood == "bernoulli" else self.means
                slopes = slopes * by_psi(psi)[:, :, None]
            slopes = slopes / scale
            parts.append((slopes @ slopes.transpose(2, 3)).mean(0))
        return torch.cat(parts)

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Variance of ψ over the draws as a share of its prior variance, 0 to 1, [n]."""
        parts = [self.psi(some).var(0, correction=0).mean(1) for some in self._point_blocks(X)]
        return (torch.cat(parts) / self.scale.mean()).clamp(0, 1)

    def _point_blocks(self, X: Tensor) -> Iterator[Tensor]:
        S, Q, D = len(self.W), self.W.shape[2], self.H.shape[2]
        yield from torch.split(X, max(1, CHUNK_CELLS // (S * D * (Q + 4))))

    # ---- rows ----------------------------------------------------------------------------------

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log of the mean over the draws of p(y_n | x_pn), [P, n], at points X [P, n, Q]."""
        P, n, Q = X.shape
        found = [
            one.row_log_likelihood(Y, one.psi(X.reshape(1, P * n, Q)).reshape(P, n, -1))
            for one in self
        ]
        return torch.stack(found).logsumexp(0) - math.log(len(found))

    def __iter__(self) -> Iterator[KeptDraws]:
        for s in range(len(self.W)):
            parts = {name: getattr(self, name)[s : s + 1] for name in TENSORS}
            yield replace(self, **parts)

    def row_log_likelihood(self, Y: Tensor, psi: Tensor) -> Tensor:
        """log p(y | ψ) of rows Y [n, D], summed over columns, [S, n], ψ [S, n, D]."""
        if self.likelihood == "gaussian":
            spread = self.spread[:, None]
            cells = -0.5 * ((2 * math.pi * spread).log() + (Y - psi).square() / spread)
            return cells.sum(-1)
        if self.likelihood == "bernoulli":
            return (Y * psi - softplus(psi)).sum(-1)
        r = self.spread[:, None]
        coefficient = torch.lgamma(Y + r) - torch.lgamma(r) - torch.lgamma(Y + 1)
        return (coefficient + Y * psi - (Y + r) * softplus(psi)).sum(-1)

    def infer(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """q(x) of rows Y [n, D]: moments of a mixture with one component per draw, [n, Q].

        Each component is a Laplace approximation of p(x | y) under one draw of the decoder: the
        mode, optimised from the most probable anchor, and the inverse of the expected curvature
        there. All draws have equal weight.
        """
        modes, own = self.modes(Y)
        # Variance within and between the components
        return modes.mean(0), own.mean(0) + modes.var(0, correction=0)

    def modes(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """The components of ``infer``: means and variances of each draw, [S, n, Q]."""
        parts = [self._modes(some) for some in self._point_blocks(Y)]
        means, variances = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        return means, variances

    def _modes(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        X = self._nearest_anchors(Y)
        damping = X.new_full(X.shape[:2], 1e-3)
        value = self._log_joint(Y, X)
        ridge = torch.eye(X.shape[2], dtype=X.dtype, device=X.device)
        for _ in range(MAX_NEWTON_STEPS):
            slope, curvature = self._expansion(Y, X)
            # Levenberg–Marquardt: the damping decreases after a step that improves the density
            damped = curvature + damping[..., None, None] * ridge
            step = torch.linalg.solve(damped, slope[..., None])[..., 0]
            trial = X + step
            trial_value = self._log_joint(Y, trial)
            better = trial_value >= value
            X = torch.where(better[..., None], trial, X)
            value = torch.where(better, trial_value, value)
            damping = torch.where(better, 0.2 * damping, 10 * damping + 1e-3)
            if float(step.abs().max()) < NEWTON_TOLERANCE:
                break
        _, curvature = self._expansion(Y, X)
        return X, torch.linalg.inv(curvature).diagonal(dim1=2, dim2=3)

    def _log_joint(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y | x) p(x) up to a constant, [S, n]."""
        return self.row_log_likelihood(Y, self.psi(X)) - 0.5 * X.square().sum(-1)

    def _nearest_anchors(self, Y: Tensor) -> Tensor:
        """The anchor of each draw with the highest joint density with a row, [S, n, Q]."""
        psi = self.psi(self.anchors)
        # log p(y | ψ) = yᵀ linear + Σ rest up to a constant in x
        if self.likelihood == "gaussian":
            linear, rest = psi / self.spread[:, None], -0.5 * psi.square() / self.spread[:, None]
        else:
            soft = softplus(psi)
            bernoulli = self.likelihood == "bernoulli"
            linear = psi if bernoulli else psi - soft
            rest = -soft if bernoulli else -self.spread[:, None] * soft
        prior = -0.5 * self.anchors.square().sum(-1)
        score = Y @ linear.transpose(1, 2) + (rest.sum(-1) + prior)[:, None]  # [S, n, M]
        best = score.argmax(2)
        return self.anchors.gather(1, best[..., None].expand(*best.shape, self.W.shape[2]))

    def _expansion(self, Y: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient [S, n, Q] of the log joint density, and its negative expected curvature."""
        psi, slopes = self.psi(X), self._psi_slopes(X)
        # score ∂ log p/∂ψ and weight −E ∂² log p/∂ψ² of every cell
        if self.likelihood == "gaussian":
            score = (Y - psi) / self.spread[:, None]
            weight = (1 / self.spread[:, None]).expand_as(psi)
        else:
            p = psi.sigmoid()
            b = 1.0 if self.likelihood == "bernoulli" else Y + self.spread[:, None]
            score = Y - b * p
            weight = p * (1 - p) if self.likelihood == "bernoulli" else self.spread[:, None] * p
        slope = (slopes @ score[..., None])[..., 0] - X
        curvature = (slopes * weight[:, :, None]) @ slopes.transpose(2, 3)
        return slope, curvature + torch.eye(X.shape[2], dtype=X.dtype, device=X.device)


#: The fields of ``KeptDraws`` with a first axis of draws.
TENSORS = ("anchors", "W", "H", "offset", "spread", "scale")


def align_draws(
    positions: Sequence[FloatArray], reference: FloatArray, *, reflections: bool = False
) -> list[FloatArray]:
    """Rotations, with reflections, that align each draw [N, Q] with a reference [N, Q].

    Draws are not centred or scaled: the prior N(0, I) determines location and scale.

    Args:
        positions: the draws.
        reference: the positions to align with.
        reflections: whether axes are reflected alone, not turned.

    Returns:
        R [Q, Q] of each draw, for multiplication from the right.
    """
    if reflections:
        return [np.diag(np.where((X * reference).sum(0) < 0, -1.0, 1.0)) for X in positions]
    rotations = []
    for X in positions:
        left, _, right = np.linalg.svd(X.T @ reference)
        rotations.append(np.asarray(left @ right))
    return rotations
