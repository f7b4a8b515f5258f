"""Bounds from mini-batches: paths whose q(V) follows by natural gradients.

Every term of the bound but the divergences of q(V) is a sum over rows, so a batch of B rows, scaled
by N/B, estimates it without bias. q(V) has no parameters that a step size could be wrong for:

* data: for Gaussian noise a natural-gradient step of length ρ on the whitened q(V) *is* a running
  mean of the sufficient statistics, G ← (1 − ρ) G + ρ (N/B) L⁻¹ psi2 L⁻ᵀ and likewise P; q(V) is
  the optimum for them, in closed form (Hensman, Fusi and Lawrence 2013, section 3.3). One G serves
  every column, whatever its noise, and the noise follows what they leave unexplained.
* labels: the same with the likelihood's local slope g = E ∂ log p/∂f and curvature
  β = −E ∂² log p/∂f² at each row (Khan and Lin 2017): the precision I + Σ β a aᵀ and the shift
  Σ a (g + β m) of each class follow their estimates. β ≥ 0, so the precision stays positive
  definite.

Notation: lvmcore/README.md; a = L⁻¹ k(Z, x).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.kernels import RBF
from lvmcore.layers import NOISE_FLOOR, DataPath, KernelPath, LabelDecoder
from lvmcore.likelihoods import Link, label_expectation
from lvmcore.linalg import cholesky, solve_lower, solve_upper
from lvmcore.psi import PsiSums
from lvmcore.rows import TableRows
from lvmcore.variational import LOG_2PI, OptimalInducing, eigen

__all__ = [
    "LONGEST_LABEL_STEP",
    "Batches",
    "InducingMoments",
    "StochasticDataPath",
    "StochasticLabelPath",
    "step_length",
]

# Rows an inducing input wants in the running means.
ROWS_PER_INDUCING = 30
# Length of a step of the noise, as a logarithm, towards its best value.
NOISE_STEP = 0.02
# The longest natural-gradient step of the label path, whose likelihood is not Gaussian.
LONGEST_LABEL_STEP = 0.7


class Batches:
    """Rows in shuffled order, some at a time; a new order when all have been seen.

    Args:
        n_rows: N.
        size: rows in a batch, B; a last batch smaller than that is left out of the pass.
        generator: of the orders.
    """

    def __init__(self, n_rows: int, size: int, generator: torch.Generator) -> None:
        self.n_rows, self.size, self.generator = n_rows, min(size, n_rows), generator
        self.order = torch.arange(n_rows)
        self.position = torch.full((1,), n_rows)

    @property
    def whole(self) -> bool:
        """Whether every batch holds all rows."""
        return self.size == self.n_rows

    def next(self) -> Tensor:
        """Positions of the next batch's rows, [B]."""
        if self.whole:
            return self.order
        begin = int(self.position)
        if begin + self.size > self.n_rows:
            self.order.copy_(torch.randperm(self.n_rows, generator=self.generator))
            begin = 0
        self.position.fill_(begin + self.size)
        return self.order[begin : begin + self.size].clone()

    def buffers(self) -> list[Tensor]:
        """Where the order stands."""
        return [] if self.whole else [self.order, self.position]


def step_length(size: int, n_inducing: int, *, most: float = 1.0) -> float:
    """ρ for batches of so many rows: the means run over about 30 rows an inducing input."""
    return min(most, size / (size + ROWS_PER_INDUCING * n_inducing))


@dataclass(frozen=True)
class InducingMoments:
    """q(V) of every data column, in the basis that diagonalises all its covariances.

    Attributes:
        vectors: eigenvectors of the running G, [M, M].
        mean: of each column in that basis, [M, D].
        shrinkage: s = λ/(σ_d² + λ); the covariances are diag(1 − s), [M, D].
    """

    vectors: Tensor
    mean: Tensor
    shrinkage: Tensor

    @classmethod
    def best(cls, G: Tensor, P: Tensor, noise: Tensor) -> InducingMoments:
        """The optimum for statistics G [M, M], P [M, D] and noise [D]."""
        values, vectors = eigen(G)
        total = values[:, None] + noise
        return cls(vectors, vectors.T @ P / total, values[:, None] / total)

    def expected_error(self, G: Tensor, P: Tensor, psi0: Tensor, squares: Tensor) -> Tensor:
        """E‖y_d − f_d‖² of the rows that G, P, psi0 and ‖y_d‖² [D] were summed over, [D].

        It is ‖y‖² − 2 mᵀP + psi0 + tr[G (m mᵀ + cov − I)].
        """
        H = self.vectors.T @ G @ self.vectors
        return (
            squares
            - 2 * (self.mean * (self.vectors.T @ P)).sum(0)
            + psi0
            + (self.mean * (H @ self.mean)).sum(0)
            - H.diagonal() @ self.shrinkage
        )

    def expected_fit(
        self, G: Tensor, P: Tensor, psi0: Tensor, squares: Tensor, noise: Tensor, n_rows: int
    ) -> Tensor:
        """E log p(Y | F) of the rows that the statistics were summed over, [].

        Args:
            G: [M, M].
            P: [M, D].
            psi0: [].
            squares: ‖y_d‖², [D].
            noise: σ², [D].
            n_rows: how many they are.
        """
        error = self.expected_error(G, P, psi0, squares)
        return -0.5 * (n_rows * (LOG_2PI + noise.log()) + error / noise).sum()

    def kl(self) -> Tensor:
        """Σ_d KL(q(V_d) ‖ N(0, I)), []."""
        return 0.5 * (self.mean.square() - self.shrinkage - torch.log1p(-self.shrinkage)).sum()


class StochasticDataPath(DataPath):
    """Regression Gaussian processes whose q(V) follows the batches.

    Args:
        Z: inducing inputs to start from, [M, Q] (float64).
        noise: noise variances to start from, [D] or [1].
        table: all rows, standardised.
    """

    G: Tensor
    P: Tensor
    squares: Tensor

    def __init__(self, Z: Tensor, noise: Tensor, table: TableRows) -> None:
        super().__init__(Z, noise)
        self.n_rows = len(table)
        self.register_buffer("G", Z.new_zeros(len(Z), len(Z)))
        self.register_buffer("P", Z.new_zeros(len(Z), table.n_columns))
        squares = [Y.square().sum(0, dtype=torch.float64) for Y, _ in table.blocks()]
        self.register_buffer("squares", torch.stack(squares).sum(0), persistent=False)

    def whiten(self, sums: PsiSums) -> tuple[Tensor, Tensor]:
        """G = L⁻¹ psi2 L⁻ᵀ [M, M] and P = L⁻¹ psi1ᵀY [M, D] at the current kernel."""
        L, _ = cholesky(self.kernel(self.Z, self.Z), "The kernel matrix of the inducing inputs")
        half = solve_lower(L, sums.psi2)
        G = solve_lower(L, half.T)
        return 0.5 * (G + G.T), solve_lower(L, sums.psi1Y)

    def _project(self, psi1Y: Tensor) -> Tensor:
        with torch.no_grad():
            L, _ = cholesky(self.kernel(self.Z, self.Z), "The kernel matrix of the inducing inputs")
            return solve_lower(L, psi1Y)

    def follow(self, G: Tensor, P: Tensor, rho: float) -> None:
        """A natural-gradient step of length ρ towards the optimum for these statistics."""
        with torch.no_grad():
            self.G.lerp_(G.detach(), rho)
            self.P.lerp_(P.detach(), rho)

    def moments(self) -> InducingMoments:
        """q(V) as it stands; constant for gradients."""
        with torch.no_grad():
            return InducingMoments.best(self.G, self.P, self._noises())

    def prime(self, sums: PsiSums, n_rows: int) -> None:
        """Start q(V) at its optimum for some rows, and the noise at what it leaves unexplained.

        The noise starts no lower than it stands, so that what the start explains well is to be
        explained better.

        Args:
            sums: psi statistics summed over those rows.
            n_rows: how many they are.
        """
        scale, least = self.n_rows / n_rows, self.log_noise.detach().clone()
        with torch.no_grad():
            G, P = self.whiten(sums)
            self.follow(scale * G, scale * P, 1.0)
            for _ in range(2):
                self.log_noise.copy_(self._best_log_noise(self.moments()).maximum(least))

    def _best_log_noise(self, q: InducingMoments) -> Tensor:
        """The noise that q(V) and the running means leave: log E‖y_d − f_d‖²/N, [D] or [1]."""
        psi0 = self.n_rows * self.kernel.variance
        error = q.expected_error(self.G, self.P, psi0, self.squares) / self.n_rows
        if len(self.log_noise) == 1:
            error = error.mean(0, keepdim=True)
        return error.clamp_min(NOISE_FLOOR).log()

    def batch_bound(self, sums: PsiSums, Y: Tensor, excess: Tensor | None = None) -> Tensor:
        """The data term of the bound, less KL(q(V)), estimated from a batch, [].

        q(V) then follows the batch, and the noise follows the value that is best for the running
        means: the estimate is of the bound as they were before. A batch of all rows takes q(V) to
        its optimum first, and the result is the collapsed bound, with a gradient for the noise.
        Where no gradient is recorded, everything stays as it is.

        The noise has no gradient in batches, because a column that is rarely anything but 0 would
        mislead it: most batches alone say that it has no noise at all.

        Args:
            sums: psi statistics summed over the batch, at the current kernel and Z.
            Y: rows of the batch, [B, D].
            excess: psi1ᵀ times what cells of the batch are too far out by, [M, D]. q(V) follows
                without it: a cell 200 standard deviations out, N/B times in the running mean, would
                make a spike of its column for as long as the mean remembers it. The bound itself
                takes every cell as it is, and holds at any q(V).
        """
        G, P = self.whiten(sums)
        scale, whole, learning = self.n_rows / len(Y), len(Y) == self.n_rows, G.requires_grad
        if whole and learning:
            self.follow(G, P, 1.0)
        q = self.moments()
        noise = self._noises() if whole else self._noises().detach()
        squares = Y.square().sum(0, dtype=torch.float64)
        fit = q.expected_fit(G, P, sums.psi0, squares, noise, len(Y))
        if learning and not whole:
            towards = P if excess is None else P - self._project(excess)
            self.follow(scale * G, scale * towards, step_length(len(Y), len(self.Z)))
            with torch.no_grad():
                self.log_noise.lerp_(self._best_log_noise(q), NOISE_STEP)
        return scale * fit - q.kl()

    def best_bound(self, sums: PsiSums) -> Tensor:
        """The collapsed bound of all rows, whatever q(V) is now, []."""
        G, P = self.whiten(sums)
        noise = self._noises()
        q = InducingMoments.best(G, P, noise)
        return q.expected_fit(G, P, sums.psi0, self.squares, noise, self.n_rows) - q.kl()

    def _noises(self) -> Tensor:
        return self.noise.expand(self.P.shape[1])

    def optimum(self, sums: PsiSums) -> OptimalInducing:
        """The optimal q(V) for sums over all rows, as ``decoder`` takes it."""
        with torch.no_grad():
            L, _ = cholesky(self.kernel(self.Z, self.Z), "The kernel matrix of the inducing inputs")
            q = InducingMoments.best(*self.whiten(sums), self._noises())
            return OptimalInducing(solve_upper(L, q.vectors), q.mean, q.shrinkage)


class StochasticLabelPath(KernelPath):
    """Classification Gaussian processes, one a class, whose q(V) follows the batches.

    q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹), whitened.

    Args:
        Z: inducing inputs to start from, [M, Q] (float64).
        n_classes: C.
        link: how the class values become probabilities.
    """

    precision: Tensor
    shift: Tensor

    def __init__(self, Z: Tensor, n_classes: int, link: Link) -> None:
        super().__init__(Z)
        self.link = link
        M = len(Z)
        self.register_buffer("precision", torch.eye(M).to(Z).repeat(n_classes, 1, 1))
        self.register_buffer("shift", Z.new_zeros(n_classes, M))

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Means [C, M] and inverse factors R of Λ = C Cᵀ, cov = RᵀR, [C, M, M]."""
        with torch.no_grad():
            factor = torch.linalg.cholesky(self.precision)
            eye = torch.eye(factor.shape[1]).to(factor).expand_as(factor)
            R = torch.linalg.solve_triangular(factor, eye, upper=False)
            mean = torch.cholesky_solve(self.shift[:, :, None], factor)[:, :, 0]
        return mean, R

    def _project(self, X: Tensor) -> Tensor:
        """a = L⁻¹ k(Z, x) of points X [n, Q], [M, n]."""
        kernel = self.kernel
        L, _ = cholesky(kernel(self.Z, self.Z), "The kernel matrix of the label inducing inputs")
        return solve_lower(L, kernel(self.Z, X))

    def _functions(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c where a [M, n] is known, each [n, C]."""
        mean, R = self._moments()
        spread = (R @ a).square().sum(1).T
        left = (self.kernel.variance - a.square().sum(0)).clamp_min(0)
        return a.T @ mean.T, (left[:, None] + spread).clamp_min(1e-12)

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [n, Q], each [n, C]."""
        return self._functions(self._project(X))

    def batch_fit(self, X: Tensor, signs: Tensor, weights: Tensor, rho: float) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)) of a batch; q(V) then follows it, [].

        Where no gradient is recorded, q(V) stays as it is.

        Args:
            X: samples of the labelled rows, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w of each row, the scale N/B in it, [n].
            rho: length of the natural-gradient step.
        """
        a = self._project(X.reshape(-1, X.shape[-1]))
        mean, variance = self._functions(a)
        repeated = signs.repeat(len(X), 1)
        w = weights.repeat(len(X)) / len(X)
        terms = w * label_expectation(self.link, repeated, mean, variance)
        total = terms.sum()
        if total.requires_grad:
            slope, by_variance = torch.autograd.grad(total, (mean, variance), retain_graph=True)
            with torch.no_grad():
                beta = -2 * by_variance
                eye = torch.eye(len(a)).to(a)
                precision = eye + (a * beta.T[:, None, :]) @ a.T
                self.precision.lerp_(0.5 * (precision + precision.mT), rho)
                self.shift.lerp_((slope + beta * mean).T @ a.T, rho)
        return total

    def kl(self) -> Tensor:
        """Σ_c KL(q(V_c) ‖ N(0, I)), []."""
        mean, R = self._moments()
        log_det = R.diagonal(dim1=-2, dim2=-1).log().sum()
        return 0.5 * (R.square().sum() + mean.square().sum() - mean.numel()) - log_det

    def decoder(self) -> LabelDecoder:
        """Freeze the path."""
        with torch.no_grad():
            kernel = RBF(self.kernel.variance.detach(), self.kernel.lengthscales.detach())
            Z = self.Z.detach().clone()
            L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the label inducing inputs")
            mean, R = self._moments()
            half = solve_upper(L, torch.eye(len(Z)).to(L) - R.mT @ R)
            return LabelDecoder(kernel, Z, solve_upper(L, mean.T), solve_upper(L, half.mT))
