"""Positions of the rows as point estimates: free, or a function of the columns (back constraint).

The positions are X = (g − mean g)/sd g by dimension, mean 0 and sd 1 over the rows: kernels with
lengthscales of their own do not change where X and the lengthscales grow or shrink together, so
that log p(Y | X) + log p(X) alone would be highest where both vanish.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.kernels.stationary import RBF
from lvmcore.neural.networks import Network, clip_to_range, network_arrays, restore_network
from lvmcore.numerics.conversion import to_numpy

__all__ = [
    "BackConstraint",
    "FreePositions",
    "KernelPositions",
    "NetworkPositions",
    "Positions",
    "RowMap",
    "restore_row_map",
    "row_inputs",
]

#: Function of the columns that gives the positions.
BackConstraint = Literal["kernel", "network"]
# Smallest sd of a dimension before it is scaled to 1.
LEAST_SD = 1e-6
# Expected scale of a position at the optimum, for the quasi-Newton method.
POSITION_SCALE = 0.1
# Eigenvalues of k_Y(Y, Y) below this share of the largest are left out.
SMALL_EIGENVALUE = 1e-6
# Ridge of the initial map of a back constraint, as a share of the mean square of the features.
RIDGE = 1e-3
# Rows among which the median distance is computed.
MOST_DISTANCE_ROWS = 1000


class Positions(nn.Module):
    """X, [N, Q], from trainable parameters."""

    def raw(self) -> Tensor:
        """g of the rows, before scaling, [N, Q], float64."""
        raise NotImplementedError

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and sd of g by dimension, [Q] each."""
        g = self.raw()
        return g.mean(0), g.var(0, correction=0).clamp_min(LEAST_SD**2).sqrt()

    def forward(self) -> Tensor:
        """X, [N, Q], float64."""
        g = self.raw()
        middle = g - g.mean(0)
        return middle / middle.square().mean(0).clamp_min(LEAST_SD**2).sqrt()

    def scales(self) -> dict[nn.Parameter, Tensor]:
        """Expected scale of the parameters."""
        return {one: torch.full_like(one, POSITION_SCALE) for one in self.parameters()}


class FreePositions(Positions):
    """A position of its own for each row.

    Args:
        X: initial positions, [N, Q].
    """

    def __init__(self, X: Tensor) -> None:
        super().__init__()
        self.free = nn.Parameter(X.clone())

    def raw(self) -> Tensor:
        """The parameters, [N, Q], float64."""
        return self.free.double()


def row_inputs(Y: Tensor, observed: Tensor | None, *, masked: bool) -> Tensor:
    """Inputs of a back constraint: the row, clipped, 0 where a cell is missing, and the mask.

    Args:
        Y: standardised rows, [N, D].
        observed: mask of observed cells, [N, D]; None where every one is.
        masked: whether the mask is an input.
    """
    inputs = clip_to_range(Y.double())
    if not masked:
        return inputs
    seen = torch.ones_like(inputs) if observed is None else observed.to(inputs)
    return torch.cat([inputs * seen, seen], 1)


class RowMap(nn.Module):
    """g, from a row's inputs to its position before scaling."""

    how: BackConstraint

    def forward(self, inputs: Tensor) -> Tensor:
        """g of inputs [n, I], [n, Q]."""
        raise NotImplementedError

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays, for a file."""
        raise NotImplementedError


class KernelMap(RowMap):
    """g(y) = k_Y(y, Y) A with an RBF kernel over the rows.

    Args:
        inputs: of the rows of the fit, [N, I].
        weights: A, [N, Q].
        lengthscale: of k_Y.
    """

    how: BackConstraint = "kernel"

    def __init__(self, inputs: Tensor, weights: Tensor, lengthscale: float) -> None:
        super().__init__()
        self.inputs, self.weights, self.lengthscale = inputs, weights.contiguous(), lengthscale

    @property
    def kernel(self) -> RBF:
        """k_Y."""
        one = self.inputs.new_ones(())
        return RBF(one, one.expand(self.inputs.shape[1]) * self.lengthscale)

    def forward(self, inputs: Tensor) -> Tensor:
        """g of inputs [n, I], [n, Q]."""
        return self.kernel(inputs, self.inputs) @ self.weights

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays, for a file."""
        return {
            "rows.inputs": to_numpy(self.inputs),
            "rows.weights": to_numpy(self.weights),
            "rows.lengthscale": np.array([self.lengthscale]),
        }


class NetworkMap(RowMap):
    """g is a network with two hidden layers beside a linear map.

    Args:
        network: the network.
        n_hidden: its hidden units.
    """

    how: BackConstraint = "network"

    def __init__(self, network: Network, n_hidden: int) -> None:
        super().__init__()
        self.network, self.n_hidden = network, n_hidden

    def forward(self, inputs: Tensor) -> Tensor:
        """g of inputs [n, I], [n, Q]."""
        found: Tensor = self.network(inputs)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays, for a file."""
        return network_arrays(self.network, "rows.network.") | {
            "rows.hidden": np.array([self.n_hidden])
        }


def restore_row_map(arrays: Mapping[str, NDArray[Any]], Q: int, like: Tensor) -> RowMap:
    """The map of ``RowMap.arrays``, for positions of Q dimensions."""

    def get(name: str) -> Tensor:
        return torch.as_tensor(arrays[name].copy()).to(like)

    if "rows.weights" in arrays:
        lengthscale = float(arrays["rows.lengthscale"][0])
        return KernelMap(get("rows.inputs"), get("rows.weights"), lengthscale)
    n_hidden = int(arrays["rows.hidden"][0])
    n_in = len(arrays["rows.network.line.weight"])
    network = Network(n_in, n_hidden, Q, like, torch.Generator())
    restore_network(network, arrays, "rows.network.")
    return NetworkMap(network.requires_grad_(False), n_hidden)


class KernelPositions(Positions):
    """Positions by a kernel regression on the rows (Lawrence and Quiñonero-Candela 2006).

    X = k_Y(Y, Y) A. With k_Y(Y, Y) = U S Uᵀ the parameters are C of X = U √S C, which are on one
    scale. The lengthscale is the median distance of two rows.

    Args:
        inputs: of the rows, [N, I].
        X: initial positions, which are smoothed, [N, Q].
    """

    def __init__(self, inputs: Tensor, X: Tensor) -> None:
        super().__init__()
        self.inputs = inputs.double()
        some = self.inputs[:: max(1, len(inputs) // MOST_DISTANCE_ROWS)]
        distances = torch.pdist(some)
        middle = float(distances[distances > 0].median()) if bool((distances > 0).any()) else 1.0
        self.lengthscale = middle
        one = self.inputs.new_ones(())
        K = RBF(one, one.expand(inputs.shape[1]) * middle)(self.inputs, self.inputs)
        values, vectors = torch.linalg.eigh(K)
        kept = values > SMALL_EIGENVALUE * values[-1]
        self.values, self.vectors = values[kept], vectors[:, kept]
        self.features = self.vectors * self.values.sqrt()
        self.coefficients = nn.Parameter(_ridge(self.features, X).to(X))

    def raw(self) -> Tensor:
        """g of the rows, [N, Q], float64."""
        found: Tensor = self.features @ self.coefficients.double()
        return found

    def row_map(self) -> KernelMap:
        """The fitted map of new rows."""
        weights = (self.vectors / self.values.sqrt()) @ self.coefficients.detach().double()
        return KernelMap(self.inputs, weights, self.lengthscale)


class NetworkPositions(Positions):
    """Positions by a network; it starts as the linear map nearest to initial positions.

    Args:
        inputs: of the rows, [N, I].
        X: initial positions, [N, Q].
        n_hidden: hidden units of the network.
        generator: of its initial weights.
    """

    def __init__(
        self, inputs: Tensor, X: Tensor, n_hidden: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.inputs, self.n_hidden = inputs.to(X), n_hidden
        self.network = Network(inputs.shape[1], n_hidden, X.shape[1], X, generator)
        centre = self.inputs.mean(0)
        slope = _ridge(self.inputs - centre, X)
        self.network.start(slope, X.mean(0) - centre.double() @ slope)

    def raw(self) -> Tensor:
        """g of the rows, [N, Q], float64."""
        found: Tensor = self.network(self.inputs)
        return found.double()

    def row_map(self) -> NetworkMap:
        """The fitted map of new rows."""
        return NetworkMap(self.network, self.n_hidden)


def _ridge(features: Tensor, X: Tensor) -> Tensor:
    """Coefficients of the ridge regression of X [N, Q] on features [N, F], [F, Q]."""
    F, X = features.double(), X.double()
    gram = F.T @ F
    ridge = RIDGE * gram.diagonal().mean().clamp_min(1e-300)
    found: Tensor = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), F.T @ X)
    return found
