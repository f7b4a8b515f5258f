"""Predictions of many rows in blocks, with conversion between data and standardised units.

Each method applies a function of a model to blocks of standardised rows or latent points, as
tensors, and returns arrays for all of them in the data's units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import Posterior, Predictive

__all__ = ["BlockPredictions"]

Moments = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class BlockPredictions:
    """Predictions in the data's units.

    Attributes:
        standardiser: standardiser of the fit.
        to_tensor: converts an array to a tensor in the model's precision and on its device.
    """

    standardiser: Standardiser
    to_tensor: Callable[[NDArray[Any]], Tensor]

    def posterior(
        self, data: NDArray[Any], infer: Callable[[Tensor], tuple[Tensor, Tensor]], Q: int
    ) -> Posterior:
        """q(x) of rows in the data's units, [N, D].

        Args:
            data: the rows.
            infer: mean and variance of standardised rows, [n, Q] each.
            Q: dimensions of the latent space.
        """
        # Allocated beforehand, for the reason given in TableRows.collect.
        found = [np.empty((len(data), Q)) for _ in range(2)]
        for rows, *places in zip(row_blocks(data), *map(row_blocks, found), strict=True):
            Y = self.to_tensor(self.standardiser.transform(rows))
            for place, part in zip(places, infer(Y), strict=True):
                place[:] = to_numpy(part)
        return Posterior(*found)

    def at_points(
        self, points: FloatArray, compute: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> list[FloatArray]:
        """The arrays that ``compute`` returns for latent points, [n, …] each."""
        parts = [compute(self.to_tensor(block)) for block in row_blocks(points)]
        return [np.concatenate([to_numpy(p) for p in part]) for part in zip(*parts, strict=True)]

    def decode(self, points: FloatArray, decode: Moments) -> Predictive:
        """The columns at latent points, [n, Q].

        Args:
            points: the points.
            decode: mean, variance with noise and noise variance of standardised columns, [n, D].
        """
        mean, variance, noise = self.at_points(points, decode)
        return Predictive(
            mean=self.standardiser.inverse_transform(mean),
            variance=self.standardiser.inverse_transform_variance(variance),
            noise_variance=self.standardiser.inverse_transform_variance(noise),
        )

    def impute(self, data: NDArray[Any], impute: Moments) -> Predictive:
        """Rows in the data's units, [N, D], with imputed missing cells.

        Args:
            data: the rows, NaN where a cell is missing.
            impute: mean, variance with noise and noise variance of every cell of standardised rows.
        """
        gaps = np.isnan(data)
        filled = Predictive(
            np.array(data, dtype=np.float64), np.zeros(data.shape), np.zeros(data.shape)
        )
        standard = self.standardiser
        for rows in row_blocks(np.flatnonzero(gaps.any(axis=1))):
            Y = self.to_tensor(standard.transform(data[rows]))
            mean, variance, noise = (to_numpy(part) for part in impute(Y))
            for part, found in (
                (filled.mean, standard.inverse_transform(mean)),
                (filled.variance, standard.inverse_transform_variance(variance)),
                (filled.noise_variance, standard.inverse_transform_variance(noise)),
            ):
                part[rows] = np.where(gaps[rows], found, part[rows])
        return filled

    def log_density(
        self, data: NDArray[Any], log_density: Callable[[Tensor], Tensor]
    ) -> FloatArray:
        """Log density of the observed cells of rows in the data's units, [N].

        Args:
            data: the rows, [N, D].
            log_density: log density of standardised rows, [n].
        """
        density = np.empty(len(data))
        for rows, place in zip(row_blocks(data), row_blocks(density), strict=True):
            Y = self.standardiser.transform(rows)
            observed = ~np.isnan(Y)
            found = to_numpy(log_density(self.to_tensor(Y)))
            found[~observed.any(axis=1)] = 0.0  # no observed cell: density 1
            place[:] = found - observed @ self.standardiser.log_scale
        return density
