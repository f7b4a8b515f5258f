"""Sparse Gaussian-process layers over a latent space: trainable paths, and the frozen decoders.

A *path* holds the trainable parameters of one set of Gaussian processes that share a kernel and
inducing inputs. Its ``decoder`` is the fitted form: enough for predictions at any latent point,
without what only training needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from lvmcore.gp.bounds import OptimalInducing, collapsed_bound
from lvmcore.gp.collapsed_rbf_bound import collapsed_rbf_bound, collapsed_sums_bound
from lvmcore.gp.data_decoder import DataDecoder, FunctionDecoder
from lvmcore.gp.masked_bound import masked_bound, masked_optimum
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import (
    LARGEST_VARIANCE,
    ExpressionKernel,
    MapKernel,
    map_kernel_module,
)
from lvmcore.kernels.grid_psi_sums import grid_inputs, grid_psi_sums
from lvmcore.kernels.psi_statistics import PsiSums, masked_psi_sums, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.likelihoods.classification import Link, label_expectation
from lvmcore.numerics.gaussians import kl_whitened
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.numerics.quadratic_forms import shared_quadratic_forms
from lvmcore.preprocessing.class_labels import ClassLabels, label_column_names
from lvmcore.preprocessing.observed_cells import ObservedCells

__all__ = [
    "LARGEST_VARIANCE",
    "DataPath",
    "GridDataPath",
    "KernelPath",
    "LabelPath",
    "LatentRows",
    "WhitenedPath",
    "named_paths",
]

# Smallest noise variance, and that of a column as a share of the kernel's variance: the density
# stays finite for a column without residuals, and rounding errors stay small beside the noise.
NOISE_FLOOR = 1e-6


class KernelPath(nn.Module):
    """Kernel and inducing inputs; all positive parameters are stored as logarithms.

    The kernel's variance is bounded by ``LARGEST_VARIANCE``. On standardised columns an RBF kernel
    approximates linear functions ever better as variance and lengthscales grow together; the bound
    gains little, while Kuu becomes so ill-conditioned that rounding errors change the bound by
    thousands of nats.

    Args:
        points: initial inducing inputs, [M, Q].
        expression: of the kernel over the latent dimensions; None for the RBF kernel.
    """

    def __init__(self, points: Tensor, expression: KernelExpression | None = None) -> None:
        super().__init__()
        Q = points.shape[1]
        self.points = nn.Parameter(points.clone())
        self.composite = None if expression is None else map_kernel_module(expression, points)
        if expression is None:
            self.log_lengthscales = nn.Parameter(points.new_full((Q,), 0.5 * math.log(Q)))
            self.log_variance = nn.Parameter(points.new_zeros(()))

    @property
    def Z(self) -> Tensor:
        """The inducing inputs, [M, Q]."""
        return self.points

    @property
    def kernel(self) -> MapKernel:
        """The kernel at the current parameters."""
        return self.rbf if self.composite is None else ExpressionKernel.of(self.composite)

    @property
    def double_kernel(self) -> MapKernel:
        """The kernel at the current parameters in double, differentiable."""
        kernel = self.kernel
        if isinstance(kernel, RBF):
            return RBF(kernel.variance.double(), kernel.lengthscales.double())
        return kernel

    def in_double(self) -> Self:
        """The path itself, or a copy in double: single precision would lose its predictions."""
        return self if self.points.dtype == torch.float64 else deepcopy(self).double()

    @property
    def rbf(self) -> RBF:
        """The RBF kernel of a path without an expression."""
        limit = math.log(LARGEST_VARIANCE)
        log_variance = limit - nn.functional.softplus(limit - self.log_variance)
        return RBF(log_variance.exp(), self.log_lengthscales.exp())


class DataPath(KernelPath):
    """Regression Gaussian processes from the latent space to the data's columns.

    Args:
        Z: initial inducing inputs, [M, Q].
        noise: initial noise variances: [D], or [1] where the columns share one.
        pooled: keep each column's noise above half of the average. Where many cells are missing,
            a column whose observed cells are nearly constant would be interpolated, which
            distorts the map for a few rows without information on the missing cells.
        expression: of the kernel; None for the RBF kernel.
    """

    is_grid: ClassVar[bool] = False  # whether the inducing inputs are on a grid

    def __init__(
        self,
        Z: Tensor,
        noise: Tensor,
        *,
        pooled: bool = False,
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, expression)
        self.pooled = pooled and len(noise) > 1
        self.log_noise = nn.Parameter((0.5 * noise if self.pooled else noise).log())

    @property
    def noise(self) -> Tensor:
        """The current σ², [D] or [1]."""
        own = self.log_noise.exp() + self._noise_floor()
        return own + own.mean() if self.pooled else own

    def _noise_floor(self) -> Tensor:
        """The smallest σ², []: rounding errors of the bound grow with v/σ² for the variance v."""
        return NOISE_FLOOR * (1 + self.kernel.variance)

    def psi_sums(self, mean: Tensor, variance: Tensor, Y: Tensor) -> PsiSums:
        """Psi statistics of rows Y [N, D] whose inputs are N(mean, diag variance), [N, Q] each."""
        return psi_sums(self.kernel, mean, variance, self.Z, Y)

    def bound(self, rows: LatentRows, Y: Tensor, squares: Tensor) -> Tensor:
        """The collapsed bound without KL_X, []; squares is ‖y_d‖², [D]."""
        kernel = self.kernel
        if isinstance(kernel, ExpressionKernel):
            sums = rows.psi_sums(self, Y)
            noise = self.noise.expand(Y.shape[1])
            return collapsed_bound(sums, kernel(self.Z, self.Z), noise, squares, len(Y))[0]
        if rows.is_sharded:
            sums, Kuu = rows.psi_sums(self, Y), kernel(self.Z, self.Z)
            return collapsed_sums_bound(sums, Kuu, self.noise, squares, len(Y))
        inputs = (kernel, rows.mean, rows.variance, self.points, Y, self.noise, squares)
        return collapsed_rbf_bound(*inputs, grid=self.is_grid)

    @torch.no_grad()
    def optimal_inducing(self, rows: LatentRows, Y: Tensor, squares: Tensor) -> OptimalInducing:
        """The optimal q(V); squares is ‖y_d‖², [D]."""
        sums = rows.psi_sums(self, Y)
        noise = self.noise.expand(Y.shape[1])
        return collapsed_bound(sums, self.kernel(self.Z, self.Z), noise, squares, len(Y))[1]

    def masked_bound(
        self, rows: LatentRows, Y: Tensor, squares: Tensor, cells: ObservedCells
    ) -> Tensor:
        """``bound`` for the observed cells alone, []; Y is 0 where a cell is missing."""
        kernel = self.kernel
        sums = masked_psi_sums(kernel, rows.mean, rows.variance, self.Z, Y, cells)
        noise = self.noise.expand(Y.shape[1])
        return masked_bound(sums, kernel(self.Z, self.Z), noise, squares, cells.counts)

    @torch.no_grad()
    def masked_optimum(self, rows: LatentRows, Y: Tensor, cells: ObservedCells) -> OptimalInducing:
        """The optimal q(V) given the observed cells alone."""
        kernel = self.kernel
        sums = masked_psi_sums(kernel, rows.mean, rows.variance, self.Z, Y, cells)
        return masked_optimum(sums, kernel(self.Z, self.Z), self.noise.expand(Y.shape[1]))

    def decoder(self, q: OptimalInducing, noise: Tensor | None = None) -> DataDecoder:
        """The fitted path at the optimal q(V), with its own noise or that of new cells, [D]."""
        noise = self.noise if noise is None else noise
        return DataDecoder(
            kernel=self.kernel.detached(),
            Z=self.Z.detach().clone(),
            basis=q.basis.to(self.Z),
            weights=q.weights.to(self.Z),
            shrinkage=q.shrinkage.to(self.Z),
            noise=noise.detach().expand(q.mean.shape[1]).clone(),
            groups=q.groups,
        )


class GridDataPath(DataPath):
    """A path whose inducing inputs are on a grid of two latent dimensions.

    Args:
        nodes: initial nodes of each dimension, [m, 2]; the inducing inputs are their m² pairs.
        noise: initial noise variances: [D], or [1] where the columns share one.
    """

    is_grid: ClassVar[bool] = True

    @property
    def Z(self) -> Tensor:
        """The inducing inputs, [m², 2]."""
        return grid_inputs(self.points)

    def psi_sums(self, mean: Tensor, variance: Tensor, Y: Tensor) -> PsiSums:
        """Psi statistics of rows Y [N, D] whose inputs are N(mean, diag variance), [N, 2] each."""
        return grid_psi_sums(self.rbf, mean, variance, self.points, Y)


class WhitenedPath(KernelPath):
    """C Gaussian processes, each with an explicit Gaussian q(V).

    q(V_c) = N(q_mu_c, q_sqrt_c q_sqrt_cᵀ), whitened.
    """

    def __init__(
        self, Z: Tensor, n_functions: int, expression: KernelExpression | None = None
    ) -> None:
        super().__init__(Z, expression)
        M = len(Z)
        self.q_mu = nn.Parameter(Z.new_zeros(n_functions, M))
        self.q_sqrt = nn.Parameter(torch.eye(M).to(Z).repeat(n_functions, 1, 1))

    @property
    def factor(self) -> Tensor:
        """Lower-triangular, [C, M, M]."""
        return self.q_sqrt.tril()

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [N, Q], each [N, C]."""
        # In double: the root of the kernel matrix would amplify the rounding of k(Z, x).
        kernel, Z, X = self.double_kernel, self.Z.double(), X.double()
        L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
        # a = L⁻¹ k(Z, x)
        a = solve_lower(L, kernel(Z, X))
        mean = a.T @ self.q_mu.double().T
        spread = shared_quadratic_forms(a, self.factor.double() @ self.factor.double().mT).T
        left = kernel.diagonal(X) - a.square().sum(0)
        return mean, (left.clamp_min(0)[:, None] + spread).clamp_min(1e-12)

    def kl(self) -> Tensor:
        """KL(q(V) ‖ N(0, I)) of all functions, []."""
        return kl_whitened(self.q_mu, self.factor)


class LabelPath(WhitenedPath):
    """Classification Gaussian processes, one per class.

    The link is probit, Φ(±f_c) for each class against the rest, or softmax(f).
    """

    def __init__(
        self,
        Z: Tensor,
        n_classes: int,
        link: Link = "probit",
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, n_classes, expression)
        self.link = link

    def expected_log_likelihood(
        self, X: Tensor, signs: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)), averaged over the samples.

        Args:
            X: samples of the labelled rows, [S, n, Q].
            signs: t, +1 for the row's class and −1 otherwise, [n, C].
            weights: w, [n]; by default 1 for every row.
        """
        mean, variance = self.latent_function(X.reshape(-1, X.shape[-1]))
        terms = label_expectation(self.link, signs.repeat(len(X), 1), mean, variance)
        if weights is not None:
            terms = terms * weights.repeat(len(X))
        return terms.sum() / len(X)

    def decoder(self) -> FunctionDecoder:
        """The fitted path."""
        kernel = self.kernel.detached()
        Z = self.Z.detach().clone()
        L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the label inducing inputs")
        factor = self.factor.detach().double()
        eye = torch.eye(len(Z)).to(L)
        half = solve_upper(L, eye - factor @ factor.mT)
        reduction = solve_upper(L, half.mT)
        weights = solve_upper(L, self.q_mu.detach().double().T)
        return FunctionDecoder(kernel, Z, weights.to(Z), reduction.to(Z))


class FullRows(LatentRows):
    """q(X) = ∏_n N(mean_n, L_n L_nᵀ): a full covariance for each row, L_n lower-triangular.

    Args:
        mean: initial means, [N, Q].
        variance: initial variance of every dimension.
    """

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__(mean, variance)
        N, Q = mean.shape
        self.below = nn.Parameter(mean.new_zeros(N, Q * (Q - 1) // 2))

    @property
    def factor(self) -> Tensor:
        """L, [N, Q, Q]."""
        Q = self.mean.shape[1]
        i, j = torch.tril_indices(Q, Q, -1, device=self.mean.device)
        L = torch.diag_embed((0.5 * self.log_variance).exp())
        L[:, i, j] = self.below
        return L

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariances, [N, Q]."""
        return self.factor.square().sum(-1)

    def kl(self) -> Tensor:
        """KL(q(X) ‖ N(0, I)), []."""
        square = self.log_variance.exp().sum() + self.below.square().sum()
        return 0.5 * (
            square + self.mean.square().sum() - self.log_variance.sum() - self.mean.numel()
        )

    def draw(self, samples: int, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Reparameterised samples of ``rows``, [samples, n, Q]."""
        mean = self.mean[rows]
        noise = torch.randn((samples, *mean.shape), generator=generator, dtype=torch.float64)
        drawn: Tensor = mean + (self.factor[rows] @ noise.to(mean)[..., None])[..., 0]
        return drawn


def named_paths(
    data: KernelPath,
    labels: Sequence[KernelPath],
    columns: Sequence[ClassLabels],
) -> dict[str, KernelPath]:
    """The paths by name: "data" and "labels"; for several label columns "labels: NAME" each."""
    return {"data": data, **dict(zip(label_column_names("labels", columns), labels, strict=True))}
