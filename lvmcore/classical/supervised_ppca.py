"""Linear Gaussian models of groups of columns, each group with a noise variance of its own.

v_nd = w_d · x_n + μ_d + ε, x_n ~ N(0, I), ε ~ N(0, σ_g²) for a column of group g, fitted to the
observed cells by expectation maximisation. With the columns of a table and one-hot labels as groups
it is supervised probabilistic PCA (Yu, Yu, Tresp, Kriegel and Wu 2006); one group is PPCA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lvmcore.classical.probabilistic_pca import (
    NOISE_FLOOR,
    ExpectedSums,
    LinearGaussian,
    LinearPosterior,
    maximise_likelihood,
)
from lvmcore.numerics.linalg import cholesky_batch

__all__ = ["GroupedLinearGaussian", "fit_grouped_linear_gaussian"]

# Least initial variance of a component.
MIN_INITIAL_VARIANCE = 1e-2


@dataclass(frozen=True)
class GroupedLinearGaussian:
    """The model's parameters.

    Attributes:
        weights: W, [D, Q].
        offset: μ, [D].
        noise: σ² of each column, [D].
    """

    weights: Float[Tensor, "D Q"]
    offset: Float[Tensor, "D"]
    noise: Float[Tensor, "D"]

    @property
    def scaled(self) -> LinearGaussian:
        """The model of the columns in units of their noise sd, whose noise variance is 1."""
        sd = self.noise.sqrt()
        one = self.noise.new_ones(())
        return LinearGaussian(self.weights / sd[:, None], self.offset / sd, one)

    def infer(self, V: Float[Tensor, "N D"], observed: Bool[Tensor, "N D"]) -> LinearPosterior:
        """Posterior of rows from their observed cells, and the density of these.

        Covariance Λ⁻¹, Λ = I + Σ_d w_d w_dᵀ/σ_d², and mean Λ⁻¹ Σ_d w_d (v_d − μ_d)/σ_d² over the
        observed columns.

        Args:
            V: any value for missing cells, [N, D].
            observed: mask of observed cells, [N, D].
        """
        found = self.scaled.infer(V / self.noise.sqrt(), observed)
        units = 0.5 * observed.to(V) @ self.noise.log()
        return LinearPosterior(found.mean, found.covariance, found.log_density - units)

    def among(self, columns: slice) -> GroupedLinearGaussian:
        """The model of some of the columns."""
        parts = (self.weights, self.offset, self.noise)
        return GroupedLinearGaussian(*(part[columns] for part in parts))

    def rotated(self) -> GroupedLinearGaussian:
        """The model with orthogonal columns of W in units of the noise sd, longest first."""
        sd = self.noise.sqrt()[:, None]
        return GroupedLinearGaussian(self.scaled.rotated().weights * sd, self.offset, self.noise)


def fit_grouped_linear_gaussian(
    V: Float[Tensor, "N D"],
    observed: Bool[Tensor, "N D"],
    groups: Int[Tensor, "D"],
    n_components: int,
    *,
    max_iter: int,
    tolerance: float,
    callback: Callable[[int, float], bool] | None = None,
) -> tuple[GroupedLinearGaussian, bool]:
    """Maximise the exact likelihood of the observed cells by expectation maximisation.

    As in ``fit_linear_gaussian`` the covariance of the latent space is absorbed into W after each
    step: no step lowers the likelihood, and far fewer are needed.

    Args:
        V: centred columns, 0 for missing cells, [N, D].
        observed: mask of observed cells, [N, D]; at least one in each column.
        groups: group of each column, from 0, [D].
        n_components: Q, at most D.
        max_iter: steps at most.
        tolerance: nats per cell; a smaller gain ends the iteration.
        callback: called with each step and the log likelihood before it; True stops.

    Returns:
        The model, rotated, and whether it converged.
    """
    rows = observed.any(1)
    V, observed = V[rows].double(), observed[rows]
    counts = observed.double().sum(0)
    squares = V.square().sum(0)

    def update(sums: ExpectedSums) -> GroupedLinearGaussian:
        factor = cholesky_batch(sums.second, "The matrix of a column's expected positions")
        both = torch.cholesky_solve(sums.first[:, :, None], factor)[:, :, 0]  # (w_d, μ_d)
        left = squares - (both * sums.first).sum(1)
        noise = _by_group(left, groups) / _by_group(counts, groups)
        noise = noise.clamp_min(NOISE_FLOOR)[groups]
        return GroupedLinearGaussian(*sums.absorbed(both), noise)

    model, converged = maximise_likelihood(
        _initial_model(V, counts, groups, n_components),
        V,
        observed,
        update,
        max_iter=max_iter,
        tolerance=tolerance,
        callback=callback,
    )
    return model.rotated(), converged


def _by_group(values: Tensor, groups: Tensor) -> Tensor:
    """Sums over the columns of each group."""
    return values.new_zeros(int(groups.max()) + 1).index_add(0, groups, values)


def _initial_model(V: Tensor, counts: Tensor, groups: Tensor, Q: int) -> GroupedLinearGaussian:
    """Principal components with 0, the mean, for missing cells; noise half of the group's variance.

    The components are of columns in units of the group's sd.
    """
    variance = _by_group(V.square().sum(0), groups) / _by_group(counts, groups)
    sd = variance.clamp_min(NOISE_FLOOR).sqrt()[groups]
    scaled = V / sd
    values, vectors = torch.linalg.eigh(scaled.T @ scaled / counts.mean())
    values, vectors = values.flip(0)[:Q], vectors.flip(1)[:, :Q]
    weights = vectors * (values - 0.5).clamp_min(MIN_INITIAL_VARIANCE).sqrt()
    return GroupedLinearGaussian(weights * sd[:, None], V.new_zeros(V.shape[1]), 0.5 * sd.square())
