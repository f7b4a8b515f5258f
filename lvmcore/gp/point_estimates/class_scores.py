"""Classes by least squares: Gaussian processes from positions to one-hot columns.

The score of class c is its share of the labelled rows plus f_c(x), with Gaussian noise. The
probability of a class is that its score is the largest; with one variance for all scores the most
probable class is that of the largest mean, the rule of the supervised GPLVM's papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import roots_hermitenorm
from torch import Tensor

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import matched_draws
from lvmcore.persistence import with_prefix

__all__ = ["ClassScores", "largest_probability"]

# Nodes of the integral over a score, and draws of the functions.
NODES, DRAWS = 32, 32
# Smallest probability before normalisation.
LEAST = 1e-12
# Rows × draws × classes² × nodes in a block; bounds memory, does not change results.
CELLS_AT_A_TIME = 1 << 22
_PREFIX = "labels."


def largest_probability(mean: Tensor, variance: Tensor) -> Tensor:
    """P(s_c is the largest) of independent s_c ~ N(mean_c, variance), [..., C].

    ∫ N(t; mean_c, variance) Π_{c' ≠ c} Φ((t − mean_c')/sd) dt by Gauss–Hermite quadrature,
    normalised over the classes.

    Args:
        mean: [..., C].
        variance: one for all classes, broadcast with [...].
    """
    nodes, weights = (torch.as_tensor(part).to(mean) for part in roots_hermitenorm(NODES))
    sd = variance.sqrt()[..., None, None]
    # (t − mean_c')/sd at t = mean_c + sd · node, [..., C, C', nodes]
    away = (mean[..., :, None] - mean[..., None, :]) / sd
    log_phi = torch.special.log_ndtr(away[..., None] + nodes)
    own = torch.eye(mean.shape[-1], dtype=torch.bool, device=mean.device)[..., None]
    others = torch.where(own, 0.0, log_phi).sum(-2).exp()
    p = (others @ (weights / weights.sum())).clamp_min(LEAST)
    return p / p.sum(-1, keepdim=True)


@dataclass(frozen=True)
class ClassScores:
    """Fitted scores of the classes.

    Attributes:
        decoder: of the one-hot columns less ``shares``.
        shares: of the classes among the labelled rows, [C].
    """

    decoder: DataDecoder
    shares: Tensor

    def probabilities(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Class probabilities at positions X [n, Q], and their variance under f, [n, C] each.

        Given f a probability is over the noise; it is averaged over draws of f, and the variance is
        over the same draws.
        """
        C = len(self.shares)
        size = max(1, CELLS_AT_A_TIME // (DRAWS * C * C * NODES))
        with torch.no_grad():
            parts = [self._probabilities(part) for part in torch.split(X, size)]
        p, spread = (torch.cat(part) for part in zip(*parts, strict=True))
        return p, spread

    def _probabilities(self, X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self.decoder.predict(X)
        mean, noise = mean + self.shares, self.decoder.noise[0]
        p = largest_probability(mean, variance[:, 0] + noise)
        draws = matched_draws(max(DRAWS, 2 << len(self.shares).bit_length()), mean.shape[1], mean)
        scores = mean + variance.sqrt() * draws[:, None]
        spread = largest_probability(scores, noise).var(0, correction=0)
        return p, torch.minimum(spread, p * (1 - p))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``."""
        own = {_PREFIX + name: array for name, array in self.decoder.arrays().items()}
        return own | {"shares": to_numpy(self.shares)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        shares = torch.as_tensor(np.array(arrays["shares"])).to(like)
        return cls(DataDecoder.from_arrays(with_prefix(arrays, _PREFIX), like), shares)
