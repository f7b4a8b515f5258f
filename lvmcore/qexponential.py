"""The multivariate q-exponential distribution: density, draws, entropy, divergences, conditioning.

u ~ q-ED_N(μ, C) with r = (u − μ)ᵀC⁻¹(u − μ) has

log p(u) = log(q/2) − (N/2) log 2π − ½ log|C| + (N/2)(q/2 − 1) log r − ½ r^{q/2},

the Gaussian at q = 2; below it keeps edges, as large radii cost less and small ones pay more. It is
elliptic: u = μ + R L s with s uniform on the unit sphere, R^q ~ χ²(N) and L Lᵀ = C, so one radius
serves the whole block: parts of it are uncorrelated, not independent, wherever C says so, and a
block of another size is another model. Its covariance is ρ_N C.

Source: Li, O'Connor and Lan 2023; Chang, Obite, Zhou and Lan 2025. There the entropy takes that of
χ² for its expected logarithm, and bounds leave ρ out, after which they bound nothing; both are put
right here.

Notation: N numbers in a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.linalg import cholesky, solve_lower

__all__ = [
    "LEAST_Q",
    "QExponential",
    "check_q",
    "covariance_factor",
    "kl_bound",
    "log_radial",
    "radial_slope",
    "shrinkage_given",
]

LOG_2PI = math.log(2 * math.pi)
#: Least q: ρ grows as Γ(2/q), and below nothing of use is left of a covariance.
LEAST_Q = 0.1
#: Of N: a block that meets its location to the last digit has this radius² a number in its density,
#: which for q < 2 has a pole there.
LEAST_SQUARE = 1e-30
# Places at which the law of a radius is summed, and how far its logarithm is from the peak's.
PLACES, TAIL = 2001, 60.0


def check_q(q: float) -> float:
    """q, where there is such a distribution.

    Raises:
        ConfigError: it is not a number from 0.1 to 2.
    """
    if not LEAST_Q <= q <= 2:
        raise ConfigError(
            f"q={q!r} cannot be used: expected a number from {LEAST_Q} to 2. 2 is the Gaussian; "
            "less keeps edges, and near 0 no covariance is left."
        )
    return float(q)


def covariance_factor(n: int | Tensor, q: Tensor | float) -> Tensor:
    """ρ_N = 2^{2/q} Γ(N/2 + 2/q) / (N Γ(N/2)), shape of N, with Cov(u) = ρ_N C; 1 at q = 2."""
    power = 2 / torch.as_tensor(q, dtype=torch.float64)
    size = torch.as_tensor(n, dtype=torch.float64)
    half = size / 2
    logs = power * math.log(2) + torch.lgamma(half + power) - torch.lgamma(half) - size.log()
    return logs.exp()


def log_radial(square: Tensor, n: int | Tensor, q: Tensor | float) -> Tensor:
    """log(q/2) − (N/2) log 2π + (N/2)(q/2 − 1) log r − ½ r^{q/2}: log p but for −½ log|C|.

    Convex in r and falling for q ≤ 2, so that its value at an expected r is below its expectation.

    Args:
        square: r, [...]; no less than 1e-30 N is taken, for the pole at 0.
        n: N, of all blocks or of each, [...].
        q: from 0.1 to 2.
    """
    q = torch.as_tensor(q).to(square)
    r = square.clamp_min(LEAST_SQUARE * n)
    constant = torch.log(q / 2) - 0.5 * n * LOG_2PI
    return constant + 0.5 * n * (q / 2 - 1) * r.log() - 0.5 * r ** (q / 2)


def radial_slope(square: Tensor, n: int | Tensor, q: Tensor | float) -> Tensor:
    """d/dr of ``log_radial``: (N/2)(q/2 − 1)/r − (q/4) r^{q/2 − 1}, negative.

    A tangent of a convex function lies below it: with it a sum over batches of rows stays a bound.
    """
    q = torch.as_tensor(q).to(square)
    r = square.clamp_min(LEAST_SQUARE * n)
    return 0.5 * n * (q / 2 - 1) / r - 0.25 * q * r ** (q / 2 - 1)


@dataclass(frozen=True)
class QExponential:
    """q-ED_N(μ, L Lᵀ), one block or a batch of independent ones.

    Attributes:
        location: μ, [..., N].
        scale: L, lower triangular, [..., N, N].
        q: from 0.1 to 2.
    """

    location: Tensor
    scale: Tensor
    q: Tensor | float = 1.5

    @classmethod
    def from_matrix(cls, location: Tensor, C: Tensor, q: Tensor | float) -> QExponential:
        """With the scale matrix C [N, N] itself.

        Raises:
            NumericalError: C could not be factorised.
        """
        return cls(location, cholesky(C, "The scale matrix", exact=True)[0], q)

    @property
    def n(self) -> int:
        """N."""
        return self.location.shape[-1]

    @property
    def covariance(self) -> Tensor:
        """ρ_N L Lᵀ, [..., N, N]."""
        return covariance_factor(self.n, self.q).to(self.scale) * (self.scale @ self.scale.mT)

    @property
    def log_det(self) -> Tensor:
        """log|C|, [...]."""
        return 2 * self.scale.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    def square(self, u: Tensor) -> Tensor:
        """r of blocks u [..., N], [...]."""
        away = solve_lower(self.scale, (u - self.location)[..., None])[..., 0]
        return away.square().sum(-1)

    def log_prob(self, u: Tensor) -> Tensor:
        """log p(u) of blocks [..., N], nats, [...]."""
        return log_radial(self.square(u), self.n, self.q) - 0.5 * self.log_det

    def entropy(self) -> Tensor:
        """½ log|C| + (N/2) log 2π − log(q/2) + N/2 + (N/2)(2/q − 1)(log 2 + ψ(N/2)), nats, [...].

        E ½ r^{q/2} = N/2, and E log r = (2/q) (log 2 + ψ(N/2)), as r^{q/2} ~ χ²(N).
        """
        return 0.5 * self.log_det + _standard_entropy(self.n, self.q).to(self.scale)

    def draw(self, samples: int, generator: torch.Generator) -> Tensor:
        """Independent blocks, [samples, ..., N]; differentiable by μ, L and q."""
        shape = (samples, *self.location.shape)
        normal = torch.randn(shape, generator=generator, dtype=self.scale.dtype).to(self.scale)
        square = normal.square().sum(-1, keepdim=True)  # χ²(N), and the direction beside it
        q = torch.as_tensor(self.q).to(self.scale)
        radius = square ** (1 / q)
        away = radius * normal / square.sqrt()
        return self.location + (self.scale @ away[..., None])[..., 0]

    def given(self, known: Tensor) -> tuple[QExponential, Tensor]:
        """The first N − K numbers of one block, given its last K.

        They are elliptic around the Gaussian's conditional mean, with its scale matrix, but no
        q-exponential: their radius knows how far out the others are (`shrinkage_given`).

        Args:
            known: the last K, [K].

        Returns:
            The distribution with that mean and scale matrix; and c, [], with c times the scale
            matrix for its covariance.
        """
        n, kept = self.n, self.n - len(known)
        C = self.scale @ self.scale.mT
        block = cholesky(C[kept:, kept:], "The scale matrix of what is known", exact=True)[0]
        cross = solve_lower(block, C[kept:, :kept])
        away = solve_lower(block, (known - self.location[kept:])[:, None])
        location = self.location[:kept] + (cross.mT @ away)[:, 0]
        left = C[:kept, :kept] - cross.mT @ cross
        factor = shrinkage_given(away.square().sum(), kept, n, self.q)
        return QExponential.from_matrix(location, left, self.q), factor


def shrinkage_given(square: Tensor, n_left: int, n: int, q: Tensor | float) -> Tensor:
    """E[r₁ | r₂]/n₁, [], by which a conditional's scale matrix is its covariance; 1 at q = 2.

    p(r₁ | r₂) ∝ r₁^{n₁/2 − 1} (r₁ + r₂)^{(N/2)(q/2 − 1)} exp(−½ (r₁ + r₂)^{q/2}), summed over the
    logarithm of r₁.

    Args:
        square: r₂ of what is known, [].
        n_left: n₁.
        n: N.
        q: from 0.1 to 2.
    """
    q = torch.as_tensor(q, dtype=torch.float64)
    known = square.detach().double()
    t = torch.linspace(-TAIL, TAIL, PLACES, dtype=torch.float64)
    for _ in range(3):  # ever closer to where the mass is
        r = t.exp()
        logs = 0.5 * n_left * t + 0.5 * n * (q / 2 - 1) * (r + known).log()
        logs = logs - 0.5 * (r + known) ** (q / 2)
        held = torch.nonzero(logs > logs.max() - TAIL)[:, 0]
        low, high = max(0, int(held[0]) - 1), min(PLACES - 1, int(held[-1]) + 1)
        share = (logs - logs.max()).exp()
        mean = (share * r).sum() / share.sum() / n_left
        t = torch.linspace(float(t[low]), float(t[high]), PLACES, dtype=torch.float64)
    return mean.to(square)


def kl_bound(mean: Tensor, factor: Tensor, q: Tensor | float) -> Tensor:
    """No less than KL(q(V) ‖ p(V)) of one block of D columns of whitened values, nats, [].

    q(V) = q-ED_{DM}(m, blockdiag(L_d L_dᵀ)) and p(V) = q-ED_{DM}(0, I), n = D M:

    −H(q(V)) − φ(Σ_d ‖m_d‖² + ρ_n Σ_d ‖L_d‖²), φ of ``log_radial``,

    as E φ(r) ≥ φ(E r). Exact at q = 2.

    Args:
        mean: m, [D, M].
        factor: L_d, lower triangular, [D, M, M].
        q: from 0.1 to 2.
    """
    n = mean.numel()
    expected = mean.square().sum() + covariance_factor(n, q).to(mean) * factor.square().sum()
    half_log_det = factor.diagonal(dim1=-2, dim2=-1).abs().log().sum()
    return -_standard_entropy(n, q).to(mean) - half_log_det - log_radial(expected, n, q)


def _standard_entropy(n: int, q: Tensor | float) -> Tensor:
    """Of a block with C = I, nats, []."""
    q = torch.as_tensor(q, dtype=torch.float64)
    log_square = math.log(2) + torch.digamma(torch.tensor(n / 2, dtype=torch.float64))
    return 0.5 * n * (LOG_2PI + 1 + (2 / q - 1) * log_square) - torch.log(q / 2)
