"""Exact Gaussian process regression: marginal likelihood of all rows, and prediction.

Notation: lvmcore/README.md; Xₙ rows of H columns, one target, K [N, N].
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.kernels.stationary import (
    StationaryName,
    matern32_correlation,
    matern52_correlation,
)
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky
from lvmcore.training.loop import train
from lvmcore.training.objective import Objective
from lvmcore.training.schedule import Schedule

__all__ = [
    "ExactGP",
    "GPPosterior",
    "MarginalLikelihood",
    "StationaryName",
    "choose_kernel",
    "direct_schedule",
    "distinct_rows",
]

#: Initial σ² and v of a standardised target; ℓ_h is √H, about the distance of two rows.
START_NOISE, START_VARIANCE = 0.05, 1.0
#: Rows by which a kernel is chosen at most, the seed of their choice, and the steps that have to
#: gain too little for a fit to have converged. The learning rate is that of no step.
CHOICE_ROWS, CHOICE_SEED, WINDOW, RATE = 1000, 0, 10, 0.1
_NAME = "The covariance matrix of the rows"


class ExactGP(nn.Module):
    """y = f(x) + N(0, σ²), f ~ GP(0, v κ(d)), d² = Σ_h (x_h − x'_h)²/ℓ_h².

    Args:
        n_columns: H.
        kernel: κ: ``rbf`` exp(−d²/2), or the Matérn correlation of that smoothness.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, kernel: StationaryName, like: Tensor) -> None:
        super().__init__()
        self.kernel: StationaryName = kernel
        start = 0.5 * math.log(max(1, n_columns))
        self.log_lengthscales = nn.Parameter(like.new_full((n_columns,), start))
        self.log_variance = nn.Parameter(like.new_tensor(math.log(START_VARIANCE)))
        self.log_noise = nn.Parameter(like.new_tensor(math.log(START_NOISE)))

    @property
    def noise(self) -> Float[Tensor, ""]:
        """σ², []."""
        return self.log_noise.exp() + NOISE_FLOOR

    @property
    def variance(self) -> Float[Tensor, ""]:
        """v, []."""
        return self.log_variance.exp()

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α = 1/ℓ², [H]."""
        return (-2 * self.log_lengthscales).exp()

    def covariance(self, X: Float[Tensor, "n H"], X2: Float[Tensor, "N H"]) -> Float[Tensor, "n N"]:
        """k(x, x') of f between rows, [n, N]."""
        centre, scale = X2.mean(0), (-self.log_lengthscales).exp()
        A, B = (X - centre) * scale, (X2 - centre) * scale
        square = A.square().sum(1)[:, None] + B.square().sum(1)
        exponent = (A @ B.T - 0.5 * square).clamp_max(0.0)  # −d²/2
        if self.kernel == "matern32":
            return self.variance * matern32_correlation(exponent)
        if self.kernel == "matern52":
            return self.variance * matern52_correlation(exponent)
        return self.variance * exponent.exp()

    def noisy_covariance(self, X: Float[Tensor, "N H"]) -> Float[Tensor, "N N"]:
        """K + σ²I of the rows of the fit, [N, N]."""
        return self.covariance(X, X) + self.noise * torch.eye(len(X)).to(X)


class _LogDensityTerms(torch.autograd.Function):
    """−½ yᵀA⁻¹y − (N/2) log 2π and −½ log|A| of N(y | 0, A).

    With α = A⁻¹y their gradients by A are ½ α αᵀ and −½ A⁻¹: one factorisation and one inverse,
    N³ operations, serve both. Reversing the factorisation would take several times as many.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        L, _ = cholesky(A, _NAME, exact=True)
        alpha = torch.cholesky_solve(y, L)
        ctx.save_for_backward(alpha, torch.cholesky_inverse(L))
        fit = -0.5 * (y * alpha).sum() - 0.5 * len(y) * LOG_2PI
        return fit, -L.diagonal().log().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_fit: Tensor, by_log_det: Tensor) -> tuple[Tensor, None]:
        alpha, inverse = ctx.saved_tensors
        return (0.5 * by_fit * alpha @ alpha.T).sub_(0.5 * by_log_det * inverse), None


class MarginalLikelihood(Objective[None]):
    """The log marginal likelihood of a Gaussian process, of its kernel and noise.

    log p(y | X) = −½ yᵀA⁻¹y − ½ log|A| − (N/2) log 2π, A = K + σ²I (Rasmussen and Williams 2006,
    equation 5.8).

    Args:
        gp: initial model; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets, standardised, [N, 1].
    """

    def __init__(self, gp: ExactGP, X: Float[Tensor, "N H"], Y: Float[Tensor, "N 1"]) -> None:
        super().__init__([gp], [])
        self.gp, self.X, self.Y = gp, X, Y

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The fit of the data and −½ log|A|, nats."""
        del draws
        fit, log_det = _LogDensityTerms.apply(  # type: ignore[no-untyped-call]
            self.gp.noisy_covariance(self.X), self.Y
        )
        return {"data fit": fit, "complexity": log_det}

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.X)

    def latent_mean(self, rows: NDArray[Any]) -> Tensor:
        """The columns of some rows, [n, H]."""
        return self.X[torch.as_tensor(rows)]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the kernel."""
        del mean
        return {"layer1": self.gp.relevance}


class GPPosterior:
    """f given the rows of a fit: mean k(x)ᵀA⁻¹y, variance v − k(x)ᵀA⁻¹k(x).

    Args:
        gp: fitted.
        X: the rows, standardised, [N, H].
        Y: their targets, [N, 1].

    Raises:
        NumericalError: A could not be factorised.
    """

    @torch.no_grad()
    def __init__(self, gp: ExactGP, X: Float[Tensor, "N H"], Y: Float[Tensor, "N 1"]) -> None:
        self.gp, self.X, self.Y = gp, X, Y
        self.factor = cholesky(gp.noisy_covariance(X), _NAME, exact=True)[0].to(X)
        self.alpha = torch.cholesky_solve(Y, self.factor)

    @torch.no_grad()
    def moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of y at rows, noise included, [n, 1] each."""
        k = self.gp.covariance(X, self.X)
        half = torch.linalg.solve_triangular(self.factor, k.T, upper=False)
        variance = (self.gp.variance - half.square().sum(0)).clamp_min(0.0) + self.gp.noise
        return k @ self.alpha, variance[:, None]


def distinct_rows(X: Tensor, Y: Tensor) -> Tensor:
    """Positions of the rows for the marginal likelihood, in increasing order.

    Where rows with equal columns always have equal targets, each counts once: copies of a row
    would otherwise put σ² to 0, as any other noise has to explain why they agree. Where some
    disagree, replicates tell the noise, and all rows count.

    Args:
        X: [N, H].
        Y: [N, 1].
    """
    both = torch.cat([X, Y], 1).cpu()
    at, place = torch.unique(X.cpu(), dim=0, return_inverse=True)
    if len(torch.unique(both, dim=0)) > len(at):
        return torch.arange(len(X))
    first = torch.full((len(at),), len(X)).scatter_reduce(
        0, place, torch.arange(len(X)), "amin", include_self=True
    )
    return first.sort().values


def direct_schedule(max_iter: int, n_rows: int) -> Schedule:
    """Quasi-Newton steps from the first on, until ten of them hardly gain anything."""
    window = min(WINDOW, max_iter)
    return Schedule(max_iter, RATE, n_rows, finishes=True, direct=True, optimum_window=window)


def choose_kernel(
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N 1"],
    kernel: StationaryName | Literal["auto"],
    max_iter: int,
) -> ExactGP:
    """A Gaussian process of the kernel with the highest marginal likelihood, of 1000 rows at most.

    Args:
        X: inputs, standardised, [N, H].
        Y: targets, standardised, [N, 1].
        kernel: ``auto`` compares all kernels; a given one is fitted to the same rows.
        max_iter: steps of each fit at most.
    """
    if len(X) > CHOICE_ROWS:
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(CHOICE_SEED))
        some = order[:CHOICE_ROWS].sort().values
        X, Y = X[some], Y[some]
    best: tuple[float, ExactGP] | None = None
    for name in get_args(StationaryName) if kernel == "auto" else (kernel,):
        gp = ExactGP(X.shape[1], name, X)
        found = train(MarginalLikelihood(gp, X, Y), direct_schedule(max_iter, len(X)), None)
        if best is None or found.objective > best[0]:
            best = found.objective, gp
    assert best is not None
    return best[1]
