"""The multivariate q-exponential distribution: density, draws, entropy, divergences, conditioning.

u ~ q-ED_N(μ, C) with r = (u − μ)ᵀC⁻¹(u − μ) has

log p(u) = log(q/2) − (N/2) log 2π − ½ log|C| + (N/2)(q/2 − 1) log r − ½ r^{q/2},

a Gaussian at q = 2. For q < 2 it preserves edges, as the penalty of large radii is smaller and that
of small ones larger. It is elliptical: u = μ + R L s with s uniform on the unit sphere, R^q ~ χ²(N)
and L Lᵀ = C. The whole block shares one radius: entries that are uncorrelated under C are not
independent, and a block of another size is another model. Its covariance is ρ_N C.

Source: Li, O'Connor and Lan 2023; Chang, Obite, Zhou and Lan 2025. They use the
entropy of χ² for its expected logarithm, and omit ρ in their bounds, which are then no bounds; both
are corrected here.

Notation: N numbers in a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.numerics.linalg import cholesky, solve_lower

__all__ = [
    "MIN_Q",
    "QExponential",
    "check_q",
    "conditional_shrinkage",
    "covariance_factor",
    "kl_bound",
    "log_radial",
    "radial_slope",
]

LOG_2PI = math.log(2 * math.pi)
#: Least q: ρ grows as Γ(2/q), and a smaller q leaves no usable covariance.
MIN_Q = 0.1
#: Times N: the smallest squared radius in the density, which has a pole at 0 for q < 2.
MIN_SQUARE = 1e-30
# Quadrature points of a radius, and the range of its logarithm around the mode.
QUADRATURE_POINTS, MAX_LOG_RADIUS = 2001, 60.0


def check_q(q: float) -> float:
    """q as a float, checked.

    Raises:
        ConfigError: it is not a number from 0.1 to 2.
    """
    if not MIN_Q <= q <= 2:
        raise ConfigError(
            f"q={q!r} cannot be used: expected a number from {MIN_Q} to 2. 2 is the Gaussian; "
            "a smaller q preserves edges, and near 0 no covariance is left."
        )
    return float(q)


def covariance_factor(n: int | Tensor, q: Tensor | float) -> Tensor:
    """ρ_N = 2^{2/q} Γ(N/2 + 2/q) / (N Γ(N/2)), shape of N, with Cov(u) = ρ_N C; 1 at q = 2."""
    power = 2 / torch.as_tensor(q, dtype=torch.float64)
    size = torch.as_tensor(n, dtype=torch.float64)
    half = size / 2
    logs = power * math.log(2) + torch.lgamma(half + power) - torch.lgamma(half) - size.log()
    return logs.exp()


def log_radial(
    square: Float[Tensor, "*B"], n: int | Tensor, q: Tensor | float
) -> Float[Tensor, "*B"]:
    """log(q/2) − (N/2) log 2π + (N/2)(q/2 − 1) log r − ½ r^{q/2}: log p but for −½ log|C|.

    Convex and decreasing in r for q ≤ 2, so its value at E r is at most its expectation.

    Args:
        square: r, [...]; at least 1e-30 N is used, for the pole at 0.
        n: N, of all blocks or of each, [...].
        q: from 0.1 to 2.
    """
    q = torch.as_tensor(q).to(square)
    r = square.clamp_min(MIN_SQUARE * n)
    constant = torch.log(q / 2) - 0.5 * n * LOG_2PI
    return constant + 0.5 * n * (q / 2 - 1) * r.log() - 0.5 * r ** (q / 2)


def radial_slope(
    square: Float[Tensor, "*B"], n: int | Tensor, q: Tensor | float
) -> Float[Tensor, "*B"]:
    """d/dr of ``log_radial``: (N/2)(q/2 − 1)/r − (q/4) r^{q/2 − 1}, negative.

    A tangent of a convex function lies below it: a sum over batches of rows remains a bound.
    """
    q = torch.as_tensor(q).to(square)
    r = square.clamp_min(MIN_SQUARE * n)
    return 0.5 * n * (q / 2 - 1) / r - 0.25 * q * r ** (q / 2 - 1)


@dataclass(frozen=True)
class QExponential:
    """q-ED_N(μ, L Lᵀ), one block or a batch of independent ones.

    Attributes:
        location: μ, [..., N].
        scale: L, lower triangular, [..., N, N].
        q: from 0.1 to 2.
    """

    location: Float[Tensor, "*B N"]
    scale: Float[Tensor, "*B N N"]
    q: Tensor | float = 1.5

    @classmethod
    def from_matrix(
        cls, location: Float[Tensor, "N"], C: Float[Tensor, "N N"], q: Tensor | float
    ) -> QExponential:
        """From the scale matrix C [N, N].

        Raises:
            NumericalError: C could not be factorised.
        """
        return cls(location, cholesky(C, "The scale matrix", exact=True)[0], q)

    @property
    def n(self) -> int:
        """N."""
        return self.location.shape[-1]

    @property
    def covariance(self) -> Float[Tensor, "*B N N"]:
        """ρ_N L Lᵀ, [..., N, N]."""
        return covariance_factor(self.n, self.q).to(self.scale) * (self.scale @ self.scale.mT)

    @property
    def log_det(self) -> Float[Tensor, "*B"]:
        """log|C|, [...]."""
        return 2 * self.scale.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)

    def square(self, u: Float[Tensor, "*B N"]) -> Float[Tensor, "*B"]:
        """r of blocks u [..., N], [...]."""
        away = solve_lower(self.scale, (u - self.location)[..., None])[..., 0]
        return away.square().sum(-1)

    def log_prob(self, u: Float[Tensor, "*B N"]) -> Float[Tensor, "*B"]:
        """log p(u) of blocks [..., N], nats, [...]."""
        return log_radial(self.square(u), self.n, self.q) - 0.5 * self.log_det

    def entropy(self) -> Float[Tensor, "*B"]:
        """½ log|C| + (N/2) log 2π − log(q/2) + N/2 + (N/2)(2/q − 1)(log 2 + ψ(N/2)), nats, [...].

        E ½ r^{q/2} = N/2, and E log r = (2/q) (log 2 + ψ(N/2)), as r^{q/2} ~ χ²(N).
        """
        return 0.5 * self.log_det + _standard_entropy(self.n, self.q).to(self.scale)

    def draw(self, samples: int, generator: torch.Generator) -> Float[Tensor, "{samples} *B N"]:
        """Independent blocks, [samples, ..., N]; differentiable by μ, L and q."""
        shape = (samples, *self.location.shape)
        normal = torch.randn(shape, generator=generator, dtype=self.scale.dtype).to(self.scale)
        square = normal.square().sum(-1, keepdim=True)  # χ²(N), independent of the direction
        q = torch.as_tensor(self.q).to(self.scale)
        radius = square ** (1 / q)
        away = radius * normal / square.sqrt()  # R s, s on the unit sphere
        return self.location + (self.scale @ away[..., None])[..., 0]

    def condition(self, known: Float[Tensor, "K"]) -> tuple[QExponential, Float[Tensor, ""]]:
        """The first N − K numbers of one block, given its last K.

        They are elliptical with the conditional mean and scale matrix of a Gaussian, but no
        q-exponential: their radius depends on that of the others (`conditional_shrinkage`).

        Args:
            known: the last K, [K].

        Returns:
            The distribution with that mean and scale matrix; and c, []: its covariance is c times
            the scale matrix.
        """
        n, kept = self.n, self.n - len(known)
        C = self.scale @ self.scale.mT
        block = cholesky(C[kept:, kept:], "The scale matrix of the known numbers", exact=True)[0]
        # With C₂₂ = L Lᵀ: mean μ₁ + C₁₂C₂₂⁻¹(u₂ − μ₂), scale matrix C₁₁ − C₁₂C₂₂⁻¹C₂₁
        cross = solve_lower(block, C[kept:, :kept])
        away = solve_lower(block, (known - self.location[kept:])[:, None])
        location = self.location[:kept] + (cross.mT @ away)[:, 0]
        left = C[:kept, :kept] - cross.mT @ cross
        factor = conditional_shrinkage(away.square().sum(), kept, n, self.q)
        return QExponential.from_matrix(location, left, self.q), factor


def conditional_shrinkage(
    square: Float[Tensor, ""], n_left: int, n: int, q: Tensor | float
) -> Float[Tensor, ""]:
    """E[r₁ | r₂]/n₁, [], the covariance of a conditional over its scale matrix; 1 at q = 2.

    p(r₁ | r₂) ∝ r₁^{n₁/2 − 1} (r₁ + r₂)^{(N/2)(q/2 − 1)} exp(−½ (r₁ + r₂)^{q/2}), integrated
    over log r₁ by quadrature.

    Args:
        square: r₂ of the known numbers, [].
        n_left: n₁.
        n: N.
        q: from 0.1 to 2.
    """
    q = torch.as_tensor(q, dtype=torch.float64)
    known = square.detach().double()
    t = torch.linspace(-MAX_LOG_RADIUS, MAX_LOG_RADIUS, QUADRATURE_POINTS, dtype=torch.float64)
    for _ in range(3):  # narrow the grid to the mass
        r = t.exp()
        # log p(r₁ | r₂) + log r₁ up to a constant: the density of t = log r₁
        logs = 0.5 * n_left * t + 0.5 * n * (q / 2 - 1) * (r + known).log()
        logs = logs - 0.5 * (r + known) ** (q / 2)
        held = torch.nonzero(logs > logs.max() - MAX_LOG_RADIUS)[:, 0]
        low, high = max(0, int(held[0]) - 1), min(QUADRATURE_POINTS - 1, int(held[-1]) + 1)
        share = (logs - logs.max()).exp()
        mean = (share * r).sum() / share.sum() / n_left
        t = torch.linspace(float(t[low]), float(t[high]), QUADRATURE_POINTS, dtype=torch.float64)
    return mean.to(square)


def kl_bound(
    mean: Float[Tensor, "D M"], factor: Float[Tensor, "D M M"], q: Tensor | float
) -> Float[Tensor, ""]:
    """An upper bound on KL(q(V) ‖ p(V)) of one block of D columns of whitened values, nats, [].

    q(V) = q-ED_{DM}(m, blockdiag(L_d L_dᵀ)) and p(V) = q-ED_{DM}(0, I), n = D M:

    −H(q(V)) − φ(Σ_d ‖m_d‖² + ρ_n Σ_d ‖L_d‖²), φ of ``log_radial``,

    by E φ(r) ≥ φ(E r). Exact at q = 2.

    Args:
        mean: m, [D, M].
        factor: L_d, lower triangular, [D, M, M].
        q: from 0.1 to 2.
    """
    n = mean.numel()
    expected = mean.square().sum() + covariance_factor(n, q).to(mean) * factor.square().sum()
    # Σ_d ½ log|L_d L_dᵀ|
    half_log_det = factor.diagonal(dim1=-2, dim2=-1).abs().log().sum()
    return -_standard_entropy(n, q).to(mean) - half_log_det - log_radial(expected, n, q)


def _standard_entropy(n: int, q: Tensor | float) -> Tensor:
    """Entropy of a block with C = I, nats, []."""
    q = torch.as_tensor(q, dtype=torch.float64)
    log_square = math.log(2) + torch.digamma(torch.tensor(n / 2, dtype=torch.float64))
    return 0.5 * n * (LOG_2PI + 1 + (2 / q - 1) * log_square) - torch.log(q / 2)
