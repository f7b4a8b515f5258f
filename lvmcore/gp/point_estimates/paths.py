"""Regression Gaussian processes over positions that are point estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.paths import KernelPath
from lvmcore.gp.point_estimates.marginal_likelihood import (
    Approximation,
    FunctionPosterior,
    exact_log_likelihood,
    exact_posterior,
    sparse_log_likelihood,
    sparse_posterior,
)
from lvmcore.kernels.expression import KernelExpression

__all__ = ["ColumnGroup", "PointPath", "column_groups", "label_group"]

# Initial noise variance of standardised columns, and its smallest value as a share of 1 + v for the
# kernel's variance v: a point estimate pays nothing for its precision, so that without a floor the
# noise of as many dimensions as columns would fall to 0.
START_NOISE, NOISE_FLOOR = 0.1, 1e-4


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that are observed in the same rows.

    Attributes:
        values: their cells, [n, d], float64.
        columns: their positions among the D, [d].
        rows: positions of the rows, [n]; None for all.
    """

    values: Tensor
    columns: Tensor
    rows: Tensor | None = None

    def of(self, X: Tensor) -> Tensor:
        """The positions of the group's rows, [n, Q]."""
        return X if self.rows is None else X[self.rows]


def column_groups(Y: Tensor, observed: Tensor | None) -> list[ColumnGroup]:
    """The columns of a table grouped by their observed rows; columns without one are left out.

    Args:
        Y: standardised, any value for missing cells, [N, D].
        observed: mask of observed cells, [N, D]; None where every one is.
    """
    Y, everything = Y.double(), torch.arange(Y.shape[1], device=Y.device)
    if observed is None:
        return [ColumnGroup(Y, everything)]
    sets, groups = torch.unique(observed.to(torch.uint8), dim=1, return_inverse=True)
    found = []
    for k in range(sets.shape[1]):
        rows, columns = torch.nonzero(sets[:, k])[:, 0], everything[groups == k]
        if len(rows):
            found.append(ColumnGroup(Y[rows][:, columns], columns, rows))
    return found


def label_group(codes: NDArray[np.int64], n_classes: int, like: Tensor) -> ColumnGroup:
    """The one-hot columns of the labelled rows less the class shares, [n, C], as one group."""
    rows = torch.as_tensor(np.flatnonzero(codes >= 0), device=like.device)
    known = torch.as_tensor(codes[codes >= 0], device=like.device)
    hot = nn.functional.one_hot(known, n_classes).double()
    columns = torch.arange(n_classes, device=like.device)
    return ColumnGroup(hot - hot.mean(0), columns, None if len(rows) == len(codes) else rows)


class PointPath(KernelPath):
    """Gaussian processes from positions X to columns, with one noise variance.

    Args:
        groups: the columns.
        approximation: of their covariance.
        points: initial inducing inputs, [M, Q]; of an exact path any array of Q columns.
        expression: of the kernel; None for the RBF kernel.
        moves: whether the inducing inputs are optimised.
    """

    def __init__(
        self,
        groups: list[ColumnGroup],
        approximation: Approximation,
        points: Tensor,
        expression: KernelExpression | None = None,
        *,
        moves: bool = True,
    ) -> None:
        super().__init__(points.double(), expression)
        self.groups, self.approximation = groups, approximation
        self.points.requires_grad_(moves and approximation != "exact")
        self.log_noise = nn.Parameter(self.points.new_full((), math.log(START_NOISE)))

    @property
    def is_exact(self) -> bool:
        """Whether the path has no inducing inputs."""
        return self.approximation == "exact"

    @property
    def is_sparse(self) -> bool:
        """Whether the inducing inputs are optimised."""
        return self.points.requires_grad

    @property
    def n_columns(self) -> int:
        """Number of columns that are observed."""
        return sum(len(group.columns) for group in self.groups)

    @property
    def count(self) -> int:
        """Number of observed cells."""
        return sum(group.values.numel() for group in self.groups)

    @property
    def noise(self) -> Tensor:
        """σ², []."""
        return self.log_noise.exp() + NOISE_FLOOR * (1 + self.kernel.variance)

    def log_likelihood(self, X: Tensor) -> Tensor:
        """log p(observed cells | X) or its approximation, X [N, Q], []."""
        kernel, noise = self.kernel, self.noise.double()
        total = noise.new_zeros(())
        for group in self.groups:
            at = group.of(X)
            if self.is_exact:
                value = exact_log_likelihood(kernel(at, at), noise, group.values)
            else:
                value = sparse_log_likelihood(
                    kernel, self.Z, at, noise, group.values, self.approximation
                )
            total = total + value
        return total

    @torch.no_grad()
    def decoder(self, X: Tensor) -> DataDecoder:
        """The fitted functions given the columns at positions X, [N, Q]."""
        kernel, noise = self.kernel.detached(), self.noise.double()
        X = X.detach()
        Z = X if self.is_exact else self.Z.detach()
        found: list[tuple[ColumnGroup, FunctionPosterior]] = []
        for group in self.groups:
            at = group.of(X)
            if self.is_exact:
                found.append((group, exact_posterior(kernel(at, at), noise, group.values)))
            else:
                parts = (kernel, Z, at, noise, group.values, self.approximation)
                found.append((group, sparse_posterior(*parts)))
        return _joined(kernel=kernel, Z=Z, noise=noise, found=found, exact=self.is_exact)


def _joined(
    *,
    kernel: object,
    Z: Tensor,
    noise: Tensor,
    found: list[tuple[ColumnGroup, FunctionPosterior]],
    exact: bool,
) -> DataDecoder:
    """The posteriors of the groups as one decoder, padded with zeros to one shape."""
    M, D = len(Z), sum(len(group.columns) for group, _ in found)
    m = max(len(one.shrinkage) for _, one in found)
    bases, weights = Z.new_zeros(len(found), M, m), Z.new_zeros(M, D)
    shrinkage = Z.new_zeros(m, D)
    groups = torch.zeros(D, dtype=torch.long, device=Z.device)
    for k, (group, one) in enumerate(found):
        own = torch.arange(M, device=Z.device)
        if exact and group.rows is not None:
            own = group.rows
        size = len(one.shrinkage)
        bases[k, own, :size] = one.basis
        weights[own[:, None], group.columns] = one.weights
        shrinkage[:size, group.columns] = one.shrinkage[:, None]
        groups[group.columns] = k
    single = len(found) == 1
    return DataDecoder(
        kernel=kernel,  # type: ignore[arg-type]
        Z=Z.clone(),
        basis=bases[0] if single else bases,
        weights=weights,
        shrinkage=shrinkage,
        noise=noise.expand(D).clone(),
        groups=None if single else groups,
    )
