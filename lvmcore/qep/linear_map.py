"""The linear latent variable model of a q-exponential process, in closed form.

The N × D cells are one block, Y ~ q-ED_{ND}(0, I_D ⊗ K) with K = X Xᵀ + σ² I. With the
eigenvalues λ and eigenvectors U of Y Yᵀ the likelihood is stationary at X = U_Q (c Λ_Q − σ² I)^½,
where c > 0 is the same for all dimensions (Chang, Obite, Zhou and Lan 2025, theorem 3.1). The
constant of that theorem leaves out the discarded eigenvalues, and exists only for
N < 2 min(D, Q)/(2 − q); here r = tr K⁻¹ Y Yᵀ contains them.

Where σ² is at its maximum too, r^{q/2} = N D, so c = N (N D)^{−2/q}, and σ² is c times the mean of
the other N − Q eigenvalues. X is then that of q = 2 times (N D)^{½ − 1/q}, and the largest
likelihood depends on q by log(q/2) alone: q changes the scale and not the map. With a given σ²
it changes c, so how many dimensions exceed the noise, and by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from lvmcore.qep.distribution import log_radial

__all__ = ["LinearMap", "fit_linear_map"]

# Smallest noise variance, as a share of the mean eigenvalue, where no eigenvalue is left for it.
NOISE_FLOOR = 1e-10
# Values of log c tried first, and how far above its least value.
TRIED, LARGEST_LOG = 2001, 80.0


@dataclass(frozen=True)
class LinearMap:
    """A maximum of the likelihood.

    Attributes:
        scales: eigenvalues of K along the dimensions, at least σ², [Q].
        noise: σ².
        square: r = tr K⁻¹ Y Yᵀ.
        log_density: log p(Y | X), nats.
    """

    scales: Float[Tensor, "Q"]
    noise: float
    square: float
    log_density: float


def fit_linear_map(
    eigenvalues: Float[Tensor, "K"],
    n_rows: int,
    n_columns: int,
    n_components: int,
    q: float,
    noise: float | None = None,
) -> LinearMap:
    """The X, and the σ², of the highest likelihood.

    Args:
        eigenvalues: those of Y Yᵀ that may differ from 0, descending, [min(N, D)].
        n_rows: N, more than Q.
        n_columns: D.
        n_components: Q.
        q: exponent, from 0.1 to 2.
        noise: σ²; None for that of the highest likelihood.
    """
    n, kept, left = n_rows * n_columns, eigenvalues[:n_components], eigenvalues[n_components:]
    if noise is None:
        c = n_rows * n ** (-2 / q)
        least = NOISE_FLOOR * float(eigenvalues.sum()) / n_rows
        return _linear_map(
            eigenvalues,
            n_rows,
            n_columns,
            (c * kept).clamp_min(c * least),
            c * max(float(left.sum()) / (n_rows - n_components), least),
            q,
        )

    def at(log_c: float) -> LinearMap:
        scales = (math.exp(log_c) * kept).clamp_min(noise)
        return _linear_map(eigenvalues, n_rows, n_columns, scales, noise, q)

    # Below this c no dimension exceeds the noise.
    first = math.log(noise / float(kept[0]))
    step = LARGEST_LOG / (TRIED - 1)
    tried = [at(first + i * step).log_density for i in range(TRIED)]
    best = first + step * max(range(TRIED), key=tried.__getitem__)
    found = minimize_scalar(
        lambda log_c: -at(log_c).log_density,
        bounds=(max(first, best - step), best + step),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return max((at(best), at(float(found.x))), key=lambda one: one.log_density)


def _linear_map(
    eigenvalues: Tensor, n_rows: int, n_columns: int, scales: Tensor, noise: float, q: float
) -> LinearMap:
    """The map of given eigenvalues of K, with its likelihood."""
    Q = len(scales)
    square = (eigenvalues[:Q] / scales).sum() + eigenvalues[Q:].sum() / noise
    log_det = float(scales.log().sum()) + (n_rows - Q) * math.log(noise)
    density = float(log_radial(square, n_rows * n_columns, q)) - 0.5 * n_columns * log_det
    return LinearMap(scales, noise, float(square), density)
