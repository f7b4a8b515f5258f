"""Vectors in the shape of some parameters, by number: what LBFGS does with one block of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["BlockVectors"]


class BlockVectors:
    """Vectors of one block of coordinates, each float64 [P] under a number that the caller chose.

    Args:
        parameters: whose values the coordinates are, in their order.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._sizes = [parameter.numel() for parameter in self._parameters]
        self._vectors: dict[int, Tensor] = {}

    def position(self, key: int) -> None:
        """Store the parameters."""
        self.store(key, [parameter.detach() for parameter in self._parameters])

    def store(self, key: int, parts: Sequence[Tensor]) -> None:
        """Store a vector given by parts in the shapes of the parameters."""
        flat = [part.reshape(-1).double() for part in parts]
        self._vectors[key] = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)

    @torch.no_grad()
    def move(self, key: int) -> None:
        """Set the parameters to a vector."""
        parts = torch.split(self._vectors[key], self._sizes)
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def combine(self, key: int, terms: Sequence[tuple[float, int]]) -> None:
        """Store Σ c v of pairs of a number c and a vector v."""
        (share, first), *rest = terms
        found = share * self._vectors[first]
        for factor, other in rest:
            found.add_(self._vectors[other], alpha=factor)
        self._vectors[key] = found

    def scale(self, key: int, vector: int, scales: int) -> None:
        """Store a vector times the squares of the scales, by coordinate."""
        self._vectors[key] = self._vectors[vector] * self._vectors[scales].square()

    def free(self, keys: Sequence[int]) -> None:
        """Delete vectors."""
        for key in keys:
            self._vectors.pop(key, None)

    def is_finite(self, key: int) -> float:
        """0 if all entries of a vector are finite, else 1: the sum over blocks is 0 for all."""
        return 0.0 if bool(torch.isfinite(self._vectors[key]).all()) else 1.0

    def dot(self, one: int, other: int) -> float:
        """The inner product of two vectors."""
        return float(self._vectors[one] @ self._vectors[other])

    def products(
        self, steps: Sequence[int], changes: Sequence[int], gradient: int, scales: int | None
    ) -> NDArray[np.float64]:
        """Inner products of the last steps s and changes y, and of a gradient g.

        Returns:
            With m pairs and W = diag(scales²): s·[y, g] [m, m + 1], above [y, g]·W [y, g]
            [m + 1, m + 1], as one array [2m + 1, m + 1].
        """
        others = torch.stack([self._vectors[key] for key in (*changes, gradient)])
        weighted = others if scales is None else others * self._vectors[scales].square()
        found = [weighted @ others.T]
        if steps:
            found.insert(0, torch.stack([self._vectors[key] for key in steps]) @ others.T)
        return torch.cat(found).numpy()

    def parts(self, keys: Sequence[int]) -> list[NDArray[np.float64]]:
        """Vectors as arrays [n, numbers in the parameter], one a parameter."""
        found = [torch.split(self._vectors[key], self._sizes) for key in keys]
        return [
            np.stack([parts[i].numpy() for parts in found]) if found else np.zeros((0, size))
            for i, size in enumerate(self._sizes)
        ]

    def store_parts(self, keys: Sequence[int], parts: Sequence[NDArray[np.float64]]) -> None:
        """Store the vectors of ``parts``."""
        for i, key in enumerate(keys):
            self._vectors[key] = torch.cat([torch.from_numpy(part[i].copy()) for part in parts])
