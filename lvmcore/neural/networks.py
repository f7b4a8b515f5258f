"""Small networks: the encoder that maps a row to q(x), and the decoder and head of the VAEs.

Weights have unit scale and are divided by √(inputs) where they are used, so that one step size
suits every width and the kernels' parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.numerics.row_blocks import BLOCK_ROWS
from lvmcore.preprocessing.table_rows import TableRows

__all__ = [
    "DenseLayer",
    "Encoder",
    "Network",
    "clip_to_range",
    "fit_linear_layer",
    "network_arrays",
    "restore_network",
]

START_VARIANCE = 0.1
# log variances of an encoder's q(x) stay in this range.
LOG_VARIANCE = (-12.0, 3.0)
# Standardised cells are clipped to this many standard deviations from their column's mean.
REACH = 6.0
# Inputs in a chunk of Jacobians; bounds memory, does not change results.
PLACES_AT_A_TIME = 1024
# Ridge of the linear layer's normal equations, relative to their mean diagonal.
RIDGE = 1e-6


class DenseLayer(nn.Module):
    """x W/√(inputs) + b; initial W drawn from N(0, 1), or zero without a generator."""

    def __init__(self, n_in: int, n_out: int, like: Tensor, draws: torch.Generator | None) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(n_in)
        weight = torch.zeros(n_in, n_out, dtype=torch.float64)
        if draws is not None:
            weight = torch.randn(n_in, n_out, generator=draws, dtype=torch.float64)
        self.weight = nn.Parameter(weight.to(like))
        self.bias = nn.Parameter(like.new_zeros(n_out))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, n_out] of inputs [N, n_in]."""
        return torch.addmm(self.bias, x, self.weight, alpha=self.scale)

    @property
    def slope(self) -> Tensor:
        """[n_in, n_out]."""
        return self.weight * self.scale


def _silu_slope(x: Tensor) -> Tensor:
    gate = torch.sigmoid(x)
    return gate * (1 + x * (1 - gate))


class Network(nn.Module):
    """A linear map plus two hidden layers of SiLU units, whose output is initially zero.

    Args:
        n_in: inputs.
        n_hidden: units of each hidden layer.
        n_out: outputs.
        like: a tensor of the dtype and on the device to compute in.
        generator: of the hidden layers' initial weights, drawn in float64 for any dtype.
    """

    def __init__(
        self, n_in: int, n_hidden: int, n_out: int, like: Tensor, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.line = DenseLayer(n_in, n_out, like, None)
        self.first = DenseLayer(n_in, n_hidden, like, generator)
        self.second = DenseLayer(n_hidden, n_hidden, like, generator)
        self.last = DenseLayer(n_hidden, n_out, like, None)

    def start(self, slope: Tensor, offset: Tensor) -> None:
        """Initialise as x ↦ x slope + offset, in the first columns of slope [n_in, k] only."""
        with torch.no_grad():
            inputs, outputs = slope.shape
            self.line.weight[:inputs, :outputs] = slope.to(self.line.weight) / self.line.scale
            self.line.bias[:outputs] = offset.to(self.line.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [N, n_out] of inputs [N, n_in]."""
        hidden = nn.functional.silu(self.second(nn.functional.silu(self.first(x))))
        out: Tensor = self.line(x) + self.last(hidden)
        return out

    def slopes(self, x: Tensor) -> Tensor:
        """∂ out_k/∂ x_i at inputs [N, n_in], [N, n_in, n_out]."""
        return self.line.slope + self._hidden_slopes(x) @ self.last.slope

    def metric(self, x: Tensor) -> Tensor:
        """Σ_k ∂ out_k/∂ x_i ∂ out_k/∂ x_j at inputs [N, n_in], [N, n_in, n_in].

        With S the slopes of the hidden units, L those of the last layer and A of the linear map, it
        is (S L + A)(S L + A)ᵀ, expanded so that no array is as wide as the outputs.
        """
        line, last = self.line.slope, self.last.slope
        moment, mixed, own = last @ last.T, last @ line.T, line @ line.T
        found = []
        for part in torch.split(x, PLACES_AT_A_TIME):
            S = self._hidden_slopes(part)
            both = S @ mixed
            found.append((S @ moment) @ S.transpose(1, 2) + both + both.transpose(1, 2) + own)
        return torch.cat(found)

    def _hidden_slopes(self, x: Tensor) -> Tensor:
        """Slopes of the last hidden units at inputs [N, n_in], [N, n_in, n_hidden]."""
        first = self.first(x)
        second = self.second(nn.functional.silu(first))
        slope = self.first.slope * _silu_slope(first)[:, None, :]
        return (slope @ self.second.slope) * _silu_slope(second)[:, None, :]


class Encoder(nn.Module):
    """q(x_n) = N(mean(y_n), diag variance(y_n)) from a row's columns alone.

    A missing cell is replaced by 0, the standardised mean; with ``masked`` the mask of observed
    cells is a further input. A row without observed cells has the prior. Cells are clipped to
    ``REACH`` standard deviations.

    Args:
        n_columns: D.
        n_hidden: units of each hidden layer.
        n_components: Q.
        like: a tensor of the dtype and on the device to compute in.
        generator: of the hidden layers' initial weights.
        masked: whether rows have missing cells.
    """

    def __init__(
        self,
        n_columns: int,
        n_hidden: int,
        n_components: int,
        like: Tensor,
        generator: torch.Generator,
        *,
        masked: bool = False,
    ) -> None:
        super().__init__()
        self.masked, self.n_components = masked, n_components
        inputs = 2 * n_columns if masked else n_columns
        self.network = Network(inputs, n_hidden, 2 * n_components, like, generator)

    def start(self, table: TableRows, X: Tensor) -> None:
        """Initialise as the linear least-squares fit to latent positions X [N, Q] of rows."""
        slope, offset = fit_linear_layer(table, X, reach=REACH)
        Q = self.n_components
        everywhere = offset.new_full((Q,), math.log(START_VARIANCE))
        whole = torch.cat([slope, torch.zeros_like(slope)], 1)
        self.network.start(whole, torch.cat([offset, everywhere]))

    def forward(self, Y: Tensor, observed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and log variance, [N, Q] each, of rows Y [N, D] (0 where a cell is missing)."""
        inputs = clip_to_range(Y)
        if self.masked:
            seen = torch.ones_like(Y) if observed is None else observed.to(Y)
            inputs = torch.cat([inputs * seen, seen], 1)
        out = self.network(inputs)
        if self.masked and observed is not None:
            out = out * observed.any(1, keepdim=True)  # mean 0 and log variance 0: the prior
        Q = self.n_components
        return out[:, :Q], out[:, Q:].clamp(*LOG_VARIANCE)


def clip_to_range(Y: Tensor) -> Tensor:
    """Standardised cells clipped to ±``REACH``."""
    return Y.clamp(-REACH, REACH)


def fit_linear_layer(
    inputs: TableRows, targets: Tensor, *, reach: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Ridge regression: slope [I, K] and offset [K] of inputs ↦ targets [N, K].

    Inputs are clipped to ±``reach``.
    """
    middle = targets.mean(0)
    centre = inputs.like.new_zeros(inputs.n_columns, dtype=torch.float64)
    for some, _ in inputs.blocks():
        centre += some.clamp(-reach, reach).double().sum(0) / len(inputs)
    gram, cross = torch.zeros(()), torch.zeros(())
    wanted = torch.split(targets, BLOCK_ROWS)
    for (some, _), some_targets in zip(inputs.blocks(), wanted, strict=True):
        left = some.clamp(-reach, reach).double() - centre
        gram = gram.to(left) + left.T @ left
        cross = cross.to(left) + left.T @ (some_targets - middle).double()
    ridge = RIDGE * gram.diagonal().mean().clamp_min(1e-300)
    slope = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), cross)
    return slope, middle.double() - centre @ slope


def network_arrays(module: nn.Module, prefix: str) -> dict[str, NDArray[Any]]:
    """Weights of a network by name, in their own precision."""
    return {
        f"{prefix}{name}": np.asarray(tensor.detach().cpu().numpy())
        for name, tensor in module.named_parameters()
    }


def restore_network(module: nn.Module, arrays: Mapping[str, NDArray[Any]], prefix: str) -> None:
    """Restore the weights of ``network_arrays`` in place."""
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            tensor.copy_(torch.as_tensor(arrays[f"{prefix}{name}"].copy()))
