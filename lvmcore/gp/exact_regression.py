"""Exact Gaussian process regression: marginal likelihood of all rows, and prediction.

Notation: lvmcore/README.md; Xₙ rows of H columns, one target, K [N, N].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelTerm
from lvmcore.kernels.hyperpriors import HyperPrior, log_prior
from lvmcore.kernels.stationary import StationaryName
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky
from lvmcore.training.loop import train
from lvmcore.training.objective import Objective
from lvmcore.training.schedule import Schedule

__all__ = [
    "CHOICE_ROWS",
    "ExactGP",
    "ExactRows",
    "GPPosterior",
    "MarginalLikelihood",
    "StationaryName",
    "choice_rows",
    "choose_kernel",
    "direct_schedule",
    "distinct_rows",
    "drawn_rows",
    "log_density_terms",
]

#: Initial σ² of a standardised target.
START_NOISE = 0.05
#: Rows by which a kernel is chosen at most, the seed of their choice, and the steps that have to
#: gain too little for a fit to have converged. The learning rate is that of no step.
CHOICE_ROWS, CHOICE_SEED, WINDOW, RATE = 1000, 0, 10, 0.1
_NAME = "The covariance matrix of the rows"


class ExactGP(nn.Module):
    """y = f(x) + N(0, σ²), f ~ GP(0, k).

    Args:
        kernel: k, at its initial parameters.
        like: dtype and device.
    """

    def __init__(self, kernel: CompositeKernel, like: Tensor) -> None:
        super().__init__()
        self.kernel = kernel
        self.log_noise = nn.Parameter(like.new_tensor(math.log(START_NOISE)))

    @classmethod
    def stationary(cls, n_columns: int, name: StationaryName, like: Tensor) -> ExactGP:
        """A process with v κ(d), d² = Σ_h (x_h − x'_h)²/ℓ_h², κ the correlation of that name."""
        columns = [str(h) for h in range(n_columns)]
        return cls(CompositeKernel(KernelTerm(name), columns, like.new_ones(n_columns)), like)

    @property
    def noise(self) -> Float[Tensor, ""]:
        """σ², []."""
        return self.log_noise.exp() + NOISE_FLOOR

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of the columns, [H]: 1/ℓ² for a stationary kernel."""
        return self.kernel.relevance

    def covariance(self, X: Float[Tensor, "n H"], X2: Float[Tensor, "N H"]) -> Float[Tensor, "n N"]:
        """k(x, x') of f between rows, [n, N]."""
        return self.kernel.forward(X, X2)

    def noisy_covariance(
        self, X: Float[Tensor, "N H"], known: Float[Tensor, "N"] | None = None
    ) -> Float[Tensor, "N N"]:
        """K + σ²I, and diag of the known variances of the rows' noise, [N, N]."""
        noise = self.noise * torch.ones(len(X)).to(X)
        if known is not None:
            noise = noise + known
        return self.covariance(X, X) + torch.diag(noise)


@dataclass(frozen=True)
class ExactRows:
    """The rows of a fit.

    Attributes:
        X: standardised, [N, H].
        Y: their targets, standardised, [N, 1].
        known: known variances of their noise, of the standardised target, [N]; None for none.
        scale: sd of the target, by which known sds are divided.
    """

    X: Tensor
    Y: Tensor
    known: Tensor | None = None
    scale: float = 1.0

    def take(self, rows: Tensor) -> ExactRows:
        """Some of the rows, by position."""
        known = None if self.known is None else self.known[rows]
        return replace(self, X=self.X[rows], Y=self.Y[rows], known=known)


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
    def backward(ctx: Any, by_fit: Tensor, by_log_det: Tensor) -> tuple[Tensor, Tensor | None]:
        alpha, inverse = ctx.saved_tensors
        by_A = (0.5 * by_fit * alpha @ alpha.T).sub_(0.5 * by_log_det * inverse)
        return by_A, -by_fit * alpha if ctx.needs_input_grad[1] else None


def log_density_terms(A: Float[Tensor, "N N"], y: Float[Tensor, "N 1"]) -> tuple[Tensor, Tensor]:
    """−½ yᵀA⁻¹y − (N/2) log 2π and −½ log|A|, [] each, with the gradients by A and y.

    Raises:
        NumericalError: A could not be factorised.
    """
    fit, log_det = _LogDensityTerms.apply(A, y)  # type: ignore[no-untyped-call]
    return fit, log_det


class MarginalLikelihood(Objective[None]):
    """The log marginal likelihood of a Gaussian process, of its kernel and noise.

    log p(y | X) = −½ yᵀA⁻¹y − ½ log|A| − (N/2) log 2π, A = K + σ²I (Rasmussen and Williams 2006,
    equation 5.8).

    Args:
        gp: initial model; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets, standardised, [N, 1].
        log_jacobian: of a transform of the target, a constant, nats.
        known: known variances of the noise of the rows, beside σ², [N]; None for none.
        priors: of the parameters, whose log density is added.
    """

    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N 1"],
        log_jacobian: float = 0.0,
        known: Float[Tensor, "N"] | None = None,
        priors: Sequence[HyperPrior] = (),
    ) -> None:
        super().__init__([gp], [])
        self.gp, self.X, self.Y, self.log_jacobian, self.known = gp, X, Y, log_jacobian, known
        self.priors = priors

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The fit of the data, −½ log|A|, the Jacobian of a transform and the log prior, nats."""
        del draws
        fit, log_det = log_density_terms(self.gp.noisy_covariance(self.X, self.known), self.Y)
        terms = {"data fit": fit, "complexity": log_det}
        if self.log_jacobian:
            terms["Jacobian"] = fit.new_tensor(self.log_jacobian)
        if self.priors:
            terms["log prior"] = log_prior(self.priors, self.gp.kernel, self.gp.noise)
        return terms

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
    """f given the rows of a fit: mean k(x)ᵀA⁻¹y, variance k(x, x) − k(x)ᵀA⁻¹k(x).

    Args:
        gp: fitted.
        X: the rows, standardised, [N, H].
        Y: their targets, [N, 1].
        known: known variances of the noise of the rows, beside σ², [N]; None for none.

    Raises:
        NumericalError: A could not be factorised.
    """

    @torch.no_grad()
    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        Y: Float[Tensor, "N 1"],
        known: Float[Tensor, "N"] | None = None,
    ) -> None:
        self.gp, self.X, self.Y = gp, X, Y
        self.factor = cholesky(gp.noisy_covariance(X, known), _NAME, exact=True)[0].to(X)
        self.alpha = torch.cholesky_solve(Y, self.factor)

    @torch.no_grad()
    def moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of y at rows, σ² included, [n, 1] each."""
        k = self.gp.covariance(X, self.X)
        half = torch.linalg.solve_triangular(self.factor, k.T, upper=False)
        left = (self.gp.kernel.diagonal(X) - half.square().sum(0)).clamp_min(0.0)
        return k @ self.alpha, (left + self.gp.noise)[:, None]

    @torch.no_grad()
    def summand_means(self) -> Float[Tensor, "I N"]:
        """Mean of each summand of f at the rows of the fit, [I, N]."""
        return torch.stack(
            [(s.forward(self.X, self.X) @ self.alpha)[:, 0] for s in self.gp.kernel.summands]
        )

    @torch.no_grad()
    def summand_moments(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of each summand f_i of f at rows, [n, I] each.

        k_i(x)ᵀA⁻¹y and k_i(x, x) − k_i(x)ᵀA⁻¹k_i(x). The means add up to that of f; the variances
        do not, as the summands are dependent given the rows.
        """
        means, variances = [], []
        for summand in self.gp.kernel.summands:
            k = summand.forward(X, self.X)
            half = torch.linalg.solve_triangular(self.factor, k.T, upper=False)
            means.append((k @ self.alpha)[:, 0])
            variances.append((summand.diagonal(X) - half.square().sum(0)).clamp_min(0.0))
        return torch.stack(means, 1), torch.stack(variances, 1)


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


def drawn_rows(n_rows: int, most: int) -> Tensor:
    """Positions of at most so many rows, drawn at random with a fixed seed, increasing."""
    if n_rows <= most:
        return torch.arange(n_rows)
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(CHOICE_SEED))
    return order[:most].sort().values


def direct_schedule(max_iter: int, n_rows: int) -> Schedule:
    """Quasi-Newton steps from the first on, until ten of them hardly gain anything."""
    window = min(WINDOW, max_iter)
    return Schedule(max_iter, RATE, n_rows, finishes=True, direct=True, optimum_window=window)


def choice_rows(
    X: Float[Tensor, "N H"], Y: Float[Tensor, "N 1"]
) -> tuple[Float[Tensor, "n H"], Float[Tensor, "n 1"]]:
    """The rows by which a kernel is chosen: all, or 1000 of them."""
    some = drawn_rows(len(X), CHOICE_ROWS)
    return X[some], Y[some]


def choose_kernel(
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N 1"],
    starts: Sequence[CompositeKernel],
    max_iter: int,
    known: Float[Tensor, "N"] | None = None,
    priors: Sequence[HyperPrior] = (),
) -> ExactGP:
    """The Gaussian process of the highest marginal likelihood, of 1000 rows at most.

    Args:
        X: inputs, standardised, [N, H].
        Y: targets, standardised, [N, 1].
        starts: kernels at their initial parameters, each of which is fitted.
        max_iter: steps of each fit at most.
        known: known variances of the noise of the rows, beside σ², [N]; None for none.
        priors: of the parameters, whose log density is added.
    """
    some = drawn_rows(len(X), CHOICE_ROWS)
    X, Y, known = X[some], Y[some], None if known is None else known[some]
    best: tuple[float, ExactGP] | None = None
    for kernel in starts:
        gp = ExactGP(kernel, X)
        fit = MarginalLikelihood(gp, X, Y, known=known, priors=priors)
        found = train(fit, direct_schedule(max_iter, len(X)), None)
        if best is None or found.objective > best[0]:
            best = found.objective, gp
    assert best is not None
    return best[1]
