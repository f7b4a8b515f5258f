"""Base class of the likelihoods of columns, as functions of Gaussian-process values.

A likelihood serves all columns of a kind at once. Each of its functions is f = b + s g, g a
Gaussian process of the map, with an offset b and a scale s. Under q, g ~ N(mean, variance) at a
point, so f ~ N(b + s mean, s² variance). All its densities are in the units of ``cells``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["ColumnLikelihood", "observed_mean"]


class ColumnLikelihood(nn.Module, ABC):
    """p(y | f) of some columns.

    Args:
        n_functions: F.
        like: dtype and device.

    Attributes:
        is_whole: whether its cells are whole numbers.
    """

    is_whole: bool = False

    def __init__(self, n_functions: int, like: Tensor) -> None:
        super().__init__()
        self.offset = nn.Parameter(like.new_zeros(n_functions))
        self.log_scale = nn.Parameter(like.new_zeros(n_functions))

    @property
    def n_functions(self) -> int:
        """F."""
        return len(self.offset)

    def values(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f for g ~ N(mean, variance), [..., F] each."""
        scale = self.log_scale.exp()
        return self.offset + scale * mean, scale.square() * variance

    @abstractmethod
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """Set the parameters to those of the columns' marginal distributions.

        Args:
            Y: cells, 0 where missing, [N, D].
            observed: 1 where observed, else 0, [N, columns].
        """

    @abstractmethod
    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | f) for f ~ N(mean, variance), or a lower bound of it, [n, columns].

        Args:
            Y: cells, [n, D].
            mean: [n, F].
            variance: [n, F].
        """

    def smooth_bound(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """As ``expected_log``, a bound that is twice differentiable, [n, columns]."""
        return self.expected_log(Y, mean, variance)

    @abstractmethod
    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | f), [n, columns]; arguments as of ``expected_log``."""

    @abstractmethod
    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """E y, Var y and E Var(y | f) for f ~ N(mean, variance), [n, D] each."""

    @abstractmethod
    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """y ~ p(y | f), [n, D], for f [n, F]."""

    def inputs(self, Y: Tensor) -> Tensor:
        """Cells on a scale for distances and networks, of about mean 0 and sd 1, [n, D]."""
        return Y

    def is_gross(self, Y: Tensor) -> Tensor:
        """Mask of the cells that say little about a row's position, [n, D]; by default none."""
        return torch.zeros_like(Y, dtype=torch.bool)


def observed_mean(Y: Tensor, observed: Tensor) -> Tensor:
    """Means of the observed cells of columns, [D]."""
    return (Y * observed).sum(0) / observed.sum(0).clamp_min(1)
